"""A pipeline of one or more queries in a process of its own: `python -m spark.kill.pipeline QUERIES`, drained once and done."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from spark.kill.killing import DRIVER, PLAN, arm

SCHEMA = "ts timestamp, site string, v bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """From a source to a table, one file of the source a batch."""

    source: Literal["files", "table"]
    sink: Literal["foreachBatch", "format"]
    input: str
    table: str
    checkpoint: str
    app_id: str | None = None
    kind: str = ""
    """What stands before the place of the table, where `batch_writer` needs it: "iceberg:"."""

    @property
    def name(self) -> str:
        """The table, as `batch_writer` and `check_checkpoint` take it."""
        return f"{self.kind}{self.table}"


def start(spark: Any, query: Query) -> Any:
    """Start it on all that its source has now."""
    from gapless.spark.stream.batch_writer import batch_writer

    stream = spark.readStream.option("maxFilesPerTrigger", 1)
    if query.source == "files":
        frame = stream.schema(SCHEMA).json(query.input)
    else:
        frame = stream.format("gapless").option("path", query.input).load()
    # Two tasks write each batch.
    writer = frame.repartition(2).writeStream.option("checkpointLocation", query.checkpoint)
    if query.source == "files":
        writer = writer.trigger(availableNow=True)
    if query.sink == "foreachBatch":
        return writer.foreachBatch(batch_writer(query.name, app_id=query.app_id)).start()
    named = {} if query.app_id is None else {"appId": query.app_id}
    return writer.format("gapless").options(**named).start(query.table)


def drain(query: Query, running: Any) -> None:
    """Wait until it has all that its source has."""
    if query.source == "files":
        running.awaitTermination()
    else:
        # With availableNow, Spark 4.1 ends after one batch of a Python source, be it the one that it runs again.
        running.processAllAvailable()
        running.stop()


def main() -> None:
    """Run the queries side by side until their sources are drained."""
    os.environ[DRIVER] = str(os.getpid())
    if PLAN in os.environ:
        arm()
    from gapless.spark import session

    options = {"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "700m"}
    spark = session("pipeline", master="local[2]", quick=True, config=options)
    queries = [Query(**one) for one in json.loads(sys.argv[1])]
    started = [start(spark, query) for query in queries]
    print("ready", flush=True)
    for query, running in zip(queries, started, strict=True):
        drain(query, running)
    print("drained", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
