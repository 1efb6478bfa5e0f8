"""Streams into a table, by `writeStream.format("gapless")` and by `foreachBatch`: each batch once, whatever becomes of the query."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import InvalidOption, LogWarning, NotSupported, TableNotFound, UnknownColumn
from gapless.spark.setup.options import NewTable
from gapless.spark.stream.batch_writer import batch_writer
from gapless.spark.writing.append import open_or_create
from spark.kinds import BOTH_KINDS, Series, TableKind, live_files

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

BOTH = pytest.mark.parametrize("sink", ["format", "foreachBatch"])
BOTH_IN_TIME = pytest.mark.parametrize("sink", ["foreachBatch", pytest.param("format", marks=pytest.mark.long)])
"""Both, the slower one in `make test-all`."""


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


class Feed:
    """A folder of files that a stream reads, one batch each, in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        folder.mkdir()

    def drop(self, *batches: list[int]) -> None:
        """Add one file for each list of numbers."""
        for numbers in batches:
            path = self.folder / f"{self.count:04}.json"
            path.write_text("".join(json.dumps({"n": n, "v": n * 10}) + "\n" for n in numbers))
            os.utime(path, (1_700_000_000 + self.count, 1_700_000_000 + self.count))
            self.count += 1

    def read(self, spark: Any) -> Any:
        return spark.readStream.schema("n bigint, v bigint").option("maxFilesPerTrigger", 1).json(str(self.folder))


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "feed")


BY_KIND = pytest.mark.parametrize("kind", BOTH_KINDS)
"""Tables of both kinds; without it, time-series tables."""


@pytest.fixture
def kind() -> TableKind:
    return Series()


@pytest.fixture
def table(kind: TableKind, tmp_path: Path) -> Any:
    return kind.create(tmp_path / "t")


def run(frame: Any, sink: str, path: Path | str, checkpoint: Path, *, mode: str = "append", **options: str) -> str:
    """All that is there now, as batches into the table, until none is left; gives the id of the query."""
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if sink == "format":
        query = writer.format("gapless").options(**options).start(str(path))
    else:
        names = {"appId": "app_id", "onOverlap": "on_overlap"}
        known: dict[str, Any] = {names.get(name, name): value for name, value in options.items()}
        query = writer.foreachBatch(batch_writer(path, mode, **known)).start()  # type: ignore[arg-type]
    query.awaitTermination()
    return str(query.id)


def refusal(call: Callable[[], object]) -> str:
    """What the user reads of a query that failed."""
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        call()
    return str(failed.value)


def rows_of(table: Any) -> list[tuple[int, int]]:
    """Read by pyarrow from the files that the log names."""
    files = [Path(table.url) / path for path in live_files(table)]
    return sorted((row["n"], row["v"]) for file in files for row in pq.read_table(file).to_pylist())


def rows(*numbers: int) -> list[tuple[int, int]]:
    return sorted((n, n * 10) for n in numbers)


