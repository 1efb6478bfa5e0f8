"""Upsert, delete and replace for tables that outgrow one machine: planned by the driver, written by executors, one commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap
from gapless.errors import GaplessError
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableState
from gapless.model.operation import ChangeReport, OperationArgument, OperationId, Tally, parse_operation
from gapless.model.segment import Segment
from gapless.spark.correct.arrivals import StagedInput
from gapless.spark.correct.delta_changes import change_rows
from gapless.spark.correct.delta_merge import upsert_delta
from gapless.spark.correct.revise import ByKey, CorrectionContext, Revised, Reviser
from gapless.spark.correct.revision_plan import Arrived, ConditionRequest, CorrectionRequest, RevisionPlanner, UpsertRequest
from gapless.spark.setup.executors import parallelism, spread_work
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.tables import Table, open_to_write, refuse_given, series_of
from gapless.spark.writing.target import Delivery
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.delete import Delete
from gapless.tables.shared.handle import Location
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.correct.corrections import CorrectionArguments, parse_span, parse_upsert
from gapless.tables.timeseries.correct.rewrite import Made, Rewriter
from gapless.tables.timeseries.correct.rewrite_affected import AffectedFiles, RewriteResult, keeps_overlaps
from gapless.tables.timeseries.correct.row_selection import BaseVersion, Filter, RowSelector
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PATIENCE = 10
"""How many times as long as other changes it may be made anew: executors take minutes where one process takes seconds."""


def rewrite(
    spark: SparkSession,
    handle: TimeSeriesTable,
    request: CorrectionRequest,
    operation: OperationId | None,
    frame: DataFrame | None = None,
) -> ChangeReport:
    """Make a correction with executors, in one commit to the newest version; `frame` are the rows that arrive for it.

    An operation that was applied already changes nothing, and computes nothing. What is written for an attempt that was not committed is
    removed, but where that is not known. Raises as `Rewriter.apply`.
    """
    context = job_context(handle.refresh(), to_write=True)
    env = dataclasses.replace(context.env, deadline_s=context.env.deadline_s * _PATIENCE)
    context = dataclasses.replace(context, committer=dataclasses.replace(context.committer, env=env))
    rewriter = Rewriter(context=context, operation=operation)
    arrivals = None if frame is None else StagedInput(frame=frame, handle=handle)
    return _Rewrite(spark=spark, context=context, request=request, rewriter=rewriter, arrivals=arrivals).land().change_report


@dataclass(slots=True, kw_only=True)
class _Rewrite:
    """One correction on its way."""

    spark: SparkSession
    context: SeriesContext
    request: CorrectionRequest
    rewriter: Rewriter
    arrivals: StagedInput | None
    adopted: tuple[Segment, ...] = ()
    """The arriving segments that the last proposal makes live as they are."""

    def land(self) -> ChangeOutcome:
        """Commit it."""
        done = self.rewriter.land(self.context.snapshot, self.request.operation, self._make, self._clear)
        self._clear(() if done.already else self.adopted)
        return done

    def _clear(self, adopted: Sequence[Segment] = ()) -> None:
        if self.arrivals is not None:
            self.arrivals.discard(adopted)

    def _make(self, state: TableState) -> Made:
        self.adopted = ()
        attempt = StagedWrite.begin(self.context.env)
        schema = state.meta.schema if self.arrivals is None else self.arrivals.schema_for(state)
        if schema is None:
            return self.rewriter.made_of_nothing(state, self.request, attempt)
        before = BaseVersion(state=state, schema=schema, cache=self.context.cache)
        self.request.check(before)
        arrived = self._arrived(before)
        cut, goes = self.request.decide(before, arrived)
        rewritten = self._revise(before, arrived, (cut, goes), attempt)
        return self.rewriter.made(before, self.request, cut, rewritten, attempt)

    def _arrived(self, before: BaseVersion) -> Arrived:
        if self.arrivals is None:
            return Arrived(attempt=StagedWrite(self.context.env, ""), coverage=CoverageMap())
        return self.arrivals.staged(before, self.request.distinct(before))

    def _revise(
        self, before: BaseVersion, arrived: Arrived, going: tuple[RowSelector, ByKey | Filter], attempt: StagedWrite
    ) -> RewriteResult:
        """Have executors write what takes the place of the segments that are touched: `revise`, spread over them."""
        cut, goes = going
        affected = AffectedFiles.of(before, cut, arrived.coverage)
        planner = RevisionPlanner(before=before, affected=affected, arrived=arrived, goes=goes)
        plan = planner.plan(lambda: parallelism(self.spark))
        staged = arrived.attempt
        reviser = Reviser(context=CorrectionContext.of(before, staged.segments), instant=attempt.instant, goes=goes)
        revised = _gathered(spread_work(self.spark, reviser.revise, plan.tasks), before, attempt)
        self.adopted = tuple(staged.segments[place] for place in plan.adopted)
        attempt.segments += self.adopted
        attempt.coverage += [staged.coverage[place] for place in plan.adopted]
        removed = (*(segment.path for segment in affected.dropped), *(path for one in revised for path in one.removed))
        tally = Tally(
            rows=staged.tally.rows,
            segments=len(attempt.segments),
            buckets=arrived.coverage.cardinality(),
            removed_rows=sum(one.removed_rows for one in revised) + sum(segment.rows for segment in affected.dropped),
            removed_segments=len(removed),
            replaced_buckets=affected.replaced(arrived.coverage),
            updated_rows=len(BitMap64().union(*(one.hits for one in revised))),
        )
        if not removed and not attempt.segments:
            # Every row that comes is there already.
            tally = Tally()
        overlaps = keeps_overlaps(before, attempt.coverage, frozenset(removed))
        return RewriteResult(removed=removed, coverage=arrived.coverage, tally=tally, keeps_overlaps=overlaps)


def _gathered(answers: Sequence[Revised | GaplessError], before: BaseVersion, attempt: StagedWrite) -> list[Revised]:
    """What tasks wrote, put into the attempt; raises what one of them raised, with nothing of it stored any more."""
    revised = [answer for answer in answers if isinstance(answer, Revised)]
    for one in revised:
        one.outcome.add_to(attempt, before.entity_types)
    for answer in answers:
        if isinstance(answer, GaplessError):
            attempt.discard()
            raise answer
    return revised


def upsert(
    frame: DataFrame,
    table: Table | Location,
    *,
    key: str | Sequence[str] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows that have their key; rows with a new key are added: `table.upsert` with executors.

    Args:
        frame: The rows, with all of the table's columns, by name; what `read` shows of a table fits. It is computed twice, by a sample
            and to be written, whatever others commit meanwhile, and again only where the table's columns were changed.
        table: A table, or the path or URL of one, that executors can reach.
        key: As in `table.upsert`: without it the entity columns and the index, which costs least; rows with another key are looked for
            in every segment whose statistics allow it.
        operation_id: As in `append`: sent again, nothing is computed and the first report comes back.

    Only segments that can hold a touched row are opened, and only those that do are written anew; the others stay byte for byte. The
    driver holds what the log says of segments and at most a bit for each arriving row. A task holds the arriving rows that one segment's
    successor takes and the keys that may meet it. Tasks that are tried again leave each row once, and files that `table.vacuum`
    takes away. The report counts as that of `table.upsert`.

    A Delta table has no key of its own, so that `key` is to be given. The upsert is a merge (`gapless.spark.merge`): the DataFrame is held
    in memory, columns that it lacks stay as they are, and the report counts as that of a merge.

    Raises DuplicateKey where rows of the DataFrame share a key, and as `table.upsert`; NotSupported for a table in memory, InvalidOption
    for a view; errors of Spark itself are not touched.
    """
    return _upserted(frame, open_to_write(table), key, parse_operation(operation_id))


