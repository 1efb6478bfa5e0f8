"""Changes of rows that came from elsewhere, made to a Delta table: by key, the newest stands, or by all values of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from gapless.files.compare.keys import can_match, row_codes
from gapless.files.compare.row_diff import surplus
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import AddFile, Json, TableState
from gapless.model.operation import OperationId, SequenceId
from gapless.predicate.predicate import columns_of
from gapless.predicate.range import key_bounds
from gapless.tables.delta.files.open_file import POSITION
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.merge.match import FILE, Numbers, by_file, numbered_rows
from gapless.tables.delta.merge.merge import MergeRows, column_id, held_rows
from gapless.tables.delta.merge.plan import Clause
from gapless.tables.delta.read.scan import select_files
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.changed_files import TellOrder
from gapless.tables.delta.write.inputs import given_rows
from gapless.tables.delta.write.merge_schema import SchemaMode, evolve_schema
from gapless.tables.delta.write.rewrite import BaseVersion, RowChangePlan, change_rows, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile, all_gone
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges
from gapless.tables.shared.scan import Condition
from gapless.tables.shared.sql import quoted


def apply_keyed_changes(
    table: DeltaTable,
    changes: KeyedChanges,
    operation: OperationId | None,
    *,
    schema_mode: SchemaMode = "strict",
    order: TellOrder | None = None,
) -> ChangeOutcome:
    """Make changes by key in one commit, a MERGE, or say that they were made; `schema_mode` as in `table.merge`, `order` that of the change feed.

    The outcome's `skipped_rows` are those that were late. Each row of the table is held against the order by itself, where several have one
    key. Raises as `table.merge`.
    """
    gone = _free_name("gone", (*changes.puts.column_names, *table.schema.names))
    rows = _one_source(changes, gone)
    merge = MergeRows(
        source=held_rows(_batches(rows), table.schema),
        inferred={},
        on=key_condition(rows, changes.key),
        target_alias="t",
        source_alias="s",
        schema_mode=schema_mode,
        new_name=partial(column_id, context_of(table).env),
        unstored=frozenset({gone} & set(rows.column_names)),
        clauses=_clauses(changes, quoted(gone)),
        weights=changes.arrived if changes.order_by else None,
        left_out=changes.late,
        order=order,
    )
    report = change_rows(table, merge, operation)
    return ChangeOutcome(report, report.version, already=report.already_applied)


def apply_counted_changes(
    table: DeltaTable, changes: CountedChanges, operation: SequenceId, *, schema_mode: SchemaMode = "strict"
) -> ChangeOutcome:
    """Add and take away rows in one commit, or say that it was done; `schema_mode` as in `table.merge`.

    The outcome's `skipped_rows` are those to be taken away that the table did not have. Raises as `table.merge`.
    """
    change = ApplyCounted(changes=changes, schema_mode=schema_mode, new_name=partial(column_id, context_of(table).env))
    report = change_rows(table, change, (operation.app, operation.sequence))
    return ChangeOutcome(report, report.version, already=report.already_applied)


def _one_source(changes: KeyedChanges, gone: str) -> pa.Table:
    """Puts, then deletes; where there are both with a column that tells which is which."""
    puts, deletes = changes.puts, changes.deletes
    if not (puts.num_rows and deletes.num_rows):
        return puts if puts.num_rows else deletes
    told = [
        rows.append_column(gone, pa.repeat(pa.scalar(is_gone), rows.num_rows))
        for rows, is_gone in ((puts, False), (deletes, True))
    ]
    return pa.concat_tables(told, promote_options="default")


def _batches(rows: pa.Table) -> Batches:
    return Batches(source="the rows", schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)


def _free_name(name: str, taken: Sequence[str]) -> str:
    """A name that no column has."""
    known = {one.lower() for one in taken}
    while name in known:
        name += "_"
    return name


def key_condition(rows: pa.Table, key: tuple[str, ...]) -> str:
    """SQL of `t`, the table, and `s`, these rows: what is true of rows with one key; null-safe only where a null comes, since files are pruned by equality."""
    signs = {name: "IS NOT DISTINCT FROM" if rows.column(name).null_count else "=" for name in key}
    return " AND ".join(f"t.{quoted(name)} {sign} s.{quoted(name)}" for name, sign in signs.items())


def _clauses(changes: KeyedChanges, gone: str) -> tuple[Clause, ...]:
    current = _is_current([quoted(name) for name in changes.order_by])
    found = []
    if changes.deletes.num_rows:
        found.append(
            Clause(match="matched", act="delete", where=_both(f"s.{gone}" if changes.puts.num_rows else None, current))
        )
    if changes.puts.num_rows:
        is_put = f"NOT s.{gone}" if changes.deletes.num_rows else None
        found.append(Clause(match="matched", act="update", where=_both(is_put, current)))
        found.append(Clause(match="not_matched", act="insert", where=is_put))
    return tuple(found)


def _both(*terms: str | None) -> str | None:
    return " AND ".join(f"({term})" for term in terms if term is not None) or None


def _is_current(columns: Sequence[str]) -> str | None:
    """SQL that says that the source's row is not older than the table's; None where nothing says which is."""
    found: str | None = None
    for name in reversed(columns):
        after = f"s.{name} >= t.{name}" if found is None else f"s.{name} > t.{name} OR (s.{name} = t.{name} AND ({found}))"
        found = f"t.{name} IS NULL OR {after}"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyCounted:
    """Some rows come, and for each of others one row with the same values goes, the first that is found."""

    changes: CountedChanges
    schema_mode: SchemaMode
    new_name: Callable[[], str]
    operation: str = "MERGE"
    parameters: Mapping[str, Json] = field(default_factory=dict)

    def fit(self, state: TableState) -> TableState:
        """The version with the columns of the rows that it lacks, where that was asked for. Raises SchemaMismatch, UnsupportedType."""
        if self.schema_mode != "merge":
            return state
        return evolve_schema(state, [_batches(self.changes.added)], "merge", self.new_name).state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which files lose which rows. Raises SchemaMismatch, InvalidValue, CorruptTable, StoreError."""
        gone = given_rows(self.changes.removed, before.after, "the rows that were removed")
        near = _near(gone, before.schema)
        files = [one.file for one in select_files(before.state, near)] if gone.num_rows else []
        places, missing = _places(before, files, gone, near)
        affected = (
            AffectedFile(file=file, positions=positions, edit=all_gone)
            for file, (positions,) in zip(files, places, strict=True)
            if len(positions)
        )
        return RowChangePlan(
            affected=affected,
            inserts=partial(self._inserts, before),
            skipped=lambda: missing,
            reads=reads_of(before.state, near, files),
        )

    def _inserts(self, before: BaseVersion) -> Iterator[pa.RecordBatch]:
        yield from given_rows(self.changes.added, before.after, "the rows that were added").to_batches()


