"""Appending to a time-series table, and overwriting it, from staged segments to the commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from gapless.errors import CorruptTable, CoverageOverlap, DuplicateKey, UnsupportedTable, UpgradeNeeded
from gapless.files.ingest.batches import Batches
from gapless.files.read.source import open_segment, read_group
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    RemoveSegment,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
    kind_of_change,
)
from gapless.formats.timeseries.codec.metadata import WRITER_FEATURES, inline_limit
from gapless.formats.timeseries.common_schema import common_schema
from gapless.formats.timeseries.conflict.rows import OVERLAP, PROPERTIES, SCHEMA, RewriteChecker
from gapless.log.commit import CLEANED, Conflict
from gapless.log.format import Conflicting, Snapshot
from gapless.model.column_ids import ColumnIds
from gapless.model.fit import to_declared
from gapless.model.operation import AppendReport, OperationId, Tally
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.runtime.committer import Proposal, refuse_conflict, require_file
from gapless.runtime.environment import Environment
from gapless.tables.shared.landing import Prepared, skip_applied
from gapless.tables.timeseries.context import SeriesContext, SeriesProposal, new_commit, with_schema
from gapless.tables.timeseries.write.stage import Staged, Stager

APPEND = kind_of_change("append")
"""What kind of change an append is, however it treats covered buckets and whether files are adopted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appender:
    """Appends to one table."""

    context: SeriesContext
    on_overlap: OnOverlap
    by_table: bool = False
    """Whether `on_overlap` is the table's property, and not the caller's word."""
    operation: OperationId | None = None

    def append(self, snapshot: Snapshot[TableState], parts: Iterable[Batches]) -> AppendReport:
        """Write all parts as one commit, or nothing; an operation that this version, or a later one, has applied is not applied again.

        An append that lost to a commit covering some of its buckets is held against the newest version, which may cover them no more: under
        "skip" its rows are filtered again and written anew; so are those of one whose keys must be held against rows that came first,
        and of one whose version the log was cleaned past.
        """
        if (known := self.known(snapshot)) is not None:
            return known
        try:
            return self._prepared(snapshot, parts, durable=False).land(self.context.committer).append_report
        except (CoverageOverlap, DuplicateKey):
            # What the newest version covers may be these very rows, which another process sent meanwhile under this operation.
            if (known := self.known(self.context.committer.refresh(snapshot))) is None:
                raise
            return known

    def prepare(self, snapshot: Snapshot[TableState], parts: Iterable[Batches]) -> Prepared[TableState, Commit]:
        """Write all parts as durable segments for this version, to be committed later as one append; raises DataError."""
        return self._prepared(snapshot, parts, durable=True)

    def _prepared(
        self, snapshot: Snapshot[TableState], parts: Iterable[Batches], *, durable: bool
    ) -> Prepared[TableState, Commit]:
        env = self.context.env
        attempt = StagedWrite.begin(env) if durable else StagedWrite.begin_alone(env, snapshot.state)
        appender = self if self.heeds(snapshot) else self.after(_other_policy(snapshot), snapshot, attempt)
        stager = appender.stager(snapshot)
        with attempt.discarded_on_error():
            staged = (replace(stager, inline_bytes=0) if durable else stager).stage(parts, attempt, self.operation)
        change = _Append(appender=appender, staged=staged, durable=durable, segments=[*attempt.segments])
        return Prepared(
            snapshot=snapshot,
            propose=change.propose,
            operation=self.operation,
            kind=APPEND,
            files=attempt.written,
            held=partial(holds_segments, change.segments),
            discard=change.discard,
            lost=change.lose,
            retry_missing=False,
        )

    def heeds(self, snapshot: Snapshot[TableState]) -> bool:
        """Whether its overlap policy is that of this version of the table, where the table's decides."""
        return not self.by_table or self.on_overlap == snapshot.state.meta.properties.on_overlap

    def known(self, snapshot: Snapshot[TableState]) -> AppendReport | None:
        """The first report of an operation that was applied before, and is left out now."""
        known = skip_applied(self.context.committer, snapshot, self.operation, APPEND)
        return None if known is None else known.append_report

    def stager(self, snapshot: Snapshot[TableState]) -> Stager:
        """What turns input into segments for this version."""
        return Stager(
            env=self.context.env,
            state=snapshot.state,
            cache=self.context.cache,
            on_overlap=self.on_overlap,
            by_table=self.by_table,
            inline_bytes=inline_limit(snapshot.state),
            newest=lambda: self.context.committer.refresh(snapshot).state,
        )

    def proposal(self, staged: Staged) -> Proposal[Commit] | Tally:
        """The commit of what was staged, whose files stay where it loses; what it counts, where there is nothing to commit."""
        attempt = staged.attempt
        if staged.commit is None:
            return attempt.tally
        return Proposal(
            commit=staged.commit,
            check_conflict=staged.checker.check_conflict,
            tally=attempt.tally,
            landed=lambda: self.context.remember(attempt.segments, attempt.coverage),
            deferred=attempt.deferred,
        )

    def commit(self, snapshot: Snapshot[TableState], staged: Staged) -> AppendReport | Conflict:
        """Commit what was staged for this version, and try no other; raises CommitOutcomeUnknown."""
        proposal = self.proposal(staged)
        if not isinstance(proposal, Proposal):
            self.context.committer.count_rows(proposal, APPEND)
            return AppendReport.of(proposal, snapshot.version)
        outcome = self.context.committer.commit(snapshot, replace(proposal, discard=staged.attempt.discard))
        return outcome if isinstance(outcome, Conflict) else AppendReport.of(proposal.tally, outcome.version)

    def after(self, lost: Conflict, snapshot: Snapshot[TableState], attempt: StagedWrite) -> Appender:
        """How an attempt that lost is tried again: under the overlap policy that the table has now, where the table's decides.

        Raises CommitConflict where it is not: rows that were left out, or are to be taken away, are not at hand.
        """
        now, heeds = snapshot.state.meta.properties.on_overlap, self.heeds(snapshot)
        if lost.cause.reason not in (OVERLAP, PROPERTIES, CLEANED) or (
            not heeds and (now == "replace" or attempt.skipped_rows)
        ):
            raise refuse_conflict(lost)
        return self if heeds else replace(self, on_overlap=now)


