"""Segments as seekable files for Parquet readers, whichever store holds them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.files.pages.footer import LOST, Footer, damaged, missing, read_footer
from gapless.model.protocols import Store
from gapless.model.segment import DataFile

_PLAIN_ONLY = frozenset({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})
"""Encodings that Arrow does not turn into dictionaries."""
_WORTH_THREADS_BYTES = 1 << 18
"""Encoded row groups of less are decoded by the thread that asks."""


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


def segment_size(store: Store, segment: DataFile) -> int:
    """How many bytes a segment has where it lies; raises ObjectNotFound, StoreError."""
    return store.head(segment.path).size if segment.data is None else len(segment.data)


def segment_bytes(store: Store, segment: DataFile, start: int, length: int) -> bytes:
    """`length` bytes of a segment from `start`, at most to its end, out of the log or its file; raises ObjectNotFound, StoreError."""
    return store.get(segment.path, start, length) if segment.data is None else segment.data[start : start + length]


def open_source(store: Store, segment: DataFile) -> pa.NativeFile:
    """A segment's bytes as an Arrow file, not looked at yet; raises ObjectNotFound or FileNotFoundError, StoreError."""
    if segment.data is not None:
        return pa.BufferReader(segment.data)
    return open_object(store, segment.path, segment_size(store, segment) if segment.size is None else segment.size)


def open_segment(store: Store, segment: DataFile) -> pq.ParquetFile:
    """A segment as a Parquet file whose pages are checked as they are read, once its size and footer are those the log names.

    Raises CorruptTable where the file is missing, shorter or longer, or has another footer.
    """
    try:
        footer = read_footer(store, segment)
        source = open_source(store, segment)
    except LOST as error:
        raise missing(segment) from error
    return parse_source(source, segment, None if footer is None else footer.metadata)


def segment_footer(store: Store, segment: DataFile) -> Footer:
    """A segment's footer, checked where the log has a checksum of it. Raises CorruptTable, also where the segment is missing."""
    try:
        found = read_footer(store, segment)
    except LOST as error:
        raise missing(segment) from error
    if found is not None:
        return found
    with open_segment(store, segment) as file:
        return Footer.of(file.metadata)


def parse_source(
    source: pa.NativeFile, segment: DataFile, metadata: pq.FileMetaData | None, dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """A segment's bytes as a Parquet file whose pages are checked as they are read; `metadata` is its footer where that is known.

    The columns named in `dictionaries` are given dictionary-encoded. Raises CorruptTable.
    """
    try:
        return pq.ParquetFile(
            source,
            metadata=metadata,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries) or None,
        )
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error


def encoded_columns(metadata: pq.FileMetaData, names: Sequence[str], numbers: Sequence[int] | None = None) -> tuple[str, ...]:
    """Those of some flat columns that Arrow can give dictionary-encoded, of all row groups or some: of texts in some encodings it cannot."""
    leaves = {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in (range(metadata.num_row_groups) if numbers is None else numbers)]
    return tuple(
        name for name in names if all(_PLAIN_ONLY.isdisjoint(group.column(leaves[name]).encodings) for group in groups)
    )


def read_group(file: pq.ParquetFile, segment: DataFile, number: int, columns: Sequence[str] | None = None) -> pa.Table:
    """One row group of a segment that `open_segment` opened, in some columns or all. Raises CorruptTable."""
    return read_groups(file, segment, [number], columns)


def read_groups(
    file: pq.ParquetFile, segment: DataFile, numbers: Sequence[int], columns: Sequence[str] | None = None
) -> pa.Table:
    """Row groups of a segment that `open_segment` opened, in some columns or all. Raises CorruptTable."""
    stored_bytes = sum(file.metadata.row_group(number).total_byte_size for number in numbers)
    try:
        # For little, to hand columns to other threads takes longer than to decode them.
        threads = stored_bytes >= _WORTH_THREADS_BYTES
        rows = file.read_row_groups(list(numbers), columns=None if columns is None else list(columns), use_threads=threads)
    except (pa.ArrowException, OSError) as error:
        raise damaged(segment, error) from error
    expected = sum(file.metadata.row_group(number).num_rows for number in numbers)
    if rows.num_rows != expected:
        # Pages have checksums, their headers do not: one whose type is altered is passed over silently.
        several = f"row group{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
        raise damaged(segment, ValueError(f"{several} gives {rows.num_rows} rows and not {expected}"))
    return rows
