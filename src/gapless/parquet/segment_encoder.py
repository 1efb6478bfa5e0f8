"""Runs as the bytes of one segment, with everything the log says about it taken from the rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.coverage.bitmap import CoverageMap
from gapless.model.index import IndexSpec
from gapless.model.properties import Codec
from gapless.model.segment import Bounds
from gapless.model.stats import ColumnStats
from gapless.parquet.checksum import checksum, footer_checksum
from gapless.parquet.column_stats import GrowingStats, column_stats, index_bounds
from gapless.parquet.run import Run

MAX_ROW_GROUP_ROWS = 262_144
ROW_GROUP_BYTES = 64 << 20
"""What a row group aims at, in Arrow's memory: the unit in which scans read and hold rows."""

_SAMPLE_ROWS = 8_192
_UNIQUE = 0.95
"""A column is not called repeating whose sample has a larger share of distinct values."""

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
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
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
        self.write_table(run.table, run.coverage)

    def write_table(self, table: pa.Table, coverage: CoverageMap) -> None:
        """Add rows in the order they have, with the buckets that hold them; none of them may lack its index value."""
        if not table.num_rows:
            return
        self._rows += table.num_rows
        self._coverage.append(coverage)
        self._grow(table)
        self._held.append(table)
        self._held_rows += table.num_rows
        self._held_bytes += table.nbytes
        if self._held_rows >= MAX_ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> EncodedSegment:
        """The whole segment; nothing may be written after. Raises ValueError where it has no rows."""
        if self._bounds is None:
            raise ValueError("a segment holds at least one row")
        self._flush()
        assert self._writer is not None
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

    def _grow(self, table: pa.Table) -> None:
        found = index_bounds(table.column(self._index.column))
        old = self._bounds or found
        self._bounds = Bounds(first=min(old.first, found.first), last=max(old.last, found.last))
        for name, stats in column_stats(table, skip=self._index.column).items():
            self._stats.setdefault(name, GrowingStats()).add(stats, table.num_rows)

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=self._codec,
            compression_level=_LEVELS[self._codec],
            use_dictionary=repeating_columns(first),
            write_page_checksum=True,
        )

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held)
        groups = -(-table.num_rows // min(row_group_rows(table), self._group_rows))
        if self._writer is None:
            self._writer = self._open(table)
        self._writer.write_table(table, row_group_size=-(-table.num_rows // groups))
        self._held, self._held_rows, self._held_bytes = [], 0, 0


def encode_segment(run: Run, index: IndexSpec, codec: Codec) -> EncodedSegment:
    """Encode a run that holds at least one row."""
    encoder = SegmentEncoder(run.table.schema, index, codec)
    encoder.write(run)
    return encoder.finish()


def repeating_columns(table: pa.Table) -> list[str] | bool:
    """The columns whose values repeat, so that a dictionary of them is worth its making; True for all of a small or nested table.

    Judged by a sample. The writer would find out too, row group by row group, after it made most of a dictionary.
    """
    if table.num_rows < _SAMPLE_ROWS or any(pa.types.is_nested(field.type) for field in table.schema):
        return True
    rows = np.linspace(0, table.num_rows - 1, _SAMPLE_ROWS).astype(np.int64)
    sample = table.take(pa.array(rows))
    limit = _UNIQUE * _SAMPLE_ROWS
    return [name for name in sample.column_names if len(sample.column(name).unique()) <= limit]


def row_group_rows(table: pa.Table) -> int:
    """Rows per row group, so that one holds about `ROW_GROUP_BYTES` of Arrow memory."""
    bytes_per_row = max(1, int(table.nbytes) // max(1, int(table.num_rows)))
    return max(1_024, min(MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES // bytes_per_row))
