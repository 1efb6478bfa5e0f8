"""Values of single pages that are soon taken: numbers that are plain or in a dictionary, and texts in runs; all without nulls.

Arrow reads whole columns of whole files; to have it read a page costs more than the page. What is not of these kinds is left to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.files.pages.page import MOST_RUNS, Codes, numbers_between, runs_of
from gapless.files.pages.page_map import Page
from gapless.files.pages.page_slice import ColumnPages, RowRanges, merged

_PLAIN, _CODED = 0, frozenset({2, 8})
"""Numbers of encodings in parquet.thrift: PLAIN; PLAIN_DICTIONARY and RLE_DICTIONARY, which data pages have in common."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw"}
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_NUMBERS = frozenset({
    pa.int32(), pa.uint32(), pa.date32(), pa.time32("ms"), pa.float32(),
    pa.int64(), pa.uint64(), pa.time64("us"), pa.time64("ns"), pa.float64(),
})  # fmt: skip
"""Types that Arrow holds as Parquet's plain pages do; so are timestamps, but for those in seconds."""
_WIDEST = 32
"""Bits of a place in a dictionary."""

Numbers = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows by their values, which come in runs."""

    values: pa.Array
    """The values of the dictionary."""
    codes: Codes
    """Of each run, which value it repeats."""
    ends: Codes
    """The row of the row group that follows each run, ascending."""

    def of(self, start: int, end: int, *, encoded: bool = False) -> pa.Array:
        """The values of the rows `[start, end)`, all of which are among these; dictionary-encoded if asked so."""
        edges = np.clip(np.concatenate([[start], self.ends]), start, end)
        codes = pa.array(np.repeat(self.codes.astype(np.int32), edges[1:] - edges[:-1]))
        return pa.DictionaryArray.from_arrays(codes, self.values) if encoded else self.values.take(codes)

    def spans(self, wanted: npt.NDArray[np.bool_], start: int, end: int) -> RowRanges:
        """The stretches within `[start, end)` that hold all rows whose values are wanted."""
        firsts = np.clip(np.concatenate([[0], self.ends[:-1]]), start, end)
        lasts = np.clip(self.ends, start, end)
        kept = np.flatnonzero(wanted[self.codes] & (firsts < lasts))
        return merged(firsts[kept], lasts[kept])


def number_values(file: pa.NativeFile, column: ColumnPages, kind: pa.DataType, start: int, end: int) -> pa.Array | None:
    """Rows `[start, end)` of a column of numbers, all of them in these pages; None where they are to be read by Arrow.

    Raises pyarrow's ArrowInvalid where a page is not what its checksum says.
    """
    width = _WIDTHS.get(column.chunk.physical_type)
    if width is None or not _as_it_lies(kind):
        return None
    found = pa.allocate_buffer((end - start) * width)
    taken = np.frombuffer(found, dtype=f"u{width}")
    taker = _NumberPages(file, column, width)
    for page, (first, last) in zip(column.map.pages[slice(*column.pages)], _page_rows(column), strict=True):
        low, high = max(first, start), min(last, end)
        numbers = taker.numbers(page, last - first, low - first, max(low, high) - first)
        if numbers is None:
            return None
        taken[low - start : low - start + len(numbers)] = numbers
    return pa.Array.from_buffers(kind, end - start, [None, found])


class _NumberPages:
    """Numbers of so many bytes, out of the pages of a column."""

    def __init__(self, file: pa.NativeFile, column: ColumnPages, width: int) -> None:
        self._file, self._column, self._type = file, column, np.dtype(f"<u{width}")
        self._known: Numbers | None = None

    def numbers(self, page: Page, rows: int, start: int, end: int) -> Numbers | None:
        """Rows `[start, end)` of a page of so many; None where it has another form, or nulls."""
        if page.encoding != _PLAIN and page.encoding not in _CODED:
            return None
        data = read_body(self._file, page, self._column.chunk.compression)
        at = _skip_levels(data, rows, optional=self._column.optional)
        if at is None:
            return None
        if page.encoding == _PLAIN:
            return np.frombuffer(data[at:], self._type)[start:end] if len(data) - at == rows * self._type.itemsize else None
        return self._coded(data[at:], rows, start, end)

    def _coded(self, data: memoryview, rows: int, start: int, end: int) -> Numbers | None:
        """The numbers for which a page has their places in the dictionary."""
        codes = numbers_between(data[1:], data[0], rows, start, end) if len(data) and data[0] <= _WIDEST else None
        values = None if codes is None else self._dictionary()
        if codes is None or values is None or int(codes.max(initial=-1)) >= len(values):
            return None
        return values[codes]

    def _dictionary(self) -> Numbers | None:
        """The dictionary's numbers; None where there is none, or its bytes are not those of numbers."""
        page = self._column.map.dictionary
        if self._known is None and page is not None:
            data = read_body(self._file, page, self._column.chunk.compression)
            self._known = np.frombuffer(data, self._type) if len(data) % self._type.itemsize == 0 else None
        return self._known


