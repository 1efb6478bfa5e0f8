"""Rows compared by several columns, the first of which counts most: which comes after which, and the newest of each key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.compare.keys import KeyIds

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def can_order(kind: pa.DataType) -> bool:
    """Whether rows can be told older from newer by values of a type: each two of these are equal, or one comes after the other.

    Of floats NaN equals NaN and comes after every number, and -0.0 equals 0.0, as in conditions and in Spark.
    """
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(kind) for test in tests)


def is_older(left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray]) -> Mask:
    """Where the row on the left comes before the one on the right: columns of the same types and lengths, none of the left null.

    A null on the right is older than anything.
    """
    older = np.zeros(len(left[0]), dtype=bool)
    equal = ~older
    for mine, theirs in zip(map(_in_order, left), map(_in_order, right), strict=True):
        less = pc.fill_null(pc.less(mine, theirs), False).to_numpy(zero_copy_only=False)
        older |= equal & less
        equal &= pc.fill_null(pc.equal(mine, theirs), False).to_numpy(zero_copy_only=False)
    return older


def ranks(rows: pa.Table) -> Numbers:
    """For each row its place among the distinct rows, which are ordered by their columns, from 0. No value is null."""
    names = [str(at) for at in range(rows.num_columns)]
    rows = pa.table([_in_order(column) for column in rows.columns], names=names)
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in names])
    differs = np.zeros(rows.num_rows, dtype=bool)
    for column in rows.columns:
        values = column.take(order).combine_chunks()
        differs[1:] |= pc.not_equal(values.slice(1), values.slice(0, max(0, len(values) - 1))).to_numpy(zero_copy_only=False)
    found = np.empty(rows.num_rows, dtype=np.int64)
    found[order.to_numpy()] = np.cumsum(differs)
    return found


def _in_order(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that Arrow compares as rows are ordered: in the place of floats integers that are in their order."""
    if not pa.types.is_floating(column.type):
        return column
    return pa.chunked_array(
        [_float_ranks(chunk) for chunk in column.chunks], type=pa.type_for_alias(f"int{column.type.bit_width}")
    )


def _float_ranks(values: pa.Array) -> pa.Array:
    """The bits of IEEE floats, those of negative ones turned around: they ascend as the values do, and NaN is behind all."""
    floats = values.to_numpy(zero_copy_only=False).copy()
    floats[np.isnan(floats)] = np.nan  # one of all its patterns, without a sign
    floats[floats == 0] = 0.0
    bits = floats.view(f"i{floats.itemsize}")
    return pa.array(
        np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits), mask=values.is_null().to_numpy(zero_copy_only=False)
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """Of rows that came one after the other, the newest of each key."""

    rows: Numbers
    """Its position, for each key by its number."""
    count: Numbers
    """How many rows each key has."""
    late: Numbers
    """How many of these came after one that is newer."""


def newest_of_each(keys: KeyIds, count: int, order: Numbers | None) -> Newest:
    """The newest row of each of `count` keys: by `order` the highest, and of those the one that came last; without it the last one."""
    total = np.bincount(keys, minlength=count)
    by_arrival = np.lexsort((keys,))
    ends = np.cumsum(total)
    if order is None:
        return Newest(by_arrival[ends - 1], total, np.zeros(count, dtype=np.int64))
    # Keys ascend, so that the highest so far begins anew with each of them.
    span = int(order.max()) + 1 if len(order) else 1
    grouped = order[by_arrival] + keys[by_arrival] * span
    late = grouped < np.maximum.accumulate(grouped) if len(grouped) else np.zeros(0, dtype=bool)
    newest = np.lexsort((order, keys))[ends - 1]
    return Newest(newest, total, np.bincount(keys[by_arrival][late], minlength=count))
