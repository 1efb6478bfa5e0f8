"""Values of single pages that can be taken as they lie: plain numbers, and texts by runs of dictionary codes, both without nulls.

Arrow reads whole columns of whole files; to have it read a page costs more than the page. What is not of these kinds is left to it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.parquet.page_map import Page
from gapless.parquet.page_slice import ColumnPages

_PLAIN, _CODED = 0, frozenset({2, 8})
"""Numbers of encodings in parquet.thrift: PLAIN; PLAIN_DICTIONARY and RLE_DICTIONARY, which data pages have in common."""
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw"}
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_NUMBERS = frozenset({
    pa.int32(), pa.uint32(), pa.date32(), pa.time32("ms"), pa.float32(),
    pa.int64(), pa.uint64(), pa.time64("us"), pa.time64("ns"), pa.float64(),
})  # fmt: skip
"""Types that Arrow holds as Parquet's plain pages do; so are timestamps, but for those in seconds."""
MOST_RUNS = 1_024
"""More runs or values of a dictionary than these are left to Arrow: each takes a step of Python."""

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows by their values, which come in runs."""

    values: pa.Array
    """The values of the dictionary."""
    codes: Codes
    """Of each run, which value it repeats."""
    ends: Codes
    """The row of the row group that follows each run, ascending."""

    def of(self, start: int, end: int) -> pa.Array:
        """The values of the rows `[start, end)`, all of which are among these."""
        edges = np.clip(np.concatenate([[start], self.ends]), start, end)
        times = edges[1:] - edges[:-1]
        return self.values.take(pa.array(np.repeat(self.codes, times)))

    def spans(self, wanted: npt.NDArray[np.bool_], start: int, end: int) -> tuple[int, int]:
        """The rows `[first, end)` within `[start, end)` that hold all rows whose values are wanted; `(start, start)` where there are none."""
        firsts = np.clip(np.concatenate([[0], self.ends[:-1]]), start, end)
        lasts = np.clip(self.ends, start, end)
        kept = np.flatnonzero(wanted[self.codes] & (firsts < lasts))
        return (int(firsts[kept[0]]), int(lasts[kept[-1]])) if len(kept) else (start, start)


def plain_values(file: pa.NativeFile, column: ColumnPages, kind: pa.DataType, start: int, end: int) -> pa.Array | None:
    """Rows `[start, end)` of a column of numbers, all of them in these pages; None where they are to be read by Arrow.

    Raises pyarrow's ArrowInvalid where a page is not what its checksum says.
    """
    width, pages = _WIDTHS.get(column.chunk.physical_type), column.map.pages[slice(*column.pages)]
    if width is None or not _as_it_lies(kind) or any(page.encoding != _PLAIN for page in pages):
        return None
    found = pa.allocate_buffer((end - start) * width)
    taken = np.frombuffer(found, dtype=f"u{width}")
    for page, (first, last) in zip(pages, _page_rows(column), strict=True):
        data = read_body(file, page, column.chunk.compression)
        at = _skip_levels(data, last - first, optional=column.optional)
        if at is None or len(data) - at != (last - first) * width:
            return None
        low, high = max(first, start), min(last, end)
        if low < high:
            taken[low - start : high - start] = np.frombuffer(data, f"u{width}", high - low, at + (low - first) * width)
    return pa.Array.from_buffers(kind, end - start, [None, found])


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
        found = _page_codes(read_body(file, page, column.chunk.compression), last - first, optional=column.optional)
        if found is None or values is None or len(codes) + len(found) > MOST_RUNS:
            return None
        for code, times in found:
            codes.append(code)
            ends.append((ends[-1] if ends else first) + times)
    if values is None or max(codes, default=0) >= len(values):
        return None
    return Runs(pa.array(values, pa.binary()).view(kind), np.array(codes, np.int64), np.array(ends, np.int64))


def read_body(file: pa.NativeFile, page: Page, compression: str) -> bytes | pa.Buffer:
    """What follows a page's header, uncompressed. Raises pyarrow's ArrowInvalid where it is not what its checksum says."""
    data: bytes = file.read_at(page.end - page.body, page.body)
    if page.checksum is not None and zlib.crc32(data) != page.checksum:
        raise pa.ArrowInvalid(f"the page at byte {page.start} is not what its checksum says")
    if compression == "UNCOMPRESSED":
        return data
    return pa.Codec(_CODECS[compression]).decompress(data, decompressed_size=page.plain_bytes - (page.body - page.start))


def _as_it_lies(kind: pa.DataType) -> bool:
    return kind in _NUMBERS or (pa.types.is_timestamp(kind) and kind.unit != "s")


def _page_rows(column: ColumnPages) -> Iterator[tuple[int, int]]:
    """The rows `[first, end)` of each page."""
    start, end = column.pages
    return (column.map.row_range((number, number + 1)) for number in range(start, end))


def _skip_levels(data: bytes | pa.Buffer, rows: int, *, optional: bool) -> int | None:
    """Where the values of a page begin; None where some of its rows are null, or that cannot be told."""
    if not optional:
        return 0
    head = bytes(memoryview(data)[:4])
    end = 4 + int.from_bytes(head, "little")
    levels = runs_of(bytes(memoryview(data)[4:end]), 1, rows) if len(head) == 4 and end <= len(data) else None
    return end if levels is not None and all(level == 1 for level, _ in levels) else None


def _page_codes(data: bytes | pa.Buffer, rows: int, *, optional: bool) -> list[tuple[int, int]] | None:
    """Of a page's rows, run by run: a code, and how many rows have it."""
    at = _skip_levels(data, rows, optional=optional)
    if at is None or at >= len(data):
        return None
    left = bytes(memoryview(data)[at:])
    return runs_of(left[1:], left[0], rows) if left[0] <= 32 else None


def runs_of(data: bytes, width: int, count: int) -> list[tuple[int, int]] | None:
    """`count` whole numbers of `width` bits in Parquet's hybrid encoding, as values and how often each comes in a row.

    None where there are more than `MOST_RUNS`, and where the bytes are not as many as the numbers need.
    """
    found: list[tuple[int, int]] = []
    at, left, length = 0, count, (width + 7) // 8
    while width and left > 0 and at < len(data) and len(found) <= MOST_RUNS:
        header, at = _varint(data, at)
        times = header >> 1
        if header & 1:
            packed, times = times * width, times * 8
            if at + packed > len(data):
                return None
            found += _unpacked(data[at : at + packed], width)[:left]
            at += packed
        else:
            found.append((int.from_bytes(data[at : at + length], "little"), min(left, times)))
            at += length
        left -= times
    return found if left <= 0 and at == len(data) and len(found) <= MOST_RUNS else None


def _unpacked(data: bytes, width: int) -> list[tuple[int, int]]:
    """Numbers of `width` bits that are packed without gaps, each once."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, width)
    return [(number, 1) for number in (bits @ (1 << np.arange(width, dtype=np.int64))).tolist()]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of which each byte holds seven bits, and what follows it; what there is where it is cut off."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            break
    return value, at


def _texts(data: bytes | pa.Buffer) -> Sequence[bytes] | None:
    """The values of a dictionary page; None where they are more than `MOST_RUNS`, or do not end with it."""
    found: list[bytes] = []
    held, at = bytes(memoryview(data)), 0
    while at < len(held) and len(found) <= MOST_RUNS:
        end = at + 4 + int.from_bytes(held[at : at + 4], "little")
        found.append(held[at + 4 : end])
        at = end
    return found if at == len(held) else None
