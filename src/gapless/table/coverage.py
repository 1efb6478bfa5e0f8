"""Coverage of segments, loaded when a question needs it and kept for the next."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.coverage.bitmap import CoverageMap, bias
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import decode
from gapless.errors import CorruptTable, ObjectNotFound
from gapless.model.index import EntityType
from gapless.model.protocols import Store
from gapless.model.segment import InlineCoverage, Segment, SidecarCoverage
from gapless.parquet.checksum import check


class CoverageCache:
    """Decoded coverage of one table's segments, by path; a segment never changes, so nothing here grows stale."""

    def __init__(self, store: Store, grid: Grid) -> None:
        self._store, self._grid = store, grid
        self._known: dict[str, CoverageMap] = {}

    def of(self, segment: Segment, types: tuple[EntityType, ...]) -> CoverageMap:
        """A segment's coverage; raises CorruptTable where it is missing or damaged."""
        if (known := self._known.get(segment.path)) is not None:
            return known
        coverage = decode(self._bytes_of(segment), types, path=_place(segment))
        self._check(segment, coverage)
        self._known[segment.path] = coverage
        return coverage

    def union(self, segments: Iterable[Segment], types: tuple[EntityType, ...]) -> CoverageMap:
        """The coverage of several segments together."""
        return CoverageMap.union_of([self.of(segment, types) for segment in segments])

    def remember(self, segment: Segment, coverage: CoverageMap) -> None:
        """Keep the coverage of a segment that was just written."""
        self._known[segment.path] = coverage

    def _check(self, segment: Segment, coverage: CoverageMap) -> None:
        """Raise CorruptTable for what the segment's rows cannot cover: another's sidecar, or flipped bits that no checksum shows."""
        shift = bias(signed=self._grid.signed)
        low, high = (self._grid.id_of(bound) + shift for bound in (segment.bounds.first, segment.bounds.last))
        for identity, bitmap in coverage.items():
            if (segment.identity is not None and identity != segment.identity) or bitmap.min() < low or bitmap.max() > high:
                place = _place(segment)
                raise CorruptTable(
                    f"the coverage in {place} is not that of segment {segment.path}",
                    why="It covers another identity, or index values outside the segment's range",
                    fix="Bring the file back from a backup; scans still work",
                    path=place,
                )

    def _bytes_of(self, segment: Segment) -> bytes:
        match segment.coverage:
            case InlineCoverage(data):
                return data
            case SidecarCoverage(path, expected):
                try:
                    data = self._store.get(path)
                except ObjectNotFound as error:
                    raise _lost(path, f"The log names it for segment {segment.path}, but nothing is stored there") from error
                check(data, expected, path)
                return data
            case None:
                raise _lost(segment.path, "The log names no coverage for this segment")


def _place(segment: Segment) -> str:
    return segment.coverage.path if isinstance(segment.coverage, SidecarCoverage) else segment.path


def _lost(path: str, why: str) -> CorruptTable:
    return CorruptTable(
        f"the coverage in {path} is lost", why=why, fix="Bring the file back from a backup; scans still work", path=path
    )
