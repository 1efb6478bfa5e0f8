"""Segments that lie in commits, for Spark: the driver has their bytes already, and hands it the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.scan import ReadPlan, read
from gapless.scan.plan import ReadGroup
from gapless.spark.shown import shown_batches, shown_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def inlined_rows(
    spark: SparkSession, store: Store, plan: ReadPlan, segments: Sequence[Segment], wanted: pa.Schema
) -> DataFrame:
    """The rows of segments whose bytes lie in the log that the plan may want, in the declared columns `wanted`, as Spark shows them.

    Raises UnsupportedType, InvalidValue for a value that Spark's type does not hold, CorruptTable.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    groups = tuple(ReadGroup(segments=(one,), sort=False) for one in segments)
    given, shown = replace(plan.over(groups), columns=tuple(wanted.names)), shown_schema(wanted)
    batches = list(shown_batches(read(store, given), shown))
    if not wanted.names:
        # Without columns Spark would not count them.
        return spark.range(sum(batch.num_rows for batch in batches)).select()
    rows = pa.Table.from_batches(batches, shown)
    return spark.createDataFrame(rows, schema=from_arrow_schema(shown, prefer_timestamp_ntz=True))
