"""Tables that timeseries-table-format 0.9.0 wrote, whose files may hold other types than the log says."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import timeseries_table_format as ttf

import gapless as gl
from gapless.errors import CorruptTable, UnsupportedType
from gapless.spark import read

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2024, 1, 1)


@pytest.fixture
def theirs(tmp_path: Path) -> gl.TimeSeriesTable:
    there = ttf.TimeSeriesTable.create(
        table_root=str(tmp_path / "t"),
        index_column="ts",
        index_type="timestamp",
        index_granularity="1h",
        entity_columns=["sym"],
    )
    times = [START, None, START + timedelta(hours=5, microseconds=7)]
    there.append(
        pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us")),
                "sym": ["A"] * 3,
                "x": pa.array([1, 2, 3], pa.int32()),
                "when": pa.array(times, pa.timestamp("us", "UTC")),
                "code": ["p", None, "q"],
            }
        )
    )
    return gl.open(tmp_path / "t")


def file_of(table: gl.TimeSeriesTable) -> Path:
    (segment,) = table.segments()
    assert segment.footer_checksum is None, "the log of another writer has no checksums"
    return Path(table.url) / segment.path


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=repr)


def check(spark: Any, table: gl.TimeSeriesTable) -> None:
    for request in ({}, {"start": START}, {"end": START + timedelta(hours=5)}, {"columns": ["code", "x"]}):
        arguments: dict[str, Any] = request
        assert rows_of(read(spark, table, **arguments)) == sorted(table.scan(**arguments).to_arrow().to_pylist(), key=repr)


def test_rows_without_an_index_value_are_read_too(spark: Any, theirs: gl.TimeSeriesTable) -> None:
    check(spark, theirs)
    assert read(spark, theirs).count() == 3


def test_files_may_hold_narrower_types_and_other_encodings(spark: Any, theirs: gl.TimeSeriesTable) -> None:
    path = file_of(theirs)
    rows = pq.read_table(path)
    rows = rows.set_column(2, "x", rows.column("x").cast(pa.int16()))
    rows = rows.set_column(3, "when", rows.column("when").cast(pa.timestamp("us", "Asia/Tokyo")))
    rows = rows.set_column(4, "code", rows.column("code").dictionary_encode())
    pq.write_table(rows.append_column("more", pa.nulls(3, pa.float16())), path)
    check(spark, theirs)


def test_a_file_of_wider_values_is_refused(spark: Any, theirs: gl.TimeSeriesTable) -> None:
    path = file_of(theirs)
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(2, "x", rows.column("x").cast(pa.int64())), path)
    with pytest.raises(CorruptTable, match="column 'x' is int32 in the log and int64 in a segment"):
        read(spark, theirs)
    assert read(spark, theirs, columns=["code"]).count() == 3


def test_times_stored_as_int96_are_refused(spark: Any, theirs: gl.TimeSeriesTable) -> None:
    path = file_of(theirs)
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedType, match=r"column 'ts' of segment .* is stored as INT96"):
        read(spark, theirs)
    assert read(spark, theirs, columns=["code"]).count() == 3
