"""BACKFILL: the gaps of a time-series sink, computed from its sources as a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.errors import CallError, InvalidOption, TableNotFound
from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.language.statements import Backfill, CreateSource
from gapless.pipelines.options.storage import storage_options
from gapless.pipelines.run.frames import define_views, frame_of_query, is_held
from gapless.pipelines.run.plan import SinkPlan
from gapless.pipelines.run.sinks import new_table
from gapless.spark.correct.fill_gaps import GapFill, check_range, fill_gaps
from gapless.spark.writing.append import arrow_schema, open_or_create
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBackfill:
    """A BACKFILL, and the rows that its gaps are filled from: those that its sources had as the run began.

    The streams of the run take all of these too before gaps are looked for. What is missing then they have passed over, and never bring.
    """

    statement: Backfill
    plan: SinkPlan
    frame: DataFrame


def plan_backfills(
    spark: SparkSession, pipeline: Pipeline, plans: Iterable[SinkPlan], *, continuous: bool
) -> list[PlannedBackfill]:
    """The backfills of a pipeline, with their sources read as they are now; to be called before its streams begin.

    Raises InvalidPipeline for a sink whose gaps cannot be filled, and for a range that its table does not take; InvalidOption for a run
    that is `continuous`.
    """
    if not pipeline.backfills:
        return []
    if continuous:
        raise InvalidOption(
            "a pipeline with a BACKFILL is not run with continuous",
            why="Gaps are looked for once the sinks have all that there is, and a continuous run has no such end",
            fix="Run it without, or take the BACKFILL out",
            option="continuous",
            value=True,
        )
    found = {plan.sink.name.casefold(): plan for plan in plans}
    planned = [(statement, found[statement.name.casefold()]) for statement in pipeline.backfills]
    for statement, plan in planned:
        _check(pipeline, statement, plan)
    define_views(spark, pipeline, streaming=False, held=True)
    return [
        PlannedBackfill(statement=statement, plan=plan, frame=frame_of_query(spark, pipeline, plan.query))
        for statement, plan in planned
    ]


def run_backfill(planned: PlannedBackfill, app: str) -> GapFill:
    """Fill the gaps, as one commit whose operation id begins with `app`. Raises as `gapless.spark.write`."""
    options, statement = planned.plan.sink.options, planned.statement
    table = open_or_create(
        options["location"], new_table(options), arrow_schema(planned.frame), storage_options(options) or None
    )
    assert isinstance(table, TimeSeriesTable)
    return fill_gaps(
        planned.frame,
        table,
        statement.start,
        statement.end,
        operation_id=f"{app}/{planned.plan.sink.name}/backfill",
        before_last=planned.plan.kind == "own",
    )


def _check(pipeline: Pipeline, statement: Backfill, plan: SinkPlan) -> None:
    """Raise InvalidPipeline where gaps of a sink cannot be filled apart from its stream."""
    name = statement.name
    if plan.kind == "once" or plan.mode != "append":
        why = {
            "complete": "Each batch of it takes the place of all rows",
            "upsert": "Its rows take the place of those with their key, wherever these lie",
        }
        raise pipeline.sql.error(
            statement.name_span,
            f"gaps of {name!r} are not filled: its mode is {plan.mode!r}",
            why=why.get(plan.mode, "Each run of it reads all that there is"),
            fix="Run the pipeline: what its sources have comes anew" if plan.kind == "once" else "Say mode='append'",
        )
    for one in pipeline.read_by(plan.query):
        if isinstance(one.statement, CreateSource) and not is_held(one):
            raise pipeline.sql.error(
                statement.name_span,
                f"gaps of {name!r} are not filled: it reads the {one.type} source {one.name!r}",
                why="What came in while the gaps are filled would be in the fill, and come with the next batch again",
                fix="Write the source into a table by one sink, and have this one read that table",
            )
    options = plan.sink.options
    try:
        table = TimeSeriesTable.open(options["location"], storage_options=storage_options(options) or None)
    except TableNotFound:
        return
    try:
        check_range(table, statement.start, statement.end)
    except CallError as error:
        raise pipeline.sql.error(statement.span, f"{error.what} in {name!r}", why=error.why, fix=error.fix) from error
