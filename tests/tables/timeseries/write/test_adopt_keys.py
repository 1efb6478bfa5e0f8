"""What is found out about key columns batch by batch is what sorting them finds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.coverage.bucket import index_grid
from gapless.files.adopt import keys
from gapless.files.adopt.keys import KeyScan
from gapless.files.pages.column_stats import index_bounds
from gapless.files.sort.run import sort_run
from gapless.model.index import IndexSpec
from gapless.tables.timeseries.lifecycle import parse_index

TIME = parse_index("i", "timestamp", "1h", ("a", "b"), None)
LOCAL = parse_index("i", "timestamp", "1d", ("a", "b"), "America/New_York")
NUMBER = parse_index("i", "uint64", "7", (), None)
HOUR = 3_600_000_000
ROW = st.tuples(
    st.one_of(st.integers(-50, 50), st.integers(0, 3).map(lambda hour: hour * HOUR), st.integers(-(2**40), 2**48)),
    st.sampled_from(["", "a", "b", "é", "€"]),
    st.integers(-2, 3),
)


@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.booleans(),
    st.integers(1, 61),
    st.sampled_from([1, 2, 7, 1 << 15]),
    st.sampled_from([TIME, LOCAL, NUMBER]),
)
def test_the_same_as_sorting(found: list[tuple[int, str, int]], sort: bool, size: int, piece: int, index: IndexSpec) -> None:
    number = index is NUMBER
    if sort:
        found = sorted(found, key=lambda row: (() if number else row[1:], abs(row[0]) if number else row[0]))
    kind = pa.uint64() if number else pa.timestamp("us", "UTC")
    table = pa.table(
        {
            "a": [row[1] for row in found],
            "b": pa.array([row[2] for row in found], pa.int8()),
            "i": pa.array([abs(row[0]) if number else row[0] for row in found], kind),
        }
    )
    grid = index_grid(index)
    run = sort_run(table, index, grid)
    scan = KeyScan(index, grid)
    # Batches with dictionaries of their own, as a file has them by row group.
    for at in range(0, len(found), size):
        part = table.slice(at, size)
        part = part.set_column(0, "a", pc.dictionary_encode(part["a"].combine_chunks()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys, "_PIECE_ROWS", piece)
            for batch in part.to_batches():
                scan.add(batch)
    assert (scan.rows, scan.in_order) == (len(found), run.table is table)
    assert scan.coverage == run.coverage
    assert scan.bounds == index_bounds(table["i"])


@pytest.mark.parametrize("bucket", ["1us", "1h"])
def test_many_identities_and_buckets(bucket: str) -> None:
    index = parse_index("i", "timestamp", bucket, ("a",), None)
    rows = 100_000
    table = pa.table(
        {
            "a": pa.array([f"s{at * 7919 % 9_973}" for at in range(rows)]).dictionary_encode(),
            "i": pa.array(range(rows), pa.int64()).cast(pa.timestamp("us")),
        }
    )
    grid = index_grid(index)
    scan = KeyScan(index, grid)
    for batch in table.to_batches(max_chunksize=1 << 14):
        scan.add(batch)
    plain = table.set_column(0, "a", table["a"].cast(pa.string()))
    assert scan.coverage == sort_run(plain, index, grid).coverage
