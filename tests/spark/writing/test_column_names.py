"""Columns of any name, with dots, backticks, spaces, quotes and letters of any kind, in every function of `gl.spark`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2026, 1, 5, tzinfo=UTC)
INDEX, ENTITY = "at.`time`", "the site.id"
OTHERS = (
    "v.x",
    "`",
    "a`b.c",
    "with space",
    'it\'s "quoted"',
    "größe.№",
    "日本",
    "x;{y}(z)=\t",
    "100%",
    "*",
    "a.*",
    "`quoted`",
    "$1",
)
NESTED = "s.t"


def rows(first: int = 0, count: int = 4, plus: int = 0) -> pa.Table:
    columns: dict[str, Any] = {
        INDEX: pa.array([START + timedelta(hours=first + n) for n in range(count)], pa.timestamp("us", "UTC")),
        ENTITY: ["n.1"] * count,
        NESTED: [{"a.b": n, "c`d": {"e f": str(n)}} for n in range(count)],
    }
    columns |= {name: [place + first + n + plus for n in range(count)] for place, name in enumerate(OTHERS)}
    return pa.table(columns)


def sorted_rows(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().sort_by(INDEX).to_pylist()
    return found


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    return gl.create(tmp_path / "t", index=INDEX, entity=[ENTITY], bucket="1h")


def test_functions_take_and_give_columns_of_any_name(spark: Any, table: gl.TimeSeriesTable) -> None:
    data = rows()
    frame = spark.createDataFrame(data)
    assert gl.spark.write(frame, table).rows == 4
    assert sorted_rows(table) == data.to_pylist()
    assert gl.spark.write(spark.createDataFrame(rows(10)), table, spread=True).rows == 4
    back = gl.spark.read(spark, table, end="2026-01-05T04:00Z", entity={ENTITY: "n.1"})
    assert back.columns == data.schema.names
    assert back.toArrow().sort_by(INDEX).to_pylist() == data.to_pylist()
    assert gl.spark.read(spark, table, columns=list(OTHERS)).columns == list(OTHERS)
    changed = spark.createDataFrame(rows(0, 2, plus=100))
    assert gl.spark.upsert(changed, table).updated_rows == 2
    assert gl.spark.upsert(changed, table, key=[INDEX, ENTITY, "a`b.c"]).updated_rows == 0  # it has them
    assert sorted_rows(table)[:2] == rows(0, 2, plus=100).to_pylist()
    assert gl.spark.replace(frame, table, ("2026-01-05T00:00Z", "2026-01-05T04:00Z"), entity={ENTITY: "n.1"}).rows == 4
    assert gl.spark.delete(spark, table, '"v.x" = 1 AND "with space" = 4').removed_rows == 1
    assert gl.spark.compact(spark, table).bins == 1
    assert sorted_rows(table) == [row for row in (*data.to_pylist(), *rows(10).to_pylist()) if row["v.x"] != 1]
    assert gl.spark.overwrite(gl.spark.read(spark, table), table).rows == 7
    assert table.verify(deep=True).ok


def test_gaps_are_filled_whatever_the_columns_are_called(spark: Any, table: gl.TimeSeriesTable) -> None:
    table.append(rows(0, 1))
    table.append(rows(3, 1))
    data = {hour: rows(hour, 1).to_pylist() for hour in range(4)}

    def fetch(_identity: object, start: datetime, end: datetime) -> pa.Table:
        found = [row for hour, of in data.items() if start <= START + timedelta(hours=hour) < end for row in of]
        return pa.Table.from_pylist(found)

    report = gl.spark.backfill(spark, table, fetch, start="2026-01-05T00:00Z", end="2026-01-05T04:00Z")
    assert report.rows == 2
    assert [row["v.x"] for row in sorted_rows(table)] == [0, 1, 2, 3]


def test_the_format_and_streams_take_columns_of_any_name(spark: Any, tmp_path: Path) -> None:
    data, path = rows(), str(tmp_path / "t")
    frame = spark.createDataFrame(data)
    writer = frame.write.format("gapless").mode("append").option("index", INDEX).option("bucket", "1h")
    writer.option("entity", f'["{ENTITY}"]').save(path)
    assert sorted_rows(gl.open(path)) == data.to_pylist()
    assert spark.read.format("gapless").load(path).toArrow().sort_by(INDEX).to_pylist() == data.to_pylist()
    stream = spark.readStream.format("gapless").load(path)
    write = gl.spark.batch_writer(tmp_path / "copy", index=INDEX, entity=ENTITY, bucket="1h")
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "one"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted_rows(gl.open(tmp_path / "copy")) == data.to_pylist()
    sink = stream.writeStream.format("gapless").option("index", INDEX).option("entity", f'["{ENTITY}"]').option("bucket", "1h")
    sink.option("checkpointLocation", str(tmp_path / "two")).trigger(availableNow=True).start(
        str(tmp_path / "sink")
    ).awaitTermination()
    assert sorted_rows(gl.open(tmp_path / "sink")) == data.to_pylist()


@pytest.fixture
def _case_sensitive(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.usefixtures("_case_sensitive")
def test_names_that_differ_by_case_alone_are_told_apart_where_spark_does(spark: Any, tmp_path: Path) -> None:
    data = pa.table({"ts": pa.array([START], pa.timestamp("us", "UTC")), "v.a": [1], "V.a": [2], "TS": [3]})
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    gl.spark.write(spark.createDataFrame(data), table)
    gl.spark.upsert(spark.createDataFrame(data), table)
    assert table.scan().to_arrow().to_pylist() == data.to_pylist()
    assert gl.spark.read(spark, table).toArrow().to_pylist() == data.to_pylist()
