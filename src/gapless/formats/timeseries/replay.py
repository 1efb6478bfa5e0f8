"""Log replay for time-series tables: the state that commits make, and its live segments by range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.expected import covered_range
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Applied,
    ExpireVersions,
    ForgetSegments,
    LiveSegment,
    Removed,
    RemoveSegment,
    SetTag,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.formats.timeseries.checkpoint.segments import CheckpointSegments
from gapless.model.index import Identity
from gapless.model.layered_dict import Base, LayeredDict
from gapless.model.operation import operation_key
from gapless.model.segment import May, Segment, SegmentIndex, SidecarCoverage, overlapping

_MOST_UNINDEXED = 64
"""Segments that `overlapping` looks at one by one, since no index has them yet."""


class LiveSegments(LayeredDict[LiveSegment]):
    """Live segments by path, in the order they became live. Those in parts of a log checkpoint are read when they are needed."""

    __slots__ = ()

    @classmethod
    def of(cls, items: Mapping[str, LiveSegment]) -> LiveSegments:
        """See `LayeredDict.of`; CheckpointSegments are shared, not copied."""
        if isinstance(items, CheckpointSegments):
            made = cls()
            made.share_parts(items)
            made._length = len(items)
            return made
        made = super().of(items)  # type: ignore[assignment]  # it is of this class
        assert isinstance(made, LiveSegments)
        return made

    def share_parts(self, segments: CheckpointSegments) -> None:
        """Take the content from equal segments that lie in parts."""
        self._layers = self._on(Base(segments))

    @property
    def base(self) -> CheckpointSegments:
        """The segments of the checkpoint it is based on, without what changed since."""
        return _segments_of(self._layers.base)

    def checkpoint_segments(self) -> CheckpointSegments:
        """All of it as CheckpointSegments."""
        layers = self._layers
        segments = _segments_of(layers.base)
        return segments.changed(layers.new, layers.gone) if layers.new or layers.gone else segments

    def overlapping(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """The segments that may cover a bucket of `[start, end)` for one of the identities, in order."""
        layers = self.compacted()
        found = _segments_of(layers.base).overlapping(start, end, identities)
        found += _index_of(layers.base).overlapping(start, end, identities)
        still = [s for s in found if s.path not in layers.gone and s.path not in layers.new]
        return still + overlapping([live.segment for live in layers.new.values()], start, end, identities)

    def candidates(self, may: May) -> list[Segment]:
        """The segments that may be wanted, in order, and others."""
        layers = self.compacted()
        segments = _segments_of(layers.base)
        found = [*segments.candidates(may), *(live.segment for live in segments.loose.values())]
        still = [s for s in found if s.path not in layers.gone and s.path not in layers.new]
        return still + [live.segment for live in layers.new.values()]

    def of_versions(self, start: int, end: int) -> Iterator[LiveSegment]:
        """Those that became live in a version of `[start, end]`, in order."""
        return self.checkpoint_segments().of_versions(start, end)

    def _is_much(self, changes: int) -> bool:
        return changes > _MOST_UNINDEXED or super()._is_much(changes)

    def _merged(self, base: Base[LiveSegment], new: dict[str, LiveSegment], gone: set[str]) -> Base[LiveSegment]:
        before = _segments_of(base)
        merged: Base[LiveSegment] = Base(before.changed(new, gone))
        if isinstance(base.derived, SegmentIndex) and before.loose.keys().isdisjoint(gone | new.keys()):
            merged.derived = base.derived.extended(live.segment for live in new.values())
        return merged

    def _plain(self, base: Base[LiveSegment]) -> dict[str, LiveSegment]:
        return _segments_of(base).flat() if isinstance(base.items, CheckpointSegments) else super()._plain(base)


def _segments_of(base: Base[LiveSegment]) -> CheckpointSegments:
    items = base.items
    return (
        items
        if isinstance(items, CheckpointSegments)
        else CheckpointSegments.of(dict(items) if not isinstance(items, dict) else items)
    )


def _index_of(base: Base[LiveSegment]) -> SegmentIndex:
    if not isinstance(base.derived, SegmentIndex):
        base.derived = index = SegmentIndex(live.segment for live in _segments_of(base).loose.values())
        return index
    return base.derived


def overlapping_segments(state: TableState, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
    """The live segments that may cover a bucket of `[start, end)` (index values: ns for a timestamp, else integers) for one of
    the identities, in the order they became live.
    """
    return _live(state).overlapping(start, end, identities)


def segments_covering(state: TableState, coverage: CoverageMap, grid: Grid) -> list[Segment]:
    """The live segments that may cover a bucket of `coverage`, in the order they became live."""
    return overlapping_segments(state, *covered_range(coverage, grid), frozenset(coverage.identities())) if coverage else []


def candidates(state: TableState, may: May) -> list[Segment]:
    """The live segments that may be wanted, in the order they became live, and some others: to be looked at one by one."""
    return _live(state).candidates(may)


def _live(state: TableState) -> LiveSegments:
    return state.live if isinstance(state.live, LiveSegments) else LiveSegments.of(state.live)


@dataclass(slots=True)
class Draft:
    """The parts of a `TableState`, to be changed in place."""

    meta: TableMeta | None
    live: LiveSegments
    applied: LayeredDict[Applied]
    removed: LayeredDict[Removed]
    tags: dict[str, int]
    earliest: int
    inlined_bytes: int

    @classmethod
    def of(cls, state: TableState | None) -> Draft:
        """A copy of a state, or of nothing."""
        if state is None:
            return cls(None, LiveSegments(), LayeredDict(), LayeredDict(), {}, 1, 0)
        return cls(
            state.meta,
            LiveSegments.of(state.live),
            LayeredDict.of(state.applied),
            LayeredDict.of(state.removed),
            dict(state.tags),
            state.earliest,
            state.inlined_bytes,
        )

    def state(self, meta: TableMeta) -> TableState:
        """What it has become; the draft must not be changed any more."""
        return TableState(
            meta=meta,
            live=self.live,
            applied=self.applied,
            removed=self.removed,
            tags=self.tags,
            earliest=self.earliest,
            inlined_bytes=self.inlined_bytes,
        )

    def apply(self, action: Action, version: int, time_ns: int, kind: str) -> None:
        """Take in one action of a commit of this kind; raises ValueError, saying what the commit does, where it cannot follow."""
        match action:
            case UpdateTableMeta(new):
                if self.meta is not None and self.meta.index != new.index:
                    raise ValueError("changes the table's index, which is fixed when it is created")
                self.meta = new
            case AddSegment(segment):
                if segment.path in self.live:
                    raise ValueError(f"adds {segment.path}, which is live already")
                self.live[segment.path] = LiveSegment(segment, version)
                self.inlined_bytes += segment.inlined_bytes
            case RemoveSegment(path):
                # timeseries-table-format ignores a removal of what is not live, and so must its readers.
                if (gone := self.live.pop(path, None)) is not None:
                    self.removed[path] = self._tombstone(gone, version, time_ns)
                    self.inlined_bytes -= gone.segment.inlined_bytes
            case SetTransaction(operation, tally, said):
                self.applied[operation_key(operation)] = Applied(operation, version, time_ns, tally, said or kind)
            case SetTag(name, None):
                self.tags.pop(name, None)
            case SetTag(name, int(tagged)):
                self.tags[name] = tagged
            case ExpireVersions(before):
                self.earliest = max(self.earliest, before)
            case ForgetSegments(paths):
                for path in paths:
                    self.removed.pop(path, None)

    def _tombstone(self, gone: LiveSegment, version: int, time_ns: int) -> Removed:
        segment, earlier = gone.segment, self.removed.get(gone.segment.path)
        return Removed(
            path=segment.path,
            sidecars=sidecars_of(segment),
            size=segment.size,
            rows=segment.rows,
            added=gone.version if earlier is None else min(earlier.added, gone.version),
            removed=version,
            removed_ns=time_ns,
        )


def sidecars_of(segment: Segment) -> tuple[str, ...]:
    """The objects that hold a segment's coverage, relative to the table root."""
    return segment.coverage.paths if isinstance(segment.coverage, SidecarCoverage) else ()
