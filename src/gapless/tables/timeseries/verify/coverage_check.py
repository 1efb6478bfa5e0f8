"""Coverage of live segments: whether it can be read, and whether two versions cover one bucket although they may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, bias
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import decode
from gapless.errors import CorruptTable, GaplessError, InvalidPath, ObjectNotFound
from gapless.files.pages.footer import check
from gapless.formats.timeseries.actions import LiveSegment
from gapless.model.index import EntityType, Identity, IndexSpec
from gapless.model.instant import format_instant
from gapless.model.protocols import Store
from gapless.model.segment import InlineCoverage, Segment, SidecarCoverage
from gapless.tables.shared.findings import Code, Finding, count


def read_coverage(store: Store, segment: Segment, types: tuple[EntityType, ...]) -> CoverageMap | Finding:
    """A segment's coverage as the log has it, or why it cannot be had; a sidecar can be made again from whole rows."""
    match segment.coverage:
        case None:
            return _finding(
                "coverage-missing", segment, "has no coverage: the log names none, so no append can be checked against it"
            )
        case InlineCoverage(data):
            try:
                return decode(data, types, path=segment.path)
            except CorruptTable as error:
                return _finding(
                    "coverage-unreadable", segment, f"has a coverage in its commit that cannot be read: {error.why}"
                )
        case SidecarCoverage():
            return _read_sidecar(store, segment, segment.coverage, types)


def _read_sidecar(
    store: Store, segment: Segment, sidecar: SidecarCoverage, types: tuple[EntityType, ...]
) -> CoverageMap | Finding:
    try:
        data = store.get(sidecar.path)
    except (ObjectNotFound, InvalidPath):
        return _damaged("coverage-missing", segment, sidecar, "is missing")
    try:
        check(data, sidecar.checksum, sidecar.path)
    except CorruptTable:
        return _damaged("coverage-altered", segment, sidecar, "does not have the bytes it was written with")
    try:
        return decode(data, types, path=sidecar.path)
    except CorruptTable as error:
        return _damaged("coverage-unreadable", segment, sidecar, f"cannot be read: {error.why}")


def check_index(store: Store, segment: Segment) -> list[Finding]:
    """What is wrong with the index beside a segment's sidecar, if it has one; `repair` makes it again from whole coverage."""
    sidecar = segment.coverage
    if not isinstance(sidecar, SidecarCoverage) or sidecar.index_checksum is None:
        return []
    path = sidecar.index_path
    try:
        check(store.get(path), sidecar.index_checksum, path)
    except (ObjectNotFound, InvalidPath):
        wrong = "is missing"
    except CorruptTable:
        wrong = "does not have the bytes it was written with"
    else:
        return []
    what = f"the coverage index {path} of segment {segment.path} {wrong}: all of its coverage is read instead"
    return [Finding(code="coverage-index", path=path, what=what, mend="repair")]


def _damaged(code: Code, segment: Segment, sidecar: SidecarCoverage, what: str) -> Finding:
    return Finding(
        code=code, path=sidecar.path, what=f"the coverage {sidecar.path} of segment {segment.path} {what}", mend="repair"
    )


def _finding(code: Code, segment: Segment, what: str) -> Finding:
    return Finding(code=code, path=segment.path, what=f"segment {segment.path} {what}")


@dataclass(slots=True)
class _Clash:
    """Buckets of one later version that earlier ones cover."""

    identity: Identity
    first: int
    """Stored id of the first."""
    path: str
    """The later segment that holds it."""
    buckets: int = 0


def find_overlaps(
    live: Sequence[LiveSegment], coverage: Mapping[str, CoverageMap], strict: Mapping[int, bool], index: IndexSpec, grid: Grid
) -> list[Finding]:
    """Versions that cover a bucket which an earlier one covers although their own policy forbids it, one finding each. Pure.

    `coverage` is by path; segments that are not in it are left out. Versions that are not in `strict` may overlap.
    """
    by_identity: dict[Identity, list[tuple[int, str, BitMap64]]] = {}
    for entry in live:
        for identity, bitmap in coverage.get(entry.segment.path, CoverageMap()).items():
            by_identity.setdefault(identity, []).append((entry.version, entry.segment.path, bitmap))
    clashes: dict[int, _Clash] = {}
    for identity, parts in by_identity.items():
        for version, path, common in _clashes(sorted(parts, key=lambda part: part[:2]), strict):
            clash = clashes.setdefault(version, _Clash(identity, common.min(), path))
            clash.buckets += len(common)
    return [_overlap(version, clashes[version], by_identity, index, grid) for version in sorted(clashes)]


def _clashes(parts: list[tuple[int, str, BitMap64]], strict: Mapping[int, bool]) -> list[tuple[int, str, BitMap64]]:
    """Of one identity, in order of version: what each strict version covers that earlier ones do. One version may repeat itself."""
    found = []
    before = BitMap64()
    pending: list[BitMap64] = []
    current = 0
    for version, path, bitmap in parts:
        if version != current:
            before.update(*pending)
            pending, current = [], version
        pending.append(bitmap)
        if strict.get(version, False) and not before.isdisjoint(bitmap):
            found.append((version, path, before & bitmap))
    return found


def _overlap(
    version: int, clash: _Clash, by_identity: Mapping[Identity, list[tuple[int, str, BitMap64]]], index: IndexSpec, grid: Grid
) -> Finding:
    earlier = min(v for v, _, bitmap in by_identity[clash.identity] if v < version and clash.first in bitmap)
    who = f" of {', '.join(f'{n}={v!r}' for n, v in zip(index.entity, clash.identity, strict=True))}" if index.entity else ""
    where = f"the first from {_shown(clash.first - bias(signed=grid.signed), index, grid)}{who}"
    what = f"version {version} covers {count(clash.buckets, 'bucket')} that earlier versions cover, and its policy forbids that"
    return Finding(code="overlap", path=clash.path, what=f"{what}: {where}, which version {earlier} covers")


def _shown(bucket_id: int, index: IndexSpec, grid: Grid) -> str:
    try:
        start = grid.start(bucket_id)
    except GaplessError:
        return f"bucket {bucket_id}"
    return format_instant(start) if index.type == "timestamp" else str(start)
