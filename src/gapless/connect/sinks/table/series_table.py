"""Time-series tables as sinks need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange, rows_schema
from gapless.connect.sinks.evolution import evolve_series
from gapless.connect.sinks.refusals import refuse_unnamed_key
from gapless.connect.sinks.resolved import resolve_counted, resolve_keyed
from gapless.connect.sinks.row_check import RowCheck, check_no_kind, check_whole
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.connect.sinks.table.opened import OpenedTable, TwoPhases, checked_by, operation_of
from gapless.formats.timeseries.actions import kind_of_change
from gapless.model.operation import SequenceId
from gapless.predicate.range import check_columns
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.correct.row_changes import CHANGES_KIND, apply_counted_changes, apply_keyed_changes
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write import prepared as series_prepared
from gapless.tables.timeseries.write.epoch import SeriesEpoch, fit_inside

_KINDS: Mapping[str, str] = {"cdc": CHANGES_KIND}
"""What the log calls changes that it does not call by their mode."""


@dataclass(slots=True, kw_only=True)
class SeriesSinkTable(OpenedTable[TimeSeriesTable]):
    """A time-series table."""

    kind: ClassVar[Kind] = "timeseries"

    def _evolve(self, rows: pa.Schema) -> None:
        evolve_series(self.table, rows, self.evolution)

    def _opened(self) -> TimeSeriesTable:
        return TimeSeriesTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> TimeSeriesTable:
        return TimeSeriesTable.create(self.location, schema=schema, storage_options=self.storage_options, **options)

    @property
    def _phases(self) -> TwoPhases[TimeSeriesTable]:
        return series_prepared

    @property
    def _how_to_make(self) -> str:
        return 'Pass create={"index": "ts", "bucket": "1h"}, or make it with gl.create'

    @property
    def columns(self) -> TableColumns:
        """See `SinkTable.columns`."""
        ids = self._context.snapshot.state.meta.ids
        return TableColumns(schema=self.table.schema or pa.schema([]), ids=ids, any_case=False)

    @property
    def _context(self) -> SeriesContext:
        return context_of(self.table)

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        mode, rows = change["mode"], rows_schema(schema, change)
        epoch = None if mode == "delete" else self.begin(rows, change)
        table = self.columns.schema if epoch is None else epoch.schema
        if mode == "overwrite":
            assert epoch is not None
            return checked_by(fit_inside(epoch, _span(change), change.get("entity")))
        keyed, index = self._keyed(change), self.table.index
        if keyed.change_type is not None:
            check_no_kind(keyed.change_type, table)
        if epoch is not None:
            why = "A row takes the place of a whole row, so what the table holds in a missing column would be lost"
            check_whole(rows, table, why)
        if mode == "cdc" and change.get("key") is None and not self.table.properties.unique:
            raise refuse_unnamed_key(index.keys)
        check = RowCheck.of(keyed, rows, table, filled=index.keys, fit=None if epoch is None else epoch.fit)
        if table.names:  # which are found in any case there, and not in a series
            check_columns(keyed.known, table)
        return check

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> SeriesEpoch:
        """See `SinkTable.begin`."""
        series_prepared.policy_of(change)
        return SeriesEpoch.begin(self.table, schema, self.target_bytes, self.held_bytes)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        kind = kind_of_change(_KINDS.get(mode, mode))
        return ChangeOutcome.before(self._context.refresh(), operation, kind)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = self._context.snapshot.state
        return frozenset(path for path in paths if path in state.live or path in state.removed)

    def apply(self, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        prepared, change, mode = staged.prepared, staged.change, staged.prepared.change["mode"]
        if mode == "overwrite":
            rows, entity = staged.batches(), change.get("entity")
            report = self.table.replace(_span(change), rows, entity=entity, operation_id=operation_of(prepared))
            return ChangeOutcome(report, report.version, already=report.already_applied)
        keyed = self._keyed(change)
        if not keyed.key:
            return apply_counted_changes(self.table, resolve_counted(staged, keyed), prepared.operation)
        kind = _KINDS.get(mode, mode)
        return apply_keyed_changes(self.table, resolve_keyed(staged, keyed), kind, prepared.operation)

    def _keyed(self, change: Mapping[str, Any]) -> KeyedChange:
        # The index first: it tells most rows apart.
        return KeyedChange.of(change, self.table.index.keys[::-1])


def _span(change: Mapping[str, Any]) -> tuple[object, object]:
    """The range of the index that an overwrite names, all of it where it names none."""
    return change.get("start"), change.get("end")
