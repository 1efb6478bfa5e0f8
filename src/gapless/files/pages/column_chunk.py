"""Column chunks: of our own (pages, and how a footer describes them), and those left to Arrow's writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from struct import unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.files.pages.chunk_values import Valid
from gapless.files.pages.encodings import Encodings
from gapless.files.pages.file_assembly import CHUNK_META, chunk_start, footer_of, moved
from gapless.files.pages.flat_column import Ends, FlatColumn, Form
from gapless.files.pages.page import (
    PLAIN_NUMBER,
    RLE_DICTIONARY_NUMBER,
    RLE_NUMBER,
    Bytes,
    data_page,
    dictionary_page,
    levels_of_all,
    levels_of_some,
)
from gapless.files.pages.thrift import Struct, encode, signed, unsigned
from gapless.model.stats import ColumnStats, cuts

PAGE_ROWS = 20_000
"""Rows of a page, at most: as many as Arrow's writer takes, so that pages of all columns begin at the same rows."""
_PAGE_BYTES = 1 << 20
"""Bytes of a page, about, where values are long."""

_NUMBERS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
"""Compressions of parquet.thrift."""
_ARROW_NAMES = {"lz4": "lz4_raw"}
"""What Arrow calls a compression of files where it calls it otherwise."""

_I32, _I64, _TEXT, _LIST, _STRUCT, _TRUE, _STOP = b"\x15", b"\x16", b"\x18", b"\x19", b"\x1c", b"\x11", b"\0"
"""Fields whose number is the next after that before them, by type."""
_I64_AFTER_NEXT, _I64_THIRD, _TEXT_AFTER_NEXT, _STRUCT_THIRD = b"\x26", b"\x36", b"\x28", b"\x3c"
"""The same, one and two numbers further on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column of a file."""

    name: str
    form: Form
    optional: bool
    """Whether there may be nulls."""
    told: bool = False
    """Whether the log may tell what the footer says of its values: whole numbers and floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """How pages are compressed."""

    name: str
    """As pyarrow names it for files."""
    level: int | None = None
    min_bytes: int = 0
    """A chunk of fewer bytes is not compressed: what that would save is less than it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column chunk that lies nowhere yet."""

    pieces: tuple[Bytes, ...]
    """Its bytes."""
    size: int
    """How many bytes."""
    plain_size: int
    """How many they were before compression."""
    describe: Callable[[int], bytes]
    """ColumnChunk of parquet.thrift where it begins at some byte."""
    stats: ColumnStats | None = None
    """What the log says of its rows, where the leaf is one of which it tells that."""


def chunk_of(leaf: Leaf, column: FlatColumn, compression: Compression) -> Chunk:
    """The rows of a column as a chunk; none may be null where the column has no nulls."""
    if column.valid is not None and not leaf.optional:
        raise ValueError(f"column {leaf.name!r} is declared non-nullable and holds a null")
    bodies = _bodies(leaf, column)
    dictionary = None if column.dictionary is None else column.dictionary[0].body(0, column.dictionary[1])
    codec = _codec(compression, bodies, dictionary)
    pages = [data_page(body, count, column.values.encoding, codec) for count, body in bodies]
    first = None if column.dictionary is None else dictionary_page(dictionary or b"", column.dictionary[1], codec)
    every = pages if first is None else [first, *pages]
    size, plain_size = sum([page.size for page in every]), sum([page.plain_size for page in every])
    kind = _named(leaf.name, leaf.form.kind, _encodings(column), _NUMBERS["none" if codec is None else compression.name])
    before = b"".join((kind, _I64, signed(column.count), _I64, signed(plain_size), _I64, signed(size), _I64_AFTER_NEXT))
    after = _statistics(leaf, column.ends, column.nulls) + _page_counts(column.values.encoding, len(pages))
    pieces = tuple([piece for page in every for piece in page.pieces])
    describe = partial(_placed, before, None if first is None else first.size, after)
    stats = _stats(leaf.form, column) if leaf.told else None
    return Chunk(pieces=pieces, size=size, plain_size=plain_size, describe=describe, stats=stats)


_Body = tuple[int, tuple[Bytes, ...]]
"""Of a page how many rows it has, and its levels and values."""


def _codec(compression: Compression, bodies: Sequence[_Body], dictionary: Bytes | None) -> pa.Codec | None:
    """What compresses the pages of a chunk; None where nothing does. One each: that of gzip is not safe to share between threads."""
    name, min_bytes = compression.name, compression.min_bytes
    if name == "none":
        return None
    if min_bytes and sum([len(piece) for _, body in bodies for piece in body]) + len(dictionary or b"") < min_bytes:
        return None
    return pa.Codec(_ARROW_NAMES.get(name, name), compression.level)


def _stats(form: Form, column: FlatColumn) -> ColumnStats:
    assert form.there is not None
    nans = column.nans if form.there.kind == "f" else None
    if column.ends is None:
        return ColumnStats(nulls=column.nulls, nans=nans)
    low, high = column.ends
    return ColumnStats(min=_number(low, form.there.kind), max=_number(high, form.there.kind), nulls=column.nulls, nans=nans)


def _number(end: bytes, kind: str) -> int | float:
    """A bound of numbers of numpy's kind, as Python has it; zeros have no sign there."""
    if kind == "f":
        return float(unpack("<d" if len(end) == 8 else "<f", end)[0]) + 0.0
    return int.from_bytes(end, "little", signed=kind == "i")


