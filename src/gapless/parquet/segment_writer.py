"""A run as the bytes of a segment, with everything the log says about it taken from the rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.coverage.bitmap import CoverageMap
from gapless.model.properties import Codec
from gapless.model.segment import Bounds
from gapless.model.stats import ColumnStats, stats_value, supports_bounds
from gapless.parquet.checksum import checksum, footer_checksum
from gapless.parquet.run import Run, unit_ns

MAX_ROW_GROUP_ROWS = 262_144
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""
_MAX_BOUND_CHARACTERS = 128
_MAX_STATS_COLUMNS = 100

_ORDERED_AS = {pa.float16().id: pa.float32(), pa.duration("ns").id: pa.int64()}
_LEVELS: dict[Codec, int | None] = {"zstd": 1, "snappy": None, "lz4": None, "gzip": None, "none": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSegment:
    """A segment's bytes and what the log needs to know of them."""

    data: memoryview
    rows: int
    bounds: Bounds
    coverage: CoverageMap
    stats: Mapping[str, ColumnStats]
    checksum: str
    footer_checksum: str


def encode_segment(run: Run, index_column: str, codec: Codec) -> EncodedSegment:
    """Encode a run that holds at least one row."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        run.table,
        sink,
        compression=codec,
        compression_level=_LEVELS[codec],
        row_group_size=row_group_rows(run.table),
        write_page_checksum=True,
    )
    data = memoryview(sink.getvalue())
    return EncodedSegment(
        data=data,
        rows=run.table.num_rows,
        bounds=_bounds(run.table.column(index_column)),
        coverage=run.coverage,
        stats=column_stats(run.table, skip=index_column),
        checksum=checksum(data),
        footer_checksum=footer_checksum(data),
    )


def row_group_rows(table: pa.Table) -> int:
    """Rows per row group, so that one holds about `ROW_GROUP_BYTES` of Arrow memory."""
    bytes_per_row = max(1, int(table.nbytes) // max(1, int(table.num_rows)))
    return max(1_024, min(MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES // bytes_per_row))


def column_stats(table: pa.Table, skip: str) -> dict[str, ColumnStats]:
    """Statistics of the first hundred columns but `skip`, whose bounds the log keeps apart."""
    names = [name for name in table.column_names if name != skip][:_MAX_STATS_COLUMNS]
    return {name: _stats_of(table.column(name)) for name in names}


def _bounds(column: pa.ChunkedArray) -> Bounds:
    ends = pc.min_max(column)
    scale = unit_ns(column.type)
    low, high = (_as_int(ends[end]) for end in ("min", "max"))
    return Bounds(first=low * scale, last=high * scale)


def _as_int(scalar: Any) -> int:
    return int(scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py())


def _ends(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and the largest value that is neither null nor NaN, as scalars of the column's type."""
    # Arrow orders neither half floats nor durations; what it casts them to holds each value exactly, in the same order.
    ordered = _ORDERED_AS.get(column.type.id, column.type)
    ends = pc.min_max(column.cast(ordered))
    return tuple(ends[end].cast(column.type) for end in ("min", "max"))


def _stats_of(column: pa.ChunkedArray) -> ColumnStats:
    nulls = column.null_count
    nans = None
    if pa.types.is_floating(column.type):
        nans = pc.sum(pc.is_nan(column)).as_py() or 0
    if not supports_bounds(column.type) or nulls + (nans or 0) == len(column):
        return ColumnStats(nulls=nulls, nans=nans)
    low, high = (stats_value(end, column.type) for end in _ends(column))
    if any(isinstance(bound, str | bytes) and len(bound) > _MAX_BOUND_CHARACTERS for bound in (low, high)):
        return ColumnStats(nulls=nulls, nans=nans)
    return ColumnStats(min=low, max=high, nulls=nulls, nans=nans)
