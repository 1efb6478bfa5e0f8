"""Parquet files put together of column chunks that lie in others, as the bytes they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.parquet.file_shell import MAGIC, TRAILER
from gapless.parquet.growing_file import GrowingFile
from gapless.parquet.thrift import Items, Struct, decode, encode

_I64, _LIST, _STRUCT = 6, 9, 12
_GROUPS = 4
"""Where FileMetaData of parquet.thrift has its row groups."""
_COLUMNS, _PLAIN, _FILE_OFFSET, _PACKED = 1, 2, 5, 6
"""Where RowGroup has its columns, its bytes plain and compressed, and where it begins."""
_META = 3
"""Where ColumnChunk has its ColumnMetaData."""
_META_PLAIN, _META_PACKED, _DATA, _DICTIONARY = 6, 7, 9, 11
"""Where that has its bytes plain and compressed, and where its pages begin."""
_OFFSETS = (_DATA, _DICTIONARY)
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
    for group in _groups(_footer(file)):
        for _, chunk in _as_they_lie(group):
            meta: Struct = chunk[_META][1]
            apart = any(field in chunk for field in _ELSEWHERE) or any(field in meta for field in _META_ELSEWHERE)
            # A position of a copy of the description, as old writers have it.
            if apart or chunk.get(2, (_I64, 0))[1] or _start(meta) != at:
                return False
            at += meta[_META_PACKED][1]
    return at == _footer_start(file)


def the_chunk(pieces: Sequence[memoryview]) -> Chunk:
    """The one chunk of a file that has no other."""
    file = memoryview(b"".join(pieces))
    (group,) = _groups(_footer(file))
    (chunk,) = _chunks(group)
    meta: Struct = chunk[_META][1]
    start = _start(meta)
    return Chunk(data=file[start : start + meta[_META_PACKED][1]], described=_moved(chunk, -start))


def spliced(file: memoryview, others: Mapping[tuple[int, int], Chunk]) -> GrowingFile:
    """A closely packed file with other chunks, of as many rows, in the place of some of its own, by row group and number of the column."""
    footer, made = _footer(file), GrowingFile()
    groups: list[Struct] = []
    taken = moved = 0
    for number, group in enumerate(_groups(footer)):
        chunks: dict[int, Struct] = {}
        for leaf, chunk in _as_they_lie(group):
            meta: Struct = chunk[_META][1]
            start, size = _start(meta), meta[_META_PACKED][1]
            other = others.get((number, leaf))
            if other is None:
                chunks[leaf] = _moved(chunk, moved)
            else:
                made.write(file[taken:start])
                chunks[leaf] = _moved(other.described, made.tell())
                made.write(other.data)
                taken = start + size
                moved += len(other.data) - size
        groups.append(_with_sizes(group, [chunks[leaf] for leaf in sorted(chunks)]))
    made.write(file[taken : _footer_start(file)])
    data = encode(footer | {_GROUPS: (_LIST, Items(_STRUCT, groups))})
    made.write(data + len(data).to_bytes(4, "little") + MAGIC)
    return made


def _with_sizes(group: Struct, chunks: list[Struct]) -> Struct:
    """A row group of these chunks."""
    metas: list[Struct] = [chunk[_META][1] for chunk in chunks]
    changed: Struct = {
        _COLUMNS: (_LIST, Items(_STRUCT, list(chunks))),
        _PLAIN: (_I64, sum(meta[_META_PLAIN][1] for meta in metas)),
        _FILE_OFFSET: (_I64, min(map(_start, metas))),
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
    return sorted(enumerate(_chunks(group)), key=lambda numbered: _start(numbered[1][_META][1]))


def _footer_start(file: memoryview) -> int:
    return len(file) - TRAILER - int.from_bytes(file[-TRAILER:-4], "little")


def _footer(file: memoryview) -> Struct:
    return decode(bytes(file[_footer_start(file) : -TRAILER]))


def _start(meta: Struct) -> int:
    """Where a chunk begins."""
    return min(int(meta[at][1]) for at in _OFFSETS if at in meta)


def _moved(chunk: Struct, by: int) -> Struct:
    """A chunk's description where it lies `by` bytes further on."""
    kind, meta = chunk[_META]
    return chunk | {_META: (kind, meta | {at: (_I64, meta[at][1] + by) for at in _OFFSETS if at in meta})}
