"""What the log says of a segment's columns, taken from the rows in memory, table by table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.segment import Bounds
from gapless.model.stats import Bound, ColumnStats, stats_value, supports_bounds
from gapless.parquet.run import as_int, unit_ns

_MAX_BOUND_CHARACTERS = 128
_MAX_STATS_COLUMNS = 100
_ORDERED_AS = {pa.float16().id: pa.float32(), pa.duration("ns").id: pa.int64()}


def column_stats(table: pa.Table, skip: str, ascending: str | None = None) -> dict[str, ColumnStats]:
    """Statistics of the first hundred columns but `skip`, whose bounds the log keeps apart.

    `ascending` names a column without nulls and NaN by which the rows are sorted, if there is one: its ends are its bounds.
    """
    names = [name for name in table.column_names if name != skip][:_MAX_STATS_COLUMNS]
    return {
        name: _stats_of(_edges(column) if name == ascending else column) for name in names for column in [table.column(name)]
    }


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


def _edges(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The first and the last value."""
    return pa.chunked_array([*column.slice(0, 1).chunks, *column.slice(len(column) - 1).chunks], column.type)


def _ends(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and the largest value that is neither null nor NaN, as scalars of the column's type."""
    # Arrow orders neither half floats, durations nor short decimals; what it casts them to holds each value exactly, in the same order.
    ordered = _ORDERED_AS.get(column.type.id, column.type)
    if pa.types.is_decimal32(ordered) or pa.types.is_decimal64(ordered):
        ordered = pa.decimal128(ordered.precision, ordered.scale)
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
