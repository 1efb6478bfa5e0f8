"""Column chunks that Arrow's writer makes: of nested columns, of types with forms of their own, and of encodings that we do not write."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gapless.parquet.column_chunk import Chunk
from gapless.parquet.file_shell import CHUNK_META, chunk_start, footer_of, moved
from gapless.parquet.thrift import Struct, encode
from gapless.parquet.writer_options import WriterOptions

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
