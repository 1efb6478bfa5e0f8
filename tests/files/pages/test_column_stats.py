"""Statistics taken from memory as it lies are those that Arrow's own kernels, or Python, take."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.pages.column_stats import column_stats, index_bounds, stats_of
from gapless.model.stats import ColumnStats, stats_value

WIDE = {
    **{pa.type_for_alias(name): (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in zip(("int8", "int16", "int32", "int64"), (8, 16, 32, 64), strict=True)},
    **{pa.type_for_alias(f"u{name}"): (0, 2**bits - 1) for name, bits in zip(("int8", "int16", "int32", "int64"), (8, 16, 32, 64), strict=True)},
    **{pa.timestamp(unit, zone): (-(2**62), 2**62) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")},
    **{pa.duration(unit): (-(2**62), 2**62) for unit in ("s", "ms", "us", "ns")},
    pa.date32(): (-700_000, 2_900_000), pa.time32("s"): (0, 86_399), pa.time32("ms"): (0, 86_399_999),
    pa.time64("us"): (0, 86_399_999_999), pa.time64("ns"): (0, 86_399_999_999_999),
}  # fmt: skip
NUMBERS = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}


def of_type(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    plain = kind if pa.types.is_integer(kind) else pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(numbers, plain).view(kind)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(WIDE)), st.data())
def test_whole_numbers_and_times_have_the_bounds_of_their_scalars(kind: pa.DataType, data: st.DataObject) -> None:
    one = st.integers(*WIDE[kind]) | st.sampled_from(WIDE[kind])
    nulls = data.draw(st.booleans())
    chunks = data.draw(st.lists(st.lists(one | st.none() if nulls else one, max_size=8), min_size=1, max_size=3))
    skip = data.draw(st.integers(0, 3))
    column = pa.chunked_array([of_type(kind, numbers) for numbers in chunks], kind).slice(skip)
    values = [number for numbers in chunks for number in numbers][skip:]
    there = [number for number in values if number is not None]
    found = stats_of(column)
    assert (found.nulls, found.nans) == (len(values) - len(there), None)
    bounds = [stats_value(of_type(kind, [end])[0], kind) for end in (min(there), max(there))] if there else [None, None]
    assert [found.min, found.max] == bounds
    assert type(found.min) in (int, type(None))
    if there and (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
        bounded = index_bounds(column)
        assert [bounded.first, bounded.last] == bounds


SIGNALLING = {
    16: (0x7C01, np.uint16, np.float16),
    32: (0x7F800001, np.uint32, np.float32),
    64: (0x7FF0000000000001, np.uint64, np.float64),
}


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([pa.float16(), pa.float32(), pa.float64()]), st.data())
def test_floats_leave_out_nan_and_null(kind: pa.DataType, data: st.DataObject) -> None:
    width = kind.bit_width
    one = st.floats(width=width) | st.sampled_from([0.0, -0.0, math.nan])
    chunks = data.draw(
        st.lists(st.lists(st.none() | one if data.draw(st.booleans()) else one, max_size=6), min_size=1, max_size=3)
    )
    skip = data.draw(st.integers(0, 2))
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[width]
    arrays = [pa.array([None if v is None else dtype(v) for v in values], kind) for values in chunks]
    values = [value for part in chunks for value in part][skip:]
    there = [value for value in values if value is not None and not math.isnan(value)]
    found = stats_of(pa.chunked_array(arrays, kind).slice(skip))
    nans = sum(value is not None and math.isnan(value) for value in values)
    assert (found.nulls, found.nans) == (sum(value is None for value in values), nans)
    assert (found.min, found.max) == ((min(there), max(there)) if there else (None, None))


@pytest.mark.parametrize("width", SIGNALLING)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 40])
def test_a_signalling_nan_is_a_nan_wherever_it_stands(width: int, nulls: bool, count: int) -> None:
    """Arrow's `min_max` forgets the values before one: rows would be pruned that are there."""
    bits, whole, kind = SIGNALLING[width]
    for at in range(count):
        values = np.arange(count).astype(kind)
        values.view(whole)[at] = bits
        column = pa.chunked_array([pa.array(values), pa.array([None] * nulls, pa.array(values).type)])
        assert column.chunk(0).view({16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[width])[at].as_py() == bits
        there = [float(number) for number in range(count) if number != at]
        low, high = (min(there), max(there)) if there else (None, None)
        assert stats_of(column) == ColumnStats(min=low, max=high, nulls=int(nulls), nans=1)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["b", "a", None], pa.string(), ("a", "b", 1)),
        (["z" * 129], pa.string(), (None, None, 0)),
        ([b"\xff", b""], pa.binary(), (b"", b"\xff", 0)),
        ([True, True], pa.bool_(), (True, True, 0)),
        ([decimal.Decimal("1.50"), decimal.Decimal("-2.25")], pa.decimal64(9, 2), (decimal.Decimal("-2.25"), decimal.Decimal("1.50"), 0)),
        ([1, -86_400_000], pa.date64(), (-1, 0, 0)),
        ([None, None], pa.null(), (None, None, 2)),
        ([[1]], pa.list_(pa.int8()), (None, None, 0)),
        ([], pa.int64(), (None, None, 0)),
    ],
)  # fmt: skip
def test_other_types_have_theirs(values: list[Any], kind: pa.DataType, expected: tuple[Any, ...]) -> None:
    column = pa.chunked_array([pa.array(values, kind)])
    found = stats_of(column)
    assert (found.min, found.max, found.nulls) == expected
    table = pa.table({"x": column, "i": column})
    assert column_stats(table, "i") == {"x": found}
