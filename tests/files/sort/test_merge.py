"""The merge of sorted runs is the stable sort of all their rows in order of arrival, and waits for pieces alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import grid_of
from gapless.files.sort.merge import MOST_RUNS, CompressedRun, merge, pieces_of
from gapless.files.sort.run import sort_run
from gapless.model.index import IndexSpec, parse_bucket

INDEX = IndexSpec(column="ts", type="int64", bucket=parse_bucket("10", "int64", None), entity=("id",))
ALONE = IndexSpec(column="ts", type="int64", bucket=parse_bucket("10", "int64", None), entity=())
GRID = grid_of(INDEX.bucket, signed=True)
Keys = list[tuple[int, int]]
"""Identity and index value."""


def table_of(keys: Keys, first: int) -> pa.Table:
    """Rows with these keys, and their number in order of arrival."""
    identities, values = [f"id {identity}" for identity, _ in keys], [value for _, value in keys]
    numbers = range(first, first + len(keys))
    columns = {"id": pa.array(identities, pa.string()), "ts": pa.array(values, pa.int64()), "n": pa.array(numbers, pa.int64())}
    return pa.table(columns)


def cut(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """A table in pieces of so many rows."""
    return (table.slice(start, rows) for start in range(0, table.num_rows, rows))


@given(
    runs=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), max_size=12), min_size=1, max_size=5),
    piece=st.integers(1, 5),
    alone=st.booleans(),
)
def test_rows_come_in_one_order_and_equal_keys_as_they_arrived(runs: list[Keys], piece: int, alone: bool) -> None:
    index = ALONE if alone else INDEX
    tables = [table_of(keys, sum(map(len, runs[:number]))) for number, keys in enumerate(runs)]
    parts = [cut(sort_run(table, index, GRID).table, piece) for table in tables if table.num_rows]
    merged = list(merge(parts, index, GRID))
    given_keys = [key for keys in runs for key in keys]
    wanted = sorted(range(len(given_keys)), key=lambda row: (0 if alone else given_keys[row][0], given_keys[row][1]))
    assert [n for run in merged for n in run.table["n"].to_pylist()] == wanted
    assert all(run.rows.count for run in merged)
    assert all(before.edge_key(-1) <= after.edge_key(0) for before, after in pairwise(merged))
    if given_keys:
        whole = sort_run(pa.concat_tables(tables), index, GRID)
        assert CoverageMap.union_of([run.coverage for run in merged]) == whole.coverage


def test_a_run_that_waits_comes_back_as_it_was() -> None:
    dice = np.random.default_rng(3)
    count = 10_000
    rows = pa.table(
        {"id": pa.array(dice.integers(0, 9, count).astype(str)), "ts": dice.integers(0, 99, count), "n": np.arange(count)}
    )
    run = sort_run(rows.append_column("t", pa.array([None, "x"] * (count // 2))), INDEX, GRID)
    waiting = CompressedRun.of(run)
    back = list(waiting.pieces())
    assert (waiting.rows, len(back)) == (count, MOST_RUNS)
    assert pa.concat_tables(back).combine_chunks().equals(run.table.combine_chunks())
    assert waiting.data.size < run.table.nbytes // 2


def test_only_pieces_are_held() -> None:
    """Of each run no more than one piece is read ahead of what was given out."""
    tables = [table_of([(0, 2 * value + number) for value in range(1_000)], number) for number in range(2)]
    drawn = [0, 0]

    def counted(number: int) -> Iterator[pa.Table]:
        for piece in cut(tables[number], 10):
            drawn[number] += piece.num_rows
            yield piece

    given_out = 0
    for run in merge([counted(0), counted(1)], INDEX, GRID):
        given_out += run.rows.count
        assert sum(drawn) - given_out <= 2 * 10 + 10
    assert given_out == 2_000


@pytest.mark.parametrize("rows", [1, MOST_RUNS - 1, MOST_RUNS, MOST_RUNS + 1, 1000])
def test_pieces_are_all_rows_in_a_bounded_number(rows: int) -> None:
    run = sort_run(table_of([(0, value) for value in range(rows)], 0), INDEX, GRID)
    found = list(pieces_of(run))
    assert len(found) <= MOST_RUNS
    assert pa.concat_tables(found).equals(run.table)
