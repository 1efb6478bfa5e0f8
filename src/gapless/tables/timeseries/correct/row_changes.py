"""Changes of rows that came from elsewhere, made to a time-series table: by key, the newest stands, or by all values of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import DataError
from gapless.files.compare.keys import KeySet
from gapless.files.compare.ordering import is_older
from gapless.files.compare.row_diff import surplus_rows
from gapless.files.ingest.batches import Batches
from gapless.files.sort.run import sort_run
from gapless.formats.timeseries.replay import segments_covering
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.operation import SequenceId
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges
from gapless.tables.timeseries.correct.operations import Upsert
from gapless.tables.timeseries.correct.rewrite import Correction, Rewriter
from gapless.tables.timeseries.correct.rewrite_affected import RowChanges
from gapless.tables.timeseries.correct.row_selection import BaseVersion, Filter, KeySelector
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.refusals import check_absent, check_distinct

CHANGES_KIND = "merge"
"""What the log calls changes of several kinds."""


def apply_keyed_changes(table: TimeSeriesTable, changes: KeyedChanges, kind: str, operation: SequenceId) -> ChangeOutcome:
    """Make changes by key in one commit, or say that they were made; `kind` is what the log calls them.

    The outcome's `skipped_rows` are those that were late. Raises as `table.upsert`.
    """
    said: dict[str, object] = {"key": list(changes.key)}
    if changes.order_by:
        said["order_by"] = list(changes.order_by)
    parts = _parts(changes.puts)
    return _apply(table, ApplyKeyed(changes=changes, operation=kind, parameters=said), parts, operation)


def apply_counted_changes(table: TimeSeriesTable, changes: CountedChanges, operation: SequenceId) -> ChangeOutcome:
    """Add and take away rows in one commit, or say that it was done.

    The outcome's `skipped_rows` are those to be taken away that the table did not have. Raises as `table.upsert`.
    """
    parts = _parts(pa.concat_tables([changes.added, changes.removed]))
    return _apply(table, ApplyCounted(added=changes.added.num_rows), parts, operation)


def _parts(rows: pa.Table) -> tuple[Batches, ...]:
    if not rows.num_rows:
        return ()
    return (Batches(source="the rows", schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows),)


def _apply(table: TimeSeriesTable, correction: Correction, parts: tuple[Batches, ...], operation: SequenceId) -> ChangeOutcome:
    context = context_of(table, to_write=True)
    newest = context.refresh()
    if (known := ChangeOutcome.before(newest, operation, correction.operation)) is not None:
        return known
    return Rewriter(context=context, operation=operation).apply(newest, correction, parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyKeyed:
    """Rows come in the place of those with their key, and keys go, unless the table has a newer row of the key.

    In columns that the rows lack, which the table has had since they were prepared, they take the values of the row that they replace.
    """

    changes: KeyedChanges
    operation: str
    parameters: Mapping[str, object]

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises DuplicateKey in a unique table with another key, SchemaMismatch, UnknownColumn, InvalidOption."""
        changes, columns = self.changes, self.changes.key
        Upsert(key=columns, on_duplicate="last", given=(), operation=self.operation, parameters={}).check(before)
        known = tuple(dict.fromkeys((*columns, *changes.order_by)))
        told = pa.concat_tables([rows.select(known), _declared(changes.deletes, known, before.schema)])
        keys = KeySet.of(told, columns)
        covered = (
            sort_run(told.select(before.keys), before.index, before.grid).coverage if set(before.keys) <= set(columns) else None
        )
        whole = KeySelector.of(before, told, keys, covered)
        rows = _with_kept(before, whole, rows, [name for name in before.schema.names if name not in changes.puts.column_names])
        live = ~_late(before, whole, told, changes.order_by)
        kept = told if live.all() else told.filter(pa.array(live))
        # Where it looks stays as wide as what was read: another's commit there clashes, though a late row changes nothing.
        cut = whole if live.all() else replace(whole, keys=KeySet.of(kept, columns))
        run = sort_run(rows if live.all() else rows.filter(pa.array(live[: rows.num_rows])), before.index, before.grid)
        if before.meta.properties.unique and set(columns) != set(before.keys):
            check_distinct(run, before)
            check_absent(run, before, segments_covering(before.state, run.coverage, before.grid), cut)
        return RowChanges(run, cut, skipped_rows=changes.late + int(changes.arrived[~live].sum()))


