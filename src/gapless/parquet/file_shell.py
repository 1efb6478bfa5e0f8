"""What is around the pages of a Parquet file: the magic at both ends and the footer, as structs of parquet.thrift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.parquet.thrift import Items, Struct, decode, encode, fields, listed, signed

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
class Shell:
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


def shell_of(schema: pa.Schema) -> Shell:
    """What is around files with these columns."""
    empty = footer_of(empty_file(schema))
    elements: list[Struct] = empty[2][1].values
    return Shell(
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
