"""Footers of segments: checked when they are read, parsed once; statistics of row groups as values that pruning understands."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from gapless.errors import CorruptTable, InvalidOption, ObjectNotFound
from gapless.files.pages.file_assembly import MAGIC, TRAILER
from gapless.files.pages.page_map import PageMap
from gapless.model.column_ids import PLAIN, ColumnIds
from gapless.model.instant import NS_PER, Unit
from gapless.model.protocols import Store
from gapless.model.segment import ALGORITHM, DataFile, check, checksum
from gapless.model.stats import Bound, ColumnStats
from gapless.predicate.coerce import decimal_of, kind_of
from gapless.predicate.predicate import Kind
from gapless.predicate.prune import StatsOf
from gapless.runtime.concurrency import ForkSafeLock

__all__ = ["check", "checksum", "footer_checksum", "footer_length"]


def footer_checksum(data: memoryview) -> str:
    """The checksum of the footer of a Parquet file, which `data` is or ends."""
    length = int.from_bytes(data[-TRAILER:-4], "little") + TRAILER
    return f"{ALGORITHM}:{length}:{xxhash.xxh3_128_hexdigest(data[-length:])}"


def footer_length(expected: str) -> int | None:
    """How many bytes at the end of the file a footer checksum covers; None for an algorithm we do not know."""
    algorithm, _, rest = expected.partition(":")
    length, _, _ = rest.partition(":")
    return int(length) if algorithm == ALGORITHM and length.isdigit() else None


_UNITS: dict[str, Unit] = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class GroupStats:
    """What a footer says of each flat column, row group by row group; a column is looked at when it is first asked for.

    Bounds come from the raw values: timestamps and decimals are exact. Of floats it is not known whether NaN hides
    (`nans` is None), and a bound that cannot be read, or is of another kind than the schema declares, is left out.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self._metadata = metadata
        self._by_name: dict[str, int] | None = None
        self._by_path: dict[tuple[str, ...], int] | None = None
        self._known: dict[tuple[int, Kind | None], list[ColumnStats | None]] = {}
        self.rows: tuple[int, ...] = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        """Rows of each row group."""

    def of(self, number: int, schema: pa.Schema, ids: ColumnIds = PLAIN) -> StatsOf:
        """What is known of row group `number`, by declared names of columns; None for nested or absent columns."""
        return lambda name: self._named(name, schema, ids)[number]

    def each(self, schema: pa.Schema, ids: ColumnIds = PLAIN) -> list[StatsOf]:
        """What `of` knows of each row group; a column is looked up once for all of them."""
        found: dict[str, list[ColumnStats | None]] = {}

        def of(number: int) -> StatsOf:
            return lambda name: (found.get(name) or found.setdefault(name, self._named(name, schema, ids)))[number]

        return [of(number) for number in range(len(self.rows))]

    def nested(self, path: Sequence[str], type_: pa.DataType | None) -> list[ColumnStats | None]:
        """What is known of a field of structs by its path in the file, row group by row group; with no `type_` only how many nulls it has.

        A null of a struct around it is a null of it. None for a path that no leaf has, or one through a list.
        """
        leaf = self._paths().get(tuple(path))
        return [None] * len(self.rows) if leaf is None else self._column(leaf, None if type_ is None else kind_of(type_))

    def _paths(self) -> dict[tuple[str, ...], int]:
        """The numbers of the leaves that lie in structs alone, by path; of two with one text none, since dots may be part of names."""
        if self._by_path is None:
            of, schema = range(self._metadata.num_columns), self._metadata.schema
            leaves = [(number, schema.column(number)) for number in of]
            texts = Counter(leaf.path for _, leaf in leaves)
            self._by_path = {
                tuple(leaf.path.split(".")): number
                for number, leaf in leaves
                if not leaf.max_repetition_level and texts[leaf.path] == 1
            }
        return self._by_path

    def _named(self, name: str, schema: pa.Schema, ids: ColumnIds) -> list[ColumnStats | None]:
        """What is known of a column by its declared name, row group by row group."""
        leaf = self._leaves().get(ids.stored_name(name))
        where = -1 if leaf is None else schema.get_field_index(name)
        if leaf is None or where < 0:
            return [None] * len(self.rows)
        return self._column(leaf, kind_of(schema.field(where).type))

    def _leaves(self) -> dict[str, int]:
        """The numbers of the flat columns, by name."""
        if self._by_name is None:
            of, schema = range(self._metadata.num_columns), self._metadata.schema
            self._by_name = {leaf.name: number for number in of if _flat(leaf := schema.column(number))}
        return self._by_name

    def _column(self, leaf: int, kind: Kind | None) -> list[ColumnStats | None]:
        if (known := self._known.get((leaf, kind))) is None:
            column = self._metadata.schema.column(leaf)
            chunks = (self._metadata.row_group(number).column(leaf) for number in range(self._metadata.num_row_groups))
            logical = json.loads(column.logical_type.to_json())
            known = self._known[leaf, kind] = [_column_stats(column, logical, chunk.statistics, kind) for chunk in chunks]
        return known


def row_group_stats(
    metadata: pq.FileMetaData, row_group: int, schema: pa.Schema, ids: ColumnIds = PLAIN
) -> Callable[[str], ColumnStats | None]:
    """What the footer says of each flat column of one row group: see `GroupStats`. Raises InvalidOption for a row group the file lacks."""
    if not 0 <= row_group < metadata.num_row_groups:
        raise InvalidOption(
            f"row group {row_group} of {metadata.num_row_groups} was asked for",
            fix="Count from 0", option="row_group", value=row_group,
        )  # fmt: skip
    return GroupStats(metadata).of(row_group, schema, ids)