def _declared(rows: pa.Table, columns: tuple[str, ...], schema: pa.Schema) -> pa.Table:
    """Some columns in declared types. Raises DataError."""
    declared = pa.schema([schema.field(name) for name in columns])
    arrays = [_converted(rows.column(field.name), field) for field in declared]
    return pa.table(arrays, schema=declared)


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    try:
        return pa.chunked_array([convert(array, field.type)], field.type)
    except Misfit as misfit:
        error: DataError = refuse_misfit(misfit, array, field, 0)
        raise error from None


def _with_kept(before: BaseVersion, keys: KeySelector, rows: pa.Table, lacking: Sequence[str]) -> pa.Table:
    """Rows, the first of those whose keys these are, with the table's values of the columns that they lack, where it has a row of their key."""
    if not lacking or not rows.num_rows:
        return rows
    places, held, first = np.full(rows.num_rows, -1, dtype=np.int64), [before.schema.empty_table().select(lacking)], 0
    by_key = np.argsort(keys.keys.ids)
    for found in _near_rows(before, keys, replace(keys.seen, columns=tuple(dict.fromkeys((*keys.keys.columns, *lacking))))):
        ids = keys.keys.match(found)
        at = np.flatnonzero(ids >= 0)
        mine = by_key[ids[at]]
        are_rows = mine < rows.num_rows
        places[mine[are_rows]] = first + at[are_rows]
        held.append(found.select(lacking))
        first += found.num_rows
    table, known = pa.concat_tables(held), pa.array(places >= 0)
    there = table.take(pa.array(places, mask=places < 0))
    for name in lacking:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(name), pc.if_else(known, there.column(name), rows.column(name)))
    return rows


def _late(before: BaseVersion, keys: KeySelector, told: pa.Table, order_by: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Of which of these rows the table has a newer one with their key."""
    late = np.zeros(told.num_rows, dtype=bool)
    if not order_by:
        return late
    by_key = np.argsort(keys.keys.ids)
    seen = replace(keys.seen, columns=tuple(dict.fromkeys((*keys.keys.columns, *order_by))))
    for rows in _near_rows(before, keys, seen):
        found = keys.keys.match(rows)
        at = np.flatnonzero(found >= 0)
        mine = by_key[found[at]]
        left, right = told.take(pa.array(mine)), rows.take(pa.array(at))
        late[mine[is_older([left.column(name) for name in order_by], [right.column(name) for name in order_by])]] = True
    return late


def _near_rows(before: BaseVersion, keys: KeySelector, seen: Filter) -> Iterator[pa.Table]:
    """The rows of the table that may have one of the keys, in the columns of `seen`."""
    for segment in keys.near(before.state.segments):
        if keys.reach(segment, partial(before.coverage, segment)) != "none":
            yield from before.rows(segment, seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyCounted:
    """The first `added` rows of the input come, and for each of the others one row with the same values goes."""

    added: int
    operation: str = CHANGES_KIND
    parameters: Mapping[str, object] = field(default_factory=dict)

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """See `Correction.decide`; raises DuplicateKey in a unique table."""
        keys = KeySet.of(rows, before.keys[::-1])
        covered = sort_run(rows, before.index, before.grid).coverage
        cut = KeySelector.of(before, rows, keys, covered)
        seen = replace(cut.seen, columns=tuple(before.schema.names))
        held = [found.filter(pa.array(keys.match(found) >= 0)) for found in _near_rows(before, cut, seen)]
        there = pa.concat_tables([before.schema.empty_table(), *held])
        gone = rows.slice(self.added)
        missing, stay = surplus_rows(gone, pa.concat_tables([there, rows.slice(0, self.added)]))
        run = sort_run(stay, before.index, before.grid)
        if before.meta.properties.unique:
            check_distinct(run, before)
        return RowChanges(run, cut, skipped_rows=missing.num_rows)
