"""Schema evolution of Delta schemas: find a field by its path, add, rename, drop, widen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gapless.errors import InvalidChange, UnknownColumn, nearest
from gapless.formats.delta.schema.arrow_types import VOID, decimal_size
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    encode_type,
)

Path = tuple[str, ...]
"""Logical names from the top down; `element`, `key` and `value` step into lists and maps."""

TYPE_CHANGES = "delta.typeChanges"
_WHOLE = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def find_field(schema: StructType, path: Path) -> StructField:
    """The field at a path; raises UnknownColumn naming the nearest."""
    struct = _struct(type_at(schema, path[:-1]), path)
    return struct.fields[_index(struct, path, len(path) - 1)]


def type_at(type_: DeltaType, path: Path) -> DeltaType:
    """The type at a path below a type; raises UnknownColumn naming the nearest step there is."""
    for depth in range(len(path)):
        type_ = _below(type_, path, depth)
    return type_


def change_field(schema: StructType, path: Path, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with the field at a path changed; raises UnknownColumn."""
    return _in_struct(schema, path, lambda struct, at: _replaced(struct, at, change(struct.fields[at])))


def add(schema: StructType, path: Path, field: StructField, after: str | None = None) -> StructType:
    """The schema with a field in the struct at a path, () for the top: at its end, or after the one of that name.

    Raises InvalidChange where the name is taken (in any case) or the path is no struct, UnknownColumn where `after` is not there.
    """

    def grown(type_: DeltaType) -> StructType:
        struct = _struct(type_, (*path, field.name))
        _check_free(struct, (*path, field.name), field.name)
        at = len(struct.fields) if after is None else _index(struct, (*path, after), len(path)) + 1
        return StructType(fields=(*struct.fields[:at], field, *struct.fields[at:]))

    changed: StructType = _change_type(schema, path, grown)
    return changed


def rename(schema: StructType, path: Path, name: str) -> StructType:
    """The schema with the field at a path renamed; its physical name stays.

    Raises InvalidChange where the name is taken or empty, or where the field has no physical name (no column mapping).
    """

    def renamed(struct: StructType, at: int) -> StructType:
        field = struct.fields[at]
        _check_mapped(field, path, "renamed")
        _check_free(_without(struct, at), path, name)
        return _replaced(struct, at, replace(field, name=name))

    return _in_struct(schema, path, renamed)


def drop(schema: StructType, path: Path) -> StructType:
    """The schema without the field at a path.

    Raises InvalidChange for the last field of a struct or the table, or where the field has no physical name (no column mapping).
    """

    def shrunk(struct: StructType, at: int) -> StructType:
        _check_mapped(struct.fields[at], path, "dropped")
        if len(struct.fields) == 1:
            raise _refused(path, "cannot be dropped: it is the only one", "Drop what it is part of, or add another first")
        return _without(struct, at)

    return _in_struct(schema, path, shrunk)


def widen(schema: StructType, path: Path, type_: DeltaType) -> StructType:
    """The schema with the type at a path widened, the change recorded in `delta.typeChanges` of the nearest field above it.

    A `void` column may become anything, without a record. Raises InvalidChange, saying what the type may become.
    """
    before = type_at(schema, path)
    held = max(depth for depth in range(len(path)) if isinstance(type_at(schema, path[:depth]), StructType)) + 1
    inner = path[held:]
    if before != VOID:
        _check_wider(before, type_, path)

    def widened(field: StructField) -> StructField:
        changed = replace(field, type=_change_type(field.type, inner, lambda _: type_))
        if before == VOID:
            return changed
        record = {"fromType": encode_type(before), "toType": encode_type(type_)}
        record |= {"fieldPath": ".".join(inner)} if inner else {}
        return changed.with_metadata(**{TYPE_CHANGES: [*field.metadata.get(TYPE_CHANGES, ()), record]})

    return change_field(schema, path[:held], widened)


def may_widen(before: DeltaType, after: DeltaType) -> bool:
    """Whether type widening allows a change of a primitive type (PROTOCOL.md, "Type Widening")."""
    if not isinstance(before, PrimitiveType) or not isinstance(after, PrimitiveType) or before == after:
        return False
    if before.name in _WHOLE and after.name in _WHOLE:
        return _WHOLE.index(before.name) < _WHOLE.index(after.name)
    if (before.name, after.name) in (("float", "double"), ("date", "timestamp_ntz")):
        return True
    if after.name == "double":
        return before.name in ("byte", "short", "integer")
    size, new = decimal_size(before), decimal_size(after)
    if size is None and before.name in _DIGITS:
        size = (_DIGITS[before.name], 0)
    return size is not None and new is not None and new[0] - size[0] >= new[1] - size[1] >= 0


