"""Time-series and Delta tables as sinks need them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange, rows_schema
from gapless.connect.sinks.epoch import Epoch
from gapless.connect.sinks.evolution import Policy, evolve_delta, evolve_series
from gapless.connect.sinks.refusals import check_retracting, check_types, refuse_unnamed_key
from gapless.connect.sinks.resolved import resolve_counted, resolve_keyed
from gapless.connect.sinks.row_check import RowCheck, check_no_kind, check_whole
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.errors import InvalidOption, TableExists, TableNotFound, VersionNotFound
from gapless.formats.delta import actions as delta_actions
from gapless.formats.timeseries import actions as series_actions
from gapless.log.versions import read_range
from gapless.model.operation import SequenceId
from gapless.predicate.range import check_columns
from gapless.runtime.environment import Environment
from gapless.tables.delta.expressions.evaluate import fitted_values
from gapless.tables.delta.handle import DeltaContext
from gapless.tables.delta.handle import context_of as delta_context
from gapless.tables.delta.merge import row_changes as delta_changes
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import prepared as delta_prepared
from gapless.tables.delta.write.commits import check_may_remove
from gapless.tables.shared.handle import AtVersion, Kind, TableContext, table_id
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.correct import row_changes as series_changes
from gapless.tables.timeseries.correct.row_changes import CHANGES_KIND
from gapless.tables.timeseries.handle import context_of as series_context
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write import prepared as series_prepared

_LOGGED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "append": ("WRITE", {"mode": "Append"}),
    "upsert": ("MERGE", {}),
    "overwrite": ("WRITE", {"mode": "Overwrite"}),
    "delete": ("MERGE", {}),
    "cdc": ("MERGE", {}),
}
"""What Delta's log calls the change of each mode, with the parameters that tell it from others."""
_SERIES_KINDS: Mapping[str, str] = {"cdc": CHANGES_KIND}
"""What the log of a time-series table calls changes that it does not call by their mode."""


def _operation(prepared: PreparedCommit) -> tuple[str, int]:
    return prepared.operation.app, prepared.operation.sequence


Handle = TypeVar("Handle", bound=AtVersion[Any])


@dataclass(slots=True, kw_only=True)
class _OpenedTable(ABC, Generic[Handle]):
    """What a sink needs of a table of either kind; its class says how that kind is opened and made."""

    location: str
    storage_options: Mapping[str, str] | None = None
    create: Mapping[str, Any] | None = None
    """How a missing table is made: the arguments of `gl.create` or `gl.delta.create` but path and schema; None for not at all."""
    target_bytes: int | None = None
    """About how large data files become on disk; what a Delta table's property says, or 128 MiB, where None."""
    evolution: Policy = "refuse"
    """What becomes of columns that the table lacks."""
    _table: Handle | None = None

    @abstractmethod
    def _evolve(self, rows: pa.Schema) -> None:
        """Change the table's columns by that policy, so that it takes rows of these."""

    @abstractmethod
    def _opened(self) -> Handle:
        """The table that lies there. Raises TableNotFound, and what opening raises."""

    @abstractmethod
    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> Handle:
        """A new table. Raises TableExists, and what making one raises."""

    @property
    @abstractmethod
    def _how_to_make(self) -> str:
        """What to do where a table is missing, for a message."""

    @property
    @abstractmethod
    def _columns(self) -> pa.Schema:
        """The columns of the opened table."""

    @property
    @abstractmethod
    def _context(self) -> TableContext[Any, Any]:
        """The opened table, for a call that begins now."""

    @property
    def table(self) -> Handle:
        """The table, opened."""
        if self._table is None:
            self._table = self._opened()
        return self._table

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`."""
        return self._context.env

    @property
    def version(self) -> int:
        """See `SinkTable.version`."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return table_id(self.table)

    def open(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.open`."""
        rows = rows_schema(schema, change)
        try:
            self._context.refresh()
        except TableNotFound as error:
            if self.create is None:
                why = "A sink makes it only where it is told how"
                raise TableNotFound(error.what, why=why, fix=self._how_to_make, path=self.location) from error
            check_retracting(rows, change, ())
            try:
                self._table = self._made(rows, self.create)
            except TableExists:  # another sink made it a moment ago
                self._context.refresh()
        check_retracting(rows, change, self._columns.names)
        if change["mode"] != "delete":
            self._evolve(rows)

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.check`."""
        if change["mode"] == "append":
            self.begin(schema, change)
        else:
            self.row_check(schema, change)

    @abstractmethod
    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> Epoch:
        """See `SinkTable.begin`."""

    @abstractmethod
    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        known = self._context.refresh().state.recognise(operation)
        return known.operation.sequence if known is not None and isinstance(known.operation, SequenceId) else None

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        context = self._context
        try:
            ((_, _, time_ns),) = context.env.drive(read_range(context.committer.table_format, version, version + 1))
        except VersionNotFound:
            return None
        return time_ns


