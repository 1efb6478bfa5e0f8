"""Keys matched on Arrow columns against Python's own values, and sorted rows joined to sorted rows."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.files.compare.keys import KeySet, can_match, without_rows
from gapless.files.sort.run import merge_runs, sort_run
from gapless.model.index import IndexSpec, IntWidth
from gapless.predicate.expression import to_expression
from gapless.predicate.range import key_bounds

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [None, 0, 1, 2**63 - 1]),
    "f": (pa.float64(), [None, 0.0, -0.0, math.nan, math.inf, 1.5]),
    "h": (pa.float16(), [None, 0.0, -0.0, math.nan, 1.5]),
    "s": (pa.string(), [None, "", "a", "é"]),
    "b": (pa.bool_(), [None, True, False]),
    "d": (pa.date32(), [None, date(2020, 1, 1), date(1969, 12, 31)]),
    "n": (pa.decimal128(9, 2), [None, Decimal("1.10"), Decimal("-0.01")]),
    "t": (pa.timestamp("ns", "UTC"), [None, 0, 2**62]),
    "w": (pa.duration("us"), [None, 0, -5]),
    "u": (pa.uint64(), [None, 0, 2**64 - 1]),
}
NAMES = list(COLUMNS)
row = st.tuples(*(st.sampled_from(values) for _, values in COLUMNS.values()))
tables = st.lists(row, max_size=12)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in NAMES]
    arrays = [pa.array(values, COLUMNS[name][0]) for name, values in zip(NAMES, columns, strict=True)]
    whole = pa.table(dict(zip(NAMES, arrays, strict=True)))
    half = whole.num_rows // 2
    return pa.concat_tables([whole.slice(0, half), whole.slice(half)])


def same(value: Any) -> Any:
    return ("NaN" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value


@given(mine=tables, theirs=tables, columns=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
def test_rows_match_where_pythons_values_do(mine: list[Any], theirs: list[Any], columns: list[str]) -> None:
    def key(one: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(same(one[NAMES.index(name)]) for name in columns)

    keys = KeySet.of(table_of(mine), tuple(columns))
    assert keys.count == len({key(one) for one in mine})
    assert len(set(zip(keys.ids.tolist(), map(key, mine), strict=True))) == keys.count, "a number for each key"
    number = {key(one): place for one, place in zip(mine, keys.ids.tolist(), strict=True)}
    assert keys.match(table_of(theirs)).tolist() == [number.get(key(one), -1) for one in theirs]
    order = list(map(key, mine))
    assert keys.last_rows().tolist() == sorted(len(order) - 1 - order[::-1].index(one) for one in set(order))
    repeated = [key(mine[place]) for place in keys.repeated().tolist()]
    assert sorted(map(repr, repeated)) == sorted({repr(one) for one in order if order.count(one) > 1})
    # What prunes is true of every row that matches.
    bound = key_bounds(table_of(mine), tuple(columns))
    seen = table_of(theirs).append_column("at", pa.array(range(len(theirs)), pa.int64()))
    kept = set(seen.filter(to_expression(bound, seen.schema)).column("at").to_pylist())
    assert {place for place, one in enumerate(theirs) if key(one) in number} <= kept


def test_types_that_have_no_equality_here() -> None:
    assert all(can_match(type_) for type_, _ in COLUMNS.values())
    assert not any(can_match(type_) for type_ in (pa.list_(pa.int8()), pa.struct([("x", pa.int8())]), pa.null()))


@pytest.mark.parametrize("count", [1, 3, 100])
def test_rows_cut_out_of_a_table(count: int) -> None:
    table = pa.table({"x": pa.chunked_array([list(range(120)), list(range(120, 300))])})
    gone = np.sort(np.random.default_rng(count).choice(300, count, replace=False))
    assert without_rows(table, gone).column("x").to_pylist() == [x for x in range(300) if x not in set(gone.tolist())]


INDEX = IndexSpec(column="at", type="int64", bucket=IntWidth(10), entity=("sym", "n"))
stretch = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 2), st.integers(-20, 40)), max_size=30)


@given(rows=stretch, new=stretch, cuts=st.sets(st.integers(0, 30), max_size=4))
def test_runs_are_merged_in_order(rows: list[Any], new: list[Any], cuts: set[int]) -> None:
    """Old rows before new ones where keys are equal; whatever the stretches in which the old ones come."""
    ordered = sorted(rows)
    grid = grid_of(INDEX.bucket)

    def table(some: list[Any], old: bool) -> pa.Table:
        columns = list(zip(*some, strict=True)) or [(), (), ()]
        named = zip(("sym", "n", "at"), columns, (pa.string(), pa.int64(), pa.int64()), strict=True)
        return pa.table(
            {name: pa.array(values, type_) for name, values, type_ in named} | {"old": pa.array([old] * len(some), pa.bool_())}
        )

    edges = [0, *sorted(cut for cut in cuts if cut < len(ordered)), len(ordered)]
    parts = [table(ordered[a:b], True) for a, b in pairwise(edges)]
    runs = list(merge_runs(parts, sort_run(table(new, False), INDEX, grid), INDEX, grid))
    found = [tuple(one.values()) for run in runs for one in run.table.to_pylist()]
    assert found == sorted(
        [*((*one, True) for one in rows), *((*one, False) for one in new)], key=lambda one: (one[:3], not one[3])
    )
    covered = {(identity, bucket) for run in runs for identity, bitmap in run.coverage.items() for bucket in bitmap}
    assert covered == {((sym, n), at // 10 + 2**63) for sym, n, at in [*rows, *new]}
