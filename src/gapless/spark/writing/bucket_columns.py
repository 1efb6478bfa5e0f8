"""Rows of a DataFrame by bucket and identity, so that files of a time-series table cover short stretches of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.model.index import Bucket, FixedWidth, IndexSpec, IntWidth, LocalDays, Months
from gapless.model.instant import NS_PER
from gapless.spark.reading.columns import number, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def repartition(frame: DataFrame, index: IndexSpec) -> DataFrame:
    """The rows, each identity's of one bucket in one partition, and partitions one after the other in time.

    Files then cover short stretches of time, and rows with one key come to one task. Spark samples the rows for it, which computes the
    DataFrame twice.
    """
    from pyspark.sql import functions

    entity = [functions.col(quoted(name)) for name in index.entity]
    return frame.repartitionByRange(_bucket(functions.col(quoted(index.column)), index.bucket), *entity)


def _bucket(column: Column, bucket: Bucket) -> Column:
    """Where the bucket of a row begins; where a clock changes it may be the next one, the same for all rows of one instant."""
    from pyspark.sql import functions

    match bucket:
        case IntWidth(width=width):
            return _begin(column, width)
        case FixedWidth(ns=ns):
            return _begin(functions.unix_micros(column.cast("timestamp_ltz")), max(1, ns // NS_PER["us"]))
        case LocalDays(days=days, timezone=zone):
            local = functions.from_utc_timestamp(column.cast("timestamp_ltz"), zone)
            return _begin(functions.unix_date(local.cast("date")), days)
        case Months(months=months, timezone=zone):
            local = functions.from_utc_timestamp(column.cast("timestamp_ltz"), zone or "UTC")
            return _begin(functions.year(local) * 12 + functions.month(local) - (1970 * 12 + 1), months)


def _begin(count: Column, width: int) -> Column:
    from pyspark.sql import functions

    step = number(width)
    # Null where the bucket begins before the smallest number there is.
    return functions.try_subtract(count, functions.pmod(count, step))