def _placed(before: bytes, dictionary_size: int | None, after: bytes, at: int) -> bytes:
    """A description of a chunk with its positions, where it begins at byte `at`, with a dictionary page of so many bytes."""
    if dictionary_size is None:
        return b"".join((before, signed(at), _STRUCT_THIRD, after))
    return b"".join((before, signed(at + dictionary_size), _I64_AFTER_NEXT, signed(at), _STRUCT, after))


def _bodies(leaf: Leaf, column: FlatColumn) -> list[_Body]:
    """What each page holds."""
    found, valid, values = 0, column.valid, column.values
    bodies: list[_Body] = []
    for start, end in cuts(column.count, _page_rows(column)):
        levels, here = (levels_of_all(end - start), end - start) if valid is None else _levels(valid[start:end])
        body = values.body(found, found + here)
        bodies.append((end - start, (levels, body) if leaf.optional else (body,)))
        found += here
    return bodies


def _levels(valid: Valid) -> tuple[bytes, int]:
    """The definition levels of such rows, and how many of them have a value."""
    count, here = len(valid), int(np.count_nonzero(valid))
    if here in (0, count):
        return levels_of_all(count, 1 if here else 0), here
    return levels_of_some(np.packbits(valid, bitorder="little").tobytes()), here


def _page_rows(column: FlatColumn) -> int:
    """Rows of each page."""
    return max(1, min(PAGE_ROWS, column.count * _PAGE_BYTES // max(1, column.values.nbytes)))


def _encodings(column: FlatColumn) -> tuple[int, ...]:
    """Those of a chunk, levels among them, in the order in which Arrow's writer names them."""
    if column.dictionary is None:
        return RLE_NUMBER, column.values.encoding
    return PLAIN_NUMBER, RLE_NUMBER, RLE_DICTIONARY_NUMBER


@lru_cache(maxsize=16_384)
def _named(column: str, kind: int, encodings: tuple[int, ...], compression: int) -> bytes:
    """ColumnChunk up to how many values it has: the same for all chunks of a column, mostly."""
    name = column.encode()
    return b"".join(
        (
            _I64_AFTER_NEXT, _STOP, _STRUCT,  # no file of its own
            _I32, signed(kind),
            _LIST, bytes([len(encodings) << 4 | 5]), *map(signed, encodings),
            _LIST, b"\x18", unsigned(len(name)), name,
            _I32, signed(compression),
        )
    )  # fmt: skip


def _statistics(leaf: Leaf, ends: Ends | None, nulls: int) -> bytes:
    """Statistics of parquet.thrift, with the bounds twice where readers of the first version of them know their order."""
    if ends is None:
        return b"".join((_I64_THIRD, signed(nulls), _STOP))
    low, high = ends
    low, high = unsigned(len(low)) + low, unsigned(len(high)) + high
    old = _TEXT + high + _TEXT + low + _I64 if leaf.form.signed else _I64_THIRD
    return b"".join((old, signed(nulls), _TEXT_AFTER_NEXT, high, _TEXT, low, _TRUE, _TRUE, _STOP))


@lru_cache(maxsize=256)
def _page_counts(encoding: int, pages: int) -> bytes:
    """How many pages of which kind and encoding there are, and the end of a description."""
    counts = [_page_count(0, encoding, pages)]
    if encoding == RLE_DICTIONARY_NUMBER:
        counts.insert(0, _page_count(2, PLAIN_NUMBER, 1))
    return b"".join((_LIST, bytes([len(counts) << 4 | 12]), *counts, _STOP, _STOP))


def _page_count(kind: int, encoding: int, count: int) -> bytes:
    return b"".join((_I32, signed(kind), _I32, signed(encoding), _I32, signed(count), _STOP))


_UNCOMPRESSED = Compression(name="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How values are encoded."""

    compression: str
    compression_level: int | None
    encodings: Encodings
    min_bytes: int = 0
    """Chunks of fewer bytes are not compressed, where we make them."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Key-value metadata of the file."""

    def open(self, sink: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
        """Arrow's writer of a file with the columns of `schema`, whose pages have checksums, and which says little of itself."""
        dictionary, others, names = self.encodings.dictionary, self.encodings.others, frozenset(schema.names)
        compression, level = self._by_column(schema.names)
        return pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            compression_level=level,
            use_dictionary=dictionary if isinstance(dictionary, bool) else [n for n in dictionary if n in names],
            column_encoding={name: others[name] for name in others if name in names} or None,
            write_page_checksum=True,
            store_schema=False,
        )

    def compressions(self, names: Iterable[str]) -> dict[str, Compression]:
        """How columns are compressed that we write ourselves, by name."""
        usual = Compression(name=self.compression, level=self.compression_level, min_bytes=self.min_bytes)
        return {name: _UNCOMPRESSED if name in self.encodings.uncompressed else usual for name in names}

    def _by_column(self, names: list[str]) -> tuple[str | dict[str, str], int | dict[str, int] | None]:
        """Compression and level, by column where they differ."""
        uncompressed, level = self.encodings.uncompressed, self.compression_level
        if uncompressed.isdisjoint(names):
            return self.compression, level
        compression = {name: "none" if name in uncompressed else self.compression for name in names}
        return compression, None if level is None else {name: level for name in names if name not in uncompressed}


_PATH, _PLAIN, _SIZE = 3, 6, 7
"""Where ColumnMetaData of parquet.thrift says what the column is called, and its bytes plain and compressed."""


def arrow_chunks(columns: pa.Table, options: WriterOptions) -> Iterator[tuple[str, Chunk]]:
    """The chunks of these columns in one row group, each with the name of its column; a nested one has several."""
    sink = pa.BufferOutputStream()
    writer = options.open(sink, columns.schema)
    writer.write_table(columns, row_group_size=max(1, columns.num_rows))
    writer.close()
    file = sink.getvalue()
    (group,) = footer_of(file)[4][1].values
    for described in group[1][1].values:
        meta: Struct = described[CHUNK_META][1]
        start = chunk_start(described)
        yield meta[_PATH][1].values[0].decode(), _chunk(file.slice(start, meta[_SIZE][1]), described, start)


def encoded_size(columns: pa.Table, options: WriterOptions) -> int:
    """The bytes that these columns take in one row group."""
    return sum(chunk.size for _, chunk in arrow_chunks(columns, options))


def _chunk(data: pa.Buffer, described: Struct, start: int) -> Chunk:
    plain_size: int = described[CHUNK_META][1][_PLAIN][1]
    return Chunk(
        pieces=(memoryview(data),),
        size=data.size,
        plain_size=plain_size,
        describe=lambda at: encode(moved(described, at - start)),
    )
