"""Column mapping: physical names and field ids of columns, and where a data file keeps each (PROTOCOL.md, "Column Mapping"). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from gapless.errors import SchemaMismatch
from gapless.formats.delta.schema.changes import add, change_field, drop, find_field, rename, widen
from gapless.formats.delta.schema.types import ArrayType, DeltaType, MapType, StructField, StructType
from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.types import FIELD_ID, children

__all__ = [
    "FEED_COLUMNS",
    "ID",
    "NAME",
    "add",
    "assign",
    "change_field",
    "check_names",
    "drop",
    "find_field",
    "max_field_id",
    "rename",
    "widen",
]

ID, NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_FORBIDDEN = " ,;{}()\n\t="
"""What Parquet's older readers take for syntax."""
FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""What the rows of a change feed have behind the table's columns."""


def assign(schema: StructType, mode: str, max_id: int, new_name: Callable[[], str] | None = None) -> tuple[StructType, int]:
    """The schema with an id and a physical name for every field that lacks one, and the highest id then given.

    `mode` is "none" (nothing is done), "name" or "id". `new_name` makes physical names such as `col-<uuid>`; None, for a table that
    has files already, keeps the logical names as the physical ones.
    """
    if mode == "none":
        return schema, max_id
    ids = iter(range(max(max_id, max_field_id(schema)) + 1, 2**31))
    last = max(max_id, max_field_id(schema))

    def assigned(field: StructField) -> StructField:
        nonlocal last
        entries: dict[str, object] = {}
        if field.field_id is None:
            last = next(ids)
            entries[ID] = last
        if NAME not in field.metadata:
            entries[NAME] = field.name if new_name is None else new_name()
        return replace(field.with_metadata(**entries), type=_mapped(field.type, assigned))

    fields = tuple(assigned(field) for field in schema)
    return StructType(fields=fields), last


def max_field_id(schema: StructType) -> int:
    """The highest id of a field, nested ones too; 0 where none has one."""
    return max((field.field_id or 0 for field in _all(schema)), default=0)


def check_names(schema: StructType, *, mapped: bool, feed: bool = False) -> None:
    """Raise SchemaMismatch for names that no column may have: empty ones, twins but for case, odd ones without column mapping, and, in a
    table with a change feed, those of the feed's own columns.
    """
    problems = list(_problems(schema, mapped=mapped))
    if feed:
        problems += [f"{name!r} is a column of the change feed" for name in schema.names if name.lower() in FEED_COLUMNS]
    if problems:
        odd = any("characters" in problem for problem in problems)
        raise SchemaMismatch(
            f"the columns cannot be a Delta table's: {'; '.join(problems)}",
            why="Other readers of Delta would refuse them, or read nulls",
            fix='Rename them, or set the property "delta.columnMapping.mode" to "name"' if odd else "Rename them",
            differences=tuple(problems),
        )


def needs_mapping(schema: StructType) -> bool:
    """Whether a name has characters that only a table with column mapping may have."""
    return any(sign in name for struct, _ in _structs(schema, "") for name in struct.names for sign in _FORBIDDEN)


def _problems(type_: DeltaType, where: str = "", *, mapped: bool) -> Iterator[str]:
    for struct, path in _structs(type_, where):
        seen: dict[str, str] = {}
        for name in struct.names:
            full = f"{path}{name}"
            twin = seen.get(name.lower())
            seen.setdefault(name.lower(), name)
            if not name or "\0" in name:
                yield f"{full!r} is no name"
            elif twin is not None:
                yield f"{full!r} is there twice" if twin == name else f"{full!r} differs from {twin!r} by case alone"
            elif not mapped and any(sign in name for sign in _FORBIDDEN):
                yield f"{full!r} has one of the characters {_FORBIDDEN!r}"


def _structs(type_: DeltaType, where: str) -> Iterator[tuple[StructType, str]]:
    match type_:
        case StructType():
            yield type_, where
            for field in type_:
                yield from _structs(field.type, f"{where}{field.name}.")
        case ArrayType():
            yield from _structs(type_.element, f"{where}element.")
        case MapType():
            yield from _structs(type_.key, f"{where}key.")
            yield from _structs(type_.value, f"{where}value.")


def _all(schema: StructType) -> Iterator[StructField]:
    return (field for struct, _ in _structs(schema, "") for field in struct)


def _mapped(type_: DeltaType, change: Callable[[StructField], StructField]) -> DeltaType:
    match type_:
        case StructType():
            return StructType(fields=tuple(change(field) for field in type_))
        case ArrayType():
            return replace(type_, element=_mapped(type_.element, change))
        case MapType():
            return replace(type_, key=_mapped(type_.key, change), value=_mapped(type_.value, change))
    return type_


def renamed_since(schema: StructType, now: StructType) -> StructType:
    """Columns of files under the names that they have by now, by their physical names, nested fields too.

    What the table does not have any more, or not yet, keeps its name.
    """
    known = {one.physical_name: one for one in now.fields}
    fields = []
    for one in schema.fields:
        found = known.get(one.physical_name)
        renamed = one if found is None else replace(found, type=_renamed_below(one.type, found.type))
        fields.append(renamed)
    return StructType(fields=tuple(fields))


def _renamed_below(type_: DeltaType, now: DeltaType) -> DeltaType:
    if isinstance(type_, StructType) and isinstance(now, StructType):
        return renamed_since(type_, now)
    if isinstance(type_, ArrayType) and isinstance(now, ArrayType):
        return replace(type_, element=_renamed_below(type_.element, now.element))
    if isinstance(type_, MapType) and isinstance(now, MapType):
        key, value = _renamed_below(type_.key, now.key), _renamed_below(type_.value, now.value)
        return replace(type_, key=key, value=value)
    return type_


Level = Mapping[int, pa.Field]
"""The fields of a struct in a file, by their field ids."""


def ids_by_name(schema: StructType) -> ColumnIds:
    """Columns and nested fields by their physical names."""
    names = ((path, one.physical_name) for path, one in _fields(schema, ()))
    return ColumnIds(stored={path: name for path, name in names if name != path[-1]})


def stored_field_ids(schema: StructType) -> dict[ColumnPath, int]:
    """The ids of columns and nested fields, by the path of their physical names."""
    ids = ids_by_name(schema)
    return {ids.stored_path(path): one.field_id for path, one in _fields(schema, ()) if one.field_id is not None}


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
