"""Column chunks that Arrow's writer makes: of nested columns, of types with forms of their own, and of encodings that we do not write."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gapless.parquet.column_chunk import Chunk
from gapless.parquet.file_shell import footer_of
from gapless.parquet.thrift import Struct, encode
from gapless.parquet.writer_options import WriterOptions

_META = 3
"""Where ColumnChunk of parquet.thrift has its ColumnMetaData."""
_PATH, _PLAIN, _SIZE, _DATA, _DICTIONARY = 3, 6, 7, 9, 11
"""And where that says what the column is called, its bytes plain and compressed, and where its pages begin."""
_OFFSETS = (9, 10, 11, 14)
"""All positions of it: of data, index and dictionary pages, and of the Bloom filter."""
_I64 = 6


def arrow_chunks(columns: pa.Table, options: WriterOptions) -> Iterator[tuple[str, Chunk]]:
    """The chunks of these columns in one row group, each with the name of its column; a nested one has several."""
    sink = pa.BufferOutputStream()
    writer = options.open(sink, columns.schema)
    writer.write_table(columns, row_group_size=max(1, columns.num_rows))
    writer.close()
    file = sink.getvalue()
    (group,) = footer_of(file)[4][1].values
    for described in group[1][1].values:
        meta: Struct = described[_META][1]
        start = min(meta[at][1] for at in (_DATA, _DICTIONARY) if at in meta)
        yield meta[_PATH][1].values[0].decode(), _chunk(file.slice(start, meta[_SIZE][1]), described, start)


def encoded_size(columns: pa.Table, options: WriterOptions) -> int:
    """The bytes that these columns take in one row group."""
    return sum(chunk.size for _, chunk in arrow_chunks(columns, options))


def _chunk(data: pa.Buffer, described: Struct, start: int) -> Chunk:
    meta: Struct = described[_META][1]

    def describe(at: int) -> bytes:
        moved = {field: (_I64, meta[field][1] + at - start) for field in _OFFSETS if field in meta}
        return encode(described | {_META: (described[_META][0], meta | moved)})

    return Chunk(pieces=(memoryview(data),), size=data.size, plain_size=meta[_PLAIN][1], describe=describe)
