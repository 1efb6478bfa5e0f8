"""Column statistics of a segment (minimum, maximum, nulls), from rows in memory, table by table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import CorruptTable
from gapless.files.sort.order import raw_values
from gapless.model.instant import NS_PER
from gapless.model.segment import Bounds
from gapless.model.stats import Bound, ColumnStats, stats_value, supports_bounds
from gapless.model.valid_values import holds_digits

MAX_BOUND_CHARACTERS = 128
MAX_STATS_COLUMNS = 100
_FEW = 16
"""Texts that Python compares before Arrow's kernel is called."""


def column_stats(table: pa.Table, skip: str) -> dict[str, ColumnStats]:
    """Statistics of the first hundred columns but `skip`, whose bounds the log keeps apart."""
    names = [name for name in table.column_names if name != skip][:MAX_STATS_COLUMNS]
    return {name: stats_of(table.column(name)) for name in names}


def index_bounds(column: pa.ChunkedArray) -> Bounds:
    """The smallest and the largest value of an index column that holds any; nanoseconds for timestamps."""
    found = stats_of(column)
    assert isinstance(found.min, int)
    assert isinstance(found.max, int)
    return Bounds(first=found.min, last=found.max)


def written_stats(column: pa.ChunkedArray, name: str, longest: int | None = MAX_BOUND_CHARACTERS) -> ColumnStats:
    """Statistics of a column that is about to be written, as `stats_of` gives them.

    Raises CorruptTable for a decimal of more digits than its type has room for: Parquet would keep another number. Input was looked at, so
    that it lies in a file of the table that is written anew.
    """
    found = stats_of(column, longest)
    if pa.types.is_decimal(column.type):
        for bound in (found.min, found.max):
            if bound is not None and not holds_digits(bound, column.type):
                raise CorruptTable(
                    f"column {name!r} holds {bound!r} in a file of the table",
                    why=f"{column.type} has room for {column.type.precision} digits: another writer did not check its values",
                    fix="`gapless verify --deep` names the file; read it, and overwrite its rows by values that fit",
                    path="",
                )
    return found


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


def _ends(column: pa.ChunkedArray) -> tuple[Bound, Bound]:
    """The smallest and the largest value that is not null."""
    kind = column.type
    if pa.types.is_string(kind) and len(column) <= _FEW:
        told = [text for text in column.to_pylist() if text is not None]
        return min(told), max(told)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        # Arrow orders no short decimals; what they are cast to holds each value exactly, in the same order.
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    ends = pc.min_max(column)
    return stats_value(ends["min"], column.type), stats_value(ends["max"], column.type)


@lru_cache(256)
def _as_numbers(kind: pa.DataType) -> tuple[np.dtype[Any], int] | None:
    """The numbers that values of a type lie in memory as, and what a step of them counts in a `Bound`; None for other types."""
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return np.dtype(kind.to_pandas_dtype()), 1
    if pa.types.is_date32(kind):
        return np.dtype(np.int32), 1
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return np.dtype(f"i{kind.bit_width // 8}"), NS_PER[kind.unit]
    return None


def _number_stats(column: pa.ChunkedArray, known: tuple[np.dtype[Any], int]) -> ColumnStats:
    """Statistics of numbers and times, as fast as memory is read."""
    (kind, scale), nulls = known, column.null_count
    chunks = (column.drop_null() if nulls else column).chunks
    values = [raw_values(chunk).view(kind) for chunk in chunks if len(chunk)]
    nans = None
    if kind.kind == "f":
        # Of values with a NaN among them numpy gives NaN. Arrow's kernel forgets what came before one that signals.
        values = [part[~np.isnan(part)] if math.isnan(part.min()) else part for part in values]
        nans = len(column) - nulls - sum(map(len, values))
        values = [part for part in values if len(part)]
    if not values:
        return ColumnStats(nulls=nulls, nans=nans)
    low, high = min(part.min().item() for part in values), max(part.max().item() for part in values)
    return ColumnStats(min=low * scale, max=high * scale, nulls=nulls, nans=nans)


def stats_of(column: pa.ChunkedArray, longest: int | None = MAX_BOUND_CHARACTERS) -> ColumnStats:
    """Statistics of one column; without bounds where one is a text or bytes of more than `longest` characters."""
    if (known := _as_numbers(column.type)) is not None:
        return _number_stats(column, known)
    nulls = column.null_count
    if not supports_bounds(column.type) or nulls == len(column):
        return ColumnStats(nulls=nulls)
    try:
        low, high = _ends(column)
    except UnicodeDecodeError:
        # Text of another writer that is not UTF-8: it is carried along as it is, and no bound can be said of it.
        return ColumnStats(nulls=nulls)
    if longest is not None and any(isinstance(bound, str | bytes) and len(bound) > longest for bound in (low, high)):
        return ColumnStats(nulls=nulls)
    return ColumnStats(min=low, max=high, nulls=nulls)
