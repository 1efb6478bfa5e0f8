"""A Parquet writer that encodes the columns of a row group side by side: the same bytes as `pyarrow.parquet.ParquetWriter` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.parquet.encodings import Encodings
from gapless.parquet.file_shell import MAGIC, end_of, footer_of
from gapless.parquet.ordered import Ordered
from gapless.parquet.thrift import Items, Struct

_OFFSETS = (9, 10, 11, 14)
"""Where ColumnMetaData of parquet.thrift says a position: of data, index and dictionary pages, and of the Bloom filter."""

_SHARE_BYTES = 1 << 20
"""Columns of less, in Arrow's memory, are encoded together with their neighbours: a file of its own costs some thousand values."""
_SIZES = (2, 6)
"""Where RowGroup says its bytes, plain and compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How values are encoded."""

    compression: str
    compression_level: int | None
    encodings: Encodings
    notes: Mapping[str, str] = field(default_factory=dict)
    """Key-value metadata of whole files."""

    def open(self, sink: pa.NativeFile, schema: pa.Schema, *, whole: bool = True) -> pq.ParquetWriter:
        """A writer of files with the columns of `schema`, whose pages have checksums; `whole` are those that someone reads as they are."""
        dictionary, others, names = self.encodings.dictionary, self.encodings.others, schema.names
        compression, level = self._by_column(names)
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            compression_level=level,
            use_dictionary=dictionary if isinstance(dictionary, bool) else [n for n in dictionary if n in names],
            column_encoding={name: others[name] for name in others if name in names} or None,
            write_page_checksum=True,
            store_schema=whole,
        )
        if whole and self.notes:
            writer.add_key_value_metadata(self.notes)
        return writer

    def _by_column(self, names: list[str]) -> tuple[str | dict[str, str], int | dict[str, int] | None]:
        """Compression and level, by column where they differ."""
        bare, level = self.encodings.bare, self.compression_level
        if bare.isdisjoint(names):
            return self.compression, level
        compression = {name: "none" if name in bare else self.compression for name in names}
        return compression, None if level is None else {name: level for name in names if name not in bare}


class Sink(Protocol):
    """What takes the bytes of a file, one piece after the other."""

    def write(self, data: bytes | pa.Buffer) -> object:
        """Add bytes."""
        ...

    def tell(self) -> int:
        """Bytes so far."""
        ...


class ParallelWriter:
    """Writes whole pieces to `sink`, from its beginning; as many threads at a time as Arrow has for the processor (`pyarrow.cpu_count()`)."""

    def __init__(self, sink: Sink, schema: pa.Schema, options: WriterOptions) -> None:
        self._sink, self._schema, self._options = sink, schema, options
        self._groups: list[Struct] = []
        self._empty: Struct | None = None
        """The footer of a file with these columns and no rows."""
        self._rows = 0
        sink.write(MAGIC)

    def write(self, rows: Ordered, row_group_size: int, *, meanwhile: Callable[[], None]) -> None:
        """Add rows, as row groups of up to so many; does `meanwhile` in the thread of the caller while others encode."""
        # Threads live no longer than the call: a fork would leave a pool without any.
        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            shares = list(_shares(rows.source))
            starts = range(0, rows.count, row_group_size)
            groups = [self._encode(pool, rows, shares, start, min(rows.count, start + row_group_size)) for start in starts]
            meanwhile()
            self._empty = self._empty or self._without_rows()
            for parts in groups:
                self._add([part.result() for part in parts])
        self._rows += rows.count

    def close(self) -> None:
        """Write the footer; nothing may be written after."""
        self._sink.write(end_of(self._empty or self._without_rows(), self._rows, self._groups))

    def _without_rows(self) -> Struct:
        sink = pa.BufferOutputStream()
        self._options.open(sink, self._schema).close()
        return footer_of(sink.getvalue())

    def _encode(self, pool: Executor, rows: Ordered, shares: list[list[str]], start: int, end: int) -> list[Future[pa.Buffer]]:
        def encode_share(names: list[str]) -> pa.Buffer:
            return encoded(rows.columns(names, start, end), self._options)

        return [pool.submit(encode_share, names) for names in shares]

    def _add(self, parts: list[pa.Buffer]) -> None:
        """Join the files that hold a row group's columns to one row group."""
        start = self._sink.tell()
        columns: list[Struct] = []
        groups: list[Struct] = []
        for part in parts:
            (group,) = footer_of(part)[4][1].values
            columns += [_moved(column, self._sink.tell() - len(MAGIC)) for column in group[1][1].values]
            groups.append(group)
            self._sink.write(part.slice(len(MAGIC), group[6][1]))
        sizes = {at: (6, sum(group[at][1] for group in groups)) for at in _SIZES}
        self._groups.append(groups[0] | sizes | {1: (9, Items(12, columns)), 5: (6, start)})


def encoded(columns: pa.Table, options: WriterOptions) -> pa.Buffer:
    """A Parquet file of one row group, for its pages: it says less of itself than others."""
    sink = pa.BufferOutputStream()
    writer = options.open(sink, columns.schema, whole=False)
    writer.write_table(columns, row_group_size=max(1, columns.num_rows))
    writer.close()
    return sink.getvalue()


def _shares(table: pa.Table) -> Iterator[list[str]]:
    """Neighbouring columns that are encoded together."""
    sizes = {name: table.column(name).nbytes for name in table.column_names}
    limit = max(_SHARE_BYTES, sum(sizes.values()) // (4 * pa.cpu_count()))
    names: list[str] = []
    held = 0
    for name, size in sizes.items():
        names.append(name)
        held += size
        if held >= limit:
            yield names
            names, held = [], 0
    if names:
        yield names


def _moved(chunk: Struct, by: int) -> Struct:
    """A column's description where its pages lie `by` bytes further on."""
    kind, meta = chunk[3]
    return chunk | {3: (kind, meta | {at: (6, meta[at][1] + by) for at in _OFFSETS if at in meta})}
