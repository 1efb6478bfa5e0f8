"""Rewrite the changed column chunks of a segment of ours; the others are copied as bytes, not decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.coverage.bitmap import CoverageMap
from gapless.files.compare.bits import same_bits
from gapless.files.pages.column_stats import MAX_BOUND_CHARACTERS, GrowingStats, stats_of
from gapless.files.pages.encodings import CODEC_PROFILES, DELTA, DICTIONARY, PLAIN, Encodings
from gapless.files.pages.file_assembly import Chunk, is_closely_packed, spliced, the_chunk
from gapless.files.pages.footer import Footer, footer_checksum
from gapless.files.read.page_pruning import FEW_ROWS, ColumnProjection, KeyFilter, RowGroup, candidate_rows, read_between
from gapless.files.read.source import parse_source, read_group, segment_bytes, segment_footer
from gapless.files.sort.order import Ordered
from gapless.files.write.file_writer import FileWriter
from gapless.files.write.segment_encoder import CODEC_KEY, EncodedSegment
from gapless.model.properties import Codec
from gapless.model.protocols import Store
from gapless.model.segment import ALGORITHM, Segment, check
from gapless.model.stats import ColumnStats
from gapless.runtime.concurrency import side_by_side

_WRITTEN = {"PLAIN", "RLE", "RLE_DICTIONARY", DELTA}
"""The encodings of chunks that are encoded again as they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Other values for some rows of one row group."""

    positions: npt.NDArray[np.int64]
    """Those of the rows in their row group, each once."""
    rows: pa.Table
    """What they get, in their order, as files hold it; columns that are not there stay what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchedSource:
    """A whole segment in memory, in which rows may be changed."""

    segment: Segment
    data: memoryview
    """Its bytes, which have the checksum that the log names."""
    footer: Footer
    bytes: pa.NativeFile
    """The same as an Arrow file,"""
    file: pq.ParquetFile
    """and as a Parquet file."""
    codec: Codec

    @classmethod
    def open(cls, store: Store, segment: Segment, schema: pa.Schema, codec: Codec) -> PatchedSource | None:
        """A segment's bytes, checked; None where it is not one that we would write so again: flat columns of just this stored schema, in
        our encodings and with this codec. Raises CorruptTable, StoreError.
        """
        if not (segment.checksum or "").startswith(f"{ALGORITHM}:") or segment.size is None or segment.footer_checksum is None:
            return None
        footer = segment_footer(store, segment)
        if not _is_written_so(footer, schema, codec):
            return None
        data = segment_bytes(store, segment, 0, segment.size)
        check(data, segment.checksum, segment.path)
        if not is_closely_packed(memoryview(data)):
            return None
        source = pa.BufferReader(data)
        file = parse_source(source, segment, footer.metadata)
        return cls(segment=segment, data=memoryview(data), footer=footer, bytes=source, file=file, codec=codec)

    def near(self, group: int, stages: Sequence[KeyFilter]) -> tuple[int, int]:
        """The rows `[first, end)` of a row group among which are all that the stages keep. Raises CorruptTable."""
        found = candidate_rows(self.bytes, self._group(group), stages)
        return (0, self.footer.groups.rows[group]) if found is None else found

    def between(self, group: int, names: Sequence[str], rows: tuple[int, int]) -> pa.Table:
        """The rows `[first, end)` of a row group, of which there is one at least, in some columns. Raises CorruptTable."""
        found = (
            read_between(self.bytes, self._group(group), ColumnProjection(names), rows)
            if rows[1] - rows[0] <= FEW_ROWS
            else None
        )
        return self.columns(group, names).slice(rows[0], rows[1] - rows[0]) if found is None else found

    def _group(self, number: int) -> RowGroup:
        return RowGroup(segment=self.segment, footer=self.footer, number=number)

    def columns(self, group: int, names: Sequence[str]) -> pa.Table:
        """Some columns of a row group. Raises CorruptTable."""
        return read_group(self.file, self.segment, group, names)

    def patched(self, changes: Mapping[int, Change], coverage: CoverageMap) -> EncodedSegment | None:
        """The segment with these changes, by row group; it covers what it did. None where they change no value. Raises CorruptTable."""
        chunks: dict[tuple[int, int], Chunk] = {}
        found: dict[str, dict[int, ColumnStats]] = {}
        for group, change in changes.items():
            names = self._differing(group, change)
            old = self.columns(group, names)
            fresh = {name: _changed(old.column(name), change, name) for name in names}
            acts = [partial(self._encoded, group, self.footer.schema.get_field_index(name), fresh[name]) for name in fresh]
            for name, (leaf, chunk) in zip(fresh, side_by_side(acts, old.nbytes), strict=True):
                chunks[group, leaf] = chunk
                found.setdefault(name, {})[group] = stats_of(fresh[name], None)
        if not chunks:
            return None
        file = spliced(self.data, chunks)
        known = self.segment.stats
        return EncodedSegment(
            pieces=file.pieces,
            size=file.tell(),
            rows=self.segment.rows,
            bounds=self.segment.bounds,
            coverage=coverage,
            stats={name: self._stats(name, found[name]) if name in found else known[name] for name in known},
            checksum=file.checksum,
            footer_checksum=footer_checksum(file.last),
        )

    def _differing(self, group: int, change: Change) -> list[str]:
        """The columns of a row group that a change gives other bits."""
        names, at = change.rows.column_names, change.positions
        if not names:
            return []
        first, end = int(at.min()), int(at.max()) + 1
        were = self.between(group, names, (first, end)).take(pa.array(at - first))
        return [name for name in names if not same_bits(were.select([name]), change.rows.select([name]))]

    def _encoded(self, group: int, leaf: int, values: pa.ChunkedArray) -> tuple[int, Chunk]:
        """A column of a row group by its number, encoded as it was."""
        one = self.footer.schema.field(leaf)
        table = pa.Table.from_arrays([values], schema=pa.schema([one]))
        writer = FileWriter(table.schema, CODEC_PROFILES[self.codec], lambda _: {})
        writer.encodings = _encodings(self.footer.metadata.row_group(group).column(leaf), one.name)
        writer.write(Ordered(table), table.num_rows, table.nbytes, ascending=None, meanwhile=lambda: None)
        return leaf, the_chunk(writer.close().pieces)

    def _stats(self, name: str, found: Mapping[int, ColumnStats]) -> ColumnStats:
        """Those of a column over all row groups; `found` are those of the groups in which it has other values."""
        growing = GrowingStats()
        for group, rows in enumerate(self.footer.groups.rows):
            growing.add(found[group] if group in found else stats_of(self.columns(group, [name]).column(0), None), rows)
        whole = growing.stats
        long = any(isinstance(bound, str | bytes) and len(bound) > MAX_BOUND_CHARACTERS for bound in (whole.min, whole.max))
        return ColumnStats(nulls=whole.nulls, nans=whole.nans) if long else whole


