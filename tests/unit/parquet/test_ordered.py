"""Rows that are put in order as they are asked for are those of a table that was sorted at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.model.index import IndexSpec, IntWidth
from gapless.parquet import run
from gapless.parquet.ordered import Ordered, in_one_chunk
from gapless.parquet.run import sort_run
from gapless.parquet.threads import side_by_side

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


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(row, min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from([("k",), (), ("k", "m")]),
    st.sampled_from([0, 16]),
    st.data(),
)
def test_a_part_is_what_a_stable_sort_puts_there(
    batches: list[list[tuple[Any, ...]]], entity: tuple[str, ...], many: int, data: st.DataObject
) -> None:
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
    assert made.table.schema.equals(SCHEMA)
    assert plain(made.rows.at(np.array([len(rows) - 1]))) == plain(wanted.slice(len(rows) - 1))
    assert made.table is made.table, "it is made once"
    assert made.edge_key(index, -1) == (tuple(wanted[name][-1].as_py() for name in entity), wanted["i"][-1].as_py())


def test_rows_in_order_are_not_copied() -> None:
    index = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("k",))
    table = table_of([(1, "a", None, None, 0), (2, "a", 0.5, [1], 1), (0, "b", 1.5, [], 0)])
    assert sort_run(table, index, grid_of(index.bucket, signed=True)).table is table


@pytest.mark.parametrize("worth", [0, 1 << 40], ids=["side by side", "one by one"])
def test_pieces_of_memory_are_joined(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.parquet.threads.WORTH_THREADS_BYTES", worth)
    table = pa.concat_tables([table_of([(1, "a", None, None, 0)]), table_of([(2, "b", 0.5, [1], 1)])])
    joined = in_one_chunk(table)
    assert joined.equals(table)
    assert [column.num_chunks for column in joined.columns] == [1] * 5
    assert in_one_chunk(joined) is joined
    assert Ordered(table, np.array([1, 0])).table().equals(table.take(pa.array([1, 0])))
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1, lambda: 1 // 0], 1)


def test_many_batches_of_one_row_are_sorted_as_one_batch_is() -> None:
    """As many stretches of one value as rows, though all rows have one value."""
    schema = pa.schema([pa.field("i", pa.int64(), nullable=False), pa.field("k", pa.string(), nullable=False)])
    count = 10_500
    whole = pa.table({"i": np.arange(count)[::-1], "k": ["a"] * count}, schema)
    apart = pa.Table.from_batches(whole.to_batches(max_chunksize=1), schema)
    index = IndexSpec(column="i", type="int64", entity=("k",), bucket=IntWidth(10))
    grid = grid_of(index.bucket, signed=True)
    assert sort_run(apart, index, grid).table.equals(sort_run(whole, index, grid).table)
