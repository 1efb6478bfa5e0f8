"""What the log says of a segment's columns, taken from the rows in memory, table by table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.segment import Bounds
from gapless.model.stats import Bound, ColumnStats, stats_value, supports_bounds
from gapless.parquet.run import as_int, unit_ns

MAX_BOUND_CHARACTERS = 128
MAX_STATS_COLUMNS = 100
_PLAIN_FLOATS = {pa.float64().id, pa.float32().id}
_ORDERED_AS = {pa.float16().id: pa.float32(), pa.duration("ns").id: pa.int64()}


def column_stats(table: pa.Table, skip: str, ends: Mapping[str, pa.ChunkedArray] | None = None) -> dict[str, ColumnStats]:
    """Statistics of the first hundred columns but `skip`, whose bounds the log keeps apart.

    `ends` has, of columns without nulls and NaN, some values among which are the smallest and the largest, where those are known.
    """
    names = [name for name in table.column_names if name != skip][:MAX_STATS_COLUMNS]
    known = ends or {}
    return {name: stats_of(known.get(name, table.column(name))) for name in names}


def index_bounds(column: pa.ChunkedArray) -> Bounds:
    """The smallest and the largest value of an index column that holds any; nanoseconds for timestamps."""
    ends = pc.min_max(column)
    scale = unit_ns(column.type)
    low, high = (as_int(ends[end]) for end in ("min", "max"))
    return Bounds(first=low * scale, last=high * scale)


@dataclass(slots=True)
class GrowingStats:
    """Statistics of one column over table after table."""

    min: Bound | None = None
    max: Bound | None = None
    nulls: int = 0
    nans: int | None = None
    bounded: bool = True
    """False once a table that holds values came without bounds: those of the others then bound nothing."""

    def add(self, stats: ColumnStats, rows: int) -> None:
        """Take in the statistics that `column_stats` gave of a table with this many rows."""
        nulls, nans = stats.nulls or 0, stats.nans
        self.nulls += nulls
        self.nans = nans if self.nans is None else self.nans + (nans or 0)
        if stats.min is not None and stats.max is not None:
            self.min = stats.min if self.min is None else min(self.min, stats.min)
            self.max = stats.max if self.max is None else max(self.max, stats.max)
        elif nulls + (nans or 0) < rows:
            self.bounded = False

    @property
    def stats(self) -> ColumnStats:
        """What holds for all tables together."""
        low, high = (self.min, self.max) if self.bounded else (None, None)
        return ColumnStats(min=low, max=high, nulls=self.nulls, nans=self.nans)


def _ends(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and the largest value that is neither null nor NaN, as scalars of the column's type."""
    # Arrow orders neither half floats, durations nor short decimals; what it casts them to holds each value exactly, in the same order.
    ordered = _ORDERED_AS.get(column.type.id, column.type)
    if pa.types.is_decimal32(ordered) or pa.types.is_decimal64(ordered):
        ordered = pa.decimal128(ordered.precision, ordered.scale)
    if ordered == column.type:
        ends = pc.min_max(column)
        return ends["min"], ends["max"]
    ends = pc.min_max(column.cast(ordered))
    return tuple(ends[end].cast(column.type) for end in ("min", "max"))


def _plain_ends(column: pa.ChunkedArray) -> tuple[float, float] | None:
    """The smallest and the largest of floats without null and NaN, as fast as memory is read; None for any others."""
    if column.type.id not in _PLAIN_FLOATS or column.null_count:
        return None
    values = [chunk.to_numpy() for chunk in column.chunks if len(chunk)]
    # Of values with a NaN among them numpy gives NaN.
    lows = [float(part.min()) for part in values]
    if not lows or any(map(math.isnan, lows)):
        return None
    return min(lows), max(float(part.max()) for part in values)


def stats_of(column: pa.ChunkedArray, longest: int | None = MAX_BOUND_CHARACTERS) -> ColumnStats:
    """Statistics of one column; without bounds where one is a text or bytes of more than `longest` characters."""
    nulls = column.null_count
    if (ends := _plain_ends(column)) is not None:
        return ColumnStats(min=ends[0], max=ends[1], nulls=0, nans=0)
    nans = None
    if pa.types.is_floating(column.type):
        nans = pc.sum(pc.is_nan(column)).as_py() or 0
    if not supports_bounds(column.type) or nulls + (nans or 0) == len(column):
        return ColumnStats(nulls=nulls, nans=nans)
    low, high = (stats_value(end, column.type) for end in _ends(column))
    if longest is not None and any(isinstance(bound, str | bytes) and len(bound) > longest for bound in (low, high)):
        return ColumnStats(nulls=nulls, nans=nans)
    return ColumnStats(min=low, max=high, nulls=nulls, nans=nans)
