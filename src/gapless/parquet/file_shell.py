"""What is around the pages of a Parquet file: the magic at both ends and the footer, as structs of parquet.thrift."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.parquet.thrift import Items, Struct, decode, encode

MAGIC = b"PAR1"
TRAILER = 8
"""Bytes at the end of a file: four of the footer's length, and the magic."""
_I64, _LIST, _STRUCT = 6, 9, 12


def footer_of(file: pa.Buffer) -> Struct:
    """The footer of a whole file."""
    length = int.from_bytes(file[-TRAILER : -len(MAGIC)].to_pybytes(), "little")
    return decode(file[-TRAILER - length : -TRAILER].to_pybytes())


def end_of(empty: Struct, rows: int, groups: Sequence[Struct]) -> bytes:
    """What closes a file of so many rows in these row groups; `empty` is the footer of one with its columns and no rows."""
    data = encode(dict(sorted((empty | {3: (_I64, rows), 4: (_LIST, Items(_STRUCT, list(groups)))}).items())))
    return data + len(data).to_bytes(4, "little") + MAGIC


def empty_file(schema: pa.Schema) -> pa.Buffer:
    """A file with these columns and no rows, as Arrow writes it."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    return sink.getvalue()
