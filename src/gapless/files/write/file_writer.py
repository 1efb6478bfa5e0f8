"""Write one Parquet file, row group by row group on all cores, each column in the encoding that its first rows suggest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial

import pyarrow as pa

from gapless.files.pages.column_chunk import WriterOptions, encoded_size
from gapless.files.pages.column_stats import GrowingStats
from gapless.files.pages.encodings import (
    DELTA,
    DICTIONARY,
    PLAIN,
    Choice,
    CodecProfile,
    Encodings,
    choose_encodings,
    is_whole,
    may_be_shorter,
    of_simple_rows,
    together,
    values_of,
)
from gapless.files.pages.file_assembly import GrowingFile
from gapless.files.sort.order import Ordered, is_fixed
from gapless.files.write.parallel_writer import ParallelWriter
from gapless.runtime.concurrency import WORTH_THREADS_BYTES, side_by_side

_TRIAL_ROWS = 131_072
"""Rows next to each other: what a dictionary saves grows with them, and so does the time it takes to find out."""

_FILE_WIDTH = 4
"""Bytes that files hold a whole number in, at least, however few it has in memory."""


def try_encodings(all_rows: Ordered, profile: CodecProfile) -> Encodings:
    """The encodings that make rows from the middle smallest; without a trial for few or nested rows."""
    if (simple := of_simple_rows(all_rows)) is not None:
        return simple
    start = max(0, all_rows.count - _TRIAL_ROWS) // 2
    rows = all_rows.columns(all_rows.schema.names, start, min(all_rows.count, start + _TRIAL_ROWS))
    acts = [partial(_smallest, rows.select([name]), profile) for name in rows.column_names]
    return together(dict(zip(rows.column_names, side_by_side(acts, rows.nbytes), strict=True)))


def _smallest(rows: pa.Table, profile: CodecProfile) -> Choice:
    """How the one column of these rows takes the fewest bytes; the first of those that take as few."""
    candidates = _candidates(rows.schema.field(0).type)
    if found := _hardly_repeating(rows.column(0)):
        candidates = candidates[1:]
    if len(candidates) == 1:
        return Choice(candidates[0], found)
    sizes = {kind: _size(rows, kind, profile) for kind in candidates}
    best, *others = sorted(sizes, key=sizes.__getitem__)
    beside = "".join(f", {sizes[kind]:,} as {kind}" for kind in others)
    return Choice(best, f"{sizes[best]:,} bytes for {rows.num_rows:,} rows{beside}{found and '; '}{found}")


def _hardly_repeating(column: pa.ChunkedArray) -> str:
    """Why numbers get no dictionary, whatever compression makes of it; empty where they may get one."""
    if not is_fixed(column.type):
        return ""
    known = values_of(column)
    if may_be_shorter(known.distinct, known.count, max(_FILE_WIDTH, column.type.bit_width // 8)):
        return ""
    return f"{known.distinct:,} of {known.count:,} values are distinct"


def _size(rows: pa.Table, kind: str, profile: CodecProfile) -> int:
    chosen = together({rows.column_names[0]: Choice(kind, "")})
    return encoded_size(rows, WriterOptions(compression=profile.compression, compression_level=profile.level, encodings=chosen))


def _candidates(kind: pa.DataType) -> tuple[str, ...]:
    """Encodings for values of a type which all readers that we promise know."""
    if is_whole(kind):
        return DICTIONARY, DELTA, PLAIN
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return DICTIONARY, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", PLAIN
    return DICTIONARY, PLAIN


MAX_ROW_GROUP_ROWS = 262_144
_LEAST_GROUP_ROWS = 1_024
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""


class FileWriter:
    """Writes a file with the columns of `schema`, whose metadata it repeats."""

    def __init__(
        self,
        schema: pa.Schema,
        profile: CodecProfile,
        notes: Callable[[Encodings], Mapping[str, str]],
        onto: Callable[..., object] | None = None,
    ) -> None:
        """`notes` gives the key-value metadata of the file, whose bytes are held, or given to `onto`."""
        self._schema, self._profile, self._notes = schema, profile, notes
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

    def copy(self) -> FileWriter:
        """Another one with the same rows so far, which goes on by itself. Only of one that holds its bytes."""
        other = copy(self)
        file = self._file.copy()
        writer = None if self._writer is None else self._writer.copy(file)
        other._file, other._writer = file, writer  # noqa: SLF001  # of this class
        return other

    def close(self) -> GrowingFile:
        """The whole file; nothing may be written after, and something was before."""
        assert self._writer is not None
        self._writer.close()
        return self._file

    def _options(self, first: Ordered, ascending: str | None) -> WriterOptions:
        profile, encodings = self._profile, self.encodings
        if encodings is None:
            encodings = try_encodings(first, profile) if profile.by_trial else choose_encodings(first, ascending, profile)
            self.encodings = encodings
        return WriterOptions(
            compression=profile.compression,
            compression_level=profile.level,
            encodings=encodings,
            min_bytes=profile.min_bytes,
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
