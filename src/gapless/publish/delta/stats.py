"""Statistics of published files, and of which columns they are. Pure.

deltalake's datasets take a bound that is missing for null, and lose the file's rows. What they expect, `delta.dataSkippingStatsColumns` says:
so it names the columns that have bounds in every file, as soon as one has them not in all. Readers then go on pruning by the index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from gapless.formats.delta.actions import Metadata
from gapless.formats.delta.property_values import parse_columns
from gapless.formats.delta.schema.types import StructType
from gapless.formats.delta.stats_codec import ColumnPath, encode_stats, has_bounds, is_whole
from gapless.model.column_ids import ColumnIds
from gapless.model.stats import ColumnStats
from gapless.publish.source import SourceFile

INDEXED, INDEXED_COUNT = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names that all releases of deltalake find in the list; quoted ones they do not."""


def with_indexed(
    configuration: Mapping[str, str], schema: StructType, before: Metadata | None, added: Iterable[SourceFile], ids: ColumnIds
) -> dict[str, str]:
    """The configuration with the columns that have statistics from here on, where these are not all.

    `before` is what was published last; None where `added` are all files that there are.
    """
    every = [field for field in schema if has_bounds(field.type)]
    known = None if before is None else _indexed(before)
    whole = [field for field in every if known is None or field.physical_name in known]
    for file in added:
        told = ids.named(file.stats)
        whole = [field for field in whole if field.name in told and is_whole(told[field.name], field.type, file.rows)]
    kept = {name: value for name, value in configuration.items() if name not in (INDEXED, INDEXED_COUNT)}
    if whole == every:
        return kept
    names = [field.name for field in whole if _PLAIN.fullmatch(field.name)]
    return kept | ({INDEXED: ",".join(names)} if names else {INDEXED_COUNT: "0"})


def stats_writer(metadata: Metadata, ids: ColumnIds) -> Callable[[SourceFile], str]:
    """What writes the statistics of files as the log has them."""
    indexed = _indexed(metadata)
    names = [field.name for field in metadata.schema if field.physical_name in indexed]

    def write(file: SourceFile) -> str:
        told = ids.named(file.stats)
        stats: dict[ColumnPath, ColumnStats] = {(name,): told[name] for name in names if name in told}
        return encode_stats(file.rows, stats, metadata.schema)

    return write


def _indexed(metadata: Metadata) -> frozenset[str]:
    """The physical names of the columns that have statistics."""
    listed = metadata.configuration.get(INDEXED)
    names = {path[0] for path in parse_columns(listed)} if listed is not None else set()
    every = listed is None and INDEXED_COUNT not in metadata.configuration
    return frozenset(
        field.physical_name for field in metadata.schema if has_bounds(field.type) and (every or field.name in names)
    )
