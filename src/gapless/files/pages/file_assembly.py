"""Parquet file framing: magic bytes and footer, files in the making, and files assembled of column chunks of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from gapless.files.pages.page import Bytes
from gapless.files.pages.thrift import Items, Struct, decode, encode, fields, listed, signed
from gapless.model.segment import ALGORITHM

MAGIC = b"PAR1"
TRAILER = 8
"""Bytes at the end of a file: four of the footer's length, and the magic."""
_I64, _BINARY, _LIST, _STRUCT = 6, 8, 9, 12
_ROWS, _NOTES = 3, 5
"""Where FileMetaData says how many rows there are, and the key-value metadata."""
CHUNK_META = 3
"""Where ColumnChunk has its ColumnMetaData."""
_DATA, _DICTIONARY = 9, 11
"""Where that says at which byte its pages begin."""
_NEXT_I64, _NEXT_LIST, _I64_AFTER_NEXT = b"\x16", b"\x19", b"\x26"
"""Fields whose number is the next, and the next but one, after that before them, by type."""
_OFFSETS = (_DATA, 10, _DICTIONARY, 14)
"""All positions of it: of data, index and dictionary pages, and of the Bloom filter."""


@dataclass(frozen=True, slots=True)
class FooterTemplate:
    """The footer of files with the same columns, but for what it says of their rows and what is noted besides."""

    before: bytes
    """Its fields before those on rows and row groups."""
    metadata: tuple[bytes, ...]
    """The key-value metadata that the columns give it."""
    after: bytes
    """The fields that follow on these."""
    columns: tuple[Struct, ...]
    """SchemaElement of each column at the top, where none is nested."""

    def end_of(self, rows: int, groups: Sequence[bytes], notes: Mapping[str, str]) -> bytes:
        """What closes a file of so many rows in these row groups, with more key-value metadata."""
        noted = listed([*(_note(key, value) for key, value in notes.items()), *self.metadata])
        middle = (_NEXT_I64, signed(rows), _NEXT_LIST, listed(groups), _NEXT_LIST, noted)
        return closed(b"".join((self.before, *middle, self.after)))


def row_group(chunks: Sequence[bytes], *, rows: int, plain: int, start: int, size: int) -> bytes:
    """RowGroup of parquet.thrift of so many rows, whose chunks these are; they take so many bytes from `start` on, and `plain` before compression."""
    sizes = (_NEXT_I64, signed(plain), _NEXT_I64, signed(rows), _I64_AFTER_NEXT, signed(start), _NEXT_I64, signed(size))
    return b"".join((_NEXT_LIST, listed(chunks), *sizes, b"\0"))


@lru_cache(maxsize=256)
def _note(key: str, value: str) -> bytes:
    """KeyValue of parquet.thrift."""
    return encode({1: (_BINARY, key.encode()), 2: (_BINARY, value.encode())})


def footer_template(schema: pa.Schema) -> FooterTemplate:
    """What is around files with these columns."""
    empty = footer_of(empty_file(schema))
    elements: list[Struct] = empty[2][1].values
    return FooterTemplate(
        before=fields({at: empty[at] for at in empty if at < _ROWS}, 0),
        metadata=tuple(map(encode, empty[_NOTES][1].values)),
        after=fields({at: empty[at] for at in empty if at > _NOTES}, _NOTES) + b"\0",
        columns=tuple(elements[1:]) if elements[0][5][1] == len(elements) - 1 else (),
    )


def closed(footer: bytes) -> bytes:
    """A footer with what follows it at the end of a file."""
    return b"".join((footer, len(footer).to_bytes(4, "little"), MAGIC))


def footer_start(file: memoryview) -> int:
    """Where the footer of a whole file begins."""
    return len(file) - TRAILER - int.from_bytes(file[-TRAILER : -len(MAGIC)], "little")


def footer_of(file: pa.Buffer | memoryview) -> Struct:
    """The footer of a whole file."""
    view = memoryview(file)
    return decode(bytes(view[footer_start(view) : -TRAILER]))


def chunk_start(chunk: Struct) -> int:
    """Where the pages of a described column chunk begin."""
    meta: Struct = chunk[CHUNK_META][1]
    return min(int(meta[at][1]) for at in (_DATA, _DICTIONARY) if at in meta)


def moved(chunk: Struct, by: int) -> Struct:
    """A column chunk's description where it lies `by` bytes further on."""
    kind, meta = chunk[CHUNK_META]
    return chunk | {CHUNK_META: (kind, meta | {at: (_I64, meta[at][1] + by) for at in _OFFSETS if at in meta})}


def end_of(empty: Struct, rows: int, groups: Sequence[Struct]) -> bytes:
    """What closes a file of so many rows in these row groups; `empty` is the footer of one with its columns and no rows."""
    return closed(encode(dict(sorted((empty | {3: (_I64, rows), 4: (_LIST, Items(_STRUCT, list(groups)))}).items()))))