def upsert_frame(frame: DataFrame, handle: Table, *, key: tuple[str, ...] | None, delivery: Delivery) -> ChangeReport:
    """See `upsert`; the frame, held by Spark until then, is computed once. The overlap policy of the delivery does not matter."""
    held = frame.persist()
    try:
        return _upserted(held, handle, key, delivery.operation)
    finally:
        held.unpersist()


def delete(  # the arguments of `table.delete`, and where
    spark: SparkSession,
    table: Table | Location,
    where: str | pc.Expression | None = None,
    *,
    start: object = None,
    end: object = None,
    entity: Mapping[str, object] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Delete the rows that `table.scan` with these arguments gives, as `table.delete` does, with executors.

    Segments of which every row certainly goes are removed unread; those of which some may go are looked at, and written anew where some
    do, by our own readers and writers: columns may have types that Spark lacks. The report counts `removed_rows`.
    Of a Delta table those rows go for which `where` is true, and files get deletion vectors where the table keeps such. Raises as
    `table.delete`; NotSupported for a table in memory, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle, operation = open_to_write(table), parse_operation(operation_id)
    if isinstance(handle, DeltaTable):
        refuse_given({"start": start, "end": end, "entity": entity}, "a Delta table", "Pass where=")
        return change_rows(spark, handle, Delete.of(where), operation)
    asked = CorrectionArguments(start=start, end=end, where=where, entity=entity)
    return rewrite(spark, handle, ConditionRequest(correction=asked.delete(handle.index, handle.schema)), operation)


def replace(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    span: tuple[object, object],
    *,
    entity: Mapping[str, object] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows of a range of the index, as `table.replace` does, with executors.

    Args:
        frame: The rows, columns by name; those outside the range, or of other entities, are refused. No rows delete the range.
        table: A table, or the path or URL of one, that executors can reach.
        span: (start, end), half-open, as in `table.replace`; None is an open end.
        entity: Values of entity columns: rows of others stay.
        operation_id: As in `append`.

    The report counts `rows` and `removed_rows`. Raises as `table.replace` (the `row` of an InvalidValue for a row outside is -1: its place
    is not known); NotSupported for a table in memory and for a Delta table, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle, operation = series_of(table, "replace"), parse_operation(operation_id)
    start, end = parse_span(span)
    asked = CorrectionArguments(start=start, end=end, entity=entity)
    request = ConditionRequest(correction=asked.replace(handle.index, handle.schema))
    return rewrite(frame.sparkSession, handle, request, operation, frame)


def _upserted(frame: DataFrame, handle: Table, key: str | Sequence[str] | None, operation: OperationId | None) -> ChangeReport:
    if isinstance(handle, DeltaTable):
        return upsert_delta(frame, handle, (key,) if isinstance(key, str) else tuple(key or ()), operation)
    request = UpsertRequest(upsert=parse_upsert(key, "error", [frame.columns]))
    return rewrite(frame.sparkSession, handle, request, operation, frame)
