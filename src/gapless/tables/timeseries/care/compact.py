"""Compaction of time-series tables (OPTIMIZE): the same rows in larger segments, sorted or clustered."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import claim
from gapless.formats.timeseries.conflict.maintenance import CompactChecker
from gapless.log.format import Snapshot
from gapless.model.properties import Codec
from gapless.model.segment import Segment
from gapless.runtime.committer import Proposal
from gapless.tables.shared.compaction import Compaction, CompactionProgress, CompactionReport, GivenUp
from gapless.tables.timeseries.care.compact_bin import SegmentBin, codecs_of, write_bin
from gapless.tables.timeseries.care.compact_plan import Bin, CompactionPlan, CompactOptions, plan_compaction
from gapless.tables.timeseries.context import SeriesContext, SeriesProposal, new_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor(Compaction[Commit, TableState, Bin, Segment]):
    """Compacts one table in this process, one bin after the other."""

    context: SeriesContext
    options: CompactOptions
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    """Codecs of the segments that were live when it began, by path, where the options name one."""

    noun = "segment"

    def plan(self, snapshot: Snapshot[TableState]) -> CompactionPlan:
        """What `compact` would begin with; reads the segments' footers where their compression matters. Raises CorruptTable."""
        return self._begun(snapshot.state).next_plan(snapshot.state)

    def compact(self, snapshot: Snapshot[TableState]) -> CompactionReport:
        """See `Compaction.run`; with `max_bytes` only what the first plan holds."""
        return self._begun(snapshot.state).run(snapshot)

    def _begun(self, state: TableState) -> Self:
        codecs = {} if self.options.codec is None else codecs_of(self.context.store, state.segments)
        return replace(self, codecs=codecs, progress=CompactionProgress(before=state.live))

    def next_plan(self, state: TableState) -> CompactionPlan:
        """What is left to be rewritten, and what to leave."""
        meta = state.meta
        if meta.schema is None:
            return CompactionPlan(bins=(), left={}, target_size=self.options.target_size)
        return plan_compaction(
            [segment for segment in state.segments if self.progress.is_own(segment.path)],
            meta.index,
            meta.schema,
            self.options,
            ids=meta.ids,
            codecs=self.codecs,
            settled=self.progress.made.keys(),
            hopeless=self.progress.hopeless,
        )

    @property
    def commit_bytes(self) -> int:
        """The target size."""
        return self.options.target_size

    def next_bins(self, state: TableState) -> Sequence[Bin]:
        """See `Compaction`."""
        spent = self.progress.rounds and self.options.max_bytes is not None
        return () if spent else self.next_plan(state).bins

    def write(self, state: TableState, bins: Sequence[Bin]) -> Iterator[SegmentBin | GivenUp]:
        """Each of some bins in its order, as `write_bin` gives it; the files of all are named with one instant.

        Raises StoreError, and what keeps others from their work; what was not given then is not there, or left to vacuum.
        """
        env, grid = self.context.env, self.context.grid
        instant = StagedWrite.begin(env).instant
        attempts = (StagedWrite(env, instant, committed_here=True) for _ in bins)
        return (write_bin(one, mine, state, self.options, grid) for one, mine in zip(bins, attempts, strict=True))

    def propose(self, snapshot: Snapshot[TableState], written: Sequence[SegmentBin]) -> SeriesProposal:
        """See `Compaction`."""
        meta, options = snapshot.state.meta, self.options
        actions: list[Action] = [] if meta.is_ours else [UpdateTableMeta(claim(meta))]
        for one in written:
            actions += [RemoveSegment(path) for path in one.bin.paths]
            actions += [AddSegment(segment) for segment in one.files]
        parameters: dict[str, object] = {"bins": len(written), "target_size": options.target_size}
        if options.cluster_by:
            parameters["cluster_by"] = list(options.cluster_by)
        entry = new_commit(self.context.env, "compact", parameters, actions)
        return Proposal(commit=entry, check_conflict=CompactChecker(removed=frozenset(entry.removed)).check_conflict)

    def landed(self, written: Sequence[SegmentBin]) -> None:
        """Remember what the segments cover."""
        for one in written:
            self.context.remember(one.files, one.coverage)

    def live(self, state: TableState) -> Container[str]:
        """By path."""
        return state.live

    def key_of(self, file: Segment) -> str:
        """Its path."""
        return file.path

    def rows_of(self, file: Segment) -> int:
        """As the log says."""
        return file.rows
