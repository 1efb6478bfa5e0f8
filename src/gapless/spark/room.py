"""How much work a session's executors take at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST = 1 << 16


def room_for_tasks(spark: SparkSession) -> int:
    """How many tasks the session's executors run at once, as far as Spark knows; at least 1."""
    from pyspark.sql import functions

    # Spark Connect has no context to ask, but makes as many partitions of a range.
    part = spark.range(_MOST).select(functions.spark_partition_id().alias("part"))
    last: int = part.agg(functions.max("part")).collect()[0][0]
    return last + 1
