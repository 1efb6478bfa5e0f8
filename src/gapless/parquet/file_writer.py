"""One Parquet file, encoded row group by row group on all cores, each column as its first rows suggest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from gapless.parquet.aims import Aim
from gapless.parquet.column_stats import GrowingStats
from gapless.parquet.encoding_trial import try_encodings
from gapless.parquet.encodings import Encodings, choose_encodings
from gapless.parquet.growing_file import GrowingFile
from gapless.parquet.ordered import Ordered
from gapless.parquet.parallel_writer import ParallelWriter
from gapless.parquet.threads import WORTH_THREADS_BYTES
from gapless.parquet.writer_options import WriterOptions

MAX_ROW_GROUP_ROWS = 262_144
_LEAST_GROUP_ROWS = 1_024
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""


class FileWriter:
    """Writes a file with the columns of `schema`, whose metadata it repeats."""

    def __init__(
        self,
        schema: pa.Schema,
        aim: Aim,
        notes: Callable[[Encodings], Mapping[str, str]],
        onto: Callable[..., object] | None = None,
    ) -> None:
        """`notes` gives the key-value metadata of the file, whose bytes are held, or given to `onto`."""
        self._schema, self._aim, self._notes = schema, aim, notes
        self.encodings: Encodings | None = None
        """How columns are encoded; as the first rows suggest, where it is not said before they come."""
        self._file = GrowingFile(onto)
        self._writer: ParallelWriter | None = None

    @property
    def size(self) -> int:
        """Bytes encoded so far."""
        return self._file.tell()

    @property
    def stats(self) -> Mapping[str, GrowingStats]:
        """What the log says of the rows so far, of the columns of numbers of which encoding tells it; the same columns from the first write on."""
        return {} if self._writer is None else self._writer.stats

    def write(
        self, rows: Ordered, group_rows: int, memory_bytes: int, *, ascending: str | None, meanwhile: Callable[[], None]
    ) -> None:
        """Add rows, which take so much memory, as row groups of up to `group_rows`; does `meanwhile` while others encode, or after.

        `ascending` names a column in whose order the rows are, if they are in any.
        """
        if self._writer is None:
            self._writer = ParallelWriter(self._file, self._schema, self._options(rows, ascending))
        cores = pa.cpu_count() if memory_bytes >= WORTH_THREADS_BYTES else 1
        self._writer.write(rows, group_rows, cores=cores, meanwhile=meanwhile)

    def close(self) -> GrowingFile:
        """The whole file; nothing may be written after, and something was before."""
        assert self._writer is not None
        self._writer.close()
        return self._file

    def _options(self, first: Ordered, ascending: str | None) -> WriterOptions:
        aim, encodings = self._aim, self.encodings
        if encodings is None:
            encodings = try_encodings(first, aim) if aim.by_trial else choose_encodings(first, ascending, aim)
            self.encodings = encodings
        return WriterOptions(
            compression=aim.compression,
            compression_level=aim.level,
            encodings=encodings,
            least=aim.least,
            notes=self._notes(encodings),
        )


def fills_group(rows: int, memory_bytes: int) -> bool:
    """Whether so many rows, which take so much memory, are enough for a row group."""
    return rows >= MAX_ROW_GROUP_ROWS or memory_bytes >= ROW_GROUP_BYTES


def row_group_rows(table: pa.Table) -> int:
    """Rows per row group, so that one holds about `ROW_GROUP_BYTES` of Arrow memory."""
    if table.num_rows <= _LEAST_GROUP_ROWS:
        return _LEAST_GROUP_ROWS
    bytes_per_row = max(1, int(table.nbytes) // max(1, int(table.num_rows)))
    return max(_LEAST_GROUP_ROWS, min(MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES // bytes_per_row))


def even_groups(table: pa.Table, most: int | None = None) -> int:
    """The rows of each group, where those of a table are cut into groups of about one size and of no more than `most` rows.

    >>> even_groups(pa.table({"x": range(10)}), 4)
    4
    """
    rows: int = table.num_rows
    groups = -(-rows // min(row_group_rows(table), most or MAX_ROW_GROUP_ROWS))
    return -(-rows // groups)
