"""Rows along a curve, in memory and through files on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.files.sort.curve_sort import CURVES, RANK_BITS, Curve, Read, curve_sorted, ranks

ROWS = 60_000


def reading(table: pa.Table, *, batch_rows: int = 1_000) -> Read:
    def read(columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
        yield from (table if columns is None else table.select(columns)).to_batches(max_chunksize=batch_rows)

    return read


def uniform(rows: int = ROWS) -> pa.Table:
    numbers = np.random.default_rng(3)
    return pa.table({"n": np.arange(rows), "a": numbers.integers(0, 10**6, rows), "b": numbers.normal(size=rows)})


def in_order(table: pa.Table, columns: tuple[str, ...], curve: Curve, **options: Any) -> pa.Table:
    return pa.Table.from_batches(list(curve_sorted(reading(table), columns, curve, **options)), table.schema)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("memory", [1 << 30, 200_000])
def test_the_same_rows_come_back_and_files_span_less(curve: Curve, memory: int) -> None:
    table = uniform()
    found = in_order(table, ("a", "b"), curve, memory=memory)
    assert found.sort_by("n").equals(table), "whole rows, each once"
    a, b = (np.array_split(found.column(name).to_numpy(), 100) for name in ("a", "b"))
    box = [x.min() <= 550_000 and x.max() >= 450_000 and y.min() <= 0.1 and y.max() >= -0.1 for x, y in zip(a, b, strict=True)]
    assert 1 <= sum(box) <= (12 if curve == "z" else 8), "of 100 files; unsorted, all of them"


@pytest.mark.parametrize("memory", [1 << 30, 200_000])
def test_one_column_is_sorted_exactly(memory: int) -> None:
    found = in_order(uniform(), ("b",), "hilbert", memory=memory).column("b").to_numpy()
    assert (np.diff(found) >= 0).all()


def test_what_went_through_disk_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = curve_sorted(reading(uniform()), ("a",), "z", memory=200_000)
    next(rows)
    assert list(tmp_path.iterdir()), "it goes through disk"
    rows.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_rows_that_share_one_place_need_no_more_memory_than_others() -> None:
    table = pa.table({"n": np.arange(ROWS), "a": np.zeros(ROWS, dtype=np.int64)})
    batches = list(curve_sorted(reading(table), ("a",), "z", memory=100_000))
    assert max(batch.nbytes for batch in batches) <= 100_000
    assert sorted(n for batch in batches for n in batch.column("n").to_pylist()) == list(range(ROWS))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int64(), [None, -(2**63), -1, 0, 2**63 - 1]), (pa.float64(), [float("nan"), float("-inf"), -1.0, 0.0, float("inf")]),
        (pa.string(), [None, "", "a", "ab", "é"]), (pa.binary(), [None, b"", b"a", b"a\x00", b"\xff"]), (pa.bool_(), [None, False, False, True, True]),
        (pa.decimal128(38, 2), [None, Decimal(-(10**30)), Decimal("-0.01"), Decimal(0), Decimal(10**30)]), (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 1, 1)]),
        (pa.timestamp("us", "UTC"), [None, -(2**60), -1, 0, 2**60]), (pa.timestamp("us"), [None, datetime(1, 1, 1), datetime(1969, 1, 1), datetime(1970, 1, 1), datetime(9999, 1, 1)]),
        (pa.int8(), [None, -128, -1, 0, 127]), (pa.float32(), [None, -1.5, -1.0, -0.0, 1.5]),
    ],
)  # fmt: skip
def test_values_of_every_type_are_in_order_and_what_has_none_comes_last(type_: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"x": pa.array(values, type_), "n": range(5)})
    assert in_order(table, ("x",), "z").column("n").to_pylist() == [1, 2, 3, 4, 0]


def test_a_rank_says_how_many_rows_are_smaller() -> None:
    cuts = pa.array(range(0, 100, 10))
    found = ranks(pa.array([-1, 0, 55, 1_000, None]), cuts)
    top = (1 << RANK_BITS) - 2
    assert found.tolist() == [0, top // 10, 6 * top // 10, top, top + 1]


def test_texts_rank_as_numbers_do() -> None:
    texts = pa.array([f"{number:03}" for number in range(0, 100, 10)])
    asked = pa.array(["", "000", "055", "zz", None])
    assert ranks(asked, texts).tolist() == ranks(pa.array([-1, 0, 55, 1_000, None]), pa.array(range(0, 100, 10))).tolist()


def test_no_rows_come_of_none() -> None:
    table = uniform(0)
    assert list(curve_sorted(reading(table), ("a",), "z")) == []


def test_a_column_of_nulls_orders_nothing() -> None:
    table = pa.table({"x": pa.nulls(5, pa.int64()), "y": [3, 1, 2, 0, None]})
    assert in_order(table, ("x", "y"), "hilbert").column("y").to_pylist() == [0, 1, 2, 3, None]
