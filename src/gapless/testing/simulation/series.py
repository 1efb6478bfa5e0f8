"""Time-series tables as a kind of table for the simulator: rows, how each intent is carried out, and what is checked beside the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa

from gapless.errors import (
    AccessDenied,
    CommitConflict,
    CorruptTable,
    CoverageOverlap,
    InvalidChange,
    InvalidOption,
    SchemaMismatch,
    StorageFull,
    VersionNotFound,
)
from gapless.model.properties import MAX_INLINE_BYTES
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.simulation.draw import Scenario, draw_scenario
from gapless.testing.simulation.process import Held, Kind
from gapless.testing.simulation.tasks import (
    BUCKET_WIDTH,
    Appending,
    Deleting,
    Maintain,
    Maintenance,
    Replacing,
    Restoring,
    Row,
    Upserting,
)
from gapless.testing.simulation.watch import Ledger, WatchedStore, read_ledger

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("entity", pa.string()), ("number", pa.int64())])


def to_batch(rows: tuple[Row, ...]) -> pa.RecordBatch:
    """Rows as they are handed to a table."""
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(table: pa.Table) -> tuple[Row, ...]:
    """The rows of a scan, in order."""
    if not table.num_columns:
        return ()
    return tuple(sorted(zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True)))


LOCATION = "memory://sim"
INLINED_EVERY = 5
"""Of so many seeds, one makes a table that inlines its appends."""
_RANGE = (0, 1_000 * BUCKET_WIDTH)
_REFUSALS = (CoverageOverlap, CommitConflict, StorageFull, AccessDenied)
_OTHER_REFUSALS = (VersionNotFound, CorruptTable, InvalidOption, InvalidChange, SchemaMismatch)
"""What changes other than an append may come to."""


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


def _care(table: TimeSeriesTable, intent: Maintenance) -> Any:
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


def _whole_rows(table: TimeSeriesTable, rows: tuple[Row, ...]) -> pa.Table:
    """Rows with all the columns that the handle knows, nulls in those that were added."""
    batch = pa.Table.from_batches([to_batch(rows)])
    for field in table.schema or ():
        if field.name not in SCHEMA.names:
            batch = batch.append_column(field, pa.nulls(len(rows), field.type))
    return batch


def _maintain(table: TimeSeriesTable, task: Maintain) -> Maintenance:
    detail: Any = task.amount
    if task.care == "tag":
        detail = f"tag-{task.amount % 2}", max(1, table.version - task.amount)
    elif task.care == "untag":
        detail = f"tag-{task.amount % 2}"
    elif task.care == "add_column":
        detail = f"extra_{task.amount}"
    elif task.care == "expire":
        detail = abs(task.amount), task.amount < 0
    return Maintenance(care=task.care, detail=(detail,))


# -- the table ---------------------------------------------------------------------------------------------------------


def _draw(random: Random, seed: int) -> Scenario:
    """What a seed decides, for every so many seeds with a table whose appends lie in their commits."""
    scenario = draw_scenario(random)
    inlined = {"inline_bytes": MAX_INLINE_BYTES} if seed % INLINED_EVERY == 1 else {}
    return replace(scenario, properties=scenario.properties | inlined)


def _make(env: Environment, scenario: Scenario) -> None:
    index = parse_index("ts", "int64", BUCKET_WIDTH, ("entity",), None)
    create_table(env, LOCATION, index, SCHEMA if scenario.typed else None, scenario.properties)


def _open(env: Environment) -> TimeSeriesTable:
    return TimeSeriesTable(env, LOCATION, open_table(env, LOCATION))


def _look(table: TableView) -> Callable[[], Held]:
    rows, coverage = table.scan(), table.coverage(*_RANGE)
    return lambda: (
        rows_of(rows.to_arrow()),
        frozenset((str(b.identity[0]), b.start // BUCKET_WIDTH) for b in coverage.buckets()),
    )


def _check_changes(table: TimeSeriesTable, ledger: Ledger) -> Iterator[str]:
    """The change feed of all that is kept, replayed over the rows before it, gives the rows of the end."""
    first = ledger.commits[ledger.newest].landed.earliest
    if first >= table.version:
        return
    rows = Counter(ledger.rows_at(first))
    for change in table.changes(first + 1, table.version).to_arrow().to_pylist():
        gone = change["_change_type"] in ("delete", "update_preimage")
        rows[change["ts"], change["entity"], change["number"]] += -1 if gone else 1
    wanted = Counter(ledger.rows_at(table.version))
    if rows != wanted:
        yield f"the changes from version {first + 1} on come to rows that are too many or too few by {dict(rows - wanted | wanted - rows)}"


def _stray(table: TimeSeriesTable) -> Any:
    return table.append(to_batch(((10**6, "x", 10**9),)), on_overlap="allow")


SERIES = Kind(
    name="series",
    first=1,
    draw=_draw,
    make=_make,
    open=_open,
    calls={
        Appending: _append,
        Upserting: _upsert,
        Deleting: _delete,
        Replacing: _replace,
        Restoring: _restore,
        Maintenance: _care,
    },
    refusals=(*_REFUSALS, *_OTHER_REFUSALS),
    append_refusals=_REFUSALS,
    maintain=_maintain,
    look=_look,
    watch=WatchedStore,
    read_ledger=read_ledger,
    after=lambda table, ledger: [*_check_changes(table, ledger)],
    stray=_stray,
)
"""Time-series tables."""
