"""One segment from many runs says of itself what it would say of the rows at once."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.model.index import IndexSpec, IntWidth
from gapless.parquet import file_writer
from gapless.parquet.checksum import check
from gapless.parquet.ordered import Ordered
from gapless.parquet.run import Run, sort_run
from gapless.parquet.segment_encoder import SegmentEncoder, encode_segment

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