def forget_newest(checkpoint: Path) -> Path:
    """Delete Spark's word that its newest batch is done."""
    newest = max((one for one in (checkpoint / "commits").iterdir() if one.name.isdecimal()), key=lambda one: int(one.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    return newest


# -- each batch once ---------------------------------------------------------------------------------------------------


@BY_KIND
@BOTH_IN_TIME
def test_eo_03_a_restart_goes_on_and_a_batch_sent_again_is_there_once(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any, sink: str
) -> None:
    checkpoint = tmp_path / "chk"
    feed.drop([1, 2], [3], [4, 5, 6])
    run(feed.read(spark), sink, tmp_path / "t", checkpoint)
    assert rows_of(table) == rows(1, 2, 3, 4, 5, 6)
    made = kind.first
    assert table.version == made + 1 + 3, "the table, the trace of the query, three batches"
    done = forget_newest(checkpoint)
    run(feed.read(spark), sink, tmp_path / "t", checkpoint)
    assert done.exists(), "Spark did not send the batch again, so this tests nothing"
    assert (rows_of(table), table.version) == (rows(1, 2, 3, 4, 5, 6), made + 4)
    done = forget_newest(checkpoint)
    feed.drop([7], [6])
    run(feed.read(spark), sink, tmp_path / "t", checkpoint)
    assert done.exists()
    assert (rows_of(table), table.version) == (rows(1, 2, 3, 4, 5, 6, 6, 7), made + 6)
    assert table.verify(deep=True).ok
    if kind.name == "timeseries":
        instants = {segment.path.rpartition("_")[2] for segment in table.segments()}
        assert len(instants) == 5, "each batch names its files by its own time"


@BY_KIND
@BOTH_IN_TIME
def test_a_lost_checkpoint_is_refused_and_goes_on_under_the_old_name(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any, sink: str
) -> None:
    checkpoint = tmp_path / "chk"
    feed.drop([1, 2], [3])
    lost = run(feed.read(spark), sink, tmp_path / "t", checkpoint)
    shutil.rmtree(checkpoint)
    message = refusal(lambda: run(feed.read(spark), sink, tmp_path / "t", checkpoint))
    assert f"its checkpoint lies at {checkpoint}, where query {lost} had its own" in message
    assert f"Pass app_id='{lost}'" in message
    assert "[stream-restarted]" in message
    assert (rows_of(table), table.version) == (rows(1, 2, 3), kind.first + 3)
    feed.drop([4])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(feed.read(spark), sink, tmp_path / "t", checkpoint, appId=lost)
    assert rows_of(table) == rows(1, 2, 3, 4)
    if sink == "foreachBatch":  # the other one says it in a process of Spark's
        told = [str(one.message) for one in said if one.category is LogWarning]
        assert len(told) == 1
        assert "2 batches of query" in told[0]


@BY_KIND
def test_the_same_app_id_at_a_new_location_passes_over_what_is_there(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any
) -> None:
    feed.drop([1], [2], [3])
    run(feed.read(spark), "foreachBatch", tmp_path / "t", tmp_path / "one", appId="meters")
    feed.drop([4], [5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)
        run(feed.read(spark), "foreachBatch", tmp_path / "t", tmp_path / "two", appId="meters")
    assert rows_of(table) == rows(1, 2, 3, 4, 5)


@BY_KIND
def test_a_checkpoint_of_another_table_is_refused(spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any) -> None:
    feed.drop([1], [2])
    run(feed.read(spark), "format", tmp_path / "t", tmp_path / "chk")
    other = kind.create(tmp_path / "other")
    feed.drop([3])
    message = refusal(lambda: run(feed.read(spark), "format", tmp_path / "other", tmp_path / "chk"))
    assert "batch 2 is the first that the table sees of query" in message
    assert rows_of(other) == []
    run(feed.read(spark), "format", tmp_path / "other", tmp_path / "chk", appId="from here on")
    assert rows_of(other) == rows(3)


def test_two_queries_into_one_table_keep_apart(spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable) -> None:
    second = Feed(tmp_path / "second")
    feed.drop([1], [2, 3])
    second.drop([1, 4], [5])
    for _ in range(2):
        run(feed.read(spark), "format", tmp_path / "t", tmp_path / "one")
        run(second.read(spark), "format", tmp_path / "t", tmp_path / "two")
        forget_newest(tmp_path / "one")
        forget_newest(tmp_path / "two")
    assert rows_of(table) == rows(1, 2, 3, 1, 4, 5)


@BY_KIND
def test_two_queries_at_once_lose_and_double_nothing(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any
) -> None:
    second = Feed(tmp_path / "second")
    feed.drop(*([n] for n in range(5)))
    second.drop(*([100 + n] for n in range(5)))
    write = batch_writer(table)
    queries = [
        one.read(spark).writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / name)).start()
        for name, one in (("one", feed), ("two", second))
    ]
    try:
        for query in queries:
            query.processAllAvailable()
    finally:
        for query in queries:
            query.stop()
    assert rows_of(table) == rows(*range(5), *range(100, 105))
    files = [f"{table.url}/{path}" for path in live_files(table)]
    assert duckdb.execute("select count(*), sum(v) from read_parquet($1)", [files]).fetchone() == (10, 5200)


@BY_KIND
def test_batches_without_rows_are_recorded(spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any) -> None:
    feed.drop([1], [2], [30])
    run(feed.read(spark).where("n > 10"), "format", tmp_path / "t", tmp_path / "chk")
    assert rows_of(table) == rows(30)
    assert table.version == kind.first + 1 + 3
    run(feed.read(spark).where("n > 10"), "format", tmp_path / "t", tmp_path / "chk")
    feed.drop([40])
    run(feed.read(spark).where("n > 10"), "format", tmp_path / "t", tmp_path / "chk")
    assert rows_of(table) == rows(30, 40)


def test_a_checkpoint_that_spark_deletes_with_its_query_is_not_recorded(
    spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable
) -> None:
    feed.drop([1])
    for _ in range(2):
        feed.read(spark).writeStream.foreachBatch(batch_writer(table)).trigger(availableNow=True).start().awaitTermination()
    assert rows_of(table) == rows(1, 1)
    assert table.version == 1 + 2


# -- modes -------------------------------------------------------------------------------------------------------------


@BY_KIND
@BOTH_IN_TIME
def test_in_complete_mode_each_batch_takes_the_place_of_all_rows(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any, sink: str
) -> None:
    def once_only() -> Any:
        return feed.read(spark).groupBy("n").count().where("count = 1").selectExpr("n", "n * 10 as v")

    feed.drop([1, 2, 3], [3, 4])
    run(once_only(), sink, tmp_path / "t", tmp_path / "chk", mode="complete")
    assert rows_of(table) == rows(1, 2, 4)
    before = table.version
    forget_newest(tmp_path / "chk")
    run(once_only(), sink, tmp_path / "t", tmp_path / "chk", mode="complete")
    assert (rows_of(table), table.version) == (rows(1, 2, 4), before)
    feed.drop([1, 2, 4])
    run(once_only(), sink, tmp_path / "t", tmp_path / "chk", mode="complete")
    assert rows_of(table) == [], "a result without rows empties the table"
    assert table.version == before + 1


@BY_KIND
def test_in_update_mode_each_batch_upserts_by_key(spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any) -> None:
    def counts() -> Any:
        return feed.read(spark).groupBy("n").count().toDF("n", "v")

    feed.drop([1, 2, 3], [3, 4, 3])
    run(counts(), "foreachBatch", tmp_path / "t", tmp_path / "chk", mode="update", key="n")
    assert rows_of(table) == [(1, 1), (2, 1), (3, 3), (4, 1)]
    before = table.version
    done = forget_newest(tmp_path / "chk")
    run(counts(), "foreachBatch", tmp_path / "t", tmp_path / "chk", mode="update", key="n")
    assert done.exists()
    assert table.refresh().version == before
    feed.drop([], [4, 5])
    run(counts(), "foreachBatch", tmp_path / "t", tmp_path / "chk", mode="update", key="n")
    assert rows_of(table) == [(1, 1), (2, 1), (3, 3), (4, 2), (5, 1)]


def test_update_mode_of_a_python_sink_is_refused_by_spark(
    spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable
) -> None:
    feed.drop([1])
    counts = feed.read(spark).groupBy("n").agg({"v": "max"}).toDF("n", "v")
    message = refusal(lambda: run(counts, "format", tmp_path / "t", tmp_path / "chk", mode="update"))
    # Spark asks nothing of ours before: the documentation names batch_writer(mode="update").
    assert "gapless does not support Update mode" in message
    assert table.refresh().version == 1


@pytest.mark.parametrize(("mode", "output"), [("append", "complete"), ("complete", "append")])
def test_a_mode_that_is_not_that_of_the_query_is_refused(
    spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable, mode: Any, output: str
) -> None:
    feed.drop([1], [2])
    frame = feed.read(spark) if output == "append" else feed.read(spark).groupBy("n").count().toDF("n", "v")
    writer = frame.writeStream.outputMode(output).foreachBatch(batch_writer(table, mode)).trigger(availableNow=True)
    message = refusal(lambda: writer.option("checkpointLocation", str(tmp_path / "chk")).start().awaitTermination())
    assert f"mode='{mode}' cannot be taken here. The query is in {output} mode" in message
    assert "[invalid-option]" in message
    assert table.refresh().version == 1


@BY_KIND
def test_eo_05_a_second_part_of_a_batch_needs_a_name_of_its_own(
    spark: Any, tmp_path: Path, kind: TableKind, feed: Feed, table: Any
) -> None:
    low, high = batch_writer(table), batch_writer(table.url, "update", key="n")

    def both(frame: Any, batch: int) -> None:
        low(frame.where("n < 10"), batch)
        high(frame.where("n >= 10"), batch)

    def go(write: Any) -> list[str]:
        writer = feed.read(spark).writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "chk"))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            writer.trigger(availableNow=True).start().awaitTermination()
        return [str(one.message) for one in said if one.category is LogWarning]

    feed.drop([1, 10])
    for _ in range(2):
        message = refusal(lambda: go(both))
        assert f"batch 0 comes to {table.url} a second time in one run of the query" in message
        assert "[invalid-option]" in message
        assert rows_of(table) == rows(1)
    high = batch_writer(table, "update", key="n", app_id="high")
    assert go(both) == [], "another run may send a batch again"
    assert rows_of(table) == rows(1, 10), "the part that landed first is no former name of the other"
    forget_newest(tmp_path / "chk")
    feed.drop([2, 20])
    assert go(both) == []
    assert rows_of(table) == rows(1, 2, 10, 20)


