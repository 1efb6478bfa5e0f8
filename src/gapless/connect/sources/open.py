"""A source by a URL and options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from gapless.connect.location import place_of
from gapless.connect.sources.kinds import OPENERS, open_kind
from gapless.connect.sources.protocol import Source

_TABLES = {
    "timeseries": "gapless.connect.sources.table.series_table:open_series_source",
    "delta": "gapless.connect.sources.table.delta_table:open_delta_source",
    "iceberg": "gapless.connect.sources.table.iceberg:open_iceberg_source",
    "hudi": "gapless.connect.sources.table.hudi_table:open_hudi_source",
}
"""Each takes the location, the options of the store, and the other options. Imported when it is asked for, as `OPENERS` are."""
KINDS = (*_TABLES, *OPENERS)


def source(url: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None, **options: Any) -> Source:
    """A source out of a table, or of what else `url` begins with: "files:landing/*.parquet", or "cdc:changes" for a log of change records.

    Args:
        url: As in `sink`: "delta:trips", or the path or URL alone of a table; "hudi:trips" is a Hudi table of either type (`gapless[hudi]`),
            whose versions are instants.
        storage_options: Options of the object store, in obstore's names.
        options: Sources other than tables have their own, by kind. Of tables:

            mode: "batch" for all rows of the newest version, "snapshot" for those of another one, "incremental" for what was committed up to
                now, or "continuous" (the default) to follow the table.
            version, time: Of a snapshot: its number, or a time at which it was the newest.
            start: Where incremental and continuous sources begin: None for all rows of the newest version, and then what later commits add;
                "latest" for the commits after the newest version alone; "earliest" for those from the first that can be told; the number
                of a version, inclusive; or a time, for the first commit then or later.
            since: Instead: the version that was read last, or a time, for what was committed after it.
            until: The last version that is read, or a time, for the last that was committed by then.
            poll_interval: Of continuous sources: after so long the log is asked again for new versions, and no sooner: seconds, or "5 minutes".
            on_change: What to do with commits that changed or removed rows: "error", "skip" them whole, or "tell" the `_change_type` of each row.
            on_missing_versions: What to do where versions can be told no longer: "error", or go on at the "earliest" that can, with a warning.
            on_schema_change: What to do where the table's columns change: "error", "keep" the columns of the start, or "evolve" with the table.
                Of sources other than tables: where rows come with other columns, "error", or "evolve", by a poll that ends before them.
            catalog_type, catalog_uri, catalog_name, warehouse, namespace, table_name, catalog_properties: Of Iceberg tables, as in `sink`. Their
                versions are the sequence numbers of snapshots.
            ref: Of Iceberg tables: the branch that is followed, or the tag up to which is read.
            snapshot_id: Of Iceberg tables: all rows of the snapshot with this id.

    Times are aware datetimes, or ISO texts with an offset. Raises InvalidOption, InvalidTime, TableNotFound, StoreError.
    """
    kind, location = place_of(url, KINDS, storage_options)
    if kind in OPENERS:
        given = {"storage_options": storage_options, **options}
        return open_kind(kind, location, {name: value for name, value in given.items() if value is not None})
    open_table: Callable[[str, Mapping[str, str] | None, Mapping[str, Any]], Source] = resolve_name(_TABLES[kind])
    return open_table(location, storage_options, options)
