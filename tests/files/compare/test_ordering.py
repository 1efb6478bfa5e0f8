"""The newest row of each key, and tuples of columns, against loops over Python's own values."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.files.compare.ordering import can_order, is_older, newest_of_each, ranks

KEYS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)
TUPLES = st.tuples(st.integers(-2, 2), st.sampled_from("abc"))


@given(KEYS)
def test_the_newest_of_each_key_is_the_highest_that_came_last(came: list[tuple[int, int]]) -> None:
    used = sorted({key for key, _ in came})
    keys = np.array([used.index(key) for key, _ in came])
    found = newest_of_each(keys, len(used), np.array([order for _, order in came]))
    highest: dict[int, tuple[int, int]] = {}
    late = dict.fromkeys(used, 0)
    for at, (key, order) in enumerate(came):
        if key in highest and order < highest[key][0]:
            late[key] += 1
        else:
            highest[key] = (order, at)
    assert found.rows.tolist() == [highest[key][1] for key in used]
    assert found.late.tolist() == [late[key] for key in used]
    assert found.count.tolist() == [sum(one == key for one, _ in came) for key in used]
    last = newest_of_each(keys, len(used), None)
    assert last.rows.tolist() == [max(at for at, (one, _) in enumerate(came) if one == key) for key in used]
    assert not last.late.any()


@given(st.lists(st.tuples(TUPLES, st.tuples(st.none() | st.integers(-2, 2), st.none() | st.sampled_from("abc"))), min_size=1))
def test_tuples_are_compared_and_a_null_on_the_right_is_the_oldest(
    pairs: list[tuple[tuple[int, str], tuple[int | None, str | None]]],
) -> None:
    left, right = (
        [pa.chunked_array([[pair[side][at] for pair in pairs]], kind) for at, kind in enumerate((pa.int8(), pa.string()))]
        for side in (0, 1)
    )

    def place(values: tuple[int | None, str | None]) -> tuple[tuple[bool, object], ...]:
        return tuple((value is not None, value if value is not None else 0) for value in values)

    assert is_older(left, right).tolist() == [place(mine) < place(theirs) for mine, theirs in pairs]


@given(st.lists(TUPLES))
def test_ranks_count_the_distinct_rows_before(came: list[tuple[int, str]]) -> None:
    rows = pa.table(
        [pa.array([one for one, _ in came], pa.int64()), pa.array([two for _, two in came], pa.string())], names=["x", "x2"]
    )
    assert ranks(rows).tolist() == [sorted(set(came)).index(one) for one in came]


FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 6e-8, 1.0, math.inf, math.nan, -math.nan])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@given(st.lists(st.tuples(FLOATS, st.none() | FLOATS), min_size=1))
def test_nan_equals_nan_and_is_above_every_number(kind: pa.DataType, pairs: list[tuple[float, float | None]]) -> None:
    def column(side: int) -> pa.ChunkedArray:
        made = [None if pair[side] is None else np.dtype(kind.to_pandas_dtype()).type(pair[side]) for pair in pairs]
        return pa.chunked_array([pa.array(made, kind), pa.array([], kind)])

    def place(value: float | None) -> tuple[int, float]:
        return (0, 0.0) if value is None else (2, 0.0) if math.isnan(value) else (1, value)

    left, right = column(0), column(1)
    assert can_order(kind)
    assert is_older([left], [right]).tolist() == [place(mine) < place(theirs) for mine, theirs in pairs]
    distinct = sorted({place(mine) for mine, _ in pairs})
    assert ranks(pa.table([left], names=["x"])).tolist() == [distinct.index(place(mine)) for mine, _ in pairs]


@pytest.mark.parametrize("kind", [pa.bool_(), pa.list_(pa.int8()), pa.null(), pa.duration("s")])
def test_what_has_no_plain_order_is_refused(kind: pa.DataType) -> None:
    assert not can_order(kind)
