"""The actors of a simulation: what each task does with a real table.

A new kind of operation is an intent (`intents`), its line in `_CALLS` here and its chance in `draw`; the auditor replays it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.errors import (
    AccessDenied,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    CoverageOverlap,
    InvalidChange,
    InvalidOption,
    SchemaMismatch,
    StorageFull,
    StoreUnavailable,
    VersionNotFound,
)
from gapless.table.table import TimeSeriesTable
from gapless.table.view import TableView
from gapless.testing.faulty import Killed
from gapless.testing.group import append_at_once
from gapless.testing.history import Outcome, Sent
from gapless.testing.intents import (
    BUCKET_WIDTH,
    Appending,
    Caring,
    Deleting,
    Intent,
    Replacing,
    Restoring,
    Row,
    Upserting,
)
from gapless.testing.process import MAX_SENDS, Process
from gapless.testing.tasks import Do, GoBack, Night, Open, Read, ReadOld, Refresh, Rest, Task, Tend, Together
from gapless.testing.timeline import START_NS

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("entity", pa.string()), ("number", pa.int64())])
_RANGE = (0, 1_000 * BUCKET_WIDTH)
_REFUSALS = (CoverageOverlap, CommitConflict, StorageFull, AccessDenied)
_OTHER_REFUSALS = (VersionNotFound, CorruptTable, InvalidOption, InvalidChange, SchemaMismatch)
"""What changes other than an append may come to: the auditor asks whether they had to."""
_NO_ANSWER = (CommitOutcomeUnknown, StoreUnavailable)


# -- changes -----------------------------------------------------------------------------------------------------------


def _append(table: TimeSeriesTable, intent: Appending) -> Any:
    return table.append(to_batch(intent.rows), on_overlap=intent.on_overlap, operation_id=intent.operation_id)


def _upsert(table: TimeSeriesTable, intent: Upserting) -> Any:
    return table.upsert(_whole_rows(table, intent.rows), on_duplicate="last", operation_id=intent.operation_id)


def _delete(table: TimeSeriesTable, intent: Deleting) -> Any:
    if intent.by_age:
        return table.drop_before(intent.end)
    where = None if intent.below is None else f"number < {intent.below}"
    entity = None if intent.entity is None else {"entity": intent.entity}
    return table.delete(where, start=intent.start, end=intent.end, entity=entity, operation_id=intent.operation_id)


def _replace(table: TimeSeriesTable, intent: Replacing) -> Any:
    entity = None if intent.entity is None else {"entity": intent.entity}
    span = (intent.start, intent.end)
    return table.replace(span, _whole_rows(table, intent.rows), entity=entity, operation_id=intent.operation_id)


def _restore(table: TimeSeriesTable, intent: Restoring) -> Any:
    return table.restore(version=intent.version)


def _care(table: TimeSeriesTable, intent: Caring) -> Any:
    (detail,) = intent.detail
    match intent.care:
        case "compact":
            return table.compact()
        case "vacuum":
            return table.vacuum(older_than=timedelta(seconds=detail), dry_run=False)
        case "expire":
            keep, clean_log = detail
            return table.expire(keep_versions=keep, clean_log=clean_log)
        case "tag":
            name, version = detail
            return table.tag(name, version, move=True)
        case "untag":
            return table.untag(detail)
        case "add_column":
            return table.add_column(detail, pa.int64())


_CALLS: dict[type, Callable[[TimeSeriesTable, Any], Any]] = {
    Appending: _append,
    Upserting: _upsert,
    Deleting: _delete,
    Replacing: _replace,
    Restoring: _restore,
    Caring: _care,
}


def _send(process: Process, intents: tuple[Intent, ...]) -> list[Outcome]:
    """Send changes (several only where they are appends) at one moment, and note what came of each."""
    table, started_ns, drawn = process.table, process.now_ns, len(process.ids.given)
    calls = [partial(_attempt, table, intent) for intent in intents]
    results = append_at_once(table, calls) if len(calls) > 1 else [calls[0]()]
    sent = [
        Sent(
            actor=process.store.name,
            intent=intent,
            outcome=_outcome_of(result),
            shared=len(intents) > 1,
            report=None if isinstance(result, BaseException) else result,
            error=result if isinstance(result, Exception) else None,
            ids=frozenset(process.ids.given[drawn:]),
            started_ns=started_ns,
            ended_ns=process.now_ns,
        )
        for intent, result in zip(intents, results, strict=True)
    ]
    process.history.sent += sent
    for result in results:
        if isinstance(result, Killed):
            raise result
    return [one.outcome for one in sent]


def _attempt(table: TimeSeriesTable, intent: Intent) -> Any:
    others = () if isinstance(intent, Appending) else _OTHER_REFUSALS
    try:
        return _CALLS[type(intent)](table, intent)
    except (Killed, *_NO_ANSWER, *_REFUSALS, *others) as error:
        return error


def _outcome_of(result: Any) -> Outcome:
    """What a call came to; raises an error that no fault excuses."""
    match result:
        case Killed():
            return "killed"
        case _ if isinstance(result, _NO_ANSWER):
            return "unknown"
        case _ if isinstance(result, (*_REFUSALS, *_OTHER_REFUSALS)):
            return "refused"
        case BaseException():
            raise result
    return "acknowledged"


def _do(process: Process, task: Do) -> None:
    for _ in range(MAX_SENDS):
        (outcome,) = _send(process, (task.intent,))
        if outcome != "unknown" or task.intent.operation_id is None:
            return
        process.forget_table()


def _append_together(process: Process, task: Together) -> None:
    for intent, outcome in zip(task.intents, _send(process, task.intents), strict=True):
        if outcome == "unknown" and intent.operation_id is not None:
            process.forget_table()
            _do(process, Do(intent))


def _go_back(process: Process, task: GoBack) -> None:
    _send(process, (Restoring(version=max(1, process.table.version - task.versions)),))


def _tend(process: Process, task: Tend) -> None:
    detail: Any = task.amount
    if task.care == "tag":
        detail = f"tag-{task.amount % 2}", max(1, process.table.version - task.amount)
    elif task.care == "untag":
        detail = f"tag-{task.amount % 2}"
    elif task.care == "add_column":
        detail = f"extra_{task.amount}"
    elif task.care == "expire":
        detail = abs(task.amount), task.amount < 0
    _send(process, (Caring(care=task.care, detail=(detail,)),))


# -- reads -------------------------------------------------------------------------------------------------------------


def _open(process: Process, _task: Open) -> None:
    process.forget_table()
    assert process.table is not None


def _refresh(process: Process, _task: Refresh) -> None:
    table, started_ns = process.table, process.now_ns
    table.refresh()
    process.note_seen(started_ns, fresh=True)


def _read(process: Process, task: Read) -> None:
    _read_view(process, process.table, process.table.version, task.linger_s)


def _read_old(process: Process, task: ReadOld) -> None:
    version, started_ns = max(1, process.table.version - task.versions), process.now_ns
    try:
        view = process.table.at(version=version)
    except VersionNotFound as error:
        process.note_missed(started_ns, version, error)
    else:
        _read_view(process, view, version, task.linger_s, asked_ns=started_ns)


def _read_view(process: Process, table: TableView, version: int, linger_s: float, asked_ns: int | None = None) -> None:
    started_ns = process.now_ns if asked_ns is None else asked_ns
    try:
        rows, coverage = table.scan(), table.coverage(*_RANGE)
        process.rim.clock.sleep(linger_s)
        read = rows_of(rows.to_arrow()), frozenset((str(b.identity[0]), b.start // BUCKET_WIDTH) for b in coverage.buckets())
    except (CorruptTable, VersionNotFound) as error:
        # The auditor asks whether it had expired: then its files may be gone.
        process.note_missed(started_ns, version, error)
    else:
        process.note_seen(started_ns, fresh=False, asked=asked_ns is not None, read=read, version=version)


def to_batch(rows: tuple[Row, ...]) -> pa.RecordBatch:
    """Rows as they are handed to a table."""
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _whole_rows(table: TimeSeriesTable, rows: tuple[Row, ...]) -> pa.Table:
    """Rows with all the columns that the handle knows, nulls in those that were added."""
    batch = pa.Table.from_batches([to_batch(rows)])
    for field in table.schema or ():
        if field.name not in SCHEMA.names:
            batch = batch.append_column(field, pa.nulls(len(rows), field.type))
    return batch


def rows_of(table: pa.Table) -> tuple[Row, ...]:
    """The rows of a scan, in order."""
    if not table.num_columns:
        return ()
    return tuple(sorted(zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True)))


def _rest(process: Process, task: Rest) -> None:
    process.rim.clock.sleep(task.seconds)


def _sleep_until(process: Process, task: Night) -> None:
    process.rim.clock.sleep(max(0.0, task.until_s - (process.now_ns - START_NS) / 1e9))


_ACTS: dict[type, Callable[[Process, Any], None]] = {
    Do: _do,
    Together: _append_together,
    GoBack: _go_back,
    Tend: _tend,
    Open: _open,
    Refresh: _refresh,
    Read: _read,
    ReadOld: _read_old,
    Rest: _rest,
    Night: _sleep_until,
}


def act(process: Process, task: Task) -> None:
    """Do one task; raises Killed, StoreUnavailable, AccessDenied, and what no fault excuses."""
    _ACTS[type(task)](process, task)
