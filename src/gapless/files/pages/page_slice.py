"""Part of a row group as a Parquet file of its own: pages as they are, with their checksums, and a footer that names no others.

Row ranges near a filter are few and long, since what lies between two of them is left out only where that is whole pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.files.pages.file_assembly import MAGIC, empty_file, end_of, footer_of
from gapless.files.pages.page_map import PageMap
from gapless.files.pages.thrift import Items, Struct

_TYPES = {
    name: n
    for n, name in enumerate(["BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"])
}
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
_ENCODINGS = {
    "PLAIN": 0, "PLAIN_DICTIONARY": 2, "RLE": 3, "BIT_PACKED": 4, "DELTA_BINARY_PACKED": 5, "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7, "RLE_DICTIONARY": 8, "BYTE_STREAM_SPLIT": 9,
}  # fmt: skip
"""Numbers of parquet.thrift."""
_WRITER = re.compile(r"(parquet-cpp-arrow|parquet-mr|parquet-rs) version (\d+)")
_OLDEST = 12
"""Arrow of this version and later writes what it calls LZ4 in Parquet's newer form, of which alone `_CODECS` knows; others' may be either."""
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPages:
    """Consecutive data pages of one column chunk."""

    chunk: pq.ColumnChunkMetaData
    map: PageMap
    pages: tuple[int, int]
    """Numbers `[from, to)`."""
    optional: bool
    """Whether a row may be null."""

    @property
    def rows(self) -> tuple[int, int]:
        """The rows `[first, end)` that they hold, counted from the first of the row group."""
        return self.map.row_range(self.pages)


def can_slice(metadata: pq.FileMetaData, schema: pa.Schema, group: int, leaf: int) -> bool:
    """Whether pages of a column of a row group can be read without the others; `schema` is the file's.

    The column is flat, Arrow, Spark or Rust wrote the file, and Arrow would describe the column as it is there: decimals and times have
    several forms.
    """
    column, chunk = metadata.schema.column(leaf), metadata.row_group(group).column(leaf)
    writer = _WRITER.match(metadata.created_by or "")
    if column.path != column.name or column.max_repetition_level or writer is None:
        return False
    if int(writer[2]) < _OLDEST if writer[1] == "parquet-cpp-arrow" else chunk.compression == "LZ4":
        return False
    known = chunk.compression in _CODECS and all(name in _ENCODINGS for name in chunk.encodings)
    return known and bool(_described_anew(schema.field(column.name)).equals(column))


def slice_file(file: pa.NativeFile, schema: pa.Schema, columns: Sequence[ColumnPages]) -> pa.Buffer:
    """A Parquet file of the pages of columns that all hold the same rows; `schema` is that of the file, of these columns alone."""
    (first, end), body, described = columns[0].rows, bytearray(MAGIC), []
    for column in columns:
        described.append(_described(column, len(body), end - first))
        if column.map.dictionary is not None:
            body += _bytes(file, column.map.dictionary.start, column.map.dictionary.end)
        body += _bytes(file, *_span(column))
    sizes = sum(one[3][1][6][1] for one in described)
    group: Struct = {1: (_LIST, Items(_STRUCT, described)), 2: (_I64, sizes), 3: (_I64, end - first)}
    body += end_of(_empty_footer(schema), end - first, [group])
    return pa.py_buffer(body)


def _described(column: ColumnPages, at: int, rows: int) -> Struct:
    """ColumnChunk of parquet.thrift for pages that begin at byte `at`."""
    chunk, dictionary, (start, end) = column.chunk, column.map.dictionary, _span(column)
    before = 0 if dictionary is None else dictionary.end - dictionary.start
    plain = sum(page.plain_bytes for page in (*column.map.pages[slice(*column.pages)], *([dictionary] if dictionary else [])))
    told: Struct = {
        1: (_I32, _TYPES[chunk.physical_type]),
        2: (_LIST, Items(_I32, [_ENCODINGS[name] for name in chunk.encodings])),
        3: (_LIST, Items(_BINARY, [chunk.path_in_schema.encode()])),
        4: (_I32, _CODECS[chunk.compression]),
        5: (_I64, rows),
        6: (_I64, plain),
        7: (_I64, before + end - start),
        9: (_I64, at + before),
    }
    if dictionary is not None:
        told[11] = (_I64, at)
    return {2: (_I64, 0), 3: (_STRUCT, told)}


def _span(column: ColumnPages) -> tuple[int, int]:
    """The bytes of the pages, which follow each other."""
    return column.map.pages[column.pages[0]].start, column.map.pages[column.pages[1] - 1].end


def _bytes(file: pa.NativeFile, start: int, end: int) -> bytes:
    data: bytes = file.read_at(end - start, start)
    return data


@lru_cache(maxsize=256)
def _described_anew(column: pa.Field) -> pq.ColumnSchema:
    return pq.read_metadata(pa.BufferReader(empty_file(pa.schema([column])))).schema.column(0)


@lru_cache(maxsize=64)
def _empty_footer(schema: pa.Schema) -> Struct:
    return footer_of(empty_file(schema))


GAP_ROWS = 16_384
"""Fewer rows than these between two stretches are read with them: pages have about as many."""

Rows = npt.NDArray[np.int64]
Span = tuple[int, int]
"""The rows `[first, end)`, of which there is one at least."""


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Rows among which are all that a filter keeps."""

    spans: tuple[Span, ...]
    """Ascending, with `GAP_ROWS` between them at least."""
    exact: bool
    """Whether none are among them that it does not keep."""

    @property
    def hull(self) -> Span:
        """From the first to the last; none where both are the same."""
        return (self.spans[0][0], self.spans[-1][1]) if self.spans else (0, 0)

    @property
    def rows(self) -> int:
        """How many there are, with what is read along between them."""
        return sum(end - first for first, end in self.spans) + GAP_ROWS * max(0, len(self.spans) - 1)

    def both(self, other: RowRanges) -> RowRanges:
        """The rows that are among these and those.

        >>> Near(((0, 10), (20, 30)), True).both(Near(((5, 25),), True))
        Near(spans=((5, 10), (20, 25)), exact=True)
        """
        each = ((max(one[0], two[0]), min(one[1], two[1])) for one in self.spans for two in other.spans)
        return RowRanges(tuple(span for span in each if span[0] < span[1]), self.exact and other.exact)


def merged(firsts: Rows, ends: Rows) -> RowRanges:
    """Stretches that begin and end so, ascending, as fewer that hold them.

    >>> merged(np.array([0, 20, 90_000]), np.array([10, 30, 90_001]))
    Near(spans=((0, 30), (90000, 90001)), exact=False)
    """
    if not len(firsts):
        return RowRanges((), exact=True)
    apart = np.flatnonzero(firsts[1:] - ends[:-1] >= GAP_ROWS)
    begins, stops = [int(firsts[0]), *firsts[apart + 1].tolist()], [*ends[apart].tolist(), int(ends[-1])]
    return RowRanges(tuple(zip(begins, stops, strict=True)), exact=sum(stops) - sum(begins) == int((ends - firsts).sum()))
