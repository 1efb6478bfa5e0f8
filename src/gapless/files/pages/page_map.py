"""Page index of a column chunk: where its pages lie, by their headers, so that those of some rows are read without the others."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.files.pages.page import varint
from gapless.files.pages.thrift import Struct, decode_first

_HEADER_BYTES = 128
"""A guess: headers with statistics of long texts are longer."""
_LARGEST = 2**31 - 1
"""Of what headers count."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_STATISTICS = rb"\x1c(?:[\x18\x28]\x08.{8}|[\x18\x28]\x04.{4}|\x16" + _VARINT + rb"|[\x11\x12])*\x00"
"""Those of numbers: bounds of eight or four bytes, counts, and whether bounds are exact."""
_USUAL = re.compile(
    rb"\x15\x00\x15(V)\x15(V)\x15(V)\x1c\x15(V)\x15(V)\x15V\x15V(?:S)?\x00\x00".replace(b"V", _VARINT).replace(
        b"S", _STATISTICS
    ),
    re.DOTALL,
)
"""A data page's header as most writers make it, with a checksum: its sizes, its checksum, how many values it has and their encoding."""
_ABOUT = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
"""Where PageHeader of parquet.thrift says more of a page, by its type: how many values it holds, and then their encoding in all but the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One data page."""

    start: int
    """Its first byte in the file, that of its header."""
    end: int
    first: int
    """Its first row, counted from the first of the row group."""
    plain_bytes: int
    """Its size uncompressed, with the header."""
    body: int
    """Where its header ends."""
    encoding: int | None
    """How values are written, as parquet.thrift numbers it; None for a page of the second kind, whose levels lie apart."""
    checksum: int | None
    """CRC-32 of what follows the header, where that is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMap:
    """The pages of one flat column chunk."""

    pages: tuple[Page, ...]
    rows: int
    dictionary: Page | None
    """Its dictionary page, whose first row says nothing."""

    def around(self, first: int, end: int) -> tuple[int, int]:
        """The pages that hold the rows `[first, end)`, of which there is one at least: numbers `[from, to)`."""
        firsts = [page.first for page in self.pages]
        return bisect_right(firsts, first) - 1, bisect_right(firsts, end - 1)

    def row_range(self, pages: tuple[int, int]) -> tuple[int, int]:
        """The rows `[first, end)` of pages `[from, to)`."""
        return self.pages[pages[0]].first, self.pages[pages[1]].first if pages[1] < len(self.pages) else self.rows


def map_pages(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData, rows: int) -> PageMap | None:
    """The pages of a flat column's chunk, by their headers; None where these are not what they should be.

    Headers have no checksums: they must fill the chunk and hold `rows` values together. Raises pyarrow's ArrowInvalid where they hold another
    number: Arrow does not count them, and makes values of the bits that fill a page's last byte.
    """
    try:
        found = _map(file, chunk)
    except (IndexError, KeyError, RecursionError, TypeError, ValueError):
        # What such headers say is for Arrow to refuse, which reads the chunk as a whole.
        return None
    if found is not None and found.rows != rows:
        raise pa.ArrowInvalid(f"pages of {chunk.path_in_schema} have {found.rows} values and not {rows}")
    return found


def _map(file: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> PageMap | None:
    at = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
    end = at + chunk.total_compressed_size
    pages: list[Page] = []
    dictionary, found = None, 0
    while at < end:
        header = _header(file, at, end)
        sizes = header.size, header.plain_size, header.values
        if min(sizes) < 0 or max(sizes) > _LARGEST or (header.kind == _DICTIONARY and pages):
            return None
        page = header.page(at, found)
        if header.kind == _DICTIONARY:
            dictionary = page
        else:
            pages.append(page)
            found += header.values
        at = page.end
    if at != end or not pages:
        return None
    return PageMap(pages=tuple(pages), rows=found, dictionary=dictionary)


class _Header(NamedTuple):
    """What a page's header says."""

    kind: int
    plain_size: int
    size: int
    checksum: int | None
    values: int
    encoding: int | None
    length: int
    """How many bytes it has itself."""

    def page(self, at: int, first: int) -> Page:
        """The page that begins with it."""
        body = at + self.length
        return Page(
            start=at,
            end=body + self.size,
            first=first,
            plain_bytes=self.length + self.plain_size,
            body=body,
            encoding=self.encoding,
            checksum=None if self.checksum is None else self.checksum & 0xFFFFFFFF,
        )


def _header(file: pa.NativeFile, at: int, end: int) -> _Header:
    size = _HEADER_BYTES
    while True:
        data: Any = file.read_at(min(size, end - at), at)
        if (usual := _USUAL.match(data)) is not None:
            plain_size, held, checksum, values, encoding = map(_number, usual.groups())
            return _Header(_DATA, plain_size, held, checksum, values, encoding, usual.end())
        try:
            return _told(*decode_first(data))
        except IndexError:
            if size >= end - at:
                raise
        size *= 16


def _told(header: Struct, length: int) -> _Header:
    kind = header[1][1]
    about = header[_ABOUT[kind]][1]
    encoding = None if kind == _DATA_V2 else about[2][1]
    return _Header(kind, header[2][1], header[3][1], header[4][1] if 4 in header else None, about[1][1], encoding, length)


def _number(data: bytes) -> int:
    """A number with a sign, of which each byte holds seven bits."""
    value, _ = varint(data, 0)
    return value >> 1 ^ -(value & 1)
