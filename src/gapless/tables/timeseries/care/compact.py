"""Laying segments out anew, a few bins a commit."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableState, UpdateTableMeta
from gapless.formats.timeseries.codec.metadata import claim
from gapless.formats.timeseries.conflict.maintenance import CompactChecker
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.properties import Codec
from gapless.model.segment import Segment
from gapless.runtime.committer import ENGINE, Proposal
from gapless.runtime.environment import Environment
from gapless.tables.shared.compaction import MAX_CONFLICTS, CompactionReport, CompactOptions, GivenUp
from gapless.tables.shared.findings import count
from gapless.tables.timeseries.care.compact_bin import BinWriter, WriterHere, WrittenBin, codecs_of
from gapless.tables.timeseries.care.compact_plan import Bin, CompactionPlan, plan_compaction
from gapless.tables.timeseries.context import SeriesCommitter, SeriesProposal


@dataclass(slots=True, kw_only=True)
class _CompactionProgress:
    """How far one compaction has come."""

    before: Mapping[str, Segment]
    """What was live when it began, by path: it takes up no other segments but its own."""
    codecs: Mapping[str, Codec]
    replaced: dict[str, Segment] = field(default_factory=dict)
    made: dict[str, Segment] = field(default_factory=dict)
    """The segments that it wrote and did not replace again."""
    given_up: list[GivenUp] = field(default_factory=list)
    hopeless: set[str] = field(default_factory=set)
    """Paths that are not tried again."""
    bins: int = 0
    conflicts: int = 0

    def landed(self, written: Iterable[WrittenBin]) -> None:
        """Take in the bins of a commit."""
        self.conflicts = 0
        for one in written:
            self.bins += 1
            for segment in one.bin.segments:
                if self.made.pop(segment.path, None) is None:
                    self.replaced[segment.path] = segment
            self.made |= {segment.path: segment for segment in one.segments}

    def gave_way(self, bins: Iterable[Bin], live: Container[str]) -> None:
        """Note which of the bins were overtaken; those of their segments that are left are planned anew."""
        for one in bins:
            gone = [segment.path for segment in one.segments if segment.path not in live]
            if gone:
                why = f"another change removed {len(gone)} of its {count(len(one.segments), 'segment')} first"
                self.given_up.append(GivenUp(paths=tuple(segment.path for segment in one.segments), why=why, overtaken=True))

    def give_up(self, one: GivenUp) -> None:
        """Let a bin be for good."""
        self.given_up.append(one)
        self.hopeless |= set(one.paths)

    def report(self, version: int) -> CompactionReport:
        """What came of it."""
        before, after = self.replaced.values(), self.made.values()
        return CompactionReport(
            version=version,
            bins=self.bins,
            segments_before=len(before),
            segments_after=len(after),
            bytes_before=sum(segment.size or 0 for segment in before),
            bytes_after=sum(segment.size or 0 for segment in after),
            rows=sum(segment.rows for segment in after),
            given_up=tuple(self.given_up),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts one table. A commit holds bins of together about the target size, so that a conflict loses no more than that; elsewhere as
    many as are written at once.
    """

    env: Environment
    committer: SeriesCommitter
    grid: Grid
    options: CompactOptions
    remember: Callable[[Segment, CoverageMap], None]
    """Told the coverage of each segment that was committed."""
    elsewhere: BinWriter | None = None
    """Who writes bins; None: this process."""

    def plan(self, snapshot: Snapshot[TableState]) -> CompactionPlan:
        """What `compact` would begin with; reads the segments' footers where their compression matters. Raises CorruptTable."""
        return self._plan(snapshot, self._course(snapshot))

    def compact(self, snapshot: Snapshot[TableState]) -> CompactionReport:
        """Compact until the plan is empty, so that a second run finds nothing to do.

        Segments that other changes remove meanwhile are let be, with their bin; what others add is left to the next run. Raises
        CommitOutcomeUnknown, StoreError; what was committed until then stands.
        """
        course = self._course(snapshot)
        while bins := self._plan(snapshot, course).bins:
            for batch in _batches(bins, self.options.target_size, self._writer.room()):
                snapshot = self._apply(snapshot, batch, course)
            if self.options.max_bytes is not None:
                break
        return course.report(snapshot.version)

    def _course(self, snapshot: Snapshot[TableState]) -> _CompactionProgress:
        before = {segment.path: segment for segment in snapshot.state.segments}
        asked = self.options.codec is not None
        return _CompactionProgress(before=before, codecs=codecs_of(self.env.store, before.values()) if asked else {})

    def _plan(self, snapshot: Snapshot[TableState], course: _CompactionProgress) -> CompactionPlan:
        meta = snapshot.state.meta
        ours = [s for s in snapshot.state.segments if s.path in course.before or s.path in course.made]
        if meta.schema is None:
            return CompactionPlan(bins=(), left={}, target_size=self.options.target_size)
        return plan_compaction(
            ours,
            meta.index,
            meta.schema,
            self.options,
            ids=meta.ids,
            codecs=course.codecs,
            settled=course.made.keys(),
            hopeless=course.hopeless,
        )

    def _apply(self, snapshot: Snapshot[TableState], batch: Iterable[Bin], course: _CompactionProgress) -> Snapshot[TableState]:
        """Write and commit what is left of a batch; the version after it."""
        # Whatever was removed since the plan was made must not come back: this version is the one that the commit is judged from.
        live = snapshot.state.live
        course.gave_way(batch, live)
        written = self._write(snapshot.state, [one for one in batch if one.paths <= live.keys()], course)
        while written:
            outcome = self.committer.commit(snapshot, self._proposal(snapshot.state, written))
            if not isinstance(outcome, Conflict):
                course.landed(written)
                for segment, coverage in (pair for one in written for pair in one.coverage):
                    self.remember(segment, coverage)
                return outcome
            try:
                snapshot = self.committer.refresh(snapshot)
            except BaseException:
                # The conflict is certain, so nothing can need these files.
                _discard(written)
                raise
            written = self._left(written, outcome, snapshot.state, course)
        return snapshot

    def _left(
        self, written: list[WrittenBin], lost: Conflict, state: TableState, course: _CompactionProgress
    ) -> list[WrittenBin]:
        """What may be committed after all of a commit that lost: the bins that were not overtaken; the others are discarded."""
        course.conflicts += 1
        hopeless = course.conflicts >= MAX_CONFLICTS
        if hopeless:
            for one in written:
                course.give_up(_lost(one.bin, lost))
        course.gave_way((one.bin for one in written), state.live)
        left = [] if hopeless else [one for one in written if one.bin.paths <= state.live.keys()]
        _discard(one for one in written if hopeless or not one.bin.paths <= state.live.keys())
        return left

    @property
    def _writer(self) -> BinWriter:
        return self.elsewhere or WriterHere(env=self.env, options=self.options, grid=self.grid)

    def _write(self, state: TableState, bins: Sequence[Bin], course: _CompactionProgress) -> list[WrittenBin]:
        """The bins as they were written; the others of them are given up."""
        written: list[WrittenBin] = []
        try:
            for outcome in self._writer.write(state, bins) if bins else ():
                if isinstance(outcome, GivenUp):
                    course.give_up(outcome)
                else:
                    written.append(outcome)
        except BaseException:
            # No commit was tried yet, so nothing can need these files.
            _discard(written)
            raise
        return written

    def _proposal(self, state: TableState, written: list[WrittenBin]) -> SeriesProposal:
        removed = frozenset(path for one in written for path in one.bin.paths)
        actions: list[Action] = [] if state.meta.is_ours else [UpdateTableMeta(claim(state.meta))]
        for one in written:
            actions += [RemoveSegment(segment.path) for segment in one.bin.segments]
            actions += [AddSegment(segment) for segment in one.segments]
        entry = Commit(
            id=self.env.ids.uuid(),
            operation="compact",
            engine=ENGINE,
            parameters=_parameters(self.options, len(written)),
            actions=tuple(actions),
        )
        return Proposal(
            commit=entry, check_conflict=CompactChecker(removed=removed).check_conflict, discard=lambda: _discard(written)
        )


def _parameters(options: CompactOptions, bins: int) -> dict[str, object]:
    said: dict[str, object] = {"bins": bins, "target_size": options.target_size}
    if options.cluster_by:
        said["cluster_by"] = list(options.cluster_by)
    return said


def _batches(bins: Iterable[Bin], size: int, room: int) -> Iterator[list[Bin]]:
    """Bins that are committed together: of `size` bytes, or the first that goes beyond, but `room` bins at least, and whole rounds of them."""
    held: list[Bin] = []
    for one in bins:
        held.append(one)
        if len(held) % room == 0 and sum(each.size for each in held) >= size:
            yield held
            held = []
    if held:
        yield held


def _discard(written: Iterable[WrittenBin]) -> None:
    for one in written:
        one.attempt.discard()


def _lost(one: Bin, conflict: Conflict) -> GivenUp:
    why = f"other commits kept coming first; version {conflict.version} clashed ({conflict.clash.reason})"
    return GivenUp(paths=tuple(segment.path for segment in one.segments), why=why, overtaken=True)
