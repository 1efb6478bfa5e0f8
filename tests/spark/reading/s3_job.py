"""What a driver does with tables in a bucket: a batch, a read of it, and a stream. Run by Python in a process of its own.

Words: the endpoint of an S3 server, the bucket, a folder for Ivy. Credentials are in the environment, for gapless and Spark alike. The
last line of its output is JSON: what it saw.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

import gapless as gl
from gapless.spark import batch_writer, read, session, write


def main(endpoint: str, bucket: str, ivy: str) -> dict[str, Any]:
    """Everything."""
    config = {
        "spark.jars.ivy": ivy,
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.sql.shuffle.partitions": 4,
    }
    spark = session("gapless tests", master="local[2]", s3=True, quick=True, config=config)
    seen = {"batch": batch(spark, f"s3://{bucket}/spark/batch"), "stream": stream(spark, bucket)}
    spark.stop()
    return seen


def batch(spark: SparkSession, url: str) -> list[Any]:
    """Rows, segments, and what Spark reads: the number and the sum of all, and one day of one site."""
    table = gl.create(url, index="ts", entity=["site"], bucket="1h")
    frame = spark.range(0, 400, 1, 4).selectExpr(
        "timestamp_micros(1767225600000000 + id * 3600000000) as ts", "explode(array('a', 'b')) as site", "id as v"
    )
    report = write(frame, table, spread=False)
    count, total = read(spark, table).selectExpr("count(*)", "sum(v)").collect()[0]
    day = read(spark, url, start="2026-01-02T00:00Z", end="2026-01-03T00:00Z", entity={"site": "b"}, columns=["v"])
    return [report.rows, report.segments, count, total, sorted(row.v for row in day.collect())]


def stream(spark: SparkSession, bucket: str) -> int:
    """The files of that table, of which Spark lists the folder, as a stream into another one; its checkpoint is in the bucket too."""
    url = f"s3://{bucket}/spark/stream"
    table = gl.create(url, index="ts", entity=["site"], bucket="1h")
    source = spark.readStream.schema("ts timestamp, site string, v long").parquet(f"s3a://{bucket}/spark/batch/data/")
    for _ in range(2):
        sink: Any = batch_writer(url)
        writer = source.writeStream.foreachBatch(sink)
        place = f"s3a://{bucket}/spark/checkpoint"
        writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()
    return table.refresh().version


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
