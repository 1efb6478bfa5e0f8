"""Streams out of tables, run by Spark: each row once, whatever becomes of the query, and errors that can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from support.hourly import hours

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: Any) -> None:
    from gapless.spark.source import GaplessSource

    spark.dataSource.register(GaplessSource)


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    """Versions 2 and 3: hours 0 to 2 of A, hour 0 of B."""
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")
    table.append(hours(0, 1, 2, x=1.5))
    table.append(hours(0, sym="B", x=2.5))
    return table


def stream(spark: Any, table: gl.TimeSeriesTable | Path, **options: object) -> Any:
    path = table.url if isinstance(table, gl.TimeSeriesTable) else str(table)
    return spark.readStream.format("gapless").options(**options).load(path)


def into_parquet(frame: Any, folder: Path, **trigger: Any) -> None:
    """All that is there now, into Parquet files, with a checkpoint beside them."""
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(**(trigger or {"availableNow": True})).start(str(folder / "rows"), format="parquet").awaitTermination()


def parquet(folder: Path) -> list[tuple[Any, ...]]:
    """What is in the sink, as DuckDB reads it."""
    files = [str(path) for path in (folder / "rows").glob("*.parquet") if path.stat().st_size]
    with duckdb.connect() as connection:
        return plain(connection.execute(f"select * from read_parquet({files!r})").fetchall())


def scanned(table: gl.TimeSeriesTable) -> list[tuple[Any, ...]]:
    return plain(row.values() for row in table.refresh().scan(columns=["ts", "sym", "x"]).to_arrow().to_pylist())


def plain(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Rows in order, times without the zone that Spark's files leave out."""
    return sorted(tuple(one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in row) for row in rows)


def refusal(frame: Any, folder: Path) -> str:
    """What the exception of a query says that cannot go on."""
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException) as stop:
        into_parquet(frame, folder)
    return str(stop.value)


def test_each_row_is_given_once_over_restarts_appends_and_compactions(
    spark: Any, table: gl.TimeSeriesTable, tmp_path: Path
) -> None:
    sink = tmp_path / "sink"
    into_parquet(stream(spark, table), sink)
    table.append(hours(3, 4, x=3.5))
    table.compact()
    table.append(hours(1, 2, sym="B", x=4.5))
    # Done, but Spark did not get to say so: the batch is run again, and the sink knows it.
    into_parquet(stream(spark, table), sink)
    newest = max((sink / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    into_parquet(stream(spark, table), sink)
    assert parquet(sink) == scanned(table)


def test_what_stops_a_stream_says_its_code_and_what_to_do_and_the_checkpoint_stays_good(
    spark: Any, table: gl.TimeSeriesTable, tmp_path: Path
) -> None:
    sink = tmp_path / "sink"
    into_parquet(stream(spark, table), sink)
    before = scanned(table)
    table.upsert(hours(0, x=9.5))
    table.append(hours(7, x=7.5))
    said = refusal(stream(spark, table), sink)
    assert "[invalid-option]" in said
    assert "version 4 (upsert) changed rows that the stream may have given already" in said
    assert 'Set onDataChange to "skip"' in said
    old = stream(spark, table, onDataChange="skip")
    table.add_column("y", pa.int64())
    said = refusal(old, sink)
    assert "[schema-mismatch]" in said
    assert "Make the DataFrame anew" in said
    assert parquet(sink) == before
    into_parquet(stream(spark, table, onDataChange="skip").drop("y"), sink)
    assert parquet(sink) == sorted([*before, *((row[0], "A", 7.5) for row in scanned(table) if row[2] == 7.5)])


def test_an_error_of_a_task_says_its_code_too(spark: Any, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    for path in (tmp_path / "t" / "data").glob("*.parquet"):
        path.unlink()
    said = refusal(stream(spark, table), tmp_path / "sink")
    assert "[corrupt-table]" in said
    assert "is missing" in said


def test_a_change_feed_is_what_changes_tells(spark: Any, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    table.upsert(hours(0, x=9.5))
    table.delete("sym = 'B'")
    sink = tmp_path / "sink"
    into_parquet(stream(spark, table, changeFeed="true", startingVersion="earliest"), sink)
    table.append(hours(5, x=5.5))
    into_parquet(stream(spark, table, changeFeed="true"), sink)
    expected = plain(row.values() for row in table.changes(1).to_arrow().to_pylist())
    assert parquet(sink) == expected
    assert {row[3] for row in expected} == {"insert", "delete", "update_preimage", "update_postimage"}


def test_limits_are_kept_in_a_query_that_runs_on(spark: Any, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    for at in (3, 4):
        table.append(hours(at, x=float(at)))
    frame, sizes = stream(spark, table, maxFilesPerTrigger=1), list[int]()
    query = frame.writeStream.foreachBatch(lambda rows, _: sizes.append(rows.count())).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    for _ in wait_for(query.trigger(processingTime="0 seconds").start(), lambda: len(sizes) == 4):
        pass
    # A sink that does not look at the rows must not keep the stream from moving on.
    seen = list[int]()
    blind = frame.writeStream.foreachBatch(lambda _, batch: seen.append(batch)).trigger(processingTime="0 seconds")
    for _ in wait_for(blind.start(), lambda: len(seen) == 4):
        pass
    assert sorted(sizes) == [1, 1, 1, 3]
    assert seen == [0, 1, 2, 3]


def wait_for(query: Any, done: Any) -> Iterator[None]:
    """Until it is done, or the query fails; the query is stopped then."""
    try:
        for _ in range(600):
            if done():
                break
            query.awaitTermination(0.1)
            yield
        query.processAllAvailable()
        assert done()
    finally:
        query.stop()


def test_a_table_streams_into_a_table(spark: Any, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    target = gl.create(tmp_path / "target", index="ts", entity="sym", bucket="1h")
    for at in (5, 6):
        table.append(hours(at, x=3.5))
        writer = stream(spark, table).writeStream.format("gapless").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(target.url).awaitTermination()
    assert scanned(target) == scanned(table)


EXACT: dict[str, pa.Array] = {
    "u8": pa.array([0, None, 2**8 - 1], pa.uint8()),
    "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "text": pa.array(["", None, "ü"], pa.large_string()),
    "fixed": pa.array([b"abc", None, b"\x00\x00\x00"], pa.binary(3)),
    "day": pa.array([0, None, -1], pa.date32()),
    "ms": pa.array([0, None, -1], pa.timestamp("ms", "Europe/Paris")),
    "wall": pa.array([0, None, -1], pa.timestamp("us")),
    "money": pa.array([1, None, -1], pa.decimal128(20, 3)),
    "list": pa.array([[1, None], None, []], pa.list_(pa.uint16())),
    "part": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.uint32()), ("b", pa.string())])),
}


def test_every_type_comes_as_a_batch_read_shows_it(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [0, 1, 2], **EXACT})
    into_parquet(stream(spark, table), tmp_path / "sink")
    found = spark.read.parquet(str(tmp_path / "sink" / "rows")).toArrow().sort_by("n")
    expected = gl.spark.read(spark, table).toArrow().sort_by("n")
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.types == expected.schema.types


def test_options_that_are_not_known_are_refused_when_the_dataframe_is_made(spark: Any, table: gl.TimeSeriesTable) -> None:
    with pytest.raises(Exception, match=r"Did you mean 'maxFilesPerTrigger'\?[\s\S]*\[invalid-option\]"):
        stream(spark, table, maxFilePerTrigger=1)
