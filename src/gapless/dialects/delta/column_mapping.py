"""Column mapping: physical names and ids for columns (PROTOCOL.md, "Column Mapping")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gapless.dialects.delta.schema import ArrayType, DeltaType, MapType, StructField, StructType
from gapless.dialects.delta.schema_changes import add, change_field, drop, find_field, rename, widen
from gapless.errors import SchemaMismatch

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
