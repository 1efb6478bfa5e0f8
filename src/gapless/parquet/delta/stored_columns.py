"""What a table's new files hold: physical names and types, without partition columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from gapless.dialects.delta.arrow_types import VOID, physical_arrow
from gapless.dialects.delta.properties import Settings
from gapless.dialects.delta.schema import ArrayType, DeltaType, MapType, StructField, StructType
from gapless.dialects.delta.stats_codec import ColumnPath, Leaf
from gapless.model.column_ids import Fields
from gapless.model.convert import convert
from gapless.parquet.delta.stats import indexed_columns
from gapless.parquet.row_diff import CHANGE_TYPE


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a file."""

    name: str
    """Logical: that of the rows which are written."""
    field: pa.Field
    """The file's."""
    fields: Fields
    """Where fields of structs in it take their values from."""

    def stored(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column as the file has it."""
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
        if changes:
            columns.append(StoredColumn(CHANGE_TYPE, pa.field(CHANGE_TYPE, pa.string()), Fields()))
        indexed = () if changes else indexed_columns(fields, settings, clustered)
        return cls(columns=tuple(columns), schema=schema, indexed=indexed, settings=settings)

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
