"""One segment from many runs says of itself what it would say of the rows at once."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.files.ingest.batches import bytes_of
from gapless.files.pages.column_stats import column_stats, index_bounds
from gapless.files.pages.footer import check
from gapless.files.sort.order import Ordered
from gapless.files.sort.run import Run, sort_run
from gapless.files.write import file_writer, segment_encoder
from gapless.files.write.segment_encoder import SegmentEncoder, encode_segment
from gapless.model.index import IndexSpec, IndexType, IntWidth, parse_bucket
from gapless.model.properties import Codec

INDEX = IndexSpec(column="i", type="int64", bucket=IntWidth(10), entity=("k",))
GRID = grid_of(INDEX.bucket, signed=True)
SCHEMA = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        pa.field("k", pa.string(), nullable=False),
        ("x", pa.float64()),
        ("s", pa.string()),
    ]
)


def run_of(rows: list[tuple[Any, ...]]) -> Run:
    columns = [pa.array(list(column), field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return sort_run(pa.Table.from_arrays(columns, schema=SCHEMA), INDEX, GRID)


row = st.tuples(
    st.integers(-1_000, 1_000),
    st.sampled_from("abc"),
    st.none() | st.floats(),
    st.none() | st.sampled_from(["", "x", "y" * 128, "z" * 129, "a" * 200]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(row, min_size=1, max_size=8), min_size=1, max_size=6))
def test_runs_written_one_by_one_make_what_their_rows_make_at_once(runs: list[list[tuple[Any, ...]]]) -> None:
    encoder = SegmentEncoder(SCHEMA, INDEX, "zstd")
    for rows in runs:
        encoder.write(run_of(rows))
    assert encoder.rows == sum(map(len, runs))
    streamed = encoder.finish()
    whole = encode_segment(run_of([row for rows in runs for row in rows]), INDEX, "zstd")
    assert streamed.rows == whole.rows
    assert streamed.bounds == whole.bounds
    assert streamed.coverage == whole.coverage
    said, expected = (segment.stats for segment in (streamed, whole))
    assert {name: (s.nulls, s.nans) for name, s in said.items()} == {name: (s.nulls, s.nans) for name, s in expected.items()}
    assert (said["k"], said["x"]) == (expected["k"], expected["x"])
    # A run whose ends are too long for the log leaves the column without bounds: wider than the rows, never narrower.
    assert said["s"].min in (None, expected["s"].min)
    assert said["s"].max in (None, expected["s"].max)


def test_a_long_text_in_one_run_leaves_the_column_without_bounds() -> None:
    encoder = SegmentEncoder(SCHEMA, INDEX, "zstd")
    encoder.write(run_of([(1, "a", 1.0, "short")]))
    encoder.write(run_of([(2, "a", None, "z" * 129)]))
    encoder.write(run_of([(3, "a", 0.5, None)]))
    stats = encoder.finish().stats
    assert (stats["s"].min, stats["s"].max, stats["s"].nulls) == (None, None, 1)
    assert (stats["x"].min, stats["x"].max, stats["x"].nulls) == (0.5, 1.0, 1)


def test_rows_stream_out_in_row_groups_and_come_back_in_the_order_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "MAX_ROW_GROUP_ROWS", 2_000)
    encoder = SegmentEncoder(SCHEMA, INDEX, "zstd")
    sizes = [encoder.size]
    for start in range(0, 9_000, 900):
        encoder.write(run_of([(i, "a", float(i), None) for i in range(start, start + 900)]))
        sizes.append(encoder.size)
    assert sizes[-1] > sizes[4] > sizes[0], "what fills row groups does not wait for the end"
    segment = encoder.finish()
    file = pq.ParquetFile(io.BytesIO(segment.data), page_checksum_verification=True)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [1_350] * 6 + [900]
    assert file.read().column("i").to_pylist() == list(range(9_000))
    check(bytes(segment.data), segment.checksum, "it")


def test_a_segment_without_rows_is_refused() -> None:
    encoder = SegmentEncoder(SCHEMA, INDEX, "zstd")
    encoder.write(
        Run(
            rows=Ordered(SCHEMA.empty_table()),
            identities=[],
            codes=run_of([(1, "a", None, None)]).codes[:0],
            values=run_of([(1, "a", None, None)]).values[:0],
            ids_of=run_of([(1, "a", None, None)]).ids_of,
        )
    )
    with pytest.raises(ValueError, match="at least one row"):
        encoder.finish()


def test_only_columns_whose_values_repeat_get_a_dictionary() -> None:
    rows = 20_000
    columns: dict[str, list[Any]] = {
        "i": list(range(rows)),
        "k": ["a", "b"] * (rows // 2),
        "x": [i * 0.5 for i in range(rows)],
        "s": [None] * rows,
    }
    table = pa.table(columns, schema=SCHEMA)
    file = pq.ParquetFile(io.BytesIO(encode_segment(sort_run(table, INDEX, GRID), INDEX, "zstd").data))
    group = file.metadata.row_group(0)
    assert [group.column(n).has_dictionary_page for n in range(4)] == [False, True, False, True]
    assert file.read().column("x").to_pylist() == [*columns["x"][::2], *columns["x"][1::2]]


def test_many_small_runs_are_cut_by_what_they_take_and_not_by_what_is_guessed_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_BYTES", 60_000)
    monkeypatch.setattr(segment_encoder, "WORTH_THREADS_BYTES", 50_000)
    guesses: list[bool] = []

    def guessed(rows: pa.Table, enough: int) -> int:
        guesses.append(bytes_of(rows, enough) > rows.nbytes)
        return bytes_of(rows, enough)

    runs = [run_of([(i, "a", float(i), "s") for i in range(start, start + 300)]) for start in range(0, 9_000, 300)]
    made = []
    for measure in (guessed, lambda rows, _: rows.nbytes):
        monkeypatch.setattr(segment_encoder, "bytes_of", measure)
        encoder = SegmentEncoder(SCHEMA, INDEX, "zstd")
        for run in runs:
            encoder.write(run)
        made.append(bytes(encoder.finish().data))
    assert made[0] == made[1]
    assert guesses == [True] * 4, "the first of those that wait together"
    assert pq.ParquetFile(io.BytesIO(made[0])).num_row_groups > 4


KINDS = [
    pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
]  # fmt: skip


@pytest.mark.parametrize("rows", [1, 9, 8_192, 20_001])
@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.uint64(), pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")], ids=str
)
def test_a_segment_says_of_its_rows_what_they_say(rows: int, kind: pa.DataType) -> None:
    dice = np.random.default_rng(rows)
    floats = dice.normal(0, 9, rows)
    floats[dice.random(rows) < 0.3] = -0.0
    floats[dice.random(rows) < 0.1] = np.nan
    numbers = {str(one): pa.array(dice.integers(0, 100, rows)).cast(one) for one in KINDS[:8]}
    some = dice.random(rows) < 0.4
    table = pa.table(
        {
            "i": pa.array(dice.integers(0, 2**31, rows)).cast(kind),
            "k": pa.array(dice.choice(["z", "", "é", "b" * 129], rows)),
            **numbers,
            "float": pa.array(floats.astype(np.float32), mask=some),
            "double": pa.array(floats, mask=some, from_pandas=False),
            "low": pa.array(-(2**63) + dice.integers(0, 9, rows)),
            "none": pa.nulls(rows, pa.int32()),
            "text": pa.array(dice.choice(["one", "two"], rows), mask=some),
        }
    )
    index_type: IndexType = "timestamp" if pa.types.is_timestamp(kind) else "uint64" if kind == pa.uint64() else "int64"
    bucket = parse_bucket("1d" if index_type == "timestamp" else 1_000, index_type)
    index = IndexSpec(column="i", type=index_type, bucket=bucket, entity=("k",))
    run = sort_run(table, index, grid_of(bucket, signed=kind != pa.uint64()))
    codecs: list[Codec] = ["fastest", "balanced", "smallest"]
    for codec in codecs:
        segment = encode_segment(run, index, codec)
        assert segment.stats == column_stats(table, "i")
        assert segment.bounds == index_bounds(table.column("i"))
        file = pq.ParquetFile(io.BytesIO(segment.data), page_checksum_verification=True)
        bits = [file.read().column(name).combine_chunks().view(pa.int64()) for name in ("double", "low")]
        assert bits == [run.table.column(name).combine_chunks().view(pa.int64()) for name in ("double", "low")]
        same = ["k", *numbers, "none", "text"]
        assert file.read().select(same).equals(run.table.select(same))
