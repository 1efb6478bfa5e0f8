"""Compaction of time-series tables: the steps of `run_compaction`, whose bins are written here or by Spark's executors."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import claim
from gapless.formats.timeseries.conflict.maintenance import CompactChecker
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.properties import Codec
from gapless.model.segment import Segment
from gapless.runtime.committer import ENGINE, Proposal
from gapless.tables.shared.compaction import CompactionProgress, CompactionReport, GivenUp, run_compaction
from gapless.tables.timeseries.care.compact_bin import BinWriter, SegmentBin, WriterHere, codecs_of
from gapless.tables.timeseries.care.compact_plan import Bin, CompactionPlan, CompactOptions, plan_compaction
from gapless.tables.timeseries.context import SeriesContext, SeriesProposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts one table."""

    context: SeriesContext
    options: CompactOptions
    elsewhere: BinWriter | None = None
    """Who writes bins; None: this process."""

    def plan(self, snapshot: Snapshot[TableState]) -> CompactionPlan:
        """What `compact` would begin with; reads the segments' footers where their compression matters. Raises CorruptTable."""
        return self._begun(snapshot).plan(snapshot.state, CompactionProgress(before=snapshot.state.live))

    def compact(self, snapshot: Snapshot[TableState]) -> CompactionReport:
        """See `run_compaction`; with `max_bytes` only what the first plan holds."""
        return run_compaction(self.context.committer, snapshot, self._begun(snapshot))

    def _begun(self, snapshot: Snapshot[TableState]) -> _SeriesCompaction:
        asked = self.options.codec is not None
        codecs = codecs_of(self.context.store, snapshot.state.segments) if asked else {}
        writer = self.elsewhere or WriterHere(env=self.context.env, options=self.options, grid=self.context.grid)
        return _SeriesCompaction(context=self.context, options=self.options, writer=writer, codecs=codecs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeriesCompaction:
    """The `CompactionSteps` of a time-series table. A commit holds bins of together about the target size; those that executors write as
    many as are written at once.
    """

    context: SeriesContext
    options: CompactOptions
    writer: BinWriter
    codecs: Mapping[str, Codec]
    """Codecs of the segments that were live when it began, by path, where the options name one."""

    noun = "segment"

    def plan(self, state: TableState, progress: CompactionProgress[Segment]) -> CompactionPlan:
        meta = state.meta
        if meta.schema is None:
            return CompactionPlan(bins=(), left={}, target_size=self.options.target_size)
        return plan_compaction(
            [segment for segment in state.segments if progress.is_own(segment.path)],
            meta.index,
            meta.schema,
            self.options,
            ids=meta.ids,
            codecs=self.codecs,
            settled=progress.made.keys(),
            hopeless=progress.hopeless,
        )

    @property
    def commit_bytes(self) -> int:
        return self.options.target_size

    def next_bins(self, state: TableState, progress: CompactionProgress[Segment]) -> Sequence[Bin]:
        spent = progress.rounds and self.options.max_bytes is not None
        return () if spent else self.plan(state, progress).bins

    def room(self) -> int:
        return self.writer.room()

    def write(self, state: TableState, bins: Sequence[Bin]) -> Iterator[SegmentBin | GivenUp]:
        return self.writer.write(state, bins)

    def propose(self, snapshot: Snapshot[TableState], written: Sequence[SegmentBin]) -> SeriesProposal:
        meta, options = snapshot.state.meta, self.options
        actions: list[Action] = [] if meta.is_ours else [UpdateTableMeta(claim(meta))]
        for one in written:
            actions += [RemoveSegment(segment.path) for segment in one.bin.segments]
            actions += [AddSegment(segment) for segment in one.files]
        parameters: dict[str, object] = {"bins": len(written), "target_size": options.target_size}
        if options.cluster_by:
            parameters["cluster_by"] = list(options.cluster_by)
        entry = Commit(
            id=self.context.env.ids.uuid(),
            operation="compact",
            engine=ENGINE,
            parameters=parameters,
            actions=tuple(actions),
        )
        return Proposal(commit=entry, check_conflict=CompactChecker(removed=frozenset(entry.removed)).check_conflict)

    def outlives(self, _lost: Conflict) -> bool:
        return True

    def landed(self, written: Sequence[SegmentBin]) -> None:
        for one in written:
            self.context.remember(one.files, one.coverage)

    def live(self, state: TableState) -> Container[str]:
        return state.live

    def key_of(self, file: Segment) -> str:
        return file.path

    def rows_of(self, file: Segment) -> int:
        return file.rows
