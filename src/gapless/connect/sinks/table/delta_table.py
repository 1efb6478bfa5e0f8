"""Delta tables as sinks need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange, rows_schema
from gapless.connect.sinks.evolution import evolve_delta
from gapless.connect.sinks.refusals import check_types
from gapless.connect.sinks.resolved import resolve_counted, resolve_keyed
from gapless.connect.sinks.row_check import RowCheck, check_no_kind, check_whole
from gapless.connect.sinks.staged_columns import NamesNow, TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.connect.sinks.table.opened import OpenedTable, TwoPhases, checked_by, operation_of
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.formats.delta.schema.column_mapping import ids_by_name
from gapless.model.operation import SequenceId
from gapless.tables.delta.expressions.checks import names_in
from gapless.tables.delta.expressions.evaluate import fitted_values
from gapless.tables.delta.expressions.sql import with_names
from gapless.tables.delta.handle import DeltaContext, context_of
from gapless.tables.delta.merge.row_changes import apply_counted_changes, apply_keyed_changes
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import prepared as delta_prepared
from gapless.tables.delta.write.commits import check_may_remove
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.landing import ChangeOutcome

_LOGGED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "append": ("WRITE", {"mode": "Append"}),
    "upsert": ("MERGE", {}),
    "overwrite": ("WRITE", {"mode": "Overwrite"}),
    "delete": ("MERGE", {}),
    "cdc": ("MERGE", {}),
}
"""What the log calls the change of each mode, with the parameters that tell it from others."""


@dataclass(slots=True, kw_only=True)
class DeltaSinkTable(OpenedTable[DeltaTable]):
    """A Delta table."""

    kind: ClassVar[Kind] = "delta"

    def _evolve(self, rows: pa.Schema) -> None:
        evolve_delta(self.table, rows, self.evolution)

    def _opened(self) -> DeltaTable:
        return DeltaTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> DeltaTable:
        return DeltaTable.create(self.location, schema, storage_options=self.storage_options, **options)

    @property
    def _phases(self) -> TwoPhases[DeltaTable]:
        return delta_prepared

    @property
    def _how_to_make(self) -> str:
        return "Pass create={}, or make it with gl.delta.create"

    @property
    def columns(self) -> TableColumns:
        """See `SinkTable.columns`."""
        ids = ids_by_name(self._context.snapshot.state.metadata.schema)
        return TableColumns(schema=self.table.schema, ids=ids, any_case=True)

    @property
    def _context(self) -> DeltaContext:
        return context_of(self.table)

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        mode, rows = change["mode"], rows_schema(schema, change)
        check_may_remove(context_of(self.table, to_write=True).refresh().state, _LOGGED[mode][0])
        epoch = None if mode == "delete" else self.begin(rows, change)
        if mode == "overwrite":
            assert epoch is not None
            return checked_by(epoch.fit)
        keyed, table = self._keyed(change, rows), self.table.schema
        if keyed.change_type is not None:
            check_no_kind(keyed.change_type, table)
        if not keyed.key:
            check_whole(rows, table, "Rows are told apart by the values of all columns of the table")
        check_types(rows)
        return RowCheck.of(keyed, rows, table, fit=None if epoch is None else epoch.fit, convert=fitted_values)

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> delta_prepared.DeltaEpoch:
        """See `SinkTable.begin`."""
        mode, where = delta_prepared.mode_of(change), change.get("where")
        return delta_prepared.DeltaEpoch.begin(
            self.table, schema, mode, where=where, target_bytes=self.target_bytes, held_bytes=self.held_bytes
        )

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        kind = kind_of_change(*_LOGGED[mode])
        return ChangeOutcome.before(self._context.refresh(), operation, kind)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = self._context.snapshot.state
        known = {canonical(file.path) for files in (state.files, state.removed) for file in files.values()}
        return frozenset(path for path in paths if path in known)

    def apply(self, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        prepared, change = staged.prepared, staged.change
        if change["mode"] == "overwrite":
            where = None if change.get("where") is None else _where_now(change["where"], staged.names)
            report = self.table.overwrite(staged.batches(), where=where, operation_id=operation_of(prepared))
            return ChangeOutcome(report, report.version, already=report.already_applied)
        keyed, mode = KeyedChange.of(change, ()), delta_prepared.mode_of(change)
        if not keyed.key:
            counted = resolve_counted(staged, keyed)
            return apply_counted_changes(self.table, counted, prepared.operation, schema_mode=mode)
        return apply_keyed_changes(self.table, resolve_keyed(staged, keyed), prepared.operation, schema_mode=mode)

    def _keyed(self, change: Mapping[str, Any], rows: pa.Schema) -> KeyedChange:
        """Raises InvalidOption where no key is named."""
        return KeyedChange.with_key(change, rows.names, "a Delta table")


def _where_now(where: str, names: NamesNow) -> str:
    """A condition in the names that columns have by now. Raises SchemaMismatch where one is gone, or has fields with other names."""
    if not names.moved:
        return where
    named = names_in(where, "duckdb")
    for name in {path[0] for path in names.paths if path[0].lower() in named}:
        names.check_nested(name, "where")
    return with_names(where, names.moved_columns)
