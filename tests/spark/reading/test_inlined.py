"""Segments that lie in commits have no file that Spark could read: it gets their rows all the same, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.spark import compact, read
from spark.reading.test_read import COLUMNS, _counts

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def wide(*numbers: int) -> dict[str, Any]:
    return {"n": list(numbers), **COLUMNS}


def inlined(table: gl.TimeSeriesTable) -> list[bool]:
    return [segment.data is not None for segment in table.segments()]


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    """Rows in a file, and the same ones in a commit."""
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append(wide(1, 2, 3))
    table.set_properties({"inline_bytes": 1 << 20})
    table.append(wide(4, 5, 6))
    assert inlined(table) == [False, True]
    return table


def test_every_type_comes_as_from_a_file(spark: Any, table: gl.TimeSeriesTable) -> None:
    frame = read(spark, table)
    stored = read(spark, table, version=2)
    assert frame.schema == stored.schema == read(spark, table, start=4).schema
    rows = frame.orderBy("n").toArrow()
    assert rows.column("n").to_pylist() == [1, 2, 3, 4, 5, 6]
    for name in COLUMNS:
        found = rows.column(name)
        assert _counts(found.slice(3)) == _counts(found.slice(0, 3)), name


def test_ranges_columns_and_counts(spark: Any, table: gl.TimeSeriesTable) -> None:
    assert read(spark, table, start=3, end=6, columns=["n"]).toArrow().column("n").to_pylist() == [3, 4, 5]
    assert read(spark, table, start=5, columns=[]).count() == 2
    assert read(spark, table, columns=[]).count() == 6


def test_tables_that_hold_nothing_else_and_whose_columns_changed(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, properties={"inline_bytes": 1 << 16})
    table.append({"n": [1], "x": pa.array([7], pa.int8())})
    table.rename_column("x", "y")
    table.widen_column("y", pa.int32())
    table.add_column("z", pa.string(), default="?")
    table.append({"n": [2], "y": pa.array([2**20], pa.int32()), "z": ["a"]})
    assert inlined(table) == [True, True]
    found = sorted(read(spark, table).toArrow().to_pylist(), key=lambda row: row["n"])
    assert found == [{"n": 1, "y": 7, "z": "?"}, {"n": 2, "y": 2**20, "z": "a"}]


def test_the_source_the_stream_and_compaction_on_executors(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, properties={"inline_bytes": 1 << 16})
    for number in range(4):
        table.append({"n": [number], "x": [0.5 * number]})
    table.upsert({"n": [1], "x": [9.0]})
    expected = {0: 0.0, 1: 9.0, 2: 1.0, 3: 1.5}
    frame = spark.read.format("gapless").load(str(tmp_path / "t"))
    assert {row["n"]: row["x"] for row in frame.toArrow().to_pylist()} == expected
    stream = (
        spark.readStream.format("gapless").option("startingVersion", 1).option("changeFeed", True).load(str(tmp_path / "t"))
    )
    memory = stream.writeStream.format("memory").queryName("inlined").option("checkpointLocation", str(tmp_path / "c"))
    assert memory.trigger(availableNow=True).start().awaitTermination(120)
    told = sorted((row["_change_type"], row["n"], row["x"]) for row in spark.table("inlined").toArrow().to_pylist())
    appended = [("insert", number, 0.5 * number) for number in range(4)]
    assert told == [*appended, ("update_postimage", 1, 9.0), ("update_preimage", 1, 0.5)]
    assert compact(spark, table).segments_after == 1
    table.refresh()
    assert inlined(table) == [False]
    assert {row["n"]: row["x"] for row in read(spark, table).toArrow().to_pylist()} == expected


def test_what_spark_writes_lies_in_files(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, properties={"inline_bytes": 1 << 16})
    table.append({"n": [0], "x": [0.0]})
    spark.createDataFrame([(1, 1.0), (2, 2.0)], "n bigint, x double").write.format("gapless").mode("append").save(
        str(tmp_path / "t")
    )
    table.refresh()
    kinds = inlined(table)
    assert kinds[0]
    assert not any(kinds[1:])
    assert table.scan(order="index").to_arrow().column("n").to_pylist() == [0, 1, 2]
