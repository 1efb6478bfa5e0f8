"""Every way to find an order finds the one that a stable sort has."""

from __future__ import annotations

import decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.sort import order as row_order
from gapless.files.sort.order import Order, can_scatter, order_of, put_in_order, raw_values

FAR = [-(2**63), -(2**63) + 1, -1, 0, 1, 1_000, 2**40, 2**62, 2**63 - 1]


@pytest.fixture(params=["few rows", "many rows"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows as a test has, taken as few and as many, in several blocks."""
    if request.param == "many rows":
        monkeypatch.setattr(row_order, "FEW_ROWS", 0)
        monkeypatch.setattr(row_order, "_BLOCK_ROWS", 4)
        monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", 0)


def wanted(codes: list[int], values: list[int]) -> list[int]:
    return sorted(range(len(codes)), key=lambda row: (codes[row], values[row]))


def rows_of(order: Order | None, count: int) -> list[int]:
    return list(range(count)) if order is None else order.rows.tolist()


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int64])
@pytest.mark.parametrize("scatter", [False, True])
@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3) | st.sampled_from(FAR)), min_size=1, max_size=30),
    rising=st.booleans(),
    unsigned=st.booleans(),
)
def test_an_order_is_stable_by_code_and_value(
    kind: type[Any], scatter: bool, rows: list[tuple[int, int]], rising: bool, unsigned: bool
) -> None:
    codes = [code for code, _ in rows]
    values = [value + 2**63 if unsigned else value for _, value in rows]
    values = sorted(values) if rising else values
    order = order_of(np.array(codes, kind), np.array(values, np.uint64 if unsigned else np.int64), 6, scatter=scatter)
    assert rows_of(order, len(rows)) == wanted(codes, values)
    assert (order is None) == (list(zip(codes, values, strict=True)) == sorted(zip(codes, values, strict=True)))
    if order is not None:
        assert order.codes.tolist() == sorted(codes)
        assert order.codes.dtype == kind
        assert (order.places is not None) == (scatter and values == sorted(values))


@pytest.mark.parametrize("step", [1, 10**3, 10**9])
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_values_with_more_bits_than_there_is_room_for_are_ordered_too(step: int, near: bool, count: int) -> None:
    """64 bits have no room for a position beside values that lie so far apart: those that differ in their last bits are told apart then."""
    dice = np.random.default_rng(step)
    values = dice.integers(-(2**62) // step, 2**62 // step, 40) * step
    if near:
        values[5:35] = values[5] + dice.integers(-2, 2, 30)
    values[:2] = -(2**63), 2**63 - 1
    codes = dice.integers(0, count, 40).astype(np.uint8)
    assert row_order._by_packed(codes, values, count).tolist() == wanted(codes.tolist(), values.tolist())
    shifted = (values.view(np.uint64) ^ np.uint64(2**63)).copy()
    assert row_order._by_packed(codes, shifted, count).tolist() == wanted(codes.tolist(), values.tolist())


COLUMNS = {
    "i8": pa.array([1, -2, 3, -4, 5, 6], pa.int8()),
    "u16": pa.array([1, 2, 3, 2**16 - 1, 5, 6], pa.uint16()),
    "i32": pa.array([1, -2, 3, -4, 5, 2**31 - 1], pa.int32()),
    "u64": pa.array([1, 2**64 - 1, 3, 4, 5, 6], pa.uint64()),
    "f16": pa.array(np.array([0.5, -0.0, 0.0, np.nan, np.inf, 1.5], np.float16)),
    "f32": pa.array([0.5, -0.0, 0.0, float("nan"), float("-inf"), 1.5], pa.float32()),
    "f64": pa.array([0.5, -0.0, 0.0, float("nan"), float("inf"), 5e-324]),
    "odd NaN": pa.array(np.array([1, 0x7FF8000000000001, 0xFFF0000000000003, 2, 3, 4], np.uint64).view(np.float64)),
    "date": pa.array([1, 2, 3, 4, 5, -6], pa.date32()),
    "date64": pa.array([86_400_000 * day for day in range(6)], pa.date64()),
    "time": pa.array([1, 2, 3, 4, 5, 6], pa.time32("ms")),
    "time64": pa.array([1, 2, 3, 4, 5, 6], pa.time64("ns")),
    "zoned": pa.array([1, 2, 3, 4, 5, -6], pa.timestamp("ns", "Europe/Rome")),
    "span": pa.array([1, 2, 3, 4, 5, -6], pa.duration("s")),
    "money": pa.array([decimal.Decimal("1.25")] * 5 + [decimal.Decimal("-9.99")], pa.decimal64(10, 2)),
    "long money": pa.array([decimal.Decimal("1.25")] * 5 + [decimal.Decimal("-9.99")], pa.decimal128(20, 2)),
    "null": pa.array([None, 2, 3, None, 5, 6], pa.int64()),
    "nulls": pa.nulls(6),
    "flag": pa.array([True, False, None, True, False, True]),
    "text": pa.array(["a", "", None, "bc", "é", "a"]),
    "list": pa.array([[1], None, [], [2, None], [3], [4]], pa.list_(pa.int8())),
    "kind": pa.array(["a", "b", "a", None, "b", "a"]).dictionary_encode(),
}
SCATTERABLE = {
    "i8",
    "u16",
    "i32",
    "u64",
    "f16",
    "f32",
    "f64",
    "odd NaN",
    "date",
    "date64",
    "time",
    "time64",
    "zoned",
    "span",
    "money",
}


@pytest.mark.parametrize("pieces", [[0, 6], [0, 1, 4, 6], [0, 0, 6, 6]])
@pytest.mark.parametrize("sliced", [0, 1])
def test_columns_of_every_type_come_out_as_they_are_taken_one_by_one(
    pieces: list[int], sliced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.files.sort.order.FEW_ROWS", 0)
    whole = pa.table(COLUMNS)
    table = pa.concat_tables([whole.slice(a, b - a) for a, b in pairwise(pieces)]).slice(sliced)
    rows = np.random.default_rng(sliced).permutation(table.num_rows)
    places = np.empty(len(rows), np.int64)
    places[rows] = np.arange(len(rows))
    expected = table.take(pa.array(rows))
    assert {name for name in COLUMNS if can_scatter(table.column(name))} == SCATTERABLE
    for order in (Order(rows, rows), Order(rows, places=places)):
        made = put_in_order(table, order, {"u16"})
        assert made.column("u16").equals(table.column("u16")), "it was left as it lay"
        for name in COLUMNS.keys() - {"u16"}:
            assert bits(made.column(name)) == bits(expected.column(name)), name
        assert made.schema.equals(table.schema)
        assert order.rows.tolist() == rows.tolist()


def test_few_rows_are_taken_at_once() -> None:
    table = pa.table(COLUMNS)
    made = put_in_order(table, Order(np.arange(6), np.arange(6)[::-1].copy()), {"u16"})
    assert [bits(made.column(name)) for name in COLUMNS] == [
        bits(table.take(list(range(5, -1, -1))).column(name)) for name in COLUMNS
    ]


def bits(column: pa.ChunkedArray) -> list[Any]:
    """Values in a form in which a NaN is the same as one of the same bits, and -0.0 not as 0.0."""
    if can_scatter(column):
        return [number for chunk in column.chunks for number in raw_values(chunk).tolist()]
    return list(column.to_pylist())
