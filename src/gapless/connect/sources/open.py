"""A source by a URL and options."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gapless.connect.location import split_url
from gapless.connect.sources.table_source import OnChange, TableSource
from gapless.connect.sources.tables import DeltaSourceTable, SeriesSourceTable
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

KINDS = ("timeseries", "delta")


def source(
    url: str | os.PathLike[str],
    *,
    start: object = None,
    until: int | None = None,
    on_change: OnChange = "error",
    storage_options: Mapping[str, str] | None = None,
) -> TableSource:
    """A source out of a table.

    Args:
        url: As in `sink`.
        start: None for all rows of the newest version first, and then what later commits add; "latest" for the commits after the newest version
            alone; "earliest" for those from the first that can be told; or the number of a version, inclusive.
        until: The last version that is read; None to follow the table.
        on_change: What to do with commits that changed or removed rows: "error", "skip" them whole, or "tell" the `_change_type` of each row.
        storage_options: Options of the object store, in obstore's names.

    Raises InvalidOption, TableNotFound, StoreError.
    """
    kind, location = split_url(url, KINDS)
    if kind == "delta":
        delta = DeltaSourceTable(DeltaTable.open(location, storage_options=storage_options))
        return TableSource(delta, start=start, until=until, on_change=on_change)
    series = SeriesSourceTable(TimeSeriesTable.open(location, storage_options=storage_options))
    return TableSource(series, start=start, until=until, on_change=on_change)
