"""The tables that the functions of `gl.spark` take: time-series tables and Delta tables, open or by their place."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gapless.errors import InvalidOption, NotSupported, TableNotFound
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import open_table as open_delta_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.handle import Location, kind_of
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable

Table = TimeSeriesTable | DeltaTable
View = TableView | DeltaView
"""A table at one version; a `Table` is one."""

_INSTEAD = {
    "replace": "gl.spark.overwrite(frame, table, where=…)",
    "backfill": "gl.spark.write(frame, table) with the rows that are missing",
    "merge": 'gl.spark.upsert(frame, table, key=["symbol", "ts"])',
}
"""What to call where a function takes tables of the other kind."""


def open_at_newest(location: Location, storage_options: Mapping[str, str] | None = None) -> Table:
    """The table at a path or URL, of either kind; raises TableNotFound, and as `gl.open` and `gl.delta.open`."""
    try:
        return TimeSeriesTable.open(location, storage_options=storage_options)
    except TableNotFound:
        if kind_of(open_store(location, storage_options)) != "delta":
            raise
    return DeltaTable.open(location, storage_options=storage_options)


def open_in(store: Store, url: str) -> Table:
    """The table in the root of a store, of either kind; raises as `open_at_newest`."""
    env = Environment(store=store)
    if kind_of(store) == "delta":
        return DeltaTable(env, url, open_delta_table(env, url))
    return TimeSeriesTable(env, url, open_table(env, url))


def open_to_write(table: object, storage_options: Mapping[str, str] | None = None) -> Table:
    """The table itself, or the one at a path or URL; raises InvalidOption for a view, and as `gl.open`."""
    if isinstance(table, str | os.PathLike):
        location: Location = table
        return open_at_newest(location, storage_options)
    if not isinstance(table, TimeSeriesTable | DeltaTable):
        raise InvalidOption(
            f"{table!r} cannot be written to",
            why="A view shows one version, and rows are added to the newest",
            fix="Pass a table, as from gl.open(path) or gl.delta.open(path), or its path",
            option="table",
            value=table,
        )
    return table


def view_of(
    table: View | Location, version: int | None, time: object, storage_options: Mapping[str, str] | None = None
) -> View:
    """A table at the version that is meant, the one that it sees or the newest where none is; `storage_options` are of a place.

    Raises as `table.at`, `gl.open` and `gl.delta.open`.
    """
    newest = version is None and time is None
    if isinstance(table, TableView | DeltaView):
        return table if newest else table.at(version, time=time)
    if newest:
        return open_at_newest(table, storage_options)
    try:
        return TableView.open_at(table, version, time=time, storage_options=storage_options)
    except TableNotFound:
        if kind_of(open_store(table, storage_options)) != "delta":
            raise
    return DeltaView.open_at(table, version, time=time, storage_options=storage_options)


def series_of(table: object, function: str) -> TimeSeriesTable:
    """The time-series table that a function of `gl.spark` takes and Delta tables are not taken by; raises NotSupported, and as `open_to_write`."""
    found = open_to_write(table)
    if isinstance(found, DeltaTable):
        raise _other_kind(found, function, "a Delta table", "time-series tables, whose coverage it needs")
    return found


def delta_of(table: object, function: str) -> DeltaTable:
    """The Delta table that a function of `gl.spark` takes and time-series tables are not taken by; raises as `series_of`."""
    found = open_to_write(table)
    if isinstance(found, TimeSeriesTable):
        raise _other_kind(found, function, "a time-series table", "Delta tables")
    return found


def refuse_given(options: Mapping[str, object], kind: str, fix: str) -> None:
    """Raise InvalidOption for the first of some options that was given (is not None) to a table of the kind, whose tables take none of them."""
    empty = (tuple, dict)
    given = next((name for name, one in options.items() if one is not None and not (isinstance(one, empty) and not one)), None)
    if given is not None:
        raise InvalidOption(
            f"{given}={options[given]!r} for {kind}",
            why="Tables of that kind have nothing that it could mean",
            fix=fix,
            option=given,
            value=options[given],
        )


def _other_kind(table: Table, function: str, found: str, wanted: str) -> NotSupported:
    return NotSupported(
        f"the table at {table.url} is {found}, and gl.spark.{function} is for {wanted}",
        why="The two kinds keep their rows by other rules",
        fix=f"Use {_INSTEAD[function]}",
        feature="spark",
    )
