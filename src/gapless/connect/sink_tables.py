"""Time-series and Delta tables as sinks need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, VersionNotFound
from gapless.files.compare.keys import KeySet
from gapless.formats.delta import actions as delta_actions
from gapless.formats.delta.format import DELTA
from gapless.formats.timeseries import actions as series_actions
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.versions import read_range
from gapless.model.operation import SequenceId
from gapless.runtime.environment import Environment
from gapless.tables.delta.handle import context_of as delta_context
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import prepared as delta_prepared
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.landing import AppliedOperation, ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit
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


def _not_made(location: str, error: TableNotFound, how: str) -> TableNotFound:
    return TableNotFound(error.what, why="A sink makes it only where it is told how", fix=how, path=location)


@dataclass(slots=True, kw_only=True)
class SeriesSinkTable:
    """A time-series table."""

    kind: ClassVar[Kind] = "timeseries"
    location: str
    storage_options: Mapping[str, str] | None = None
    create: Mapping[str, Any] = field(default_factory=dict)
    """How a missing table is made: `index`, `bucket`, `entity` and the other options of `gl.create`; empty for not at all."""
    _table: TimeSeriesTable | None = None

    @property
    def table(self) -> TimeSeriesTable:
        """The table, opened."""
        if self._table is None:
            self._table = TimeSeriesTable.open(self.location, storage_options=self.storage_options)
        return self._table

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`."""
        return series_context(self.table).env

    @property
    def version(self) -> int:
        """See `SinkTable.version`."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return series_prepared.table_id(series_context(self.table).snapshot.state.meta)

    def open(self, schema: pa.Schema) -> None:
        """See `SinkTable.open`."""
        try:
            self.table.refresh()
        except TableNotFound as error:
            if not self.create:
                raise _not_made(
                    self.location, error, 'Pass create={"index": "ts", "bucket": "1h"}, or make it with gl.create'
                ) from error
            try:
                self._table = TimeSeriesTable.create(
                    self.location, schema=schema, storage_options=self.storage_options, **self.create
                )
            except TableExists:  # another sink made it a moment ago
                self.table.refresh()

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
        return ChangeOutcome.before(series_context(self.table).refresh(), operation, kind)

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        return _sequence(series_context(self.table).refresh().state.recognise(operation))

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = series_context(self.table).snapshot.state
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

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        return _time_of(lambda: self.env.drive(read_range(TIME_SERIES, version, version + 1))[0][2])


@dataclass(slots=True, kw_only=True)
class DeltaSinkTable:
    """A Delta table."""

    kind: ClassVar[Kind] = "delta"
    location: str
    storage_options: Mapping[str, str] | None = None
    create: Mapping[str, Any] | None = None
    """Options of `gl.delta.create` for a missing table, none of which is needed; None for not at all."""
    target_bytes: int | None = None
    """About how large data files become; the table's property, or 128 MiB, where None."""
    _table: DeltaTable | None = None

    @property
    def table(self) -> DeltaTable:
        """The table, opened."""
        if self._table is None:
            self._table = DeltaTable.open(self.location, storage_options=self.storage_options)
        return self._table

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`."""
        return delta_context(self.table).env

    @property
    def version(self) -> int:
        """See `SinkTable.version`."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return delta_context(self.table).snapshot.state.metadata.id

    def open(self, schema: pa.Schema) -> None:
        """See `SinkTable.open`."""
        try:
            self.table.refresh()
        except TableNotFound as error:
            if self.create is None:
                raise _not_made(self.location, error, "Pass create={}, or make it with gl.delta.create") from error
            try:
                self._table = DeltaTable.create(self.location, schema, storage_options=self.storage_options, **self.create)
            except TableExists:  # another sink made it a moment ago
                self.table.refresh()

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
        return ChangeOutcome.before(delta_context(self.table).refresh(), operation, kind)

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        return _sequence(delta_context(self.table).refresh().state.recognise(operation))

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        state = delta_context(self.table).snapshot.state
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
        on = " AND ".join(f"t.{_quoted(name)} IS NOT DISTINCT FROM s.{_quoted(name)}" for name in key)
        merge = self.table.merge(_last_of_each(rows, key), on).when_matched_update_all().when_not_matched_insert_all()
        merged = merge.execute(operation_id=operation)
        return ChangeOutcome(merged, merged.version, already=merged.already_applied)

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        return _time_of(lambda: self.env.drive(read_range(DELTA, version, version + 1))[0][2])


def _sequence(known: AppliedOperation | None) -> int | None:
    return known.operation.sequence if known is not None and isinstance(known.operation, SequenceId) else None


def _time_of(read: Callable[[], int]) -> int | None:
    try:
        return read()
    except VersionNotFound:
        return None


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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _last_of_each(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of several rows with one key the one that came last."""
    keys = KeySet.of(rows, key)
    return rows if keys.count == rows.num_rows else rows.take(pa.array(keys.last_rows()))
