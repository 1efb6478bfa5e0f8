"""Rows along a z-order: close in all columns at once."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.sort.curve_sort import MAX_COLUMNS, has_rank, z_order


def interleaved(ranks: tuple[int, ...]) -> int:
    """Bit by bit, the first column's first."""
    key = 0
    for bit in reversed(range(16)):
        for rank in ranks:
            key = key << 1 | rank >> bit & 1
        key <<= MAX_COLUMNS - len(ranks)
    return key


def scaled(values: list[int]) -> list[int]:
    """Ranks among the distinct values, over 16 bits."""
    distinct = sorted(set(values))
    return [distinct.index(value) * 65_536 // len(distinct) for value in values]


@settings(max_examples=100)
@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[st.integers(-5, 5)] * width), min_size=1, max_size=40)))
def test_rows_lie_by_their_ranks_bit_by_bit(rows: list[tuple[int, ...]]) -> None:
    names = tuple("abcd"[: len(rows[0])])
    table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    ranks = list(zip(*[scaled([row[at] for row in rows]) for at in range(len(names))], strict=True))
    expected = sorted(range(len(rows)), key=lambda place: interleaved(ranks[place]))
    assert z_order(table, names).tolist() == expected, "equal ones in the order they have"


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.float64(), [2.0, float("nan"), None, -0.0, 1.0]), (pa.float16(), [2.0, None, None, 0.0, 1.0]), (pa.string(), ["b", None, None, "", "a"]),
        (pa.binary(), [b"b", None, None, b"", b"a"]), (pa.bool_(), [True, None, None, False, False]), (pa.decimal128(5, 2), [Decimal(2), None, None, Decimal(0), Decimal(1)]),
        (pa.date32(), [date(2024, 1, 3), None, None, date(2024, 1, 1), date(2024, 1, 2)]), (pa.timestamp("ns", "UTC"), [2, None, None, 0, 1]),
        (pa.duration("ns"), [2, None, None, 0, 1]), (pa.time64("us"), [2, None, None, 0, 1]), (pa.uint64(), [2**64 - 1, None, None, 0, 1]),
    ],
)  # fmt: skip
def test_values_of_every_type_have_their_place_and_nulls_come_last(type_: pa.DataType, values: list[Any]) -> None:
    assert has_rank(type_)
    table = pa.table({"x": pa.chunked_array([pa.array(values[:2], type_), pa.array(values[2:], type_)])})
    assert z_order(table, ("x",)).tolist() == [3, 4, 0, 1, 2]


@pytest.mark.parametrize("type_", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null(), pa.month_day_nano_interval()])
def test_types_without_an_order_have_no_rank(type_: pa.DataType) -> None:
    assert not has_rank(type_)


def test_a_sixteenth_of_the_rows_holds_a_quarter_of_each_of_two_columns() -> None:
    grid = np.arange(256)
    table = pa.table({"a": np.repeat(grid, 256), "b": np.tile(grid, 256)})
    sixteenth = table.take(pa.array(z_order(table, ("a", "b"))[:4096]))
    assert [max(sixteenth.column(name).to_pylist()) for name in ("a", "b")] == [63, 63]


def test_no_rows_have_no_order() -> None:
    assert z_order(pa.table({"a": pa.array([], pa.int64())}), ("a",)).tolist() == []