def coded_runs(file: pa.NativeFile, column: ColumnPages, kind: pa.DataType) -> Runs | None:
    """A column of texts, of all rows of these pages; None where it has another form, or too many runs, and is to be read by Arrow.

    Raises pyarrow's ArrowInvalid where a page is not what its checksum says.
    """
    pages, dictionary = column.map.pages[slice(*column.pages)], column.map.dictionary
    coded = all(page.encoding in _CODED for page in pages)
    if dictionary is None or not coded or kind not in (pa.string(), pa.binary()) or column.chunk.physical_type != "BYTE_ARRAY":
        return None
    values = _texts(read_body(file, dictionary, column.chunk.compression))
    codes: list[int] = []
    ends: list[int] = []
    for page, (first, last) in zip(pages, _page_rows(column), strict=True):
        data = read_body(file, page, column.chunk.compression)
        found = _page_codes(data, last - first, optional=column.optional)
        if found is None or values is None or len(codes) + len(found) > MOST_RUNS:
            return None
        for code, times in found:
            codes.append(code)
            ends.append((ends[-1] if ends else first) + times)
    if values is None or max(codes, default=0) >= len(values):
        return None
    return Runs(pa.array(values, pa.binary()).view(kind), np.array(codes, np.int64), np.array(ends, np.int64))


def read_body(file: pa.NativeFile, page: Page, compression: str) -> memoryview:
    """What follows a page's header, uncompressed, byte by byte. Raises pyarrow's ArrowInvalid where it is not what its checksum says."""
    data: bytes = file.read_at(page.end - page.body, page.body)
    if page.checksum is not None and zlib.crc32(data) != page.checksum:
        raise pa.ArrowInvalid(f"the page at byte {page.start} is not what its checksum says")
    if compression == "UNCOMPRESSED":
        return memoryview(data)
    plain = pa.Codec(_CODECS[compression]).decompress(data, decompressed_size=page.plain_bytes - (page.body - page.start))
    # Arrow's buffers are of bytes with signs.
    return memoryview(plain).cast("B")


def _as_it_lies(kind: pa.DataType) -> bool:
    return kind in _NUMBERS or (pa.types.is_timestamp(kind) and kind.unit != "s")


def _page_rows(column: ColumnPages) -> Iterator[tuple[int, int]]:
    """The rows `[first, end)` of each page."""
    start, end = column.pages
    return (column.map.row_range((number, number + 1)) for number in range(start, end))


def _skip_levels(data: memoryview, rows: int, *, optional: bool) -> int | None:
    """Where the values of a page begin; None where some of its rows are null, or that cannot be told."""
    if not optional:
        return 0
    end = 4 + int.from_bytes(data[:4], "little")
    levels = runs_of(data[4:end], 1, rows) if 4 <= end <= len(data) else None
    return end if levels is not None and all(level == 1 for level, _ in levels) else None


def _page_codes(data: memoryview, rows: int, *, optional: bool) -> list[tuple[int, int]] | None:
    """Of a page's rows, run by run: a code, and how many rows have it."""
    at = _skip_levels(data, rows, optional=optional)
    return None if at is None or at >= len(data) or data[at] > _WIDEST else runs_of(data[at + 1 :], data[at], rows)


def _texts(data: memoryview) -> Sequence[bytes] | None:
    """The values of a dictionary page; None where they are more than `MOST_RUNS`, or do not end with it."""
    found: list[bytes] = []
    held, at = bytes(data), 0
    while at < len(held) and len(found) <= MOST_RUNS:
        end = at + 4 + int.from_bytes(held[at : at + 4], "little")
        found.append(held[at + 4 : end])
        at = end
    return found if at == len(held) else None
