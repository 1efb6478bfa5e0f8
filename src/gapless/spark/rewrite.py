"""The driver's half of a correction: rows staged, a plan by what the log says, one commit of what executors wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap
from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.dialects.timeseries.features import claim
from gapless.errors import GaplessError
from gapless.model.operation import OperationId
from gapless.model.report import ChangeReport, Tally
from gapless.model.segment import Segment
from gapless.parquet.attempt import Attempt
from gapless.runtime.committer import NOT_COMMITTED
from gapless.spark.answers import spread_work
from gapless.spark.arrivals import Arrivals
from gapless.spark.ground import Ground
from gapless.spark.inside import Inside, inside_to_write
from gapless.spark.revise import ByKey, Revised, Reviser
from gapless.spark.revision_plan import RevisionPlanner
from gapless.spark.room import room_for_tasks
from gapless.spark.wishes import Arrived, Wish
from gapless.table.before import Before, Filter
from gapless.table.cut import Cut
from gapless.table.done import Done
from gapless.table.revision import Revision, Touch, keeps_overlaps
from gapless.table.rewrite import Made, Rewriter
from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE = 10
"""How many times as long as other changes it may be made anew: executors take minutes where one process takes seconds."""


def rewrite(
    spark: SparkSession, handle: TimeSeriesTable, wish: Wish, operation: OperationId | None, frame: DataFrame | None = None
) -> ChangeReport:
    """Make a correction with executors, in one commit to the newest version; `frame` are the rows that arrive for it.

    An operation that was applied already changes nothing, and computes nothing. What is written for an attempt that was not committed is
    removed, but where that is not known. Raises as `Rewriter.apply`.
    """
    known = inside_to_write(handle.refresh())
    rim = replace(known.rim, deadline_s=known.rim.deadline_s * _PATIENCE)
    committer = replace(known.committer, rim=rim)
    rewriter = Rewriter(committer=committer, cache=known.cache, grid=known.grid, operation=operation)
    arrivals = None if frame is None else Arrivals(frame=frame, handle=handle)
    done = _Rewrite(spark=spark, known=known, wish=wish, rewriter=rewriter, arrivals=arrivals).land()
    return ChangeReport.of(done.tally, done.version, already_applied=done.already)


@dataclass(slots=True, kw_only=True)
class _Rewrite:
    """One correction on its way."""

    spark: SparkSession
    known: Inside
    wish: Wish
    rewriter: Rewriter
    arrivals: Arrivals | None
    adopted: tuple[Segment, ...] = ()
    """The arriving segments that the last proposal makes live as they are."""
    making: bool = False
    """Whether a proposal is being made: none of those before it can be committed then."""

    def land(self) -> Done:
        """Commit it."""
        try:
            done = self.rewriter.land(self.known.snapshot, self.wish.operation, self._make)
        except Exception as error:
            if self.making or isinstance(error, NOT_COMMITTED):
                self._clear()
            raise
        self._clear(() if done.already else self.adopted)
        return done

    def _clear(self, adopted: Sequence[Segment] = ()) -> None:
        if self.arrivals is not None:
            self.arrivals.discard(adopted)

    def _make(self, state: TableState) -> Made:
        self.making, self.adopted = True, ()
        made = self._made(state)
        self.making = False
        return made

    def _made(self, state: TableState) -> Made:
        attempt = Attempt.begin(self.known.rim)
        schema = state.meta.schema if self.arrivals is None else self.arrivals.schema_for(state)
        if schema is None:
            return self.rewriter.made_of_nothing(state, self.wish, attempt)
        meta = state.meta if schema == state.meta.schema else claim(replace(state.meta, schema=schema))
        before = Before(store=self.known.rim.store, state=state, schema=schema, grid=self.known.grid, cache=self.known.cache)
        self.wish.check(before)
        arrived = self._arrived(before)
        cut, goes = self.wish.decide(before, arrived)
        revision = self._revise(before, meta, arrived, (cut, goes), attempt)
        return self.rewriter.made(before, meta, self.wish, cut, revision, attempt)

    def _arrived(self, before: Before) -> Arrived:
        if self.arrivals is None:
            return Arrived(attempt=Attempt(self.known.rim, ""), coverage=CoverageMap())
        return self.arrivals.staged(before, self.wish.distinct(before))

    def _revise(
        self, before: Before, meta: TableMeta, arrived: Arrived, going: tuple[Cut, ByKey | Filter], attempt: Attempt
    ) -> Revision:
        """Have executors write what takes the place of the segments that are touched: `revise`, spread over them."""
        cut, goes = going
        touch = Touch.of(before, cut, arrived.coverage)
        planner = RevisionPlanner(before=before, touch=touch, arrived=arrived, goes=goes)
        plan = planner.plan(lambda: room_for_tasks(self.spark))
        staged = arrived.attempt
        ground = Ground(store=before.store, meta=before.meta, schema=before.schema, arrivals=tuple(staged.segments))
        reviser = Reviser(ground=ground, meta=meta, instant=attempt.instant, goes=goes)
        revised = _gathered(spread_work(self.spark, reviser.revise, plan.tasks), before, attempt)
        self.adopted = tuple(staged.segments[place] for place in plan.adopted)
        attempt.segments += self.adopted
        attempt.coverage += [staged.coverage[place] for place in plan.adopted]
        removed = (*(segment.path for segment in touch.dropped), *(path for one in revised for path in one.removed))
        tally = Tally(
            rows=staged.tally.rows,
            segments=len(attempt.segments),
            buckets=arrived.coverage.cardinality(),
            removed_rows=sum(one.removed_rows for one in revised) + sum(segment.rows for segment in touch.dropped),
            removed_segments=len(removed),
            replaced_buckets=touch.replaced(arrived.coverage),
            updated_rows=len(BitMap64().union(*(one.hits for one in revised))),
        )
        overlaps = keeps_overlaps(before, attempt.coverage, frozenset(removed))
        return Revision(removed=removed, coverage=arrived.coverage, tally=tally, keeps_overlaps=overlaps)


def _gathered(answers: Sequence[Revised | GaplessError], before: Before, attempt: Attempt) -> list[Revised]:
    """What tasks wrote, put into the attempt; raises what one of them raised, with nothing of it stored any more."""
    revised = [answer for answer in answers if isinstance(answer, Revised)]
    for one in revised:
        one.outcome.add_to(attempt, before.entity_types)
    for answer in answers:
        if isinstance(answer, GaplessError):
            attempt.discard()
            raise answer
    return revised
