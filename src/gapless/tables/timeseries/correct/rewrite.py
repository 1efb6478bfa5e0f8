"""Committing corrections of a time-series table: made to a version, and anew to a newer one where another's commit clashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.files.ingest.batches import Batches
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    RemoveSegment,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
    kind_of_change,
)
from gapless.formats.timeseries.codec.metadata import with_features
from gapless.formats.timeseries.conflict.rows import KEEPS_OVERLAPS, RewriteChecker
from gapless.log.format import Snapshot
from gapless.model.fit import to_declared
from gapless.model.operation import OperationId, Tally
from gapless.runtime.committer import Proposal, nothing
from gapless.tables.shared.landing import ChangeOutcome, land_change
from gapless.tables.timeseries.context import SeriesContext, SeriesProposal, new_commit
from gapless.tables.timeseries.correct.rewrite_affected import RewriteResult, RowChanges, rewrite_affected
from gapless.tables.timeseries.correct.row_selection import BaseVersion, RowSelector
from gapless.tables.timeseries.write.stage import Stager


class CommitInfo(Protocol):
    """One intended change of rows, as the log speaks of it."""

    @property
    def operation(self) -> str:
        """What the log calls it."""
        ...

    @property
    def parameters(self) -> Mapping[str, object]:
        """What the log says of it, as JSON has it."""
        ...


class Correction(CommitInfo, Protocol):
    """One intended change of rows."""

    def decide(self, before: BaseVersion, rows: pa.Table) -> RowChanges:
        """What it does to this version with the input's rows, which are in declared types and in the order in which they came.

        Raises DataError where they do not fit.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A correction made to one version, and not committed yet."""

    actions: tuple[Action, ...]
    """None of them where the table would stay as it is."""
    parameters: Mapping[str, object]
    checker: RewriteChecker
    attempt: StagedWrite
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Makes corrections of one table."""

    context: SeriesContext
    operation: OperationId | None = None

    def apply(self, snapshot: Snapshot[TableState], correction: Correction, parts: Sequence[Batches] = ()) -> ChangeOutcome:
        """Make a correction to a version, in one commit; `parts` can be read again and again.

        It is made anew, to the newest version, where another's commit came first and clashes, until the deadline. Raises CommitConflict then,
        CommitOutcomeUnknown, StoreError, and what `correction` raises.
        """
        return self.land(snapshot, correction.operation, lambda state: self._make(state, correction, tuple(parts)))

    def land(
        self,
        snapshot: Snapshot[TableState],
        operation: str,
        make: Callable[[TableState], Made],
        discard: Callable[[], None] = nothing,
    ) -> ChangeOutcome:
        """Commit what `make` makes of a version, or of a newer one where another's commit came first and clashes; see `apply`.

        `discard` is that of `Committer.land`.
        """

        def propose(newest: Snapshot[TableState]) -> SeriesProposal | Tally:
            made = make(newest.state)
            return self._proposal(operation, made) if made.actions else Tally()

        kind = kind_of_change(operation)
        return land_change(self.context.committer, snapshot, propose, self.operation, kind, discard=discard)

    def _proposal(self, operation: str, made: Made) -> SeriesProposal:
        attempt = made.attempt
        return Proposal(
            commit=new_commit(self.context.env, operation, made.parameters, made.actions),
            check_conflict=made.checker.check_conflict,
            tally=made.tally,
            discard=attempt.discard,
            landed=lambda: self.context.remember(attempt.segments, attempt.coverage),
            deferred=attempt.deferred,
        )

    def _make(self, state: TableState, correction: Correction, parts: tuple[Batches, ...]) -> Made:
        attempt = StagedWrite.begin_alone(self.context.env, state)
        with attempt.discarded_on_error():
            return self._write(state, correction, parts, attempt)

    def _write(self, state: TableState, correction: Correction, parts: tuple[Batches, ...], attempt: StagedWrite) -> Made:
        stager = Stager.of(self.context, state, "replace")
        schema = stager.schema_for(parts)
        if schema is None:
            return self.made_of_nothing(state, correction, attempt)
        before = BaseVersion(state=state, schema=schema, cache=self.context.cache)
        rows = [to_declared(batch, schema, ids=state.meta.ids) for batch in stager.fitted(parts, schema)]
        changes = correction.decide(before, pa.Table.from_batches(rows, schema))
        made = rewrite_affected(before, changes, attempt)
        return self.made(before, correction, changes.cut, made, attempt)

    def made(  # all that a log entry is made of
        self, before: BaseVersion, correction: CommitInfo, cut: RowSelector, made: RewriteResult, attempt: StagedWrite
    ) -> Made:
        """What was written for a correction, whose rows go by `cut`, with its log entry and what must hold for that."""
        checker = RewriteChecker(
            near=cut.near,
            reaches=lambda segment, coverage: cut.reach(segment, lambda: coverage) != "none",
            coverage=made.coverage,
            entity_types=before.entity_types,
            grid=self.context.grid,
            operation=self.operation,
            written=attempt.covered,
        )
        return Made(
            actions=self._actions(before.state, before.after, made, attempt),
            parameters={**correction.parameters, KEEPS_OVERLAPS: True} if made.keeps_overlaps else correction.parameters,
            checker=checker,
            attempt=attempt,
            tally=made.tally,
        )

    def made_of_nothing(self, state: TableState, correction: CommitInfo, attempt: StagedWrite) -> Made:
        """What a correction makes of a table without columns to which no rows come."""
        checker = RewriteChecker(
            # Rows that come first bring the columns, and that alone is a clash.
            near=lambda segments: segments,
            reaches=lambda _segment, _coverage: True,
            coverage=CoverageMap(),
            entity_types=(),
            grid=self.context.grid,
            operation=self.operation,
        )
        actions = self._actions(state, state.meta, None, attempt)
        return Made(actions=actions, parameters=correction.parameters, checker=checker, attempt=attempt, tally=Tally())

    def _actions(
        self, state: TableState, meta: TableMeta, made: RewriteResult | None, attempt: StagedWrite
    ) -> tuple[Action, ...]:
        """The log entry's actions; none where the table would stay as it is."""
        actions: list[Action] = []
        if made is not None:
            actions += [RemoveSegment(path) for path in made.removed]
            actions += [AddSegment(segment) for segment in attempt.segments]
        if self.operation is not None:
            actions.append(SetTransaction(self.operation, Tally() if made is None else made.tally))
        if meta is not state.meta:
            actions.insert(0, UpdateTableMeta(meta))
        elif actions and not state.meta.is_ours:
            actions.insert(0, UpdateTableMeta(with_features(meta)))
        return tuple(actions)