def _is_written_so(footer: Footer, schema: pa.Schema, codec: Codec) -> bool:
    """Whether a file is one that we wrote with this codec, with flat columns, just those of the schema."""
    metadata = footer.metadata
    notes = metadata.metadata or {}
    if notes.get(CODEC_KEY.encode()) != codec.encode() or metadata.num_columns != len(schema):
        return False
    if any(pa.types.is_nested(one.type) for one in schema) or not footer.schema.remove_metadata().equals(schema):
        return False
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return all(_WRITTEN.issuperset(group.column(leaf).encodings) for group in groups for leaf in range(metadata.num_columns))


def _changed(old: pa.ChunkedArray, change: Change, name: str) -> pa.ChunkedArray:
    """A column of a row group with its changes."""
    new = change.rows.column(name)
    places = np.arange(len(old))
    places[change.positions] = len(old) + np.arange(len(new))
    return pa.chunked_array([*old.chunks, *new.chunks], type=old.type).take(pa.array(places))


def _encodings(chunk: pq.ColumnChunkMetaData, name: str) -> Encodings:
    """How a chunk is encoded, said as for a file."""
    found = set(chunk.encodings)
    how = DICTIONARY if DICTIONARY in found else DELTA if DELTA in found else PLAIN
    return Encodings(
        dictionary=[name] if how == DICTIONARY else [],
        others={name: how} if how == DELTA else {},
        uncompressed=frozenset([name] if chunk.compression == "UNCOMPRESSED" else ()),
    )
