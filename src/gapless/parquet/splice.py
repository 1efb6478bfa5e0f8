"""Parquet files put together of column chunks that lie in others, as the bytes they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.parquet.file_shell import CHUNK_META, MAGIC, chunk_start, closed, footer_of, footer_start, moved
from gapless.parquet.growing_file import GrowingFile
from gapless.parquet.thrift import Items, Struct, encode

_I64, _LIST, _STRUCT = 6, 9, 12
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
