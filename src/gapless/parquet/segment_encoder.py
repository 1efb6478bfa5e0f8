"""Runs as the bytes of one segment, with everything the log says about it taken from the rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.coverage.bitmap import CoverageMap
from gapless.model.index import IndexSpec
from gapless.model.properties import Codec
from gapless.model.segment import Bounds
from gapless.model.stats import ColumnStats
from gapless.parquet.checksum import checksum, footer_checksum
from gapless.parquet.column_stats import GrowingStats, column_stats, index_bounds
from gapless.parquet.encodings import choose_encodings
from gapless.parquet.parallel_writer import ParallelWriter, WriterOptions
from gapless.parquet.run import Run

MAX_ROW_GROUP_ROWS = 262_144
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""

_WORTH_THREADS_BYTES = 16 << 20
"""What is smaller, in Arrow's memory, is encoded before threads for its columns are made."""

_LEVELS: dict[Codec, int | None] = {"zstd": 1, "snappy": None, "lz4": None, "gzip": None, "none": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSegment:
    """A segment's bytes and what the log needs to know of them."""

    data: memoryview
    rows: int
    bounds: Bounds
    coverage: CoverageMap
    stats: Mapping[str, ColumnStats]
    checksum: str
    footer_checksum: str


class SegmentEncoder:
    """Encodes one segment, run by run; holds its bytes so far, and the rows of at most about one row group."""

    def __init__(self, schema: pa.Schema, index: IndexSpec, codec: Codec, group_rows: int | None = None) -> None:
        """`schema` is the stored one, which the rows of every run have, with the metadata that the file shall repeat.

        Row groups have about `ROW_GROUP_BYTES` of Arrow memory, and no more than `group_rows` rows.
        """
        self._index, self._group_rows = index, group_rows or MAX_ROW_GROUP_ROWS
        self._schema, self._codec = schema, codec
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | ParallelWriter | None = None
        self._held: list[_Held] = []
        self._held_bytes = self._held_rows = 0
        self._rows = 0
        self._bounds: Bounds | None = None
        self._stats: dict[str, GrowingStats] = {}
        self._coverage: list[CoverageMap] = []

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    @property
    def size(self) -> int:
        """Bytes encoded so far; up to a row group of rows may wait besides."""
        return int(self._sink.tell())

    def write(self, run: Run) -> None:
        """Add the rows of a run that belongs after those before it."""
        self._hold(_Held(run.table, lambda: run.coverage, in_order=True))

    def write_table(self, table: pa.Table, coverage: CoverageMap) -> None:
        """Add rows in the order they have, with the buckets that hold them; none of them may lack its index value."""
        self._hold(_Held(table, lambda: coverage, in_order=False))

    def finish(self) -> EncodedSegment:
        """The whole segment; nothing may be written after. Raises ValueError where it has no rows."""
        if not self._rows:
            raise ValueError("a segment holds at least one row")
        self._flush()
        assert self._writer is not None
        assert self._bounds is not None
        self._writer.close()
        data = memoryview(self._sink.getvalue())
        return EncodedSegment(
            data=data,
            rows=self._rows,
            bounds=self._bounds,
            coverage=CoverageMap.union_of(self._coverage),
            stats={name: growing.stats for name, growing in self._stats.items()},
            checksum=checksum(data),
            footer_checksum=footer_checksum(data),
        )

    def _hold(self, held: _Held) -> None:
        rows = held.table
        if not rows.num_rows:
            return
        self._rows += rows.num_rows
        self._held.append(held)
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= MAX_ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _describe(self, held: list[_Held]) -> None:
        """Take in what the log will say of these rows."""
        for part in held:
            self._coverage.append(part.coverage())
            found = index_bounds(part.table.column(self._index.column))
            old = self._bounds or found
            self._bounds = Bounds(first=min(old.first, found.first), last=max(old.last, found.last))
            leading = self._index.entity[0] if part.in_order and self._index.entity else None
            for name, stats in column_stats(part.table, skip=self._index.column, ascending=leading).items():
                self._stats.setdefault(name, GrowingStats()).add(stats, part.table.num_rows)

    def _open(self, first: pa.Table) -> pq.ParquetWriter | ParallelWriter:
        in_order = all(part.in_order for part in self._held)
        encodings = choose_encodings(first, self._index.column if in_order else None)
        options = WriterOptions(compression=self._codec, compression_level=_LEVELS[self._codec], encodings=encodings)
        if pa.cpu_count() > 1 and self._held_bytes >= _WORTH_THREADS_BYTES and len(first.column_names) > 1:
            return ParallelWriter(self._sink, self._schema, options)
        return options.open(self._sink, self._schema)

    def _flush(self) -> None:
        held = self._held
        if not held:
            return
        table = pa.concat_tables([part.table for part in held])
        groups = -(-table.num_rows // min(row_group_rows(table), self._group_rows))
        if self._writer is None:
            self._writer = self._open(table)
        group_rows = -(-table.num_rows // groups)
        if isinstance(self._writer, ParallelWriter):
            self._writer.write_table(table, group_rows, meanwhile=lambda: self._describe(held))
        else:
            self._writer.write_table(table, row_group_size=group_rows)
            self._describe(held)
        self._held, self._held_rows, self._held_bytes = [], 0, 0


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows that wait for their row group."""

    table: pa.Table
    coverage: Callable[[], CoverageMap]
    in_order: bool
    """Whether they are sorted by entity and index."""


def encode_segment(run: Run, index: IndexSpec, codec: Codec) -> EncodedSegment:
    """Encode a run that holds at least one row."""
    encoder = SegmentEncoder(run.table.schema, index, codec)
    encoder.write(run)
    return encoder.finish()


def row_group_rows(table: pa.Table) -> int:
    """Rows per row group, so that one holds about `ROW_GROUP_BYTES` of Arrow memory."""
    bytes_per_row = max(1, int(table.nbytes) // max(1, int(table.num_rows)))
    return max(1_024, min(MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES // bytes_per_row))
