"""Writes of Spark into Delta tables: what executors need before, and one commit of the data files that they stored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, StoreError
from gapless.formats.delta.actions import TableState
from gapless.model.operation import AppendReport, ChangeReport, SequenceId
from gapless.runtime.committer import calling_on_error
from gapless.runtime.metrics import DUPLICATES
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.reading.columns import quoted
from gapless.spark.setup.job_context import delta_job_context
from gapless.spark.writing.delta_encode import DeltaEncoding, DeltaOutcome
from gapless.spark.writing.target import Change, Delivery, WriteTarget
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.handle import DeltaContext
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.append import Append
from gapless.tables.delta.write.landing import RowCommitter, StagedRows, holds_files
from gapless.tables.delta.write.merge_schema import EvolvedVersion
from gapless.tables.delta.write.overwrite import Overwrite, check_part
from gapless.tables.delta.write.prepared import DeltaEpoch
from gapless.tables.shared.landing import ChangeOutcome, skip_applied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTarget(WriteTarget[DeltaTable, DeltaEncoding, DeltaOutcome]):
    """A Delta table."""

    @property
    def context(self) -> DeltaContext:
        """See `WriteTarget.context`."""
        return delta_job_context(self.handle, to_write=True)

    def kind_of(self, change: Change) -> str:
        """See `WriteTarget.kind_of`."""
        return change

    def record(self, operation: SequenceId) -> None:
        """See `WriteTarget.record`."""
        self.handle.append([], operation_id=(operation.app, operation.sequence))

    def begin(self, given: pa.Schema, delivery: Delivery) -> DeltaEncoding:
        """See `WriteTarget.begin`; for the newest version."""
        context = self.context
        arriving = arriving_schema(given, self.handle.schema)
        epoch = DeltaEpoch.begin(self.handle, arriving, delivery.schema_mode, where=delivery.where)
        evolved, state = epoch.evolved, epoch.evolved.state
        # Executors write files, whatever others there are.
        bare = TableState(protocol=state.protocol, metadata=state.metadata, domains=state.domains)
        return DeltaEncoding(
            store=context.env.store,
            given=arriving,
            evolved=EvolvedVersion(state=bare, actions=evolved.actions, before=evolved.before),
            names=epoch.given,
            instant_ms=epoch.attempt.instant_ms,
            where=delivery.where,
        )

    def append(self, delivery: Delivery, encoder: DeltaEncoding, outcomes: Iterable[DeltaOutcome]) -> AppendReport:
        """See `WriteTarget.append`: where the columns changed since, the driver writes the rows anew."""
        context = self.context
        append = Append(env=context.env, operation=delivery.operation)
        return self._land(context, delivery, _gathered(context, encoder, outcomes), append).append_report

    def overwrite(self, delivery: Delivery, encoder: DeltaEncoding, outcomes: Iterable[DeltaOutcome]) -> ChangeReport:
        """See `WriteTarget.overwrite`: all rows give way, or those of the part that the delivery names."""
        context = self.context
        overwrite = Overwrite.of(
            context.env,
            where=delivery.where,
            partitions=delivery.partitions,
            mode=delivery.schema_mode,
            operation=delivery.operation,
        )
        staged = _gathered(context, encoder, outcomes)
        with calling_on_error(partial(_discard_uncommitted, context, staged)):
            check_part(context.refresh().state, delivery.where, delivery.partitions)
        return self._land(context, delivery, staged, overwrite).change_report

    def discard(self, encoder: DeltaEncoding, outcomes: Sequence[DeltaOutcome]) -> None:
        """See `WriteTarget.discard`."""
        context = self.context
        _discard_uncommitted(context, _staged(context, encoder, outcomes))

    def spread(self, frame: DataFrame) -> DataFrame:
        """See `WriteTarget.spread`: by the table's partition columns; raises InvalidOption where it has none."""
        from pyspark.sql import functions

        names = self.handle.partition_by
        if not names:
            raise InvalidOption(
                "spread=True for a Delta table without partition columns",
                why="It brings the rows of one partition of the table to one task",
                fix="Leave it out; say frame.repartition(…) for fewer files",
                option="spread",
                value=True,
            )
        return frame.repartition(*(functions.col(quoted(name)) for name in names))

    def _land(self, context: DeltaContext, delivery: Delivery, staged: StagedRows, change: Append | Overwrite) -> ChangeOutcome:
        kind: Change = "append" if isinstance(change, Append) else "overwrite"
        discard = partial(_discard_uncommitted, context, staged)
        committer = RowCommitter(
            committer=context.committer,
            propose=change.propose,
            kind=kind,
            check_writable=self._check_writable,
            mode=delivery.schema_mode,
            operation=delivery.operation,
        )
        with calling_on_error(discard):
            newest = context.refresh()
            known = skip_applied(context.committer, newest, delivery.operation, kind)
        if known is not None:
            discard()
            return known
        if holds_files(staged.files, newest.state):
            context.committer.count(DUPLICATES, 1, kind)
            return ChangeOutcome(staged.tally, newest.version, already=True)
        done = replace(committer.resume(newest, staged), discard=discard).land(context.committer)
        if staged.files and staged.files[0].key not in self.context.snapshot.state.files:
            # The rows were written anew for other columns, or another's commit came since.
            discard()
        return done

    def _check_writable(self) -> None:
        delta_job_context(self.handle, to_write=True)


def _gathered(context: DeltaContext, encoder: DeltaEncoding, outcomes: Iterable[DeltaOutcome]) -> StagedRows:
    """What executors wrote; raises what one of them refused, with nothing left behind."""
    outcomes = list(outcomes)
    staged = _staged(context, encoder, outcomes)
    refusal = next((outcome.refusal for outcome in outcomes if outcome.refusal is not None), None)
    if refusal is not None:
        staged.attempt.discard()
        raise refusal
    return staged


def _staged(context: DeltaContext, encoder: DeltaEncoding, outcomes: Iterable[DeltaOutcome]) -> StagedRows:
    outcomes = list(outcomes)
    written = [path for outcome in outcomes for path in outcome.written]
    return StagedRows(
        attempt=StagedWrite(context.env, encoder.instant_ms, written=written),
        evolved=encoder.evolved,
        files=tuple(file for outcome in outcomes for file in outcome.files),
        rows=sum(outcome.rows for outcome in outcomes),
        given=encoder.names,
    )


def _discard_uncommitted(context: DeltaContext, staged: StagedRows) -> None:
    """Remove what was staged, unless a version has it; where the newest one cannot be read, all of it is left for vacuum."""
    with contextlib.suppress(StoreError):
        if not holds_files(staged.files, context.refresh().state):
            staged.attempt.discard()