def test_modes_take_only_what_is_theirs(tmp_path: Path, table: gl.TimeSeriesTable) -> None:
    with pytest.raises(InvalidOption, match="Did you mean 'append'"):
        batch_writer(table, "appendd")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match=r"key='n' .* mode='append'"):
        batch_writer(table, key="n")
    with pytest.raises(InvalidOption, match=r"on_overlap='skip' .* mode='complete'"):
        batch_writer(table, "complete", on_overlap="skip")
    with pytest.raises(InvalidOption, match="operation_id"):
        batch_writer(table, app_id="")
    with pytest.raises(InvalidOption, match="bucket=None"):
        batch_writer(tmp_path / "new", index="n")
    with pytest.raises(InvalidOption, match="index=None"):
        batch_writer(tmp_path / "new", entity="site")
    with pytest.raises(NotSupported, match="memory"):
        batch_writer(gl.create("memory://stream", index="n", index_type="int64", bucket=1))


# -- errors ------------------------------------------------------------------------------------------------------------


@BOTH
def test_a_batch_that_is_refused_leaves_the_rows_as_they_were(
    spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable, sink: str
) -> None:
    table.append({"n": [2], "v": [0]})
    feed.drop([1], [2, 3])
    message = refusal(lambda: run(feed.read(spark), sink, tmp_path / "t", tmp_path / "chk", onOverlap="reject"))
    assert "[coverage-overlap]" in message
    assert "already" in message
    assert rows_of(table) == [(1, 10), (2, 0)]
    live = {Path(segment.path).name for segment in table.segments()}
    assert {path.name for path in (tmp_path / "t" / "data").glob("*.parquet")} == live, "what was refused left files"
    table.delete("n = 2")
    run(feed.read(spark), sink, tmp_path / "t", tmp_path / "chk", onOverlap="reject")
    assert rows_of(table) == rows(1, 2, 3)