def _near(rows: pa.Table, schema: pa.Schema) -> Condition:
    """What is true of each of these rows; maybe of others too."""
    plain = tuple(field.name for field in schema if can_match(field.type) and not pa.types.is_floating(field.type))
    predicate = key_bounds(rows, plain)
    return Condition(
        schema=schema, predicate=predicate, columns=tuple(name for name in schema.names if name in columns_of(predicate))
    )


def _places(
    before: BaseVersion, files: Sequence[AddFile], gone: pa.Table, near: Condition
) -> tuple[list[tuple[Numbers, ...]], int]:
    """By file the positions of the rows that go, and for how many rows there was none."""
    known = row_codes(gone.columns, gone.num_rows)
    found = []
    for rows in numbered_rows(before, files, range(len(before.schema)), near.predicate):
        values = rows.drop_columns([FILE, POSITION]).rename_columns(gone.column_names)
        both = pa.concat_tables([gone, values.cast(gone.schema)])
        codes = row_codes(both.columns, both.num_rows)
        meant = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, dtype=np.int64)
        meant[codes[: gone.num_rows]] = known
        mine = meant[codes[gone.num_rows :]]
        at = np.flatnonzero(mine >= 0)
        found.append((rows.select([FILE, POSITION]).take(pa.array(at)), mine[at]))
    places = pa.concat_tables([one for one, _ in found])
    codes = np.concatenate([known, *(one for _, one in found)])
    left = surplus(codes, gone.num_rows)
    goes = np.ones(places.num_rows, dtype=bool)
    goes[left[left >= gone.num_rows] - gone.num_rows] = False
    return by_file(places.filter(pa.array(goes)), len(files)), int((left < gone.num_rows).sum())
