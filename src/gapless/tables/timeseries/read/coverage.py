"""Cache of decoded coverage bitmaps of segments, loaded when a question needs them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, bias, canonical_key
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import Part, decode_index, decode_read, plan_reads
from gapless.errors import CorruptTable, LogWarning, ObjectNotFound
from gapless.files.pages.footer import check
from gapless.formats.timeseries.segment_coverage import (
    altered_sidecar,
    foreign_coverage,
    lost_sidecar,
    read_coverage,
    repair_command,
)
from gapless.model.index import EntityType, Identity
from gapless.model.protocols import Store
from gapless.model.segment import Segment, SidecarCoverage

IdentityFilter = frozenset[Identity] | Callable[[Identity], bool]
"""Some identities, or a test of one."""
_NOTHING = CoverageMap()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is known of a sidecar that can be read by parts."""

    index: dict[Identity, Part]
    loaded: dict[Identity, BitMap64] = field(default_factory=dict)


class CoverageCache:
    """Decoded coverage of one table's segments, by path; a segment never changes, so nothing here grows stale.

    Where only some identities are wanted, of a large sidecar only their parts are read.
    """

    def __init__(self, store: Store, grid: Grid) -> None:
        self.store, self.grid = store, grid
        self._known: dict[str, CoverageMap] = {}
        self._parts: dict[str, _Parts] = {}
        self._holders: dict[Identity, set[str]] = {}
        """Of the known segments that hold several identities: which hold this one."""

    def of(self, segment: Segment, types: tuple[EntityType, ...], wanted: IdentityFilter | None = None) -> CoverageMap:
        """A segment's coverage, of the wanted identities where they are given; raises CorruptTable where it is missing or damaged."""
        known = self._known.get(segment.path)
        if known is None and wanted is not None:
            if segment.identity is not None and not _accepts(wanted, segment.identity):
                return _NOTHING
            if (parts := self._parts_of(segment, types)) is not None:
                return self._some(segment, types, parts, _choose(parts.index, wanted))
        if known is None:
            self.remember(segment, known := self._all(segment, types))
            self._parts.pop(segment.path, None)
        return known if wanted is None else _restricted(known, wanted)

    def union(
        self, segments: Iterable[Segment], types: tuple[EntityType, ...], wanted: IdentityFilter | None = None
    ) -> CoverageMap:
        """The coverage of several segments together, of the wanted identities where they are given."""
        if wanted is not None and not callable(wanted):
            segments = self._possible(list(segments), wanted)
        return CoverageMap.union_of([some for segment in segments if (some := self.of(segment, types, wanted))])

    def identities(self, segments: Iterable[Segment], types: tuple[EntityType, ...]) -> list[Identity]:
        """The identities that any of the segments holds, in canonical order. Reads indexes of large sidecars, not the sidecars."""
        found: set[Identity] = set()
        for segment in segments:
            if segment.identity is not None:
                found.add(segment.identity)
            elif segment.path not in self._known and (parts := self._parts_of(segment, types)) is not None:
                found.update(parts.index)
            else:
                found.update(self.of(segment, types))
        return sorted(found, key=canonical_key)

    def remember(self, segment: Segment, coverage: CoverageMap) -> None:
        """Keep the whole coverage of a segment."""
        if segment.identity is None:
            for identity in coverage:
                self._holders.setdefault(identity, set()).add(segment.path)
        self._known[segment.path] = coverage  # last: another thread must not take it for one without holders

    def _possible(self, segments: list[Segment], wanted: frozenset[Identity]) -> list[Segment]:
        """The segments less known ones that hold none of the identities, where that is less work than to ask each of them."""
        holders = [self._holders[identity] for identity in wanted if identity in self._holders]
        if sum(map(len, holders)) > len(segments):
            return segments
        holding = set[str]().union(*holders)
        return [s for s in segments if s.path in holding or s.identity is not None or s.path not in self._known]

    def _all(self, segment: Segment, types: tuple[EntityType, ...]) -> CoverageMap:
        stored = None
        if isinstance(segment.coverage, SidecarCoverage):
            with contextlib.suppress(ObjectNotFound):
                stored = self.store.get(segment.coverage.path)
        coverage = read_coverage(segment, stored, types, self.store.url)
        self._check(segment, coverage)
        return coverage

    def _some(self, segment: Segment, types: tuple[EntityType, ...], parts: _Parts, chosen: list[Identity]) -> CoverageMap:
        missing = [identity for identity in chosen if identity not in parts.loaded]
        size = sum(part.end - part.start for part in parts.index.values())
        if 2 * sum(parts.index[i].end - parts.index[i].start for i in missing) > size:
            return _restricted(self.of(segment, types), frozenset(chosen))
        place = _place(segment)
        for read in plan_reads(parts.index, missing):
            try:
                found = decode_read(self.store.get(place, read.start, read.end - read.start), read, path=place)
            except ObjectNotFound as error:
                raise lost_sidecar(segment, place, self.store.url) from error
            except CorruptTable as error:
                raise altered_sidecar(error, self.store.url) from error
            self._check(segment, CoverageMap(found))
            parts.loaded.update(found)
        return CoverageMap({identity: parts.loaded[identity] for identity in chosen})

    def _parts_of(self, segment: Segment, types: tuple[EntityType, ...]) -> _Parts | None:
        """What is known of the segment's parts; None where it has no index, or one that cannot be used."""
        sidecar = segment.coverage
        if not isinstance(sidecar, SidecarCoverage) or sidecar.index_checksum is None:
            return None
        if (known := self._parts.get(segment.path)) is not None:
            return known
        try:
            data = self.store.get(sidecar.index_path)
            check(data, sidecar.index_checksum, sidecar.index_path)
            parts = self._parts[segment.path] = _Parts(decode_index(data, types, path=sidecar.index_path))
        except (ObjectNotFound, CorruptTable) as error:
            mended = f"`{repair_command(self.store.url)}` makes it again"
            warnings.warn(f"{error.what}; the whole of {sidecar.path} is read instead, and {mended}", LogWarning, stacklevel=2)
            return None
        return parts

    def _check(self, segment: Segment, coverage: CoverageMap) -> None:
        """Raise CorruptTable for what the segment's rows cannot cover: another's sidecar, or flipped bits that no checksum shows."""
        shift = bias(signed=self.grid.signed)
        low, high = (self.grid.id_of(bound) + shift for bound in (segment.bounds.first, segment.bounds.last))
        for identity, bitmap in coverage.items():
            if (segment.identity is not None and identity != segment.identity) or bitmap.min() < low or bitmap.max() > high:
                raise foreign_coverage(segment, self.store.url)


def _choose(held: Mapping[Identity, object], wanted: IdentityFilter) -> list[Identity]:
    """Those of the held identities that are wanted."""
    if callable(wanted):
        return [identity for identity in held if wanted(identity)]
    if len(wanted) < len(held):
        return [identity for identity in wanted if identity in held]
    return [identity for identity in held if identity in wanted]


def _restricted(coverage: CoverageMap, wanted: IdentityFilter) -> CoverageMap:
    # Of many segments that a small append meets, most hold none of its identities.
    if not callable(wanted) and not coverage.holds_any(wanted):
        return _NOTHING
    return coverage.restrict(wanted)


def _accepts(wanted: IdentityFilter, identity: Identity) -> bool:
    return wanted(identity) if callable(wanted) else identity in wanted


def _place(segment: Segment) -> str:
    return segment.coverage.path if isinstance(segment.coverage, SidecarCoverage) else segment.path
