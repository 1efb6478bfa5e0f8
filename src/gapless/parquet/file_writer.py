"""One Parquet file in memory, encoded row group by row group on all cores, each column as its first rows suggest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.parquet.aims import Aim
from gapless.parquet.encoding_trial import try_encodings
from gapless.parquet.encodings import Encodings, choose_encodings
from gapless.parquet.growing_file import GrowingFile
from gapless.parquet.ordered import Ordered
from gapless.parquet.parallel_writer import ParallelWriter, WriterOptions
from gapless.parquet.threads import WORTH_THREADS_BYTES

MAX_ROW_GROUP_ROWS = 262_144
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""


class FileWriter:
    """Writes a file with the columns of `schema`, whose metadata it repeats."""

    def __init__(self, schema: pa.Schema, aim: Aim, notes: Callable[[Encodings], Mapping[str, str]]) -> None:
        """`notes` gives the key-value metadata of the file."""
        self._schema, self._aim, self._notes = schema, aim, notes
        self.encodings: Encodings | None = None
        """How columns are encoded; as the first rows suggest, where it is not said before they come."""
        self._sink: GrowingFile | pa.BufferOutputStream = GrowingFile()
        self._writer: pq.ParquetWriter | ParallelWriter | None = None

    @property
    def size(self) -> int:
        """Bytes encoded so far."""
        return int(self._sink.tell())

    def write(
        self, rows: Ordered, group_rows: int, memory_bytes: int, *, ascending: str | None, meanwhile: Callable[[], None]
    ) -> None:
        """Add rows, which take so much memory, as row groups of up to `group_rows`; does `meanwhile` while others encode, or after.

        `ascending` names a column in whose order the rows are, if they are in any.
        """
        if self._writer is None:
            self._writer = self._open(rows, ascending, memory_bytes)
        if isinstance(self._writer, ParallelWriter):
            self._writer.write(rows, group_rows, meanwhile=meanwhile)
        else:
            self._writer.write_table(rows.table(), row_group_size=group_rows)
            meanwhile()

    def close(self) -> GrowingFile:
        """The whole file; nothing may be written after, and something was before."""
        assert self._writer is not None
        self._writer.close()
        if isinstance(self._sink, GrowingFile):
            return self._sink
        file = GrowingFile()
        file.write(self._sink.getvalue())
        return file

    def _open(self, first: Ordered, ascending: str | None, memory_bytes: int) -> pq.ParquetWriter | ParallelWriter:
        aim, encodings = self._aim, self.encodings
        if encodings is None:
            encodings = try_encodings(first, aim) if aim.by_trial else choose_encodings(first, ascending, aim)
            self.encodings = encodings
        options = WriterOptions(
            compression=aim.compression, compression_level=aim.level, encodings=encodings, notes=self._notes(encodings)
        )
        if pa.cpu_count() > 1 and memory_bytes >= WORTH_THREADS_BYTES and len(first.schema) > 1:
            self._sink = GrowingFile()
            return ParallelWriter(self._sink, self._schema, options)
        self._sink = pa.BufferOutputStream()
        return options.open(self._sink, self._schema)


def fills_group(rows: int, memory_bytes: int) -> bool:
    """Whether so many rows, which take so much memory, are enough for a row group."""
    return rows >= MAX_ROW_GROUP_ROWS or memory_bytes >= ROW_GROUP_BYTES


def row_group_rows(table: pa.Table) -> int:
    """Rows per row group, so that one holds about `ROW_GROUP_BYTES` of Arrow memory."""
    bytes_per_row = max(1, int(table.nbytes) // max(1, int(table.num_rows)))
    return max(1_024, min(MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES // bytes_per_row))


def even_groups(table: pa.Table, most: int | None = None) -> int:
    """The rows of each group, where those of a table are cut into groups of about one size and of no more than `most` rows.

    >>> even_groups(pa.table({"x": range(10)}), 4)
    4
    """
    rows: int = table.num_rows
    groups = -(-rows // min(row_group_rows(table), most or MAX_ROW_GROUP_ROWS))
    return -(-rows // groups)
