"""All rows of a table give way to segments that are written already."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    RemoveSegment,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.dialects.timeseries.conflict import SCHEMA
from gapless.dialects.timeseries.features import claim
from gapless.dialects.timeseries.rewrite_terms import RewriteTerms
from gapless.log.commit import Conflict
from gapless.log.dialect import Snapshot
from gapless.log.verdict import Clash
from gapless.model.index import IndexSpec
from gapless.model.operation import OperationId
from gapless.model.report import Tally
from gapless.model.schema import entity_types
from gapless.parquet.attempt import Attempt
from gapless.runtime.committer import ENGINE, NOT_COMMITTED, Proposal, refuse_conflict
from gapless.runtime.series import SeriesCommitter, SeriesProposal
from gapless.table.coverage import CoverageCache
from gapless.table.done import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwriter:
    """Overwrites one table."""

    committer: SeriesCommitter
    cache: CoverageCache
    index: IndexSpec
    grid: Grid
    operation: OperationId | None = None

    def apply(self, snapshot: Snapshot[TableState], schema: pa.Schema, attempt: Attempt) -> Done:
        """Put the attempt's segments in the place of all others, in one commit; `schema` are the table's columns after it.

        What other writers commit meanwhile gives way too; the segments are not written again for it. Raises CommitConflict where the
        columns were changed first, or the table made unique, or the deadline passed, CommitOutcomeUnknown, StoreError. The attempt is discarded where the
        operation was applied already, and where it is certain that it was not committed.
        """
        found, tally = snapshot, Tally()

        def propose(now: Snapshot[TableState]) -> SeriesProposal | None:
            nonlocal found, tally
            found, tally = now, _tally(now.state, attempt)
            if Done.before(now, self.operation) is not None:
                return None
            if _demands(now.state.meta) != _demands(snapshot.state.meta):
                raise refuse_conflict(Conflict(now.version, Clash(SCHEMA)))
            actions = self._actions(now.state, schema, attempt, tally)
            return self._proposal(actions, schema, attempt) if actions else None

        try:
            landed = self.committer.change(snapshot, propose)
        except NOT_COMMITTED:
            attempt.discard()
            raise
        if landed is None:
            attempt.discard()
            return Done.before(found, self.operation) or Done(Tally(), found.version)
        for segment, coverage in zip(attempt.segments, attempt.coverage, strict=True):
            self.cache.remember(segment, coverage)
        return Done(tally, landed.version)

    def _actions(self, now: TableState, schema: pa.Schema, attempt: Attempt, tally: Tally) -> tuple[Action, ...]:
        """The log entry's actions; none where the table would stay as it is."""
        actions: list[Action] = [RemoveSegment(segment.path) for segment in now.segments]
        actions += [AddSegment(segment) for segment in attempt.segments]
        if self.operation is not None:
            actions.append(SetTransaction(self.operation, tally))
        if schema != now.meta.schema or (actions and not now.meta.is_ours):
            # What else the metadata say, such as properties, is as it is now.
            actions.insert(0, UpdateTableMeta(claim(replace(now.meta, schema=schema))))
        return tuple(actions)

    def _proposal(self, actions: tuple[Action, ...], schema: pa.Schema, attempt: Attempt) -> SeriesProposal:
        terms = RewriteTerms(
            near=lambda segments: segments,
            reaches=lambda _segment, _coverage: True,
            coverage=attempt.covered,
            entity_types=entity_types(schema, self.index),
            grid=self.grid,
            operation=self.operation,
        )
        commit = Commit(id=self.committer.rim.ids.uuid(), operation="overwrite", engine=ENGINE, parameters={}, actions=actions)
        # Nothing to discard where it lost: the same files are proposed again.
        return Proposal(commit=commit, judge=terms.judge)


def _demands(meta: TableMeta) -> tuple[object, ...]:
    """What the segments were written for."""
    return meta.schema, meta.ids, meta.properties.unique


def _tally(state: TableState, attempt: Attempt) -> Tally:
    """What overwriting this version counts; which of its buckets are covered again is not asked."""
    return replace(
        attempt.tally, removed_rows=sum(segment.rows for segment in state.segments), removed_segments=len(state.segments)
    )
