"""Writes of Spark into time-series tables: what executors need before, and one commit of the segments that they stored.

A stream that must record more than its operation id (the location of its checkpoint) does so in a commit of its own, before its first
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import kind_of_change
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.model.operation import AppendReport, ChangeReport, JobId, OperationId, SequenceId
from gapless.model.schema import entity_types
from gapless.runtime.committer import calling_on_error
from gapless.runtime.metrics import DUPLICATES
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.job_context import job_context
from gapless.spark.writing.bucket_columns import repartition
from gapless.spark.writing.encode import Encoding, Outcome
from gapless.spark.writing.target import Change, Delivery, WriteTarget
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.append import Overwriter, holds_segments
from gapless.tables.timeseries.write.staged_append import StagedAppend, discard_uncommitted, schema_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTarget(WriteTarget[TimeSeriesTable, Encoding, Outcome]):
    """A time-series table."""

    @property
    def context(self) -> SeriesContext:
        """See `WriteTarget.context`."""
        return job_context(self.handle, to_write=True)

    def kind_of(self, change: Change) -> str:
        """See `WriteTarget.kind_of`."""
        return kind_of_change(change)

    def record(self, operation: SequenceId) -> None:
        """See `WriteTarget.record`."""
        self.handle.append([], on_overlap="allow", operation_id=(operation.app, operation.sequence))

    def begin(self, given: pa.Schema, delivery: Delivery) -> Encoding:  # noqa: ARG002  # of Delta tables
        """See `WriteTarget.begin`; the instant names the files of one write."""
        context = self.context
        meta = context.snapshot.state.meta
        arriving = arriving_schema(given, meta.schema)
        schema = schema_with(arriving, context, context.snapshot.state, "the DataFrame")
        instant = StagedWrite.begin(context.env).instant
        return Encoding(
            store=context.env.store, meta=with_features(replace(meta, schema=schema)), given=arriving, instant=instant
        )

    def append(self, delivery: Delivery, encoder: Encoding, outcomes: Iterable[Outcome]) -> AppendReport:
        """See `WriteTarget.append`.

        Where rows must be looked at one by one ("skip" and "replace" on covered buckets, unique keys, a lost race, columns that changed since)
        the driver reads the staged segments back and appends their rows.
        """
        context = self.context
        staged = _staged(context, encoder, outcomes)
        return staged.append(
            context,
            delivery.on_overlap,
            delivery.operation,
            lambda rows: self.handle.append(rows, on_overlap=delivery.on_overlap, operation_id=_public(delivery.operation)),
            partial(discard_uncommitted, context, staged.attempt),
        )

    def overwrite(self, delivery: Delivery, encoder: Encoding, outcomes: Iterable[Outcome]) -> ChangeReport:
        """See `WriteTarget.overwrite`; all rows give way, and the overlap policy does not matter.

        The driver reads the rows back, and holds them in memory, in a `unique` table and where columns changed since. Raises as
        `table.replace`.
        """
        context = self.context
        snapshot = context.refresh()
        staged = _staged(context, encoder, outcomes)
        attempt = staged.attempt
        with calling_on_error(partial(discard_uncommitted, context, attempt)):
            known = ChangeOutcome.before(snapshot, delivery.operation, kind_of_change("overwrite"))
            if known is not None and holds_segments(attempt.segments, snapshot.state):
                context.committer.count(DUPLICATES, 1, kind_of_change("overwrite"))
                return known.change_report
            direct = staged.fits(context, snapshot.state) and not snapshot.state.meta.properties.unique
        if not direct:
            try:
                return self.handle.replace(
                    (None, None), staged.rows(context, snapshot), operation_id=_public(delivery.operation)
                )
            finally:
                discard_uncommitted(context, attempt)
        overwriter = Overwriter(context=context, operation=delivery.operation)
        prepared = overwriter.prepare(snapshot, staged.schema, attempt)
        return replace(prepared, discard=partial(discard_uncommitted, context, attempt)).land(context.committer).change_report

    def discard(self, encoder: Encoding, outcomes: Sequence[Outcome]) -> None:
        """See `WriteTarget.discard`."""
        context = self.context
        written = [path for outcome in outcomes for path in outcome.written]
        segments = [segment for outcome in outcomes for segment in outcome.segments]
        discard_uncommitted(context, StagedWrite(context.env, encoder.instant, written=written, segments=segments))

    def spread(self, frame: DataFrame) -> DataFrame:
        """See `WriteTarget.spread`: by bucket and identity."""
        return repartition(frame, self.handle.index)


def _staged(context: SeriesContext, encoding: Encoding, outcomes: Iterable[Outcome]) -> StagedAppend:
    return StagedAppend(attempt=gather(context, encoding, outcomes), meta=encoding.meta, given=encoding.given)


def gather(context: SeriesContext, encoding: Encoding, outcomes: Iterable[Outcome]) -> StagedWrite:
    """What executors wrote as one attempt; raises what one of them refused, with nothing left behind."""
    assert encoding.meta.schema is not None
    types = entity_types(encoding.meta.schema, encoding.meta.index)
    attempt, refusals = StagedWrite(context.env, encoding.instant), []
    for outcome in outcomes:
        outcome.add_to(attempt, types)
        refusals += [] if outcome.refusal is None else [outcome.refusal]
    if refusals:
        attempt.discard()
        raise refusals[0]
    return attempt


def _public(operation: OperationId | None) -> tuple[str, int] | str | None:
    """An operation id as users write it."""
    match operation:
        case SequenceId(app=app, sequence=sequence):
            return app, sequence
        case JobId(id=name):
            return name
    return None
