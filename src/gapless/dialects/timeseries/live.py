"""The live segments of a table, and which of them a range may meet: at a cost that does not grow from commit to commit."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.span import reach
from gapless.dialects.timeseries.actions import LiveSegment, TableState
from gapless.model.index import Identity
from gapless.model.layered import Base, LayeredDict
from gapless.model.segment import Segment, meeting
from gapless.model.segment_index import SegmentIndex


class LiveSegments(LayeredDict[LiveSegment]):
    """Live segments by path, in the order they became live."""

    __slots__ = ()

    @classmethod
    def of(cls, items: Mapping[str, LiveSegment]) -> LiveSegments:
        """See `LayeredDict.of`."""
        made = super().of(items)
        assert isinstance(made, LiveSegments)
        return made

    def meeting(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """The segments that may cover a bucket of `[start, end)` for one of the identities, in order."""
        layers = self.settled()
        found = _index_of(layers.base).meeting(start, end, identities)
        still = [s for s in found if s.path not in layers.gone and s.path not in layers.new]
        return still + meeting((live.segment for live in layers.new.values()), start, end, identities)

    def _merged(self, base: Base[LiveSegment], new: dict[str, LiveSegment], gone: set[str]) -> Base[LiveSegment]:
        merged = super()._merged(base, new, gone)
        if isinstance(base.derived, SegmentIndex) and not gone and base.items.keys().isdisjoint(new):
            merged.derived = base.derived.extended(live.segment for live in new.values())
        return merged


def _index_of(base: Base[LiveSegment]) -> SegmentIndex:
    if not isinstance(base.derived, SegmentIndex):
        base.derived = index = SegmentIndex(live.segment for live in base.items.values())
        return index
    return base.derived


def segments_meeting(state: TableState, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
    """The live segments that may cover a bucket of `[start, end)` (index values: ns for a timestamp, else integers) for one of
    the identities, in the order they became live.
    """
    live = state.live if isinstance(state.live, LiveSegments) else LiveSegments.of(state.live)
    return live.meeting(start, end, identities)


def live_meeting(state: TableState, coverage: CoverageMap, grid: Grid) -> list[Segment]:
    """The live segments that may cover a bucket of `coverage`, in the order they became live."""
    return segments_meeting(state, *reach(coverage, grid), frozenset(coverage.identities())) if coverage else []
