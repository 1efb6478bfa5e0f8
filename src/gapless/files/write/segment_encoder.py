"""Encode sorted runs as one segment, with everything the log says about it taken from the rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.files.ingest.batches import bytes_of
from gapless.files.pages.column_stats import MAX_STATS_COLUMNS, GrowingStats, index_bounds, written_stats
from gapless.files.pages.encodings import CODEC_PROFILES, Encodings
from gapless.files.pages.footer import footer_checksum
from gapless.files.sort.order import Ordered
from gapless.files.sort.run import Run, unit_ns
from gapless.files.write.file_writer import ROW_GROUP_BYTES, FileWriter, even_groups, fills_group
from gapless.model.index import IndexSpec
from gapless.model.properties import Codec
from gapless.model.segment import Bounds
from gapless.model.stats import ColumnStats
from gapless.model.types import has_metadata
from gapless.runtime.concurrency import WORTH_THREADS_BYTES

CODEC_KEY = "gapless.codec"
"""The entry of a file's key-value metadata that names the codec it was written with."""
ENCODINGS_KEY = "gapless.encodings"
"""The entry that says, as JSON, how each column is encoded and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedSegment:
    """A segment's bytes and what the log needs to know of them."""

    pieces: tuple[memoryview, ...]
    """Its bytes, one piece after the other; none where they were handed on."""
    size: int
    """How many bytes."""
    rows: int
    bounds: Bounds
    coverage: CoverageMap
    stats: Mapping[str, ColumnStats]
    checksum: str
    footer_checksum: str

    @property
    def data(self) -> memoryview:
        """Its bytes in one piece; a copy, where they are in several."""
        return self.pieces[0] if len(self.pieces) == 1 else memoryview(b"".join(self.pieces))


class SegmentEncoder:
    """Encodes one segment, run by run; holds its bytes so far, and the rows of at most about one row group."""

    def __init__(
        self,
        schema: pa.Schema,
        index: IndexSpec,
        codec: Codec,
        group_rows: int | None = None,
        onto: Callable[..., object] | None = None,
        group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        """`schema` is the stored one, which the rows of every run have, with the metadata that the file shall repeat.

        Row groups have about `ROW_GROUP_BYTES` of Arrow memory, and no more than `group_rows` rows; where rows come in smaller runs, they are
        made of about `group_bytes`. The file's bytes are held, or given to `onto` as they are made.
        """
        self._index, self._group_rows, self._group_bytes = index, group_rows, group_bytes
        # timeseries-table-format wants a file's metadata to be exactly the table's, where that has any.
        annotated = _is_annotated(schema.serialize().to_pybytes())

        def notes(encodings: Encodings) -> Mapping[str, str]:
            return {} if annotated else {CODEC_KEY: codec, ENCODINGS_KEY: encodings.told}

        self._writer = FileWriter(schema, CODEC_PROFILES[codec], notes, onto)
        self._held: list[_Held] = []
        self._held_bytes = self._held_rows = 0
        self._rows = 0
        self._bounds: Bounds | None = None
        self._told = [name for name in schema.names if name != index.column][:MAX_STATS_COLUMNS]
        self._stats = {name: GrowingStats() for name in self._told}
        self._coverage: list[CoverageMap] = []

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    @property
    def size(self) -> int:
        """Bytes encoded so far; up to a row group of rows may wait besides."""
        return self._writer.size

    def write(self, run: Run) -> None:
        """Add the rows of a run that belongs after those before it."""
        unit = unit_ns(run.rows.schema.field(self._index.column).type)
        self._hold(_Held(run.rows, lambda: run.coverage, lambda: _ends(run.values, unit), in_order=True))

    def write_table(self, table: pa.Table, coverage: CoverageMap) -> None:
        """Add rows in the order they have, with the buckets that hold them; none of them may lack its index value."""
        column = table.column(self._index.column)
        self._hold(_Held(Ordered(table), lambda: coverage, lambda: index_bounds(column), in_order=False))

    def finish(self) -> EncodedSegment:
        """The whole segment; nothing may be written after. Raises ValueError where it has no rows."""
        if not self._rows:
            raise ValueError("a segment holds at least one row")
        self._flush()
        assert self._bounds is not None
        file = self._writer.close()
        return EncodedSegment(
            pieces=file.pieces,
            size=file.tell(),
            rows=self._rows,
            bounds=self._bounds,
            coverage=CoverageMap.union_of(self._coverage),
            stats=self._all_stats(),
            checksum=file.checksum,
            footer_checksum=footer_checksum(file.last),
        )

    def _hold(self, held: _Held) -> None:
        rows = held.rows
        if not rows.count:
            return
        if self._held:
            earlier = self._held_bytes if len(self._held) > 1 else self._held[0].rows.source.nbytes
            self._held_bytes = earlier + rows.source.nbytes
        else:
            self._held_bytes = bytes_of(rows.source, WORTH_THREADS_BYTES)
        self._rows += rows.count
        self._held.append(held)
        self._held_rows += rows.count
        if len(self._held) == 1 and self._held_bytes >= self._group_bytes:
            self._held_bytes = int(rows.source.nbytes)  # buffers of which these rows are a slice were counted whole
        if self._held_bytes >= self._group_bytes or fills_group(self._held_rows, self._held_bytes):
            self._flush()

    def _describe(self, held: list[_Held]) -> None:
        """Take in what the log will say of these rows."""
        left = [name for name in self._told if name not in self._writer.stats]
        for part in held:
            self._coverage.append(part.coverage())
            old, found = self._bounds, part.bounds()
            self._bounds = found if old is None else Bounds(first=min(old.first, found.first), last=max(old.last, found.last))
            # In which order they are read makes no difference here.
            table, spelled = part.rows.source, part.rows.spelled
            for name in left:
                column = spelled[name].ends if name in spelled else table.column(name)
                self._stats[name].add(written_stats(column, name), table.num_rows)

    def _all_stats(self) -> dict[str, ColumnStats]:
        found = {**self._stats, **self._writer.stats}
        return {name: found[name].stats for name in self._told}

    def _flush(self) -> None:
        held = self._held
        if not held:
            return
        rows = held[0].rows if len(held) == 1 else Ordered(pa.concat_tables([part.rows.table() for part in held]))
        self._writer.write(
            rows,
            even_groups(rows.source, self._group_rows),
            self._held_bytes,
            ascending=self._index.column if all(part.in_order for part in held) else None,
            meanwhile=lambda: self._describe(held),
        )
        self._held, self._held_rows, self._held_bytes = [], 0, 0


@lru_cache(maxsize=64)
def _is_annotated(serialized: bytes) -> bool:
    schema = pa.ipc.read_schema(pa.py_buffer(serialized))
    return bool(schema.metadata) or any(map(has_metadata, schema))


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows that wait for their row group."""

    rows: Ordered
    coverage: Callable[[], CoverageMap]
    bounds: Callable[[], Bounds]
    in_order: bool
    """Whether they are sorted by entity and index."""


def _ends(values: npt.NDArray[np.integer[Any]], unit: int) -> Bounds:
    """The bounds of index values, which count so many nanoseconds each, if these are times."""
    return Bounds(first=int(values.min()) * unit, last=int(values.max()) * unit)


def encode_segment(run: Run, index: IndexSpec, codec: Codec, onto: Callable[..., object] | None = None) -> EncodedSegment:
    """Encode a run that holds at least one row; its bytes are held, or given to `onto` as they are made."""
    encoder = SegmentEncoder(run.rows.schema, index, codec, onto=onto)
    encoder.write(run)
    return encoder.finish()