@dataclass(slots=True, kw_only=True)
class _Append:
    """One append on its way: what was staged for a version is filtered again, and written anew, for the next where its commit lost."""

    appender: Appender
    staged: Staged
    durable: bool
    """Whether what was staged first stays, to be committed later."""
    conflict: Conflict | None = None
    segments: list[Segment] = field(default_factory=list)
    """All that were ever proposed: any of them in a version says that it was committed."""

    def propose(self, snapshot: Snapshot[TableState]) -> Proposal[Commit] | Tally:
        # Taken, so that what is committed anew after an error is first proposed as it was prepared.
        conflict, self.conflict = self.conflict, None
        if conflict is None:
            return self.appender.proposal(self.staged)
        lost = self.staged.attempt
        self.appender = self.appender.after(conflict, snapshot, lost)
        parts, fresh = self._read_back(lost, self.staged, snapshot), self._successor(lost, snapshot.state)
        try:
            with fresh.discarded_on_error():
                staged = self.appender.stager(snapshot).stage(parts, fresh, self.appender.operation)
        finally:
            if not self.durable:
                lost.discard()
        proposal = self.appender.proposal(staged)
        if self.durable:
            self.segments += fresh.segments
            return replace(proposal, discard=fresh.discard) if isinstance(proposal, Proposal) else proposal
        self.staged = staged
        return proposal

    def lose(self, conflict: Conflict) -> None:
        self.conflict = conflict

    def discard(self) -> None:
        self.staged.attempt.discard()

    def _read_back(self, lost: StagedWrite, staged: Staged, snapshot: Snapshot[TableState]) -> tuple[Batches, ...]:
        """The rows of a lost attempt as input for the next, in the columns of now; read segment by segment as they are asked for."""
        meta, checker, env = snapshot.state.meta, staged.checker, self.appender.context.env
        schema = common_schema(meta, checker.schema, checker.ids, checker.empty) if checker.schema else None
        if isinstance(schema, str):
            raise refuse_conflict(Conflict(snapshot.version, Conflicting(SCHEMA, schema)))

        def read(segment: Segment) -> Iterator[pa.RecordBatch]:
            return read_staged(env, segment, schema, meta.ids, snapshot.version)

        return tuple(Batches(source="rows staged before", schema=schema, read=partial(read, one)) for one in lost.segments)

    def _successor(self, lost: StagedWrite, state: TableState) -> StagedWrite:
        """A new attempt that has skipped what the lost one had."""
        fresh = StagedWrite.begin_alone(self.appender.context.env, state)
        fresh.skipped_rows, fresh.skipped = lost.skipped_rows, lost.skipped
        return fresh


def holds_segments(segments: Sequence[Segment], state: TableState) -> bool:
    """Whether a version has one of these segments, or keeps it for older versions."""
    return any(segment.path in state.live or segment.path in state.removed for segment in segments)


