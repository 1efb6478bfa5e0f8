"""What differs between two sets of rows: exactly, bit for bit, and however the rows come."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.files.compare import row_diff
from gapless.files.compare.keys import row_codes, same_rows, value_codes
from gapless.files.compare.row_diff import CHANGE_TYPE, all_rows, diff_ordered, diff_rows
from gapless.model.index import IndexSpec, parse_bucket

INDEX = IndexSpec(column="at", type="int64", bucket=parse_bucket(10, "int64", None), entity=("who",))
SCHEMA = pa.schema([("who", pa.string()), ("at", pa.int64()), ("x", pa.float64())])

QUIET, OTHER = (np.array([bits], np.uint64).view(np.float64)[0] for bits in (0x7FF8000000000000, 0x7FF8000000000001))


def same_code(values: list[Any], type_: pa.DataType) -> list[int]:
    """For each value, the place of the first one with its code; sliced too, since offsets are easily forgotten."""
    array = pa.array(values, type_)
    codes = list(value_codes(array))
    sliced = list(value_codes(pa.array([values[0], *values], type_).slice(1)))
    first = [codes.index(code) for code in codes]
    assert [sliced.index(code) for code in sliced] == first
    return first


@pytest.mark.parametrize(
    ("values", "type_", "first"),
    [
        ([0.0, -0.0, math.nan, None, math.nan], pa.float64(), [0, 1, 2, 3, 2]),
        ([0.0, -0.0, math.nan, None, math.nan], pa.float32(), [0, 1, 2, 3, 2]),
        ([np.float16(0), np.float16(-0.0), np.float16(1), np.float16(1)], pa.float16(), [0, 1, 2, 2]),
        (["", None, "a", "", None], pa.string(), [0, 1, 2, 0, 1]),
        ([b"", None, b"\0", b"", b"\0\0"], pa.binary(), [0, 1, 2, 0, 4]),
        ([b"ab", None, b"ab"], pa.binary(2), [0, 1, 0]),
        ([True, None, False, True], pa.bool_(), [0, 1, 2, 0]),
        ([Decimal("1.0"), Decimal("1.0"), None], pa.decimal128(5, 1), [0, 0, 2]),
        ([Decimal("1.0"), Decimal("-1.0"), Decimal("1.0")], pa.decimal256(50, 1), [0, 1, 0]),
        ([None, None], pa.null(), [0, 0]),
        ([[1], None, [], [None], [1], None, [1, 1]], pa.list_(pa.int64()), [0, 1, 2, 3, 0, 1, 6]),
        ([[1], None, [], [None], [1]], pa.large_list(pa.int8()), [0, 1, 2, 3, 0]),
        ([[1, 2], None, [1, 2], [0, 0], [None, None]], pa.list_(pa.int64(), 2), [0, 1, 0, 3, 4]),
        ([[[1], [2]], [[1, 2]], [[1], [2]], [[1], None]], pa.list_(pa.list_(pa.int64())), [0, 1, 0, 3]),
        ([[math.nan], [math.nan], [0.0], [-0.0]], pa.list_(pa.float64()), [0, 0, 2, 3]),
        ([{"a": 1, "b": None}, None, {"a": None, "b": None}, {"a": 1, "b": None}], pa.struct([("a", pa.int8()), ("b", pa.string())]), [0, 1, 2, 0]),
        ([[("k", 1)], None, [("k", None)], [], [("k", 1)]], pa.map_(pa.string(), pa.int64()), [0, 1, 2, 3, 0]),
        ([{}, None, {}], pa.struct([]), [0, 1, 0]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)  # fmt: skip
def test_values_have_one_code_exactly_where_they_are_equal(values: list[Any], type_: pa.DataType, first: list[int]) -> None:
    assert same_code(values, type_) == first


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.float64(), [0.0, -0.0, math.nan, None, 1.0]),
        (pa.float16(), [np.float16(0), np.float16(-0.0), np.float16("nan"), None, np.float16(1)]),
        (pa.string(), ["", None, "a", "b", "a"]),
        (pa.bool_(), [True, None, False, True, None]),
        (pa.timestamp("ns", "UTC"), [0, None, 1, 2, 1]),
        (pa.decimal256(50, 1), [Decimal("1.0"), None, Decimal("-1.0"), Decimal("1.0"), None]),
        (pa.list_(pa.float64()), [[0.0], [-0.0], None, [], [math.nan]]),
        (pa.struct([("a", pa.float32())]), [{"a": 0.0}, {"a": -0.0}, None, {"a": None}, {"a": math.nan}]),
    ],
    ids=str,
)
def test_rows_at_the_same_place_are_equal_exactly_where_their_codes_are(type_: pa.DataType, values: list[Any]) -> None:
    for shift in range(len(values)):
        left = pa.table({"k": [1] * len(values), "v": pa.array(values, type_)})
        right = pa.table({"k": [1] * len(values), "v": pa.array(values[shift:] + values[:shift], type_)})
        codes = row_codes(pa.concat_tables([left, right]).columns, 2 * len(values))
        assert list(same_rows(left, right)) == list(codes[: len(values)] == codes[len(values) :])


def test_nans_of_other_bits_are_other_values() -> None:
    assert len(set(value_codes(pa.array(np.array([QUIET, OTHER]))))) == 2


def test_what_lies_behind_a_null_does_not_count() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([1, 2])], names=["a"], mask=pa.array([True, True]))
    assert list(value_codes(hidden)) == [0, 0]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3]), pa.array([1, 2, 3]), mask=pa.array([True, True]))
    assert list(value_codes(lists)) == [0, 0]


def test_rows_are_told_apart_by_all_their_columns() -> None:
    columns = [pa.chunked_array([["a"], ["a", "b"]]), pa.array([1, 2, 1])]
    assert len(set(row_codes(columns, 3))) == 3
    assert list(row_codes([pa.array(["a", "a"]), pa.array([None, None], pa.int64())], 2)) == [0, 0]


# -- differences -----------------------------------------------------------------------------------------------------------

Row = tuple[str, int, float | None]


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def told(changed: pa.Table) -> list[tuple[Any, ...]]:
    assert changed.column_names == [*SCHEMA.names, CHANGE_TYPE]
    return [tuple(row.values()) for row in changed.to_pylist()]


def test_cdc_02_equal_rows_are_no_change() -> None:
    rows: list[Row] = [("A", 1, math.nan), ("A", 2, None), ("B", 1, 0.5), ("B", 1, 0.5)]
    assert told(diff_rows(table(*rows), table(*reversed(rows)), INDEX)) == []


def test_a_changed_row_is_an_update_of_its_key() -> None:
    changed = diff_rows(table(("A", 1, 1.0), ("A", 2, None)), table(("A", 1, 1.0), ("A", 2, 2.0)), INDEX)
    assert told(changed) == [("A", 2, None, "update_preimage"), ("A", 2, 2.0, "update_postimage")]


def test_zero_and_minus_zero_are_a_change() -> None:
    assert len(told(diff_rows(table(("A", 1, 0.0)), table(("A", 1, -0.0)), INDEX))) == 2


def test_another_key_is_a_delete_and_an_insert() -> None:
    changed = diff_rows(table(("B", 1, 1.0)), table(("A", 1, 1.0)), INDEX)
    assert told(changed) == [("A", 1, 1.0, "insert"), ("B", 1, 1.0, "delete")]


def test_rows_are_counted() -> None:
    changed = diff_rows(table(("A", 1, 1.0), ("A", 1, 1.0), ("A", 1, 1.0)), table(("A", 1, 1.0)), INDEX)
    assert told(changed) == [("A", 1, 1.0, "delete")] * 2


def test_within_a_key_deletes_come_first_and_each_postimage_behind_its_preimage() -> None:
    before, after = table(("A", 1, 1.0), ("A", 1, 2.0), ("A", 1, 3.0)), table(("A", 1, 8.0), ("A", 1, 9.0))
    assert [row[2:] for row in told(diff_rows(before, after, INDEX))] == [
        (3.0, "delete"), (1.0, "update_preimage"), (8.0, "update_postimage"), (2.0, "update_preimage"), (9.0, "update_postimage"),
    ]  # fmt: skip
    more = told(diff_rows(after, before, INDEX))
    assert [row[3] for row in more] == ["update_preimage", "update_postimage"] * 2 + ["insert"]


def test_all_rows_of_a_batch_are_one_kind_of_change() -> None:
    assert told(all_rows(table(("A", 1, 1.0)).to_batches()[0], "insert")) == [("A", 1, 1.0, "insert")]


_rows = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 4), st.sampled_from([None, 0.0, -0.0, 1.0, math.nan])), max_size=14
)


def ordered(rows: list[Row], sizes: list[int]) -> list[pa.RecordBatch]:
    """In index order, in batches of these sizes, over and over."""
    whole, at, batches = table(*sorted(rows, key=lambda row: (row[1], row[0]))), 0, []
    for size in sizes * 20:
        batches += whole.slice(at, size).to_batches()
        at += size
    return batches


def bits(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(repr(value) for value in row)


@given(_rows, _rows, st.lists(st.integers(1, 3), min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_streams_of_any_batches_differ_as_multisets_do(
    before: list[Row], after: list[Row], left: list[int], right: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_diff, "PIECE_ROWS", 2)
        tables = list(diff_ordered(ordered(before, left), ordered(after, right), SCHEMA, INDEX))
    changes = [change for one in tables for change in told(one)]
    replay = Counter(map(bits, before))
    for *row, kind in changes:
        replay[bits(tuple(row))] += 1 if kind in ("insert", "update_postimage") else -1
        assert replay[bits(tuple(row))] >= 0
    assert +replay == Counter(map(bits, after))
    lost, won = Counter(map(bits, before)) - Counter(map(bits, after)), Counter(map(bits, after)) - Counter(map(bits, before))
    assert len(changes) == lost.total() + won.total()  # none that another undoes
    assert [row[1] for row in changes] == sorted(row[1] for row in changes)
    for key in {row[:2] for row in changes}:
        kinds = Counter(row[3] for row in changes if row[:2] == key)
        assert kinds["update_preimage"] == kinds["update_postimage"]
        assert not (kinds["insert"] and kinds["delete"])  # they would have been an update


def test_unsigned_indexes_are_compared_whole() -> None:
    index = IndexSpec(column="at", type="uint64", bucket=parse_bucket(1, "uint64", None))
    schema = pa.schema([("at", pa.uint64())])
    one = pa.record_batch({"at": pa.array([2**53, 2**63, 2**64 - 2], pa.uint64())})
    other = pa.record_batch({"at": pa.array([2**53 + 1, 2**63 + 1, 2**64 - 2], pa.uint64())})
    changed = pa.concat_tables(diff_ordered([one], [other], schema, index))
    assert changed["at"].to_pylist() == [2**53, 2**53 + 1, 2**63, 2**63 + 1]


def test_rows_without_an_index_value_come_last() -> None:
    schema = pa.schema([("who", pa.string()), ("at", pa.int64()), ("x", pa.float64())])
    one = pa.record_batch({"who": ["A", "A"], "at": [5, None], "x": [1.0, 1.0]}, schema=schema)
    other = pa.record_batch({"who": ["A", "A"], "at": [6, None], "x": [1.0, 2.0]}, schema=schema)
    changed = pa.concat_tables(diff_ordered([one], [other], schema, INDEX))
    assert changed["at"].to_pylist() == [5, 6, None, None]
