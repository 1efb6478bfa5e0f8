"""How the columns of a version lie in its data files: declared types, column mapping, partition values, calendars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.files.pages.footer import Footer
from gapless.formats.delta.actions import AddFile, Metadata
from gapless.formats.delta.partitions import Partitions
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.schema.arrow_types import holds_variant, to_arrow
from gapless.formats.delta.schema.column_mapping import ids_by_field_id, ids_by_name
from gapless.formats.delta.variant.nested import holds_shredded, whole_variants
from gapless.formats.delta.variant.shredded import Misplaced
from gapless.model.column_ids import ColumnIds, Fields
from gapless.model.fit import to_declared
from gapless.model.instant import NS_PER, NS_PER_DAY
from gapless.model.types import is_any_list, with_children
from gapless.predicate.prune import StatsOf

_REFORM_DAYS = -141_427
"""1582-10-15, from which on both calendars agree."""
_VERSION, _DATES, _INT96 = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"


def check_calendar(rows: pa.Table, metadata: pq.FileMetaData, path: str) -> None:
    """Raise UnsupportedTable where a file's rows have a date or time that its writer meant in the old calendar: it would come out wrong by days."""
    dates, times = _old_calendar(metadata)
    if not (dates or times):
        return
    for column in rows.columns:
        for leaf in (leaf for chunk in column.chunks for leaf in _leaves(chunk)):
            old = dates if pa.types.is_date(leaf.type) else times
            if old and _is_before_reform(leaf):
                raise UnsupportedTable(
                    f"data file {path} has dates before 1582-10-15 in the old calendar",
                    why="Spark wrote them so, and read as they are they would be days off",
                    fix="Rewrite the file in Spark with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
                    needs="legacy calendar",
                )


def may_be_old_calendar(metadata: pq.FileMetaData) -> bool:
    """Whether a file's writer meant dates or times in the old calendar, in which those before 1582-10-15 are others."""
    return any(_old_calendar(metadata))


def _old_calendar(metadata: pq.FileMetaData) -> tuple[bool, bool]:
    """Whether dates, and times, are of the old calendar, by the metadata of their file.

    That of Spark before 3.0, and later in its LEGACY mode, which wrote as if there had been no reform in 1582.
    """
    written = metadata.metadata or {}
    before = written.get(_VERSION, b"3").split(b".")[0] in (b"1", b"2")
    return before or _DATES in written, before or _DATES in written or _INT96 in written


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of dates and times in an array, nested ones too."""
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaves(child)
    elif is_any_list(array.type):
        yield from _leaves(array.flatten())
    elif pa.types.is_map(array.type):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_date32(array.type) or pa.types.is_timestamp(array.type):
        yield array


def _is_before_reform(leaf: pa.Array) -> bool:
    per_day = NS_PER_DAY // NS_PER[leaf.type.unit] if pa.types.is_timestamp(leaf.type) else 1
    first = pc.min(leaf.cast(pa.int64() if pa.types.is_timestamp(leaf.type) else pa.int32())).as_py()
    return first is not None and first < _REFORM_DAYS * per_day


def declared_rows(rows: pa.Table, schema: pa.Schema, ids: ColumnIds, footer: Footer, path: str) -> pa.Table:
    """Rows as a file holds them, in the columns of `schema`, exactly. Raises CorruptTable where a type or value does not fit, UnsupportedTable
    where part of a variant is of a type that is not known, or dates are of another calendar.
    """
    check_calendar(rows, footer.metadata, path)
    if not ids and rows.schema.equals(schema) and not any(type_.num_fields for type_ in schema.types):
        same = rows.replace_schema_metadata(schema.metadata)  # as most files of most tables are
        return same if same.schema.equals(schema, check_metadata=True) else pa.Table.from_arrays(rows.columns, schema=schema)
    rows = _with_whole_variants(rows, schema, ids, path)
    for field in schema:
        at = rows.schema.get_field_index(ids.stored_name(field.name))
        if at >= 0 and rows.column(at).type != field.type:
            stored = rows.column(at)
            as_delta = _as_delta(stored.type, field.type, ids.reading(field.name), path)
            if as_delta != stored.type:
                rows = rows.set_column(at, rows.schema.field(at).with_type(as_delta), _cast(stored, as_delta, field, path))
    return to_declared(rows, schema, ids=ids, path=path)


def _with_whole_variants(rows: pa.Table, schema: pa.Schema, ids: ColumnIds, path: str) -> pa.Table:
    """Rows in which variants have no parts in columns of their own, at any depth. Raises CorruptTable, UnsupportedTable."""
    for field in schema:
        at = rows.schema.get_field_index(ids.stored_name(field.name))
        if at < 0 or not holds_variant(field) or not holds_shredded(rows.schema.field(at).type):
            continue
        try:
            whole = [whole_variants(chunk, field.type, ids.reading(field.name), path) for chunk in rows.column(at).chunks]
        except Misplaced as error:
            raise CorruptTable(
                f"column {field.name!r} of data file {path} holds a variant whose parts do not fit together: {error}",
                why="Its writer did not follow Parquet's shredding of variants",
                fix="Restore the data file, or write its rows anew",
                path=path,
            ) from error
        if whole:
            rows = rows.set_column(at, rows.schema.field(at).with_type(whole[0].type), pa.chunked_array(whole))
    return rows


def _cast(stored: pa.ChunkedArray, as_delta: pa.DataType, field: pa.Field, path: str) -> pa.ChunkedArray:
    try:
        return stored.cast(as_delta)
    except pa.ArrowInvalid as error:
        raise CorruptTable(
            f"column {field.name!r} of data file {path} is {field.type} in the log and {stored.type} in the file: {error}",
            why="A value of the file is none of the column's type",
            fix="Bring the file back from a backup, or write its rows anew",
            path=path,
        ) from error


def _as_delta(stored: pa.DataType, declared: pa.DataType, fields: Fields, path: str) -> pa.DataType:
    """The stored type with those leaves as declared that Delta takes for wider ones, and Arrow's lossless conversion does not."""
    if pa.types.is_struct(stored) and pa.types.is_struct(declared):
        return _struct(stored, declared, fields, path)
    if is_any_list(stored) and is_any_list(declared):
        return with_children(stored, lambda one: _child(one, declared.value_field, "element", fields, path))
    if pa.types.is_map(stored) and pa.types.is_map(declared):
        key = _child(stored.key_field, declared.key_field, "key", fields, path)
        item = _child(stored.item_field, declared.item_field, "value", fields, path)
        return stored if (key, item) == (stored.key_field, stored.item_field) else pa.map_(key, item)
    return declared if _reads_as(stored, declared) else stored


