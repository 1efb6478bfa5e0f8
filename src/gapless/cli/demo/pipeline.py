"""The demo's pipeline on Spark. It is run as a program of its own, `python -m gapless.cli.demo.pipeline DIR`, since the demo kills it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.model.operation import AppendReport, ChangeReport
from gapless.spark import batch_writer, read, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Report = AppendReport | ChangeReport

DAYS_A_BATCH = 7
COLUMNS = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int, "
    "carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, "
    "time_hour timestamp"
)
_SMALL = {"spark.sql.shuffle.partitions": 1, "spark.driver.memory": "1g"}


def hourly(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Departures, cancellations and delays of each airport and hour, beside its weather."""
    from pyspark.sql import functions as f

    counts = flights.groupBy("origin", "time_hour").agg(
        f.count("*").alias("flights"),
        f.count("dep_time").alias("departed"),
        f.count_if(f.isnull("dep_time")).alias("cancelled"),
        f.sum("dep_delay").alias("delay_minutes"),
    )
    return counts.join(weather, ["origin", "time_hour"], "left")


def stream(spark: SparkSession, folder: Path, landed: Callable[[int, Report], None]) -> None:
    """Each file of flights that is not in the table yet, seven days a batch; returns when all are."""
    weather = read(spark, folder / "weather", columns=["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]).cache()
    flights = spark.readStream.schema(COLUMNS).options(header=True, nullValue="NA", maxFilesPerTrigger=DAYS_A_BATCH)
    writer = batch_writer(folder / "departures", app_id="flights", index="time_hour", entity=["origin"], bucket="1h")

    def land(batch: DataFrame, number: int) -> None:
        landed(number, writer.write(hourly(batch, weather), number))

    query = flights.csv(str(folder / "flights")).writeStream.foreachBatch(land)
    query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


def _say_landed(number: int, report: Report) -> None:
    sys.stdout.write(json.dumps({"batch": number, "repeated": report.already_applied}) + "\n")
    sys.stdout.flush()


def main(folder: str) -> None:
    """Run the pipeline; prints one JSON object a batch: its number, and whether the table had it already."""
    spark = session("flights", master="local[2]", quick=True, config=_SMALL)
    try:
        stream(spark, Path(folder), _say_landed)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
