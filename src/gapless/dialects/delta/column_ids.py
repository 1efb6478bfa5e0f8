"""Where a data file keeps each column: logical paths to the names in the file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from gapless.dialects.delta.schema import ArrayType, DeltaType, MapType, StructField, StructType
from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.types import FIELD_ID, children

Level = Mapping[int, pa.Field]
"""The fields of a struct in a file, by their field ids."""


def ids_by_name(schema: StructType) -> ColumnIds:
    """Columns and nested fields by their physical names."""
    names = ((path, one.physical_name) for path, one in _fields(schema, ()))
    return ColumnIds(stored={path: name for path, name in names if name != path[-1]})


def ids_by_field_id(schema: StructType, file: pa.Schema) -> ColumnIds | None:
    """Columns and nested fields as a file with this schema has them, found by field id; None where it has no field ids.

    A field whose id the file lacks is stored under a name that no file has, so that it reads as null; one without an id of its own, as
    the change feed has them, is found by its name.
    """
    level = _by_id(file)
    return ColumnIds(stored=dict(_found(schema, level, ()))) if level else None


def _fields(type_: DeltaType, path: ColumnPath) -> Iterator[tuple[ColumnPath, StructField]]:
    """Every field of a type with its path, nested ones too."""
    if isinstance(type_, StructType):
        for one in type_.fields:
            at = (*path, one.name)
            yield at, one
            yield from _fields(one.type, at)
    elif isinstance(type_, ArrayType):
        yield from _fields(type_.element, (*path, "element"))
    elif isinstance(type_, MapType):
        yield from _fields(type_.key, (*path, "key"))
        yield from _fields(type_.value, (*path, "value"))


def _found(struct: StructType, level: Level, path: ColumnPath) -> Iterator[tuple[ColumnPath, str]]:
    for one in struct.fields:
        at = (*path, one.name)
        stored = level.get(one.field_id) if one.field_id is not None else None
        yield at, _stored_name(one, stored)
        if stored is not None:
            yield from _found_below(one.type, stored.type, at)


def _stored_name(one: StructField, stored: pa.Field | None) -> str:
    if stored is not None:
        return str(stored.name)
    return one.physical_name if one.field_id is None else f"\0field id {one.field_id}"


def _found_below(type_: DeltaType, stored: pa.DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, str]]:
    below = tuple(children(stored))
    if isinstance(type_, StructType) and pa.types.is_struct(stored):
        yield from _found(type_, _by_id(stored), path)
    elif isinstance(type_, ArrayType) and len(below) == 1:
        yield from _found_below(type_.element, below[0].type, (*path, "element"))
    elif isinstance(type_, MapType) and len(below) == 2:
        yield from _found_below(type_.key, below[0].type, (*path, "key"))
        yield from _found_below(type_.value, below[1].type, (*path, "value"))


def _by_id(fields: pa.Schema | pa.StructType) -> Level:
    return {int(one.metadata[FIELD_ID]): one for one in fields if one.metadata and FIELD_ID in one.metadata}