def _child(one: pa.Field, declared: pa.Field, step: str, fields: Fields, path: str) -> pa.Field:
    return one.with_type(_as_delta(one.type, declared.type, fields.below(step), path))


def _struct(stored: pa.DataType, declared: pa.DataType, fields: Fields, path: str) -> pa.DataType:
    wanted = {fields.names.get((one.name,), one.name): one for one in declared}
    return pa.struct(
        [_child(one, wanted[one.name], wanted[one.name].name, fields, path) if one.name in wanted else one for one in stored]
    )


def _reads_as(stored: pa.DataType, declared: pa.DataType) -> bool:
    t = pa.types
    if t.is_timestamp(declared):
        # INT96 has no zone, and other writers' files may not say what the table does: Spark, deltalake and DuckDB go by the table.
        zoned = t.is_timestamp(stored) and (stored.tz is None) != (declared.tz is None)
        return zoned or (t.is_date(stored) and declared.tz is None)
    if t.is_decimal(declared):
        return bool(t.is_integer(stored))
    return bool((t.is_string(declared) and t.is_binary(stored)) or (t.is_binary(declared) and t.is_fixed_size_binary(stored)))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a version, and where they are in a file, whatever version wrote that."""

    metadata: Metadata
    declared: pa.Schema
    """All logical columns, in order."""
    parts: Partitions
    by_field_id: bool
    """Whether columns are found in files by field id and not by name."""

    @classmethod
    def of(cls, metadata: Metadata) -> Layout:
        """That of a table with these metadata; raises CorruptTable where it is partitioned by what is no column."""
        return cls(
            metadata=metadata,
            declared=to_arrow(metadata.schema),
            parts=Partitions.of(metadata),
            by_field_id=Settings.of(metadata.configuration).column_mapping == "id",
        )

    def ids(self, file: AddFile, footer: Footer) -> ColumnIds:
        """Which column of a file is which; raises CorruptTable for a file without field ids where those tell."""
        if not self.by_field_id:
            return self._by_name
        found = ids_by_field_id(self.metadata.schema, footer.schema)
        if found is None:
            raise CorruptTable(
                f"data file {file.path} has no field ids",
                why="The table finds columns by field id (delta.columnMapping.mode is id), and so all of its columns would read as null",
                fix="Write the file anew with field ids, or take it out of the table",
                path=file.path,
            )
        return found

    def group_stats(self, file: AddFile, footer: Footer, ids: ColumnIds, number: int) -> StatsOf:
        """What a file's footer and partition values say of its row group `number`."""
        of_file, parts = footer.groups.of(number, self.declared, ids), self.parts.columns
        return lambda name: self.parts.stats(file, name) if name in parts else of_file(name)

    def rows(self, stored: pa.Table, columns: pa.Schema, file: AddFile, footer: Footer, ids: ColumnIds) -> pa.Table:
        """A file's rows in some logical columns, partition columns filled in. Raises CorruptTable, UnsupportedTable."""
        parts = self.parts.columns
        held = pa.schema([one for one in columns if one.name not in parts]) if parts else columns
        table = declared_rows(stored, held, ids, footer, file.path)
        if not parts or not len(columns):
            return table
        found = dict(zip(held.names, table.columns, strict=True))
        arrays = [
            pa.repeat(self.parts.value(file, one.name), stored.num_rows) if one.name in parts else found[one.name]
            for one in columns
        ]
        return pa.Table.from_arrays(arrays, schema=columns)

    @cached_property
    def _by_name(self) -> ColumnIds:
        return ids_by_name(self.metadata.schema)
