"""Differences of even steps are read as the numbers that they are of."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.files.pages.chunk_values import DeltaBinaryPacked, rises_evenly
from gapless.files.pages.column_chunk import WriterOptions
from gapless.files.pages.encodings import Encodings
from gapless.files.pages.file_assembly import GrowingFile
from gapless.files.sort.order import Ordered
from gapless.files.write.parallel_writer import ParallelWriter

DELTA = "DELTA_BINARY_PACKED"


def file_of(column: pa.Array, ours: bool, monkeypatch: pytest.MonkeyPatch) -> pa.Buffer:
    """A file of the column, whose differences we make or Arrow does."""
    monkeypatch.setattr("gapless.files.pages.flat_column.rises_evenly", lambda values: ours)
    sink = GrowingFile()
    encodings = Encodings(dictionary=False, others={"v": DELTA})
    table = pa.table({"v": column})
    writer = ParallelWriter(sink, table.schema, WriterOptions(compression="none", compression_level=None, encodings=encodings))
    writer.write(Ordered(table), max(1, len(column)), cores=1, meanwhile=lambda: None)
    writer.close()
    return pa.py_buffer(b"".join(sink.pieces))


numbers = st.integers(-(2**63), 2**63 - 1)
stretches = st.lists(st.tuples(numbers, st.integers(-5, 5) | numbers, st.integers(1, 400)), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(stretches, st.lists(st.integers(0, 10_000), max_size=4))
def test_stretches_of_even_steps_are_read_as_they_were_and_take_no_more_bytes_than_arrow_needs(
    parts: list[tuple[int, int, int]], nulls: list[int]
) -> None:
    wrapped = [
        (np.int64(first).astype(np.uint64) + np.arange(count, dtype=np.uint64) * np.int64(step).astype(np.uint64)).view(
            np.int64
        )
        for first, step, count in parts
    ]
    values = np.concatenate(wrapped)
    mask = np.zeros(len(values), np.bool_)
    mask[[at % len(values) for at in nulls]] = True
    column = pa.array(values, mask=mask)
    with pytest.MonkeyPatch.context() as patch:
        ours, arrows = file_of(column, ours=True, monkeypatch=patch), file_of(column, ours=False, monkeypatch=patch)
    assert pq.read_table(pa.BufferReader(ours), page_checksum_verification=True).column("v").combine_chunks().equals(column)
    chunk, other = (pq.read_metadata(pa.BufferReader(file)).row_group(0).column(0) for file in (ours, arrows))
    assert chunk.encodings == other.encodings == ("RLE", DELTA)
    assert chunk.statistics == other.statistics
    assert nulls or chunk.total_compressed_size <= other.total_compressed_size
    assert pl.read_parquet(pa.BufferReader(ours)).get_column("v").to_list() == column.to_pylist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.timestamp("us", "UTC"), pa.duration("ns"), pa.time64("ns")])
@pytest.mark.parametrize("rows", [1_025, 20_000, 20_001, 20_129, 65_000])
def test_pages_of_any_length_are_read_by_others(kind: pa.DataType, rows: int, tmp_path: object) -> None:
    values = np.arange(rows) * 60_000_000 % 86_400_000_000
    column = pa.array(values).view(kind)
    with pytest.MonkeyPatch.context() as patch:
        data = file_of(column, ours=True, monkeypatch=patch)
    path = f"{tmp_path}/file.parquet"
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(data)
    assert pq.read_table(path).column("v").combine_chunks().equals(column)
    read = pl.read_parquet(path).get_column("v").to_physical().to_numpy()
    assert read.astype(np.int64).tolist() == values.tolist()
    with duckdb.connect() as session:
        told = session.sql(f"select count(*), min(v), max(v) from '{path}'").to_arrow_table()
    assert told.column(0).to_pylist() == [rows]
    assert data.size < rows + 1_000


def test_steps_of_many_kinds_are_left_to_arrow() -> None:
    dice = np.random.default_rng(1)
    even = np.arange(10_000) * 7
    assert rises_evenly(even)
    assert rises_evenly(np.concatenate([even] * 3))
    assert not rises_evenly(dice.integers(0, 9, 10_000).cumsum())
    assert not rises_evenly(even[:1_024]), "too few to tell"
    assert not rises_evenly(even[:0])


def test_a_page_without_values_has_a_head_only() -> None:
    assert DeltaBinaryPacked(np.arange(9)).body(3, 3) == bytes([128, 1, 4, 0, 0])
