"""Each column is encoded in the way that its values deserve."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.coverage.bucket import grid_of
from gapless.model.index import IndexSpec, IntWidth
from gapless.parquet.encodings import Encodings, choose_encodings
from gapless.parquet.run import sort_run
from gapless.parquet.segment_encoder import SegmentEncoder, encode_segment

ROWS = 20_000
DELTA = "DELTA_BINARY_PACKED"
INDEX = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("k",))
GRID = grid_of(INDEX.bucket, signed=True)
DICE = np.random.default_rng(11)


def table(**columns: Any) -> pa.Table:
    return pa.table({"i": pa.array(np.arange(ROWS) // 2), "k": ["a", "b"] * (ROWS // 2)} | columns)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.arange(ROWS) * 0.5, "plain"),
        (np.arange(ROWS) % 100 * 0.5, "dictionary"),
        (pa.nulls(ROWS, pa.string()), "dictionary"),
        (DICE.integers(0, 1_000, ROWS), "dictionary"),
        (DICE.integers(0, 10_000, ROWS), DELTA),
        (DICE.integers(0, 10_000, ROWS).astype(np.uint16), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS), pa.timestamp("ns", "UTC")), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS), pa.duration("ms")), DELTA),
        (pa.array(DICE.integers(0, 10_000, ROWS).astype(np.int32), pa.date32()), DELTA),
        (DICE.integers(0, 10_000, ROWS) * 1_000_003, "dictionary"),
        (DICE.integers(-(2**62), 2**62, ROWS), DELTA),
        (DICE.integers(0, 2**64, ROWS, dtype=np.uint64), DELTA),
        (DICE.integers(0, 2**64, 4_000, dtype=np.uint64)[DICE.integers(0, 4_000, ROWS)], "dictionary"),
    ],
)
def test_a_dictionary_where_values_repeat_and_differences_for_numbers_that_lie_dense(values: Any, wanted: str) -> None:
    chosen = choose_encodings(table(v=values), "i")
    found = "dictionary" if "v" in list(chosen.dictionary) else chosen.others.get("v", "plain")  # type: ignore[arg-type]
    assert found == wanted
    assert chosen.others["i"] == DELTA
    assert "k" in list(chosen.dictionary)  # type: ignore[arg-type]


def test_small_and_nested_tables_get_dictionaries_for_all() -> None:
    everything = Encodings(dictionary=True, others={})
    assert choose_encodings(table().slice(0, 8_191), "i") == everything, "it costs nothing"
    assert choose_encodings(table(n=pa.array([[1]] * ROWS)), "i") == everything


@pytest.mark.parametrize("worth_threads", [1, 1 << 40], ids=["side by side", "one by one"])
def test_a_segment_is_encoded_so_and_reads_as_it_was_written(worth_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.parquet.segment_encoder._WORTH_THREADS_BYTES", worth_threads)
    rows = table(x=np.arange(ROWS) * 0.5, v=DICE.integers(0, 10_000, ROWS), s=pa.nulls(ROWS, pa.string()))
    run = sort_run(rows, INDEX, GRID)
    segment = encode_segment(run, INDEX, "zstd")
    file = pq.ParquetFile(io.BytesIO(segment.data), page_checksum_verification=True)
    columns = [file.metadata.row_group(0).column(n) for n in range(5)]
    assert [column.has_dictionary_page for column in columns] == [False, True, False, False, True]
    assert [DELTA in column.encodings for column in columns] == [True, False, False, True, False]
    assert file.read().equals(run.table)
    assert (segment.bounds.first, segment.bounds.last) == (0, ROWS // 2 - 1)
    assert (segment.stats["k"].min, segment.stats["k"].max, segment.stats["k"].nulls) == ("a", "b", 0)
    assert (segment.stats["x"].min, segment.stats["x"].max) == (0.0, (ROWS - 1) * 0.5)
    assert segment.coverage == run.coverage


def test_an_index_in_no_order_is_not_said_to_rise() -> None:
    run = sort_run(table(), INDEX, GRID)
    clustered = SegmentEncoder(run.table.schema, INDEX, "zstd")
    clustered.write_table(run.table.take(pa.array(np.arange(ROWS)[::-1])), run.coverage)
    data = clustered.finish()
    file = pq.ParquetFile(io.BytesIO(data.data))
    # It has 10,000 values in a range as wide: judged as any other column.
    assert DELTA in file.metadata.row_group(0).column(0).encodings
    assert (data.stats["k"].min, data.stats["k"].max) == ("a", "b"), "not those of the first and the last row"
