"""An Iceberg table's columns as Arrow has them, and what identifies each: its field id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.types import bare_type, with_children


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns, in plain types: `string`, not `large_string`; 16 bytes for a UUID."""
    return pa.schema([_plain(field) for field in schema_to_pyarrow(schema, include_field_ids=False)])


def stored_schema(schema: Schema) -> pa.Schema:
    """The same with the field id of each, nested ones too, as Parquet files have them."""
    return pa.schema([_plain(field) for field in schema_to_pyarrow(schema, include_field_ids=True)])


def _plain(field: pa.Field) -> pa.Field:
    bare = bare_type(field.type)
    if isinstance(bare, pa.LargeListType):
        bare = pa.list_(bare.value_field)
    return field.with_type(with_children(bare, _plain))


def paths(schema: Schema) -> dict[ColumnPath, NestedField]:
    """Every column and field by its path; the values of a list are the step "element", those of a map "key" and "value"."""
    return dict(_paths(schema.fields, ()))


def _paths(fields: tuple[NestedField, ...], above: ColumnPath) -> Iterator[tuple[ColumnPath, NestedField]]:
    for one in fields:
        path = (*above, one.name)
        yield path, one
        yield from _below(one.field_type, path)


def _below(type_: IcebergType, path: ColumnPath) -> Iterator[tuple[ColumnPath, NestedField]]:
    if isinstance(type_, StructType):
        yield from _paths(type_.fields, path)
    elif isinstance(type_, ListType):
        yield from _below(type_.element_type, (*path, "element"))
    elif isinstance(type_, MapType):
        yield from _below(type_.key_type, (*path, "key"))
        yield from _below(type_.value_type, (*path, "value"))


def column_ids(schema: Schema) -> ColumnIds:
    """What identifies each column: its field id, which a rename leaves."""
    return ColumnIds(stored={path: str(one.field_id) for path, one in paths(schema).items()})


def source_paths(schema: Schema) -> Mapping[int, ColumnPath]:
    """The path of each column and field by its id."""
    return {one.field_id: path for path, one in paths(schema).items()}
