"""The live segments of a table, and which of them a range may meet: at a cost that does not grow from commit to commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.span import reach
from gapless.dialects.timeseries.actions import LiveSegment, TableState
from gapless.dialects.timeseries.stock import Stock
from gapless.model.index import Identity
from gapless.model.layered import Base, LayeredDict
from gapless.model.segment import Segment, meeting
from gapless.model.segment_index import May, SegmentIndex

_MOST_UNINDEXED = 64
"""Segments that `meeting` looks at one by one, since no index has them yet."""


class LiveSegments(LayeredDict[LiveSegment]):
    """Live segments by path, in the order they became live. Those in parts of a log checkpoint are read when they are needed."""

    __slots__ = ()

    @classmethod
    def of(cls, items: Mapping[str, LiveSegment]) -> LiveSegments:
        """See `LayeredDict.of`; a stock is shared, not copied."""
        if isinstance(items, Stock):
            made = cls()
            made.rest_on(items)
            made._length = len(items)
            return made
        made = super().of(items)  # type: ignore[assignment]  # it is of this class
        assert isinstance(made, LiveSegments)
        return made

    def rest_on(self, stock: Stock) -> None:
        """Let a stock that holds the same stand for what it holds."""
        self._layers = self._on(Base(stock))

    @property
    def base(self) -> Stock:
        """The stock that it rests on, without what changed since."""
        return _stock_of(self._layers.base)

    def stock(self) -> Stock:
        """All it holds as a stock."""
        layers = self._layers
        stock = _stock_of(layers.base)
        return stock.changed(layers.new, layers.gone) if layers.new or layers.gone else stock

    def meeting(self, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        """The segments that may cover a bucket of `[start, end)` for one of the identities, in order."""
        layers = self.settled()
        found = _stock_of(layers.base).meeting(start, end, identities)
        found += _index_of(layers.base).meeting(start, end, identities)
        still = [s for s in found if s.path not in layers.gone and s.path not in layers.new]
        return still + meeting([live.segment for live in layers.new.values()], start, end, identities)

    def candidates(self, may: May) -> list[Segment]:
        """The segments that may be wanted, in order, and others."""
        layers = self.settled()
        stock = _stock_of(layers.base)
        found = [*stock.candidates(may), *(live.segment for live in stock.loose.values())]
        still = [s for s in found if s.path not in layers.gone and s.path not in layers.new]
        return still + [live.segment for live in layers.new.values()]

    def of_versions(self, start: int, end: int) -> Iterator[LiveSegment]:
        """Those that became live in a version of `[start, end]`, in order."""
        return self.stock().of_versions(start, end)

    def _is_much(self, changes: int) -> bool:
        return changes > _MOST_UNINDEXED or super()._is_much(changes)

    def _merged(self, base: Base[LiveSegment], new: dict[str, LiveSegment], gone: set[str]) -> Base[LiveSegment]:
        before = _stock_of(base)
        merged: Base[LiveSegment] = Base(before.changed(new, gone))
        if isinstance(base.derived, SegmentIndex) and before.loose.keys().isdisjoint(gone | new.keys()):
            merged.derived = base.derived.extended(live.segment for live in new.values())
        return merged

    def _plain(self, base: Base[LiveSegment]) -> dict[str, LiveSegment]:
        return _stock_of(base).flat() if isinstance(base.items, Stock) else super()._plain(base)


def _stock_of(base: Base[LiveSegment]) -> Stock:
    items = base.items
    return items if isinstance(items, Stock) else Stock.of(dict(items) if not isinstance(items, dict) else items)


def _index_of(base: Base[LiveSegment]) -> SegmentIndex:
    if not isinstance(base.derived, SegmentIndex):
        base.derived = index = SegmentIndex(live.segment for live in _stock_of(base).loose.values())
        return index
    return base.derived


def segments_meeting(state: TableState, start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
    """The live segments that may cover a bucket of `[start, end)` (index values: ns for a timestamp, else integers) for one of
    the identities, in the order they became live.
    """
    return _live(state).meeting(start, end, identities)


def live_meeting(state: TableState, coverage: CoverageMap, grid: Grid) -> list[Segment]:
    """The live segments that may cover a bucket of `coverage`, in the order they became live."""
    return segments_meeting(state, *reach(coverage, grid), frozenset(coverage.identities())) if coverage else []


def candidates(state: TableState, may: May) -> list[Segment]:
    """The live segments that may be wanted, in the order they became live, and some others: to be looked at one by one."""
    return _live(state).candidates(may)


def _live(state: TableState) -> LiveSegments:
    return state.live if isinstance(state.live, LiveSegments) else LiveSegments.of(state.live)
