"""Verify one segment: its bytes, its coverage and, where asked, its rows, held against what the log says; overlaps between versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, bias
from gapless.coverage.bucket import Grid
from gapless.coverage.codec import decode
from gapless.errors import CorruptTable, GaplessError, InvalidPath, ObjectNotFound, shorten
from gapless.files.pages.column_stats import column_stats
from gapless.files.pages.footer import check, footer_length
from gapless.files.read.source import open_segment, read_group, segment_bytes, segment_size
from gapless.files.sort.run import as_int, sort_run, unit_ns
from gapless.formats.timeseries.actions import LiveSegment, TableMeta
from gapless.model.fit import to_declared
from gapless.model.index import EntityType, Identity, IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Bounds, InlineCoverage, Segment, SidecarCoverage
from gapless.model.stats import ColumnStats
from gapless.tables.shared.findings import Code, Finding, LiveFile, Mend, count
from gapless.tables.timeseries.read.values import format_index_value

_PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesChecked:
    """What reading a segment's bytes came to."""

    findings: tuple[Finding, ...] = ()
    bytes_read: int = 0
    checked: bool = False
    """Whether the log has a checksum over all of its bytes that this release can compute."""


def check_bytes(store: Store, segment: Segment) -> BytesChecked:
    """Hold a segment's size, all of its bytes and its footer against the log; one without a checksum must be a Parquet file."""
    try:
        size = segment_size(store, segment)
    except (ObjectNotFound, InvalidPath):
        return _failed(_of(segment).missing())
    for wrong in _of(segment).check_size(size, segment.size):
        return _failed(wrong)
    algorithm, _, digest = (segment.checksum or "").partition(":")
    if algorithm != "xxh3-128":
        return BytesChecked(findings=tuple(_check_shape(store, segment)))
    try:
        found, footer = _digests(store, segment, size)
    except (CorruptTable, ObjectNotFound) as error:
        return _failed(_finding("segment-altered", segment, f"changed while it was read: {error.what}"))
    if found != digest:
        return _failed(
            _finding("segment-altered", segment, "does not have the bytes it was written with: another checksum"), size
        )
    try:
        check(footer, segment.footer_checksum, segment.path)
    except CorruptTable:
        what = "has the bytes it was written with, but its footer is not the one that the log names"
        return _failed(_finding("segment-altered", segment, what), size)
    return BytesChecked(bytes_read=size, checked=True)


def _digests(store: Store, segment: Segment, size: int) -> tuple[str, bytes]:
    """The checksum of the whole object, and the bytes that the footer's checksum covers."""
    hasher, tail = xxhash.xxh3_128(), b""
    length = min(size, footer_length(segment.footer_checksum or "") or 0)
    for start in range(0, size, _PIECE_BYTES):
        piece = segment_bytes(store, segment, start, min(_PIECE_BYTES, size - start))
        hasher.update(piece)
        tail = (tail + piece)[-length:] if length else b""
    return hasher.hexdigest(), tail


def _check_shape(store: Store, segment: Segment) -> Iterator[Finding]:
    try:
        with open_segment(store, segment) as file:
            rows = file.metadata.num_rows
    except CorruptTable as error:
        yield _finding("segment-unreadable", segment, f"is no Parquet file: {error.what}")
        return
    yield from _of(segment).check_rows(rows, segment.rows)


@dataclass(slots=True)
class Observed:
    """What the rows of a segment come to, row group by row group."""

    rows: int = 0
    bounds: Bounds | None = None
    coverage: CoverageMap = field(default_factory=CoverageMap)
    stats: dict[str, list[ColumnStats]] = field(default_factory=dict)
    """Of each column, those of each row group."""
    in_order: bool = True
    """Whether rows are in order of identity and index value."""
    last: tuple[Identity, int] | None = None
    invalid: list[Finding] = field(default_factory=list)
    """Of each column that holds values which its type forbids, the first."""
    known_invalid: set[str] = field(default_factory=set)
    """These columns."""

    def add(self, table: pa.Table, index: IndexSpec, grid: Grid) -> None:
        """Take in the rows of one row group, in the declared types; those without a key have no place in coverage."""
        self.rows += table.num_rows
        for name, stats in column_stats(table, skip=index.column).items():
            self.stats.setdefault(name, []).append(stats)
        keyed = _with_keys(table, index)
        if not keyed.num_rows:
            return
        run = sort_run(keyed, index, grid)
        self.coverage = self.coverage.union(run.coverage)
        ends = pc.min_max(keyed.column(index.column))
        first, last = (as_int(ends[end]) * unit_ns(keyed.schema.field(index.column).type) for end in ("min", "max"))
        old = self.bounds or Bounds(first=first, last=last)
        self.bounds = Bounds(first=min(old.first, first), last=max(old.last, last))
        follows = self.last is None or self.last <= _key(keyed, index, 0)
        self.in_order = self.in_order and follows and run.table is keyed
        self.last = _key(keyed, index, keyed.num_rows - 1)

    def look(self, rows: pa.Table, segment: Segment) -> None:
        """Note which columns of the next row group hold a value that their type forbids."""
        self.invalid += _of(segment).check_values(rows, self.rows, self.known_invalid)


