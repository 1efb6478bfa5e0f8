"""Segments as seekable files for Parquet readers, whichever store holds them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, ObjectNotFound
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.checksum import check, footer_length

_HEADER = b"PAR1"


class ObjectFile(io.RawIOBase):
    """An object of a store as a read-only file; every read is one ranged get."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store, self._path, self._size, self._at = store, path, size, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Bytes from the start."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; returns bytes from the start."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; all that is left for a negative size."""
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        data = self._store.get(self._path, self._at, length)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; returns the bytes read."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def open_object(store: Store, path: str, size: int) -> pa.NativeFile:
    """An object as an Arrow file: memory-mapped where it lies on a local disk."""
    local = store.local_path(path)
    return pa.OSFile(local) if local is not None else pa.PythonFile(ObjectFile(store, path, size), mode="r")


def open_segment(store: Store, segment: Segment) -> pq.ParquetFile:
    """A segment as a Parquet file whose pages are checked as they are read, once its size and footer are those the log names.

    Raises CorruptTable where the file is missing, shorter or longer, or has another footer.
    """
    try:
        size = store.head(segment.path).size if segment.size is None else segment.size
        metadata = _checked_metadata(store, segment)
        source = open_object(store, segment.path, size)
    except (ObjectNotFound, FileNotFoundError) as error:
        raise CorruptTable(
            f"segment {segment.path} is missing",
            why="The log names it, but nothing is stored there",
            fix="Bring the file back from a backup, or open an older version without it",
            path=segment.path,
        ) from error
    try:
        return pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error


def read_group(file: pq.ParquetFile, segment: Segment, number: int, columns: Sequence[str] | None = None) -> pa.Table:
    """One row group of a segment that `open_segment` opened, in some columns or all. Raises CorruptTable."""
    try:
        rows = file.read_row_group(number, columns=None if columns is None else list(columns))
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error
    expected = file.metadata.row_group(number).num_rows
    if rows.num_rows != expected:
        # Pages have checksums, their headers do not: one whose type is altered is passed over silently.
        raise damaged(segment, ValueError(f"row group {number} gives {rows.num_rows} rows and not {expected}"))
    return rows


def _checked_metadata(store: Store, segment: Segment) -> pq.FileMetaData | None:
    """The footer, if the log holds a checksum for it that we can check; None leaves it to the Parquet reader."""
    expected = segment.footer_checksum
    length = footer_length(expected) if expected else None
    if length is None or expected is None:
        return None
    if segment.size is not None and length > segment.size:
        raise damaged(segment, ValueError(f"the footer is said to be {length} bytes of {segment.size}"))
    footer = store.get(segment.path, -length)
    check(footer, expected, segment.path)
    try:
        return pq.read_metadata(pa.BufferReader(_HEADER + footer))
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error


def damaged(segment: Segment, error: Exception) -> CorruptTable:
    """The error for a segment that does not read as the Parquet file it should be."""
    return CorruptTable(
        f"segment {segment.path} cannot be read: {error}",
        why="Its bytes are not those that were written",
        fix="Bring the file back from a backup",
        path=segment.path,
    )