def wider_than(type_: DeltaType) -> tuple[str, ...]:
    """What a type may be widened to, as texts."""
    names = (*_WHOLE, "double", "timestamp_ntz")
    plain = [name for name in names if may_widen(type_, PrimitiveType(name))]
    size = decimal_size(type_)
    if size is None and isinstance(type_, PrimitiveType) and type_.name in _DIGITS:
        size = (_DIGITS[type_.name], 0)
    if size is not None:
        plain.append(f"a decimal that keeps {size[0] - size[1]} digits before and {size[1]} after the point")
    return tuple(plain)


def _check_wider(before: DeltaType, after: DeltaType, path: Path) -> None:
    if not may_widen(before, after):
        wider = wider_than(before)
        may = f"It may become {', '.join(wider)}" if wider else "No type is wider"
        shown = after.name if isinstance(after, PrimitiveType) else encode_type(after)
        raise _refused(path, f"of type {_shown(before)} cannot become {shown}", may)


def _shown(type_: DeltaType) -> str:
    return type_.name if isinstance(type_, PrimitiveType) else str(encode_type(type_)["type"])


def _in_struct(schema: StructType, path: Path, change: Callable[[StructType, int], StructType]) -> StructType:
    """The schema with a change of the struct that holds the field at a path, given the field's place in it."""

    def changed(type_: DeltaType) -> StructType:
        struct = _struct(type_, path)
        return change(struct, _index(struct, path, len(path) - 1))

    whole: StructType = _change_type(schema, path[:-1], changed)
    return whole


def _change_type(type_: Any, path: Path, change: Callable[[DeltaType], DeltaType], depth: int = 0) -> Any:
    """The type with that at a path below it changed."""
    if depth == len(path):
        return change(type_)
    below = _change_type(_below(type_, path, depth), path, change, depth + 1)
    if not isinstance(type_, StructType):
        return replace(type_, **{path[depth]: below})
    at = _index(type_, path, depth)
    return _replaced(type_, at, replace(type_.fields[at], type=below))


def _below(type_: DeltaType, path: Path, depth: int) -> DeltaType:
    if isinstance(type_, StructType):
        return type_.fields[_index(type_, path, depth)].type
    below: DeltaType = getattr(type_, _side(type_, path, depth))
    return below


def _side(type_: DeltaType, path: Path, depth: int) -> str:
    sides = ("element",) if isinstance(type_, ArrayType) else ("key", "value") if isinstance(type_, MapType) else ()
    if path[depth] not in sides:
        raise _unknown(path, depth, sides)
    return path[depth]


def _index(struct: StructType, path: Path, depth: int) -> int:
    if path[depth] not in struct.names:
        raise _unknown(path, depth, struct.names)
    return struct.names.index(path[depth])


def _unknown(path: Path, depth: int, known: tuple[str, ...]) -> UnknownColumn:
    where = ".".join(path[:depth])
    what = f"column {where!r} has no field {path[depth]!r}" if depth else f"there is no column {path[depth]!r}"
    return UnknownColumn(what, fix=nearest(path[depth], known), column=".".join(path), columns=known)


def _struct(type_: DeltaType, path: Path) -> StructType:
    """The type that holds the last step of a path, which has to be a struct."""
    if not path or not isinstance(type_, StructType):
        raise _refused(path, "has no name of its own", "Name a field of the table or of a struct")
    return type_


def _without(struct: StructType, at: int) -> StructType:
    return StructType(fields=(*struct.fields[:at], *struct.fields[at + 1 :]))


def _replaced(struct: StructType, at: int, field: StructField) -> StructType:
    return StructType(fields=(*struct.fields[:at], field, *struct.fields[at + 1 :]))


def _check_free(struct: StructType, path: Path, name: str) -> None:
    if not name or "\0" in name:
        raise _refused(path, f"cannot be called {name!r}", "Give it a name")
    twin = next((one for one in struct.names if one.lower() == name.lower()), None)
    if twin is not None:
        raise _refused(
            path, f"cannot be called {name!r}: there is {twin!r}, and Delta tells no names apart by case", "Choose another"
        )


def _check_mapped(field: StructField, path: Path, act: str) -> None:
    if field.field_id is None:
        raise _refused(
            path,
            f"cannot be {act} without column mapping: the data files know it by its name",
            'Set the property "delta.columnMapping.mode" to "name" first',
        )


def _refused(path: Path, what: str, fix: str) -> InvalidChange:
    return InvalidChange(f"column {'.'.join(path)!r} {what}", fix=fix, column=".".join(path))