@BOTH
def test_wrong_rows_and_columns_are_typed_errors(
    spark: Any, tmp_path: Path, feed: Feed, table: gl.TimeSeriesTable, sink: str
) -> None:
    table.append({"n": [2], "v": [0]})
    feed.drop([1])
    nulls = feed.read(spark).selectExpr("if(n = 1, null, n) as n", "v")
    assert "[null-key]" in refusal(lambda: run(nulls, sink, tmp_path / "t", tmp_path / "one"))
    assert "[invalid-option]" in refusal(lambda: run(feed.read(spark), "format", tmp_path / "t", tmp_path / "three", appId=""))
    texts = feed.read(spark).selectExpr("n", "cast(v as string) as v")
    assert "[schema-mismatch]" in refusal(lambda: run(texts, sink, tmp_path / "t", tmp_path / "two"))
    assert rows_of(table) == [(2, 0)]


# -- missing tables ----------------------------------------------------------------------------------------------------


def test_a_missing_table_is_made_as_the_options_say(spark: Any, tmp_path: Path, feed: Feed) -> None:
    feed.drop([1, 2], [3])
    path = tmp_path / "new table"
    timed = feed.read(spark).selectExpr("timestamp_seconds(n * 3600) as ts", "concat('s', n) as site", "v")
    run(timed, "format", path, tmp_path / "chk", index="ts", entity="site", bucket="1h")
    made = gl.open(path)
    assert (made.index.column, made.entity, made.coverage().covered) == ("ts", ("site",), 3)
    files = [f"{path}/data/*.parquet"]
    assert duckdb.execute("select site, epoch(ts), v from read_parquet($1) order by 1", files).fetchall() == [
        ("s1", 3600.0, 10), ("s2", 7200.0, 20), ("s3", 10800.0, 30),
    ]  # fmt: skip
    message = refusal(lambda: run(timed, "format", path, tmp_path / "other", index="ts", entity="site", bucket="1d"))
    assert "[invalid-option]" in message
    assert "bucket='1d', and the table at" in message


