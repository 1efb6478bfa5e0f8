"""Footers of segments: checked when they are read, and parsed once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.model.data_file import DataFile
from gapless.model.protocols import Store
from gapless.parquet.checksum import check, footer_length
from gapless.parquet.file_shell import MAGIC
from gapless.parquet.page_map import PageMap
from gapless.parquet.row_groups import GroupStats
from gapless.runtime.locks import ForkSafeLock

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
