"""A tour through `gapless.spark` in a process of its own: prints one line of JSON with what it saw. `python tests/spark/setup/tour.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gapless as gl


def main(folder: Path) -> None:
    spark = gl.spark.session("tour", master="local[2]", quick=True)
    hours = spark.range(200).selectExpr(
        "timestamp'2026-01-05' + make_interval(0, 0, 0, 0, id div 2) as ts", "concat('s', id % 2) as site", "double(id) as v"
    )
    table = gl.create(folder / "t", index="ts", entity=["site"], bucket="1h")
    saw: dict[str, Any] = {"spark": spark.version, "python": sys.version.split()[0]}
    saw["written"] = gl.spark.write(hours, table, operation_id="tour").rows
    saw["again"] = gl.spark.write(hours, table, operation_id="tour").already_applied
    saw["read"] = gl.spark.read(spark, table, entity={"site": "s1"}).agg({"v": "sum"}).collect()[0][0]
    saw["format"] = spark.read.format("gapless").option("entity", "site=s1").load(table.url).agg({"v": "sum"}).collect()[0][0]
    saw["upserted"] = gl.spark.upsert(hours.where("id < 10").selectExpr("ts", "site", "v + 1000 as v"), table).updated_rows
    saw["deleted"] = gl.spark.delete(spark, table, entity={"site": "s0"}).removed_rows
    hours.write.format("gapless").mode("overwrite").save(table.url)
    for days in (1, 2, 3):
        gl.spark.write(hours.selectExpr(f"ts + make_interval(0, 0, 0, {100 * days}) as ts", "site", "v"), table)
    saw["streamed"] = [stream(spark, table.url, folder, **made) for made in ({}, {"format": "gapless"}, {})]
    saw["compacted"] = gl.spark.compact(spark, table).bins
    saw["rows"] = gl.open(folder / "sink").scan().to_arrow().num_rows
    print(json.dumps(saw))
    spark.stop()


def stream(spark: Any, source: str, folder: Path, format: str = "") -> int:  # noqa: A002  # as Spark calls it
    """Stream the table, one file a batch, as far as it goes; how many rows the sink then has."""
    rows = spark.readStream.format("gapless").option("startingVersion", "earliest").option("maxFilesPerTrigger", 1)
    rows = rows.option("onDataChange", "skip").load(source).writeStream.trigger(availableNow=True)
    sink = folder / ("other" if format else "sink")
    rows = rows.option("checkpointLocation", str(folder / f"checkpoint-{sink.name}"))
    if format:
        rows = (
            rows.format(format).option("index", "ts").option("entity", "site").option("bucket", "1h").option("path", str(sink))
        )
    else:
        rows = rows.foreachBatch(gl.spark.batch_writer(sink, index="ts", entity="site", bucket="1h"))
    rows.start().awaitTermination()
    return int(gl.open(sink).scan().to_arrow().num_rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
