"""Delta tables in bench/spark.py: gapless' own engine beside delta-spark's, on the same table, the same frame, the same stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from spark_data import COLUMNS, SYMBOL, Case, Ticks

import gapless as gl

THEIRS = "delta-spark"
Stream = Callable[[Path], object]
"""Drain the input into a table at a place that is not there yet."""


def delta_place(ticks: Ticks) -> Path:
    """Where the Delta table of the ticks lies."""
    return ticks.arrived[0].parent.parent / "delta"


def read_theirs(spark: Any, ticks: Ticks, case: Case) -> Any:
    """delta-spark's DataFrame in which the case's question may be asked."""
    from pyspark.sql import functions as f

    frame = spark.read.format("delta").load(str(delta_place(ticks)))
    return frame.where((f.col("ts") >= f.lit(ticks.cut)) & (f.col("symbol") == SYMBOL)) if case.late else frame


def read_ours(spark: Any, ticks: Ticks, case: Case) -> Any:
    """Ours of the same table."""
    where = f"ts >= '{ticks.cut.isoformat()}' AND symbol = '{SYMBOL}'" if case.late else None
    return gl.spark.read(spark, str(delta_place(ticks)), where=where)


def writers_of_delta(frame: Any, ticks: Ticks) -> dict[str, Callable[[Path], object]]:
    """Who writes `frame` into a Delta table; the first is the one that the other is held against."""
    schema = pq.read_schema(ticks.arrived[0])

    def ours(place: Path, **properties: str) -> object:
        return gl.spark.write(frame, gl.delta.create(place, schema, properties=properties))

    return {
        THEIRS: lambda place: frame.write.format("delta").save(str(place)),
        "gapless.spark.write, Delta": ours,
    }


def streams_into_delta(spark: Any, ticks: Ticks) -> dict[str, Stream]:
    """Who takes a stream of the files that arrived, one a batch, into a Delta table, each batch once."""
    schema = pq.read_schema(ticks.arrived[0])

    def read() -> Any:
        return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(ticks.arrived[0].parent))

    def drain(writer: Any, place: Path) -> None:
        checkpoint = place.with_name(f"{place.name}_checkpoint")
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    def theirs(place: Path) -> None:
        drain(read().writeStream.format("delta").option("path", str(place)), place)

    def sink(place: Path) -> None:
        gl.delta.create(place, schema)
        drain(read().writeStream.format("gapless").option("path", str(place)), place)

    def each_batch(place: Path) -> None:
        drain(read().writeStream.foreachBatch(gl.spark.batch_writer(gl.delta.create(place, schema))), place)

    return {THEIRS: theirs, 'format("gapless"), Delta': sink, "gapless batch_writer, Delta": each_batch}


def delta_rows(place: Path) -> tuple[int, int]:
    """Rows and the sum of their volumes in a Delta table, by our own reader."""
    row = gl.delta.open(place).sql("select count(*), sum(volume) from this").to_arrow().to_pylist()[0].values()
    count, volume = map(int, row)
    return count, volume
