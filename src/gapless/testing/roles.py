"""The actors of a simulation: what each task does with a real table.

A new kind of operation (an upsert, a compaction, a vacuum) is a task here, with its line in `_ACTS`, its chance in
`simulation.draw_tasks` and its rule in `audit`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from gapless.errors import AccessDenied, CommitConflict, CommitOutcomeUnknown, CoverageOverlap, StorageFull, StoreUnavailable
from gapless.model.report import AppendReport
from gapless.runtime.driver import Rim
from gapless.table.lifecycle import open_table
from gapless.table.table import TimeSeriesTable
from gapless.testing.clock import SimClock, SimIds
from gapless.testing.faulty import Killed, SimStore
from gapless.testing.group import append_at_once
from gapless.testing.history import BUCKET_WIDTH, Bucket, History, Intent, Outcome, Row, Seen, Sent

LOCATION = "memory://sim"
SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("entity", pa.string()), ("number", pa.int64())])
MAX_SENDS = 4
"""How often one change with an operation id is sent."""
_RANGE = (0, 1_000 * BUCKET_WIDTH)
_REFUSALS = (CoverageOverlap, CommitConflict, StorageFull, AccessDenied)
_NO_ANSWER = (CommitOutcomeUnknown, StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Append:
    """Append, and with an operation id send again until the answer is clear."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class Together:
    """Append several at once, as threads that share the handle do."""

    intents: tuple[Intent, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """Open the table anew."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Move the handle to the newest version."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read rows and coverage of the handle's version, which others may outrun for `linger_s` seconds meanwhile."""

    linger_s: float


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing for a while."""

    seconds: float


Task = Append | Together | Open | Refresh | Read | Rest


class Process:
    """One life of an actor: a handle on the table, which dies with it."""

    def __init__(self, store: SimStore, ids: SimIds, history: History, *, deadline_s: float, skew_ns: int) -> None:
        """Work through `store`; the table is opened when it is first needed."""
        self.store, self.ids, self.history = store, ids, history
        self.rim = Rim(store=store, clock=SimClock(store.timeline, skew_ns=skew_ns), ids=ids, deadline_s=deadline_s)
        self._table: TimeSeriesTable | None = None

    @property
    def now_ns(self) -> int:
        """True simulated time."""
        return self.store.timeline.now_ns

    @property
    def table(self) -> TimeSeriesTable:
        """The handle, opened if need be. Raises StoreUnavailable."""
        if self._table is None:
            started_ns = self.now_ns
            self._table = TimeSeriesTable(self.rim, LOCATION, open_table(self.rim, LOCATION))
            self.note_seen(started_ns, fresh=True)
        return self._table

    def forget_table(self) -> None:
        """Open anew next time."""
        self._table = None

    def note_seen(
        self,
        started_ns: int,
        *,
        fresh: bool,
        read: tuple[tuple[Row, ...], frozenset[Bucket]] | None = None,
        version: int | None = None,
    ) -> None:
        """Put into the history what was seen."""
        rows, buckets = read or (None, None)
        self.history.seen.append(
            Seen(
                actor=self.store.name,
                version=self.table.version if version is None else version,
                fresh=fresh,
                rows=rows,
                buckets=buckets,
                started_ns=started_ns,
                ended_ns=self.now_ns,
            )
        )


def live(tasks: list[Task], rebirth: Callable[[], Process], random: Random) -> None:
    """Do the tasks, in one process after the other: where one is killed, the next goes on with what was left."""
    left = list(tasks)
    process = rebirth()
    sends = 0
    while left:
        task = left[0]
        try:
            _ACTS[type(task)](process, task)
        except Killed:
            process.history.kills += 1
            sends += 1
            process.store.timeline.pause(random.random())
            process = rebirth()
            if not may_be_resent(task) or sends >= MAX_SENDS:
                left.pop(0)
                sends = 0
            continue
        except (StoreUnavailable, AccessDenied):
            pass  # what was read or opened is not known, and nothing depends on it
        except Exception:  # noqa: BLE001 - the auditor reports it
            process.history.mishaps.append(f"{process.store.name}: {traceback.format_exc()}")
        left.pop(0)
        sends = 0


def may_be_resent(task: Task) -> bool:
    """Whether a task is an append that can be sent twice without harm."""
    intents = (task.intent,) if isinstance(task, Append) else task.intents if isinstance(task, Together) else ()
    return bool(intents) and all(intent.operation_id is not None for intent in intents)


def _append(process: Process, task: Append) -> None:
    for _ in range(MAX_SENDS):
        (outcome,) = _send(process, (task.intent,))
        if outcome != "unknown" or not may_be_resent(task):
            return
        process.forget_table()


def _append_together(process: Process, task: Together) -> None:
    for intent, outcome in zip(task.intents, _send(process, task.intents), strict=True):
        if outcome == "unknown" and may_be_resent(Append(intent)):
            process.forget_table()
            _append(process, Append(intent))


def _send(process: Process, intents: tuple[Intent, ...]) -> list[Outcome]:
    """Send appends at one moment, and note what came of each."""
    table, started_ns, drawn = process.table, process.now_ns, len(process.ids.given)
    calls = [partial(_append_one, table, intent) for intent in intents]
    results = append_at_once(table, calls) if len(calls) > 1 else [calls[0]()]
    sent = [
        Sent(
            actor=process.store.name,
            intent=intent,
            outcome=_outcome_of(result),
            shared=len(intents) > 1,
            report=result if isinstance(result, AppendReport) else None,
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


def _append_one(table: TimeSeriesTable, intent: Intent) -> AppendReport | BaseException:
    try:
        return table.append(to_batch(intent.rows), on_overlap=intent.on_overlap, operation_id=intent.operation_id)
    except (Killed, *_NO_ANSWER, *_REFUSALS) as error:
        return error


def _outcome_of(result: AppendReport | BaseException) -> Outcome:
    """What a call came to; raises an error that no fault excuses."""
    match result:
        case AppendReport():
            return "acknowledged"
        case Killed():
            return "killed"
        case _ if isinstance(result, _NO_ANSWER):
            return "unknown"
        case _ if isinstance(result, _REFUSALS):
            return "refused"
    raise result


def to_batch(rows: tuple[Row, ...]) -> pa.RecordBatch:
    """Rows as they are handed to `append`."""
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def _open(process: Process, _task: Open) -> None:
    process.forget_table()
    assert process.table is not None


def _refresh(process: Process, _task: Refresh) -> None:
    table, started_ns = process.table, process.now_ns
    table.refresh()
    process.note_seen(started_ns, fresh=True)


def _read(process: Process, task: Read) -> None:
    table, started_ns = process.table, process.now_ns
    version, rows, coverage = table.version, table.scan(), table.coverage(*_RANGE)
    process.rim.clock.sleep(task.linger_s)
    read = rows_of(rows.to_arrow()), frozenset((str(b.identity[0]), b.start // BUCKET_WIDTH) for b in coverage.buckets())
    process.note_seen(started_ns, fresh=False, read=read, version=version)


def rows_of(table: pa.Table) -> tuple[Row, ...]:
    """The rows of a scan, in order."""
    if not table.num_columns:
        return ()
    return tuple(sorted(zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True)))


def _rest(process: Process, task: Rest) -> None:
    process.rim.clock.sleep(task.seconds)


_ACTS: dict[type, Callable[[Process, Any], None]] = {
    Append: _append,
    Together: _append_together,
    Open: _open,
    Refresh: _refresh,
    Read: _read,
    Rest: _rest,
}