def empty_file(schema: pa.Schema) -> pa.Buffer:
    """A file with these columns and no rows, as Arrow writes it."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    return sink.getvalue()


class GrowingFile:
    """Takes bytes in, and knows their count and checksum at any time."""

    def __init__(self, onto: Callable[..., object] | None = None) -> None:
        """Hold the bytes, or give them to `onto`."""
        self._onto = onto
        self._last = memoryview(b"")
        self._pieces: list[memoryview] = []
        self._size = 0
        self._hash = xxhash.xxh3_128()

    def write(self, *pieces: Bytes) -> None:
        """Add bytes; they must not change any more."""
        if self._onto is None:
            self._pieces += map(memoryview, pieces)
        else:
            self._onto(*pieces)
        self._last = memoryview(pieces[-1])
        self._size += sum(map(len, pieces))
        for piece in pieces:
            self._hash.update(piece)

    def copy(self) -> GrowingFile:
        """Another one with the same bytes so far, which goes on by itself. Only of one that holds its bytes."""
        assert self._onto is None
        other = copy(self)
        other._pieces, other._hash = [*self._pieces], self._hash.copy()  # noqa: SLF001  # of this class
        return other

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def pieces(self) -> tuple[memoryview, ...]:
        """The bytes, as they came; none where they were handed on."""
        return tuple(self._pieces)

    @property
    def last(self) -> memoryview:
        """What came last."""
        return self._last

    @property
    def checksum(self) -> str:
        """The checksum of all bytes, as the log has it."""
        return f"{ALGORITHM}:{self._hash.hexdigest()}"


_GROUPS = 4
"""Where FileMetaData of parquet.thrift has its row groups."""
_COLUMNS, _PLAIN, _FILE_OFFSET, _PACKED = 1, 2, 5, 6
"""Where RowGroup has its columns, its bytes plain and compressed, and where it begins."""
_META_PLAIN, _META_PACKED = 6, 7
"""Where ColumnMetaData has its bytes plain and compressed."""
_ELSEWHERE = (4, 5, 6, 7)
"""Where ColumnChunk names page indexes, which lie apart from its pages,"""
_META_ELSEWHERE = (10, 14)
"""and ColumnMetaData index pages and Bloom filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A column chunk, wherever it lies."""

    data: memoryview
    described: Struct
    """ColumnChunk, with positions as if it began at byte 0."""


def is_closely_packed(file: memoryview) -> bool:
    """Whether nothing lies in a file but its chunks, row group by row group, so that they may be moved."""
    at = len(MAGIC)
    for group in _groups(footer_of(file)):
        for _, chunk in _as_they_lie(group):
            meta: Struct = chunk[CHUNK_META][1]
            apart = any(field in chunk for field in _ELSEWHERE) or any(field in meta for field in _META_ELSEWHERE)
            # A position of a copy of the description, as old writers have it.
            if apart or chunk.get(2, (_I64, 0))[1] or chunk_start(chunk) != at:
                return False
            at += meta[_META_PACKED][1]
    return at == footer_start(file)


def the_chunk(pieces: Sequence[memoryview]) -> Chunk:
    """The one chunk of a file that has no other."""
    file = memoryview(b"".join(pieces))
    (group,) = _groups(footer_of(file))
    (chunk,) = _chunks(group)
    meta: Struct = chunk[CHUNK_META][1]
    start = chunk_start(chunk)
    return Chunk(data=file[start : start + meta[_META_PACKED][1]], described=moved(chunk, -start))


def spliced(file: memoryview, others: Mapping[tuple[int, int], Chunk]) -> GrowingFile:
    """A closely packed file with other chunks, of as many rows, in the place of some of its own, by row group and number of the column."""
    footer, made = footer_of(file), GrowingFile()
    groups: list[Struct] = []
    taken = shift = 0
    for number, group in enumerate(_groups(footer)):
        chunks: dict[int, Struct] = {}
        for leaf, chunk in _as_they_lie(group):
            meta: Struct = chunk[CHUNK_META][1]
            start, size = chunk_start(chunk), meta[_META_PACKED][1]
            other = others.get((number, leaf))
            if other is None:
                chunks[leaf] = moved(chunk, shift)
            else:
                made.write(file[taken:start])
                chunks[leaf] = moved(other.described, made.tell())
                made.write(other.data)
                taken = start + size
                shift += len(other.data) - size
        groups.append(_with_sizes(group, [chunks[leaf] for leaf in sorted(chunks)]))
    made.write(file[taken : footer_start(file)])
    made.write(closed(encode(footer | {_GROUPS: (_LIST, Items(_STRUCT, groups))})))
    return made


def _with_sizes(group: Struct, chunks: list[Struct]) -> Struct:
    """A row group of these chunks."""
    metas: list[Struct] = [chunk[CHUNK_META][1] for chunk in chunks]
    changed: Struct = {
        _COLUMNS: (_LIST, Items(_STRUCT, list(chunks))),
        _PLAIN: (_I64, sum(meta[_META_PLAIN][1] for meta in metas)),
        _FILE_OFFSET: (_I64, min(map(chunk_start, chunks))),
        _PACKED: (_I64, sum(meta[_META_PACKED][1] for meta in metas)),
    }
    return group | {field: value for field, value in changed.items() if field in group}


def _groups(footer: Struct) -> list[Struct]:
    groups: list[Struct] = footer[_GROUPS][1].values
    return groups


def _chunks(group: Struct) -> list[Struct]:
    chunks: list[Struct] = group[_COLUMNS][1].values
    return chunks


def _as_they_lie(group: Struct) -> list[tuple[int, Struct]]:
    """The chunks of a row group, each with the number of its column, in the order of their bytes."""
    return sorted(enumerate(_chunks(group)), key=lambda numbered: chunk_start(numbered[1]))