def _with_keys(table: pa.Table, index: IndexSpec) -> pa.Table:
    """The rows that have an index value and an identity; the same table where all have."""
    missing = [name for name in (index.column, *index.entity) if table.column(name).null_count]
    for name in missing:
        table = table.filter(pc.is_valid(table.column(name)))
    return table


def _key(table: pa.Table, index: IndexSpec, row: int) -> tuple[Any, int]:
    return tuple(table.column(name)[row].as_py() for name in index.entity), as_int(table.column(index.column)[row])


def observe(store: Store, segment: Segment, schema: pa.Schema, index: IndexSpec, grid: Grid) -> Observed:
    """Read all rows of a segment, each page checked; `schema` has the columns under their stored names. Raises CorruptTable.

    Held in memory at a time: one row group.
    """
    observed = Observed()
    with open_segment(store, segment) as file:
        present = set(file.schema_arrow.names)
        names = [name for name in schema.names if name in present]
        for number in range(file.metadata.num_row_groups):
            rows = read_group(file, segment, number, names)
            observed.look(rows, segment)
            if not observed.known_invalid.isdisjoint(index.keys):
                raise CorruptTable(observed.invalid[-1].what, why="It is a key of its row", path=segment.path)
            observed.add(to_declared(rows.select(names), schema, path=segment.path), index, grid)
    return observed


def check_rows(segment: Segment, observed: Observed) -> Iterator[Finding]:
    """Where a segment's rows are not what the log says of them, or no values of their columns' types. Pure."""
    yield from observed.invalid
    yield from _of(segment).check_rows(observed.rows, segment.rows)
    if observed.bounds is not None and not _within(observed.bounds, segment.bounds):
        yield _finding("bounds-differ", segment, f"holds index values {observed.bounds}, and the log says {segment.bounds}")
    # Columns that were dropped are read by nobody.
    yield from _of(segment).check_stats(observed.stats, segment.stats)
    others = [identity for identity in observed.coverage.identities() if identity != segment.identity]
    if segment.identity is not None and others:
        yield _finding("identity-differs", segment, f"holds rows of {others[0]!r}, and the log says {segment.identity!r} only")
    if segment.sorted_by and not observed.in_order:
        yield _finding("order-differs", segment, f"is not sorted by {', '.join(segment.sorted_by)}, as the log says")


def check_coverage(segment: Segment, logged: CoverageMap, observed: CoverageMap, mend: Mend = "no") -> Iterator[Finding]:
    """Where a segment's coverage is not that of its rows. Pure."""
    if logged == observed:
        return
    extra, lacking = logged.difference(observed).cardinality(), observed.difference(logged).cardinality()
    what = f"{count(lacking, 'bucket')} that its rows lie in are not in its coverage, and {extra:,} in it hold no row"
    path = segment.coverage.path if isinstance(segment.coverage, SidecarCoverage) else segment.path
    what = f"segment {segment.path} has another coverage than its rows: {what}"
    yield Finding(code="coverage-differs", path=path, what=what, mend=mend)


def _within(inner: Bounds, outer: Bounds) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _failed(finding: Finding, bytes_read: int = 0) -> BytesChecked:
    return BytesChecked(findings=(finding,), bytes_read=bytes_read, checked=True)


def _of(segment: Segment) -> LiveFile:
    return LiveFile("segment", segment.path)


def _finding(code: Code, segment: Segment, what: str) -> Finding:
    return _of(segment).finding(code, what)


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
    live: Sequence[LiveSegment], coverage: Mapping[str, CoverageMap], strict: Mapping[int, bool], meta: TableMeta, grid: Grid
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
    return [_overlap(version, clashes[version], by_identity, meta, grid) for version in sorted(clashes)]


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
    version: int, clash: _Clash, by_identity: Mapping[Identity, list[tuple[int, str, BitMap64]]], meta: TableMeta, grid: Grid
) -> Finding:
    earlier = min(v for v, _, bitmap in by_identity[clash.identity] if v < version and clash.first in bitmap)
    who = (
        f" of {', '.join(f'{n}={shorten(v)}' for n, v in zip(meta.index.entity, clash.identity, strict=True))}"
        if meta.index.entity
        else ""
    )
    where = f"the first from {_shown(clash.first - bias(signed=grid.signed), meta, grid)}{who}"
    what = f"version {version} covers {count(clash.buckets, 'bucket')} that earlier versions cover, and its policy forbids that"
    return Finding(code="overlap", path=clash.path, what=f"{what}: {where}, which version {earlier} covers")


def _shown(bucket_id: int, meta: TableMeta, grid: Grid) -> str:
    try:
        start = grid.start(bucket_id)
    except GaplessError:
        return f"bucket {bucket_id}"
    return format_index_value(start, meta.index, meta.schema)