def _other_policy(snapshot: Snapshot[TableState]) -> Conflict:
    return Conflict(snapshot.version, Conflicting(PROPERTIES, f"on_overlap={snapshot.state.meta.properties.on_overlap!r}"))


def read_staged(
    env: Environment, segment: Segment, schema: pa.Schema, ids: ColumnIds, version: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a segment that was written and not committed, as the columns of `schema`, a row group at a time.

    Raises CommitConflict where vacuum took the file, since whoever wrote it was slow (`version` is the newest that is known), CorruptTable.
    """
    try:
        with open_segment(env.store, segment) as file:
            for number in range(file.num_row_groups):
                yield from to_declared(read_group(file, segment, number), schema, ids=ids, path=segment.path).to_batches()
    except CorruptTable:
        if segment.data is None:
            require_file(env, segment.path, version)
        raise


def check_writable(state: TableState, path: str, *, upgrade: bool) -> None:
    """Raise UpgradeNeeded or UnsupportedTable where this release may not write to the table."""
    unknown = sorted(state.meta.writer_features - WRITER_FEATURES)
    if unknown:
        raise UnsupportedTable(
            f"writing to {path} needs the feature {unknown[0]!r}",
            why=f"This release knows {', '.join(sorted(WRITER_FEATURES))}; without it a write could break the table",
            fix="Write with the release that made the table; reading works",
            needs=unknown[0],
        )
    if not state.meta.is_ours and not upgrade:
        raise UpgradeNeeded(
            f"{path} was written by timeseries-table-format and not yet by gapless",
            why="The first write of gapless shuts the writers of timeseries-table-format out for good; its readers go on",
            fix="Open it with gl.open(path, upgrade=True), or pass --upgrade, if you want that",
            path=path,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwriter:
    """Overwrites one table."""

    context: SeriesContext
    operation: OperationId | None = None

    def prepare(self, snapshot: Snapshot[TableState], schema: pa.Schema, attempt: StagedWrite) -> Prepared[TableState, Commit]:
        """The attempt's segments, which are durable, as the rows that take the place of all others; `schema` are the columns after it.

        What other writers commit meanwhile gives way too; the segments are not written again for it. To commit it raises CommitConflict
        where the columns were changed first, or the table made unique, or the deadline passed.
        """
        demands = _demands(snapshot.state.meta)

        def propose(now: Snapshot[TableState]) -> SeriesProposal | Tally:
            if _demands(now.state.meta) != demands:
                raise refuse_conflict(Conflict(now.version, Conflicting(SCHEMA)))
            return self._proposal(now.state, schema, attempt)

        return Prepared(
            snapshot=snapshot,
            propose=propose,
            operation=self.operation,
            kind=kind_of_change("overwrite"),
            files=attempt.written,
            held=partial(holds_segments, attempt.segments),
            discard=attempt.discard,
        )

    def _proposal(self, now: TableState, schema: pa.Schema, attempt: StagedWrite) -> SeriesProposal | Tally:
        tally = _tally(now, attempt)
        actions: list[Action] = [RemoveSegment(segment.path) for segment in now.segments]
        actions += [AddSegment(segment) for segment in attempt.segments]
        if self.operation is not None:
            actions.append(SetTransaction(self.operation, tally))
        if schema != now.meta.schema or (actions and not now.meta.is_ours):
            # What else the metadata say, such as properties, is as it is now.
            actions.insert(0, UpdateTableMeta(with_schema(now.meta, schema)))
        if not actions:
            return Tally()
        checker = RewriteChecker(
            near=lambda segments: segments,
            reaches=lambda _segment, _coverage: True,
            coverage=attempt.covered,
            entity_types=entity_types(schema, now.meta.index),
            grid=self.context.grid,
            operation=self.operation,
        )
        return Proposal(
            commit=new_commit(self.context.env, "overwrite", {}, actions),
            check_conflict=checker.check_conflict,
            tally=tally,
            landed=lambda: self.context.remember(attempt.segments, attempt.coverage),
        )


def _demands(meta: TableMeta) -> tuple[object, ...]:
    """What the segments were written for."""
    return meta.schema, meta.ids, meta.properties.unique


def _tally(state: TableState, attempt: StagedWrite) -> Tally:
    """What overwriting this version counts; which of its buckets are covered again is not asked."""
    return replace(
        attempt.tally, removed_rows=sum(segment.rows for segment in state.segments), removed_segments=len(state.segments)
    )
