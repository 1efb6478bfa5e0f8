"""Time-series and Delta tables as sinks need them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, VersionNotFound
from gapless.files.compare.keys import KeySet
from gapless.formats.delta import actions as delta_actions
from gapless.formats.timeseries import actions as series_actions
from gapless.log.versions import read_range
from gapless.model.operation import SequenceId
from gapless.runtime.environment import Environment
from gapless.tables.delta.handle import DeltaContext
from gapless.tables.delta.handle import context_of as delta_context
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import prepared as delta_prepared
from gapless.tables.shared.handle import AtVersion, Kind, TableContext, table_id
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit
from gapless.tables.shared.sql import quoted
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.handle import context_of as series_context
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write import prepared as series_prepared

_LOGGED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "append": ("WRITE", {"mode": "Append"}),
    "upsert": ("MERGE", {}),
    "overwrite": ("WRITE", {"mode": "Overwrite"}),
}
"""What Delta's log calls the change of each mode, with the parameters that tell it from others."""


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
    _table: Handle | None = None

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

    def open(self, schema: pa.Schema) -> None:
        """See `SinkTable.open`."""
        try:
            self._context.refresh()
        except TableNotFound as error:
            if self.create is None:
                why = "A sink makes it only where it is told how"
                raise TableNotFound(error.what, why=why, fix=self._how_to_make, path=self.location) from error
            try:
                self._table = self._made(schema, self.create)
            except TableExists:  # another sink made it a moment ago
                self._context.refresh()

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

    def _opened(self) -> TimeSeriesTable:
        return TimeSeriesTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> TimeSeriesTable:
        return TimeSeriesTable.create(self.location, schema=schema, storage_options=self.storage_options, **options)

    @property
    def _how_to_make(self) -> str:
        return 'Pass create={"index": "ts", "bucket": "1h"}, or make it with gl.create'

    @property
    def _context(self) -> SeriesContext:
        return series_context(self.table)

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.check`."""
        series_prepared.policy_of(change)
        self.begin(schema, change)
        if change["mode"] == "upsert" and change.get("key") is not None:
            _check_key(change["key"], schema)

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> series_prepared.SeriesEpoch:  # noqa: ARG002  # a Delta table needs it
        """See `SinkTable.begin`."""
        return series_prepared.SeriesEpoch.begin(self.table, schema)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        kind = series_actions.kind_of_change(mode)
        return ChangeOutcome.before(self._context.refresh(), operation, kind)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = self._context.snapshot.state
        return frozenset(path for path in paths if path in state.live or path in state.removed)

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return series_prepared.finalize_append(self.table, prepared)

    def apply(self, prepared: PreparedCommit, rows: pa.Table) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        change, operation = prepared.change, _operation(prepared)
        if change["mode"] == "upsert":
            report = self.table.upsert(rows, key=change.get("key"), on_duplicate="last", operation_id=operation)
        else:
            report = self.table.replace((None, None), rows, operation_id=operation)
        return ChangeOutcome(report, report.version, already=report.already_applied)


@dataclass(slots=True, kw_only=True)
class DeltaSinkTable(_OpenedTable[DeltaTable]):
    """A Delta table."""

    kind: ClassVar[Kind] = "delta"
    target_bytes: int | None = None
    """About how large data files become; the table's property, or 128 MiB, where None."""

    def _opened(self) -> DeltaTable:
        return DeltaTable.open(self.location, storage_options=self.storage_options)

    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> DeltaTable:
        return DeltaTable.create(self.location, schema, storage_options=self.storage_options, **options)

    @property
    def _how_to_make(self) -> str:
        return "Pass create={}, or make it with gl.delta.create"

    @property
    def _context(self) -> DeltaContext:
        return delta_context(self.table)

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.check`."""
        self.begin(schema, change)
        if change["mode"] == "upsert":
            _check_key(change.get("key"), schema)

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

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return delta_prepared.finalize_append(self.table, prepared)

    def apply(self, prepared: PreparedCommit, rows: pa.Table) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        change, operation = prepared.change, _operation(prepared)
        if change["mode"] == "overwrite":
            report = self.table.overwrite(rows, where=change.get("where"), operation_id=operation)
            return ChangeOutcome(report, report.version, already=report.already_applied)
        key = _check_key(change["key"], rows.schema)
        on = " AND ".join(f"t.{quoted(name)} IS NOT DISTINCT FROM s.{quoted(name)}" for name in key)
        merge = self.table.merge(_last_of_each(rows, key), on).when_matched_update_all().when_not_matched_insert_all()
        merged = merge.execute(operation_id=operation)
        return ChangeOutcome(merged, merged.version, already=merged.already_applied)


def _check_key(key: object, schema: pa.Schema) -> tuple[str, ...]:
    """The key's columns; raises InvalidOption."""
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list | tuple) else ()
    if columns and all(name in schema.names for name in columns):
        return columns
    raise InvalidOption(
        f"key={key!r} names no columns of the rows",
        why=f"An upsert into a Delta table finds rows by key; the rows have {', '.join(map(repr, schema.names))}",
        fix='Pass key="id" or key=["site", "id"]',
        option="key",
        value=key,
    )


def _last_of_each(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of several rows with one key the one that came last."""
    keys = KeySet.of(rows, key)
    return rows if keys.count == rows.num_rows else rows.take(pa.array(keys.last_rows()))
