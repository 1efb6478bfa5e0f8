"""One segment held against what the log says of it: its bytes always, its rows where asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.errors import CorruptTable, InvalidPath, ObjectNotFound
from gapless.files.pages.column_stats import column_stats
from gapless.files.pages.footer import check, footer_length
from gapless.files.read.source import open_segment, read_group, segment_bytes, segment_size
from gapless.files.sort.run import as_int, sort_run, unit_ns
from gapless.model.fit import restore
from gapless.model.index import Identity, IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Bounds, Segment, SidecarCoverage
from gapless.model.stats import ColumnStats
from gapless.tables.shared.findings import Code, Finding, Mend, contradiction, count

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
        return _failed(_finding("segment-missing", segment, "is missing: nothing is stored under the path that the log names"))
    if segment.size is not None and size != segment.size:
        return _failed(_finding("segment-altered", segment, f"has {size:,} bytes, and the log says {segment.size:,}"))
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
    if rows != segment.rows:
        yield _finding("rows-differ", segment, f"holds {count(rows, 'row')}, and the log says {segment.rows:,}")


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
            observed.add(restore(rows.select(names), schema, path=segment.path), index, grid)
    return observed


def check_rows(segment: Segment, observed: Observed) -> Iterator[Finding]:
    """Where a segment's rows are not what the log says of them. Pure."""
    if observed.rows != segment.rows:
        yield _finding("rows-differ", segment, f"holds {count(observed.rows, 'row')}, and the log says {segment.rows:,}")
    if observed.bounds is not None and not _within(observed.bounds, segment.bounds):
        yield _finding("bounds-differ", segment, f"holds index values {observed.bounds}, and the log says {segment.bounds}")
    for name, known in segment.stats.items():
        # Columns that were dropped are read by nobody.
        said = contradiction(known, observed.stats[name]) if name in observed.stats else ""
        if said:
            yield _finding("stats-differ", segment, f"holds other values of column {name!r} than the log says: {said}")
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


def _finding(code: Code, segment: Segment, what: str) -> Finding:
    return Finding(code=code, path=segment.path, what=f"segment {segment.path} {what}")
