"""What statements ask for that Spark answers: EXPLAIN and SUBSCRIBE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.language.statements import Explain, Subscribe
from gapless.pipelines.run.frames import define_views, frame_of_query
from gapless.pipelines.run.plan import SinkPlan, explained, plan_sink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FIRST_ROWS = 20
_HOW = {
    "shared": "its query is run over each batch of {source}, which sinks of that source share",
    "own": "its query is a streaming query of its own",
    "once": "all that its query reads is read whole, by each run",
}


def explain(spark: SparkSession, pipeline: Pipeline, request: Explain) -> str:
    """How a sink would be filled, and Spark's plan of its query. Raises InvalidPipeline."""
    define_views(spark, pipeline, streaming=True)
    if request.query is not None:
        return explained(frame_of_query(spark, pipeline, request.query))
    plan = plan_sink(spark, pipeline, pipeline.defined[request.name.casefold()])
    return f"{told(plan)}\n{plan.plan}"


def told(plan: SinkPlan) -> str:
    """A sink plan in a sentence."""
    how = _HOW[plan.kind].format(source=plan.source)
    return f"{plan.sink.name}: {plan.mode} into {plan.sink.type}; {how}"


def first_rows(spark: SparkSession, pipeline: Pipeline, request: Subscribe) -> pa.Table:
    """The first rows of a query, of what its sources have now. Raises InvalidPipeline."""
    define_views(spark, pipeline, streaming=False)
    frame = frame_of_query(spark, pipeline, request.query).limit(FIRST_ROWS if request.limit is None else request.limit)
    return frame.toArrow()
