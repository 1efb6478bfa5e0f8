"""Rows that are put in order as they are asked for are those of a table that was sorted at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.files.sort import run
from gapless.files.sort.order import DictionaryEncoded, Ordered
from gapless.files.sort.run import sort_run
from gapless.model.index import IndexSpec, IntWidth
from gapless.runtime.concurrency import side_by_side

SCHEMA = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("k", pa.string(), nullable=False),
        ("x", pa.float64()),
        ("l", pa.list_(pa.int8())),
        pa.field("m", pa.int8(), nullable=False),
    ]
)
row = st.tuples(
    st.integers(-50, 50),
    st.sampled_from("cab"),
    st.none() | st.floats(),
    st.none() | st.lists(st.integers(0, 9), max_size=2),
    st.integers(-3, 3),
)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def plain(table: pa.Table) -> list[str]:
    """The rows in a form in which NaN equals itself."""
    return [repr(one) for one in table.to_pylist()]


@pytest.fixture(params=["at once", "taken", "scattered"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows as a test has, put into order as few and as many."""
    if request.param != "at once":
        monkeypatch.setattr("gapless.files.sort.run.FEW_ROWS", 0)
        monkeypatch.setattr("gapless.files.sort.order.FEW_ROWS", 0)
    if request.param == "scattered":
        monkeypatch.setattr(run, "_SCATTERED_ROWS", 0)
        monkeypatch.setattr(run, "_WORTH_PLACES", 0)


@pytest.mark.usefixtures("way")
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(row, min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from([("k",), (), ("k", "m")]),
    st.sampled_from([0, 16]),
    st.booleans(),
    st.data(),
)
def test_a_part_is_what_a_stable_sort_puts_there(
    batches: list[list[tuple[Any, ...]]], entity: tuple[str, ...], many: int, rising: bool, data: st.DataObject
) -> None:
    if rising:
        batches = [sorted((one for rows in batches for one in rows), key=lambda one: one[0])]
    index = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=entity)
    usual, run._MANY = run._MANY, max(1, many)
    try:
        made = sort_run(pa.concat_tables([table_of(rows) for rows in batches]), index, grid_of(index.bucket, signed=True))
    finally:
        run._MANY = usual
    rows = [one for rows in batches for one in rows]
    wanted = table_of(sorted(rows, key=lambda one: (*(one[SCHEMA.names.index(name)] for name in entity), one[0])))
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    assert plain(made.rows.columns(["x", "k", "i"], start, end)) == plain(
        wanted.select(["x", "k", "i"]).slice(start, end - start)
    )
    assert plain(made.table) == plain(wanted)
    assert made.values.tolist() == wanted["i"].to_pylist()
    assert made.table.schema.equals(SCHEMA)
    assert plain(made.rows.at(np.array([len(rows) - 1]))) == plain(wanted.slice(len(rows) - 1))
    assert made.table is made.table, "it is made once"
    assert made.edge_key(-1) == (tuple(wanted[name][-1].as_py() for name in entity), wanted["i"][-1].as_py())


def test_rows_in_order_are_not_copied() -> None:
    index = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("k",))
    table = table_of([(1, "a", None, None, 0), (2, "a", 0.5, [1], 1), (0, "b", 1.5, [], 0)])
    assert sort_run(table, index, grid_of(index.bucket, signed=True)).table is table


def test_an_act_that_fails_says_so_side_by_side_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for worth in (0, 1 << 40):
        monkeypatch.setattr("gapless.runtime.concurrency.WORTH_THREADS_BYTES", worth)
        assert side_by_side([lambda: 1, lambda: 2], 1) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            side_by_side([lambda: 1, lambda: 1 // 0], 1)


def test_a_column_that_was_left_loose_is_made_of_its_values() -> None:
    table = pa.table({"k": ["b", "a", "b"], "x": [2, 1, 3]})
    spelled = DictionaryEncoded(pa.array(["a", "b"]), np.array([0, 1, 1], np.uint8))
    ordered = Ordered(table, {"k": spelled}, frozenset("k"))
    assert ordered.table().to_pydict() == {"k": ["a", "b", "b"], "x": [2, 1, 3]}
    assert ordered.columns(["x", "k"], 1, 3).to_pydict() == {"x": [1, 3], "k": ["b", "b"]}
    assert ordered.column("k", 1).to_pylist() == ["b", "b"]
    assert ordered.at(np.array([2, 0])).to_pydict() == {"k": ["b", "a"], "x": [3, 2]}
    assert spelled.ends.to_pylist() == ["a", "b"]
    renamed = ordered.with_schema(table.schema.with_metadata({"a": "b"}))
    assert renamed.table().schema.metadata == {b"a": b"b"}
    assert renamed.table().equals(ordered.table())
    assert Ordered(table, {"k": spelled}).table() is table


def test_many_batches_of_one_row_are_sorted_as_one_batch_is() -> None:
    """As many stretches of one value as rows, though all rows have one value."""
    schema = pa.schema([pa.field("i", pa.int64(), nullable=False), pa.field("k", pa.string(), nullable=False)])
    count = 10_500
    whole = pa.table({"i": np.arange(count)[::-1], "k": ["a"] * count}, schema)
    apart = pa.Table.from_batches(whole.to_batches(max_chunksize=1), schema)
    index = IndexSpec(column="i", type="int64", entity=("k",), bucket=IntWidth(10))
    grid = grid_of(index.bucket, signed=True)
    assert sort_run(apart, index, grid).table.equals(sort_run(whole, index, grid).table)
