"""A source by a URL and options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gapless.connect.location import split_url
from gapless.connect.sources.kinds import OPENERS, open_kind
from gapless.connect.sources.protocol import Source
from gapless.connect.sources.table_source import OnChange, TableSource
from gapless.connect.sources.tables import DeltaSourceTable, SeriesSourceTable
from gapless.errors import InvalidOption, nearest
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.table import TimeSeriesTable

KINDS = ("timeseries", "delta", *OPENERS)


def source(
    url: str | os.PathLike[str],
    *,
    start: object = None,
    until: int | None = None,
    on_change: OnChange = "error",
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Source:
    """A source out of a table, or of what else `url` begins with: "files:landing/*.parquet".

    Args:
        url: As in `sink`.
        start: None for all rows of the newest version first, and then what later commits add; "latest" for the commits after the newest version
            alone; "earliest" for those from the first that can be told; or the number of a version, inclusive.
        until: The last version that is read; None to follow the table.
        on_change: What to do with commits that changed or removed rows: "error", "skip" them whole, or "tell" the `_change_type` of each row.
        storage_options: Options of the object store, in obstore's names.
        options: Of sources other than tables: each kind has its own, `start` among them.

    Raises InvalidOption, TableNotFound, StoreError.
    """
    kind, location = split_url(url, KINDS)
    if kind in OPENERS:
        of_tables = {"until": until, "on_change": None if on_change == "error" else on_change}
        shared = {"start": start, "storage_options": storage_options, **of_tables}
        return open_kind(kind, location, {**{name: value for name, value in shared.items() if value is not None}, **options})
    for name, value in options.items():
        raise InvalidOption(
            f"{name}={value!r} is no option of a source out of a table",
            fix=nearest(name, ("start", "until", "on_change", "storage_options")),
            option=name,
            value=value,
        )
    if kind == "delta":
        delta = DeltaSourceTable(DeltaTable.open(location, storage_options=storage_options))
        return TableSource(delta, start=start, until=until, on_change=on_change)
    series = SeriesSourceTable(TimeSeriesTable.open(location, storage_options=storage_options))
    return TableSource(series, start=start, until=until, on_change=on_change)
