"""What a driver does on a cluster: a batch, two streams and a compaction. Run by `spark-submit`; no pytest, nothing of our tests.

Words: how the session is had ("submitted": by the builder of a `spark-submit`; a master, or "sc://…"), what is shipped ("ship" or
"installed"), the folder for tables. The last line of its output is JSON: what it saw.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import gapless as gl
from gapless.errors import CoverageOverlap
from gapless.spark import backfill, batch_writer, compact, configure, delete, overwrite, read, replace, session, upsert, write
from gapless.spark.setup.start import ship
from gapless.spark.writing.encode import Encoding, Outcome

HOURS = 400
Step = Callable[[SparkSession, Path], Any]


def main(how: str, shipped: str, folder: Path) -> dict[str, Any]:
    """Everything, in an order in which each step stands on the one before."""
    spark = configure(SparkSession.builder).getOrCreate() if how == "submitted" else session("gapless tests", master=how)
    seen: dict[str, Any] = {"connect": type(spark).__module__.startswith("pyspark.sql.connect")}
    if shipped == "ship":
        seen["bare"] = where(spark, folder)
        ship(spark)
        ship(spark)
    steps: list[Step] = [where, batch, compacted, function_stream, format_stream]
    if spark.conf.get("spark.speculation", "false") == "true":
        steps.append(speculation)
    if seen["connect"]:
        steps.append(corrected)
    seen["seconds"] = {}
    for step in steps:
        # A job that hangs says where.
        print(step.__name__, flush=True)
        began = time.monotonic()
        seen[step.__name__] = step(spark, folder)
        seen["seconds"][step.__name__] = round(time.monotonic() - began, 1)
    spark.stop()
    return seen


def where(spark: SparkSession, folder: Path) -> list[list[str]]:
    """For each task: its executor's host, and where its gapless lies, or why there is none."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib import import_module

        list(batches)
        try:
            found = str(Path(str(import_module("gapless").__file__)).resolve())
        except ImportError as error:
            found = str(error)
        # A worker of the cluster has a folder of its own, which is named by its host.
        yield pa.record_batch({"place": [str(Path.cwd())], "gapless": [found]})

    frame = spark.range(0, 8, 1, 8).mapInArrow(look, "place string, gapless string")
    return [list(row) for row in frame.distinct().collect()]


def hours(spark: SparkSession, first: int, count: int, partitions: int = 4) -> DataFrame:
    """Two sites by the hour; `v` is the hour's number."""
    return spark.range(first, first + count, 1, partitions).selectExpr(
        "timestamp_micros(1767225600000000 + id * 3600000000) as ts", "explode(array('a', 'b')) as site", "id as v"
    )


def batch(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A write, read back by executors; then the same again in three ways."""
    table = gl.create(folder / "batch", index="ts", entity=["site"], bucket="1h")
    frame = hours(spark, 0, HOURS)
    report = write(frame, table, operation_id="load", spread=False)
    again = write(frame, table, operation_id="load")
    try:
        write(frame, table)
    except CoverageOverlap as error:
        refused = error.code
    rows, total = read(spark, table).selectExpr("count(*)", "sum(v)").collect()[0]
    narrow = read(spark, table, start="2026-01-02T00:00Z", end="2026-01-03T00:00Z", entity={"site": "b"}, columns=["v"])
    return {
        "report": [report.rows, report.buckets, report.segments],
        "again": again.already_applied,
        "refused": refused,
        "read": [rows, total],
        "narrow": sorted(row.v for row in narrow.collect()),
    }


def compacted(spark: SparkSession, folder: Path) -> list[int]:
    """The segments of the batch before and after."""
    table = gl.open(folder / "batch")
    before = len(table.segments())
    compact(spark, table)
    return [before, len(table.refresh().segments())]


def function_stream(spark: SparkSession, folder: Path) -> list[int]:
    """Files by `foreachBatch` into a table, in two runs of one query: the table's version after each."""
    table = gl.create(folder / "function", index="ts", entity=["site"], bucket="1h")
    versions = []
    for number in range(2):
        hours(spark, number * 100, 100, 2).write.mode("append").parquet(str(folder / "files"))
        source = spark.readStream.schema("ts timestamp, site string, v long").option("maxFilesPerTrigger", 1)
        sink: Any = batch_writer(folder / "function")
        writer = source.parquet(str(folder / "files")).writeStream.foreachBatch(sink)
        place = str(folder / "checkpoint-function")
        writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()
        versions.append(table.refresh().version)
    return versions


def format_stream(spark: SparkSession, folder: Path) -> int:
    """That table, a stream of `format("gapless")`, into another one: its version."""
    into = spark.readStream.format("gapless").load(str(folder / "function")).writeStream.format("gapless")
    options = {"path": str(folder / "format"), "checkpointLocation": str(folder / "checkpoint-format")}
    made = {"index": "ts", "entity": "site", "bucket": "1h"}
    into.options(**options, **made).trigger(availableNow=True).start().awaitTermination()
    return gl.open(folder / "format").version


def corrected(spark: SparkSession, folder: Path) -> list[list[Any]]:
    """Every other change: what the table holds at the end, the site, the hour and `v`."""
    table = gl.create(folder / "corrected", index="ts", entity=["site"], bucket="1h")
    write(hours(spark, 0, 6), table)
    overwrite(hours(spark, 0, 10).where("v not in (4, 5)"), table)
    upsert(hours(spark, 8, 4).selectExpr("ts", "site", "-v as v"), table)
    delete(spark, table, "v = -10")
    replace(hours(spark, 1, 1).selectExpr("ts", "site", "100 + v as v"), table, (instant(1), instant(3)))

    def fetch(identity: Any, start: Any, end: Any) -> pa.Table:
        return pa.table({"ts": pa.array([start], pa.timestamp("us", "UTC")), "site": list(identity), "v": [1000]})

    backfill(spark, table, fetch, start=instant(4), end=instant(6), max_buckets=1)
    rows = table.refresh().scan().to_arrow().to_pylist()
    return sorted([row["site"], (row["ts"] - instant(0)) // timedelta(hours=1), row["v"]] for row in rows)


def instant(hour: int) -> datetime:
    """When an hour of `hours` begins."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)


class Straggler(Encoding):
    """The first attempt at the first partition writes its files, and then hangs."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        from pyspark import TaskContext

        found = Encoding.outcome(self, batches)
        context: Any = TaskContext.get()
        if (context.partitionId(), context.attemptNumber()) == (0, 0):
            time.sleep(3600)
        return found


def speculation(spark: SparkSession, folder: Path) -> list[int]:
    """A write of which one task hangs, so that a second one runs beside it elsewhere: segments of the table, and files in its folder."""
    table = gl.create(folder / "speculation", index="ts", entity=["site"], bucket="1h")
    with patch("gapless.spark.writing.series_target.Encoding", Straggler):
        write(hours(spark, 0, HOURS), table, spread=False)
    return [len(table.segments()), len(list((folder / "speculation" / "data").glob("*.parquet")))]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
