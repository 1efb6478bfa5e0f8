"""One file of a Delta table in the making."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapless.model.properties import Codec
from gapless.parquet.aims import AIMS, Aim
from gapless.parquet.delta.stats import FileStatsBuilder
from gapless.parquet.delta.stored_columns import StoredColumns
from gapless.parquet.encodings import Encodings
from gapless.parquet.file_writer import ROW_GROUP_BYTES, FileWriter, even_groups, fills_group
from gapless.parquet.ordered import Ordered

_TELLING_ROWS = 8_192

_CODECS: dict[str, Codec] = {
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "none": "none",
}
"""By what `delta.parquet.compression.codec` says. Others are zstd, at its first level: about as fast as snappy, a quarter smaller, and read by
Spark, DuckDB, Polars, delta-rs and Trino alike.
"""


def aim_of(codec: str) -> Aim:
    """How files of a table with this codec are written."""
    return AIMS[_CODECS.get(codec, "zstd")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFile:
    """A file's bytes and what the log says of them."""

    pieces: tuple[memoryview, ...]
    size: int
    """Bytes."""
    rows: int
    stats: str
    """As the log has them."""


class DataFile:
    """Encodes one file; holds its bytes so far, and rows of at most about one row group."""

    def __init__(self, columns: StoredColumns, group_bytes: int = ROW_GROUP_BYTES) -> None:
        """Rows are encoded once there are `group_bytes` of them in Arrow's memory, or earlier."""
        self._group_bytes = group_bytes
        settings = columns.settings
        self._columns = columns
        self._writer = FileWriter(columns.file_schema, aim_of(settings.codec), lambda _: {})
        self._stats = FileStatsBuilder(columns.schema, columns.indexed, settings.stats_text_length)
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0

    @property
    def encodings(self) -> Encodings | None:
        """How its columns are encoded, once it has so many rows that others like them may be encoded so, too."""
        return self._writer.encodings if self._stats.rows >= _TELLING_ROWS else None

    @property
    def size(self) -> int:
        """Bytes encoded so far."""
        return self._writer.size

    @property
    def memory_bytes(self) -> int:
        """What it holds: rows that wait, and encoded bytes."""
        return self._held_bytes + self._writer.size

    def add(self, rows: pa.Table) -> None:
        """Add rows under their logical names."""
        stored = self._columns.stored(rows)
        self._held.append(stored)
        self._held_rows += stored.num_rows
        self._held_bytes += stored.nbytes
        if self._held_bytes >= self._group_bytes or fills_group(self._held_rows, self._held_bytes):
            self._flush()

    def own_memory(self) -> None:
        """Let the rows that wait hold nothing else in memory, such as the batch they came in."""
        if self._held:
            whole = pa.concat_tables(self._held)
            self._held = [whole.take(pa.array(np.arange(whole.num_rows)))]

    def finish(self, encodings: Encodings | None) -> EncodedFile:
        """The whole file, which has at least one row; nothing may be added after. Where no row is encoded yet, `encodings` say how they are."""
        self._writer.encodings = self._writer.encodings or encodings
        self._flush()
        file = self._writer.close()
        return EncodedFile(pieces=file.pieces, size=file.tell(), rows=self._stats.rows, stats=self._stats.text())

    def _flush(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        self._writer.write(
            Ordered(rows),
            even_groups(rows),
            self._held_bytes,
            ascending=None,
            meanwhile=lambda: self._stats.add(rows),
        )
        self._held, self._held_rows, self._held_bytes = [], 0, 0
