"""One data file of a Delta table in the making: its columns, their encodings, and the statistics that the log gets."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.files.pages.column_stats import GrowingStats, written_stats
from gapless.files.pages.encodings import CODEC_PROFILES, CodecProfile, Encodings
from gapless.files.sort.order import Ordered
from gapless.files.write.file_writer import ROW_GROUP_BYTES, FileWriter, even_groups, fills_group
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import VOID, physical_arrow
from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType
from gapless.formats.delta.stats_codec import ColumnPath, Leaf, encode_stats, indexed_leaves, leaves
from gapless.formats.delta.variant.shred import Shape
from gapless.model.column_ids import Fields
from gapless.model.convert import convert, opened
from gapless.model.properties import Codec


def indexed_columns(stored: StructType, settings: Settings, clustered: tuple[ColumnPath, ...] = ()) -> tuple[Leaf, ...]:
    """The columns that get statistics: those that the table's properties say, and those it is clustered by.

    `stored` is the schema without partition columns; `clustered` are physical paths. Fields of structs count by themselves.
    """
    chosen = indexed_leaves(stored, settings)
    return (*chosen, *(leaf for leaf in leaves(stored) if leaf.physical in clustered and leaf not in chosen))


class FileStatsBuilder:
    """Statistics of one file, gathered from its rows table by table."""

    def __init__(self, schema: StructType, indexed: tuple[Leaf, ...], text_length: int) -> None:
        """Bounds of texts are cut to `text_length` characters."""
        self._schema, self._indexed, self._text_length = schema, indexed, text_length
        self._rows = 0
        self._columns: dict[ColumnPath, GrowingStats] = {}

    def add(self, table: pa.Table) -> None:
        """Take in rows as the file has them, under physical names."""
        self._rows += table.num_rows
        for leaf in self._indexed:
            # A text's bound is cut when the log is written, and may be of any length until then.
            found = written_stats(column_at(table, leaf.physical), ".".join(leaf.path), longest=None)
            self._columns.setdefault(leaf.path, GrowingStats()).add(found, table.num_rows)

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return self._rows

    def copy(self) -> FileStatsBuilder:
        """Another one that goes on by itself."""
        other = copy(self)
        columns = {path: copy(growing) for path, growing in self._columns.items()}
        other._columns = columns  # noqa: SLF001  # of this class
        return other

    def text(self) -> str:
        """The statistics as the log has them."""
        columns = {path: growing.stats for path, growing in self._columns.items()}
        return encode_stats(self._rows, columns, self._schema, text_length=self._text_length)


def column_at(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    """A column, or the field of one at a path through structs: null where any of them is."""
    column = table.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a file."""

    name: str
    """Logical: that of the rows which are written."""
    field: pa.Field
    """The file's."""
    fields: Fields
    """Where fields of structs in it take their values from."""
    shape: Shape | None = None
    """Into which columns its variants are shredded."""

    def stored(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column as the file has it."""
        if self.shape is not None:
            return pa.chunked_array([self.shape.shred(opened(one)) for one in column.chunks], self.field.type)
        return pa.chunked_array([convert(one, self.field.type, self.fields) for one in column.chunks], self.field.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumns:
    """The columns of one kind of file."""

    columns: tuple[StoredColumn, ...]
    schema: StructType
    """The table's."""
    indexed: tuple[Leaf, ...]
    """What gets statistics."""
    settings: Settings

    @classmethod
    def of(
        cls,
        schema: StructType,
        partition_by: tuple[str, ...],
        settings: Settings,
        *,
        clustered: tuple[ColumnPath, ...] = (),
        changes: bool = False,
    ) -> StoredColumns:
        """Those of data files, or of files of change rows, which have no statistics; `clustered` are physical paths."""
        fields = StructType(fields=tuple(one for one in schema.fields if one.name not in partition_by and one.type != VOID))
        physical = physical_arrow(fields, field_ids=settings.column_mapping != "none")
        columns = [StoredColumn(one.name, physical.field(one.physical_name), _sources(one)) for one in fields.fields]
        shapes = dict(settings.shredded) if settings.variant_shredding else {}
        columns = [
            replace(one, field=one.field.with_type(shape.type), shape=shape)
            if (shape := shapes.get(one.name)) is not None
            else one
            for one in columns
        ]
        if changes:
            columns.append(StoredColumn(CHANGE_TYPE, pa.field(CHANGE_TYPE, pa.string()), Fields()))
        indexed = () if changes else indexed_columns(fields, settings, clustered)
        return cls(columns=tuple(columns), schema=schema, indexed=indexed, settings=settings)

    def with_hidden(self, hidden: tuple[StructField, ...]) -> StoredColumns:
        """The same with more columns, which are none of the table's and get no statistics."""
        fields = physical_arrow(StructType(fields=hidden), field_ids=False)
        more = (StoredColumn(one.name, fields.field(one.name), Fields()) for one in hidden)
        return replace(self, columns=(*self.columns, *more)) if hidden else self

    @property
    def file_schema(self) -> pa.Schema:
        """That of the files."""
        return pa.schema([one.field for one in self.columns])

    def stored(self, rows: pa.Table) -> pa.Table:
        """Logical rows as files have them."""
        arrays = [one.stored(rows.column(one.name)) for one in self.columns]
        return pa.Table.from_arrays(arrays, schema=self.file_schema)


def _sources(field: StructField) -> Fields:
    """The logical names of the fields nested in a column, by the physical paths under which files have them."""
    return Fields(names={path: name for path, name in _renamed(field.type, ()) if path[-1] != name})


def _renamed(type_: DeltaType, above: ColumnPath) -> Iterator[tuple[ColumnPath, str]]:
    match type_:
        case StructType():
            for child in type_.fields:
                path = (*above, child.physical_name)
                yield path, child.name
                yield from _renamed(child.type, path)
        case ArrayType():
            yield from _renamed(type_.element, (*above, "element"))
        case MapType():
            yield from _renamed(type_.key, (*above, "key"))
            yield from _renamed(type_.value, (*above, "value"))


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


def codec_profile(codec: str) -> CodecProfile:
    """The encodings and compression of a table with this `delta.parquet.compression.codec`."""
    return CODEC_PROFILES[_CODECS.get(codec, "zstd")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFile:
    """A file's bytes and its statistics."""

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
        self._writer = FileWriter(columns.file_schema, codec_profile(settings.codec), lambda _: {})
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

    def copy(self) -> DataFile:
        """Another one with the same rows so far, which goes on by itself."""
        other = copy(self)
        writer, stats, held = self._writer.copy(), self._stats.copy(), [*self._held]
        other._writer, other._stats, other._held = writer, stats, held  # noqa: SLF001  # of this class
        return other

    def encode_waiting(self, least_bytes: int) -> None:
        """Encode the rows that wait, as a row group, where they take so much of Arrow's memory."""
        if self._held_bytes >= least_bytes:
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
            even_groups(rows, self._columns.settings.row_group_rows),
            self._held_bytes,
            ascending=None,
            meanwhile=lambda: self._stats.add(rows),
        )
        self._held, self._held_rows, self._held_bytes = [], 0, 0