def test_a_writer_makes_a_missing_table_too(spark: Any, tmp_path: Path, feed: Feed) -> None:
    feed.drop([1], [3])
    path = tmp_path / "whole"
    run(feed.read(spark), "foreachBatch", path, tmp_path / "chk", index="n", bucket="10")
    assert (gl.open(path).index.type, rows_of(gl.open(path))) == ("int64", rows(1, 3))


@BOTH
def test_a_missing_table_that_no_one_describes_is_a_typed_error(spark: Any, tmp_path: Path, feed: Feed, sink: str) -> None:
    feed.drop([1])
    message = refusal(lambda: run(feed.read(spark), sink, tmp_path / "none", tmp_path / "chk"))
    assert "[table-not-found]" in message
    assert "Give index and bucket" in message
    assert not (tmp_path / "none").exists()


def test_what_describes_a_missing_table_must_fit(tmp_path: Path, table: gl.TimeSeriesTable) -> None:
    schema = pa.schema([("n", pa.int64()), ("v", pa.int64())])
    right = NewTable(index="n", bucket="1")
    assert open_or_create(table.url, right, schema).version == 1
    for told, match in (
        ({"index": "v"}, "index='v', and the table"),
        ({"entity": ("v",)}, r"entity=\('v',\), and the table"),
        ({"bucket": "2"}, "bucket='2', and the table"),
    ):
        with pytest.raises(InvalidOption, match=match):
            open_or_create(table.url, replace(right, **told), schema)
    with pytest.raises(UnknownColumn, match="no column 'ts' to be the index"):
        open_or_create(tmp_path / "none", NewTable(index="ts", bucket="1h"), schema)
    assert not (tmp_path / "none").exists()


def test_a_writer_outlives_its_table(spark: Any, tmp_path: Path) -> None:
    writer = batch_writer(tmp_path / "t", app_id="job", index="n", bucket=1)
    one, two = (spark.createDataFrame([(n, n * 10)], "n bigint, v bigint") for n in (1, 2))
    writer(one, 0)
    shutil.rmtree(tmp_path / "t")
    assert not writer.write(two, 0).already_applied
    assert rows_of(gl.open(tmp_path / "t")) == rows(2)


# -- writers travel ----------------------------------------------------------------------------------------------------


@BY_KIND
def test_a_writer_can_be_pickled_and_used_outside_of_a_stream_with_an_app_id(
    spark: Any, tmp_path: Path, kind: TableKind, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame([(1, 10), (2, 20)], "n bigint, v bigint")
    with pytest.raises(InvalidOption, match="foreachBatch, or pass app_id"):
        batch_writer(table)(frame, 0)
    monkeypatch.chdir(tmp_path)
    writers = [pickle.loads(pickle.dumps(batch_writer(one, app_id="job"))) for one in (table, "t")]
    monkeypatch.chdir("/")
    reports = [writer.write(frame, 7) for writer in writers]
    assert [(report.rows, report.already_applied) for report in reports] == [(2, False), (2, True)]
    assert rows_of(table) == rows(1, 2)
    with pytest.raises(TableNotFound):
        batch_writer(tmp_path / "none", app_id="job")(frame, 0)