def _flat(leaf: pq.ColumnSchema) -> bool:
    return bool(leaf.name == leaf.path and leaf.max_repetition_level == 0)


def _column_stats(
    leaf: pq.ColumnSchema, logical: dict[str, Any], found: pq.Statistics | None, kind: Kind | None
) -> ColumnStats | None:
    if found is None:
        return None
    nulls = found.null_count if found.has_null_count else None
    if not found.has_min_max or kind is None:
        return ColumnStats(nulls=nulls)
    low, high = (_bound(leaf, logical, raw, kind) for raw in (found.min_raw, found.max_raw))
    return ColumnStats(min=low, max=high, nulls=nulls)


def _bound(leaf: pq.ColumnSchema, logical: dict[str, Any], raw: Any, kind: Kind) -> Bound | None:
    """A raw physical value in the domain of `kind`, or None where it has no place there; `logical` is the column's logical type."""
    match kind, leaf.logical_type.type, raw:
        case "bool", "NONE", bool():
            return raw
        case "number", "FLOAT16", _:
            return None
        case "number", "DECIMAL", int():
            return decimal_of(raw, leaf.scale)
        case "number", "DECIMAL", bytes():
            return decimal_of(int.from_bytes(raw, "big", signed=True), leaf.scale)
        case "number", "INT" | "NONE", int():
            return raw % (1 << (64 if leaf.physical_type == "INT64" else 32)) if logical.get("isSigned") is False else raw
        case "number", "NONE", float():
            return None if math.isnan(raw) else raw
        case "text", "STRING" | "NONE", bytes():
            return _text(raw)
        case "bytes", "STRING" | "NONE", bytes():
            return raw
        case "date", "DATE", int():
            return raw
        case "timestamp" | "timestamptz", "TIMESTAMP", int():
            return raw * NS_PER[_UNITS[logical["timeUnit"]]]
        case "time", "TIME", int():
            return raw * NS_PER[_UNITS[logical["timeUnit"]]]
    return None


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


KEPT_BYTES = 16 << 20
"""Size of the footers whose parsed form a process keeps; that takes a few times as much."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a segment's footer says."""

    metadata: pq.FileMetaData
    groups: GroupStats
    schema: pa.Schema
    """The file's columns."""
    names: frozenset[str]
    """Their names."""
    pages: dict[tuple[str, int, str], tuple[int, PageMap] | None] = field(default_factory=dict)
    """By segment, row group and column: the column's number and where its pages lie, once that was looked at; None where they cannot be read
    apart. Segments with equal footers may differ in their pages."""

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> Footer:
        """What a parsed footer says."""
        schema = metadata.schema.to_arrow_schema()
        return cls(metadata, GroupStats(metadata), schema, frozenset(schema.names))


class _Kept:
    """Parsed footers by their checksums, so that none can be another's; those that were not asked for the longest go first."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._lock = ForkSafeLock()

    def get(self, checksum: str) -> Footer | None:
        with self._lock:
            if (found := self._footers.get(checksum)) is not None:
                self._footers.move_to_end(checksum)
            return found

    def put(self, checksum: str, footer: Footer) -> None:
        with self._lock:
            if checksum not in self._footers:
                self._footers[checksum] = footer
                self._size += footer.metadata.serialized_size
            while self._size > self._limit:
                self._size -= self._footers.popitem(last=False)[1].metadata.serialized_size


_KEPT = _Kept(KEPT_BYTES)


def read_footer(store: Store, segment: DataFile) -> Footer | None:
    """A segment's footer, once it has the checksum that the log names; None where the log has none that we can check.

    Where a request takes long, a footer that was read and checked before is not read again: its bytes are in no doubt, and pages have
    checksums of their own. Raises CorruptTable for another footer, ObjectNotFound where the segment is missing, StoreError.
    """
    expected = segment.footer_checksum
    length = footer_length(expected) if expected else None
    if length is None or expected is None:
        return None
    if segment.size is not None and length > segment.size:
        raise damaged(segment, ValueError(f"the footer is said to be {length} bytes of {segment.size}"))
    kept = _KEPT.get(expected)
    if kept is not None and segment.data is None and store.capabilities.concurrent:
        return kept
    data = store.get(segment.path, -length) if segment.data is None else segment.data[-length:]
    check(data, expected, segment.path)
    if kept is not None:
        return kept
    try:
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + data))
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error
    footer = Footer.of(metadata)
    _KEPT.put(expected, footer)
    return footer


def damaged(segment: DataFile, error: Exception) -> CorruptTable:
    """The error for a segment that does not read as the Parquet file it should be."""
    return CorruptTable(
        f"segment {segment.path} cannot be read: {error}",
        why="Its bytes are not those that were written",
        fix="Bring the file back from a backup",
        path=segment.path,
    )


def missing(segment: DataFile) -> CorruptTable:
    """The error for a segment that is not stored; raise it from ObjectNotFound or FileNotFoundError."""
    return CorruptTable(
        f"segment {segment.path} is missing",
        why="The log names it, but nothing is stored there",
        fix="Bring the file back from a backup, or open an older version without it",
        path=segment.path,
    )


LOST = (ObjectNotFound, FileNotFoundError)
"""What says that a segment is missing."""