@dataclass(slots=True, kw_only=True)
class SeriesSinkTable(_OpenedTable[TimeSeriesTable]):
    """A time-series table."""

    kind: ClassVar[Kind] = "timeseries"

    def _evolve(self, rows: pa.Schema) -> None:
        evolve_series(self.table, rows, self.evolution)

    def _opened(self) -> TimeSeriesTable:
        return TimeSeriesTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> TimeSeriesTable:
        return TimeSeriesTable.create(self.location, schema=schema, storage_options=self.storage_options, **options)

    @property
    def _how_to_make(self) -> str:
        return 'Pass create={"index": "ts", "bucket": "1h"}, or make it with gl.create'

    @property
    def _columns(self) -> pa.Schema:
        return self.table.schema or pa.schema([])

    @property
    def _context(self) -> SeriesContext:
        return series_context(self.table)

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        mode, rows = change["mode"], rows_schema(schema, change)
        epoch = None if mode == "delete" else self.begin(rows, change)
        table = self._columns if epoch is None else epoch.schema
        if mode == "overwrite":
            assert epoch is not None
            return _checked_by(series_prepared.fit_inside(epoch, span_of(change), change.get("entity")))
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

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> series_prepared.SeriesEpoch:
        """See `SinkTable.begin`."""
        series_prepared.policy_of(change)
        return series_prepared.SeriesEpoch.begin(self.table, schema, self.target_bytes)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        kind = series_actions.kind_of_change(_SERIES_KINDS.get(mode, mode))
        return ChangeOutcome.before(self._context.refresh(), operation, kind)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = self._context.snapshot.state
        return frozenset(path for path in paths if path in state.live or path in state.removed)

    def while_prepared(self, prepared: PreparedCommit) -> AbstractContextManager[None]:
        """See `SinkTable.while_prepared`."""
        return series_prepared.while_prepared(self.table, prepared)

    def give_up(self, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`."""
        series_prepared.give_up(self.table, prepared)

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return series_prepared.finalize_append(self.table, prepared)

    def apply(self, prepared: PreparedCommit, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        change, mode = prepared.change, prepared.change["mode"]
        if mode == "overwrite":
            rows = [staged.batches()] if prepared.files else []
            report = self.table.replace(span_of(change), rows, entity=change.get("entity"), operation_id=_operation(prepared))
            return ChangeOutcome(report, report.version, already=report.already_applied)
        keyed = self._keyed(change)
        if not keyed.key:
            return series_changes.apply_counted_changes(self.table, resolve_counted(staged, keyed), prepared.operation)
        kind = _SERIES_KINDS.get(mode, mode)
        return series_changes.apply_keyed_changes(self.table, resolve_keyed(staged, keyed), kind, prepared.operation)

    def _keyed(self, change: Mapping[str, Any]) -> KeyedChange:
        # The index first: it tells most rows apart.
        return KeyedChange.of(change, self.table.index.keys[::-1])


@dataclass(slots=True, kw_only=True)
class DeltaSinkTable(_OpenedTable[DeltaTable]):
    """A Delta table."""

    kind: ClassVar[Kind] = "delta"

    def _evolve(self, rows: pa.Schema) -> None:
        evolve_delta(self.table, rows, self.evolution)

    def _opened(self) -> DeltaTable:
        return DeltaTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> DeltaTable:
        return DeltaTable.create(self.location, schema, storage_options=self.storage_options, **options)

    @property
    def _how_to_make(self) -> str:
        return "Pass create={}, or make it with gl.delta.create"

    @property
    def _columns(self) -> pa.Schema:
        return self.table.schema

    @property
    def _context(self) -> DeltaContext:
        return delta_context(self.table)

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        mode, rows = change["mode"], rows_schema(schema, change)
        check_may_remove(delta_context(self.table, to_write=True).refresh().state, _LOGGED[mode][0])
        epoch = None if mode == "delete" else self.begin(rows, change)
        if mode == "overwrite":
            assert epoch is not None
            return _checked_by(epoch.fit)
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
        return delta_prepared.DeltaEpoch.begin(self.table, schema, mode, where=where, target_bytes=self.target_bytes)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        kind = delta_actions.kind_of_change(*_LOGGED[mode])
        return ChangeOutcome.before(self._context.refresh(), operation, kind)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = self._context.snapshot.state
        known = {delta_actions.canonical(file.path) for files in (state.files, state.removed) for file in files.values()}
        return frozenset(path for path in paths if path in known)

    def while_prepared(self, prepared: PreparedCommit) -> AbstractContextManager[None]:
        """See `SinkTable.while_prepared`."""
        return delta_prepared.while_prepared(self.table, prepared)

    def give_up(self, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`."""
        delta_prepared.give_up(self.table, prepared)

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return delta_prepared.finalize_append(self.table, prepared)

    def apply(self, prepared: PreparedCommit, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        change = prepared.change
        if change["mode"] == "overwrite":
            rows = [staged.batches()] if prepared.files else []
            report = self.table.overwrite(rows, where=change.get("where"), operation_id=_operation(prepared))
            return ChangeOutcome(report, report.version, already=report.already_applied)
        keyed, mode = KeyedChange.of(change, ()), delta_prepared.mode_of(change)
        if not keyed.key:
            counted = resolve_counted(staged, keyed)
            return delta_changes.apply_counted_changes(self.table, counted, prepared.operation, schema_mode=mode)
        return delta_changes.apply_keyed_changes(self.table, resolve_keyed(staged, keyed), prepared.operation, schema_mode=mode)

    def _keyed(self, change: Mapping[str, Any], rows: pa.Schema) -> KeyedChange:
        """Raises InvalidOption where no key is named."""
        if change.get("key") is None:
            raise InvalidOption(
                f"mode={change['mode']!r} into a Delta table has no key",
                why=f"It finds rows by key; the rows have {', '.join(map(repr, rows.names))}",
                fix='Pass key="id" or key=["site", "id"]',
                option="key",
                value=None,
            )
        return KeyedChange.of(change, ())


def _checked_by(fit: Callable[[pa.Table], object]) -> Callable[[pa.Table], pa.Table]:
    """A check that stores rows as they came."""

    def check(rows: pa.Table) -> pa.Table:
        fit(rows)
        return rows

    return check


def span_of(change: Mapping[str, Any]) -> tuple[object, object]:
    """The range of the index that an overwrite names, all of it where it names none."""
    return change.get("start"), change.get("end")
