"""The columns of a time-series table as a Delta schema: physical names, field ids, and the types that older files may hold. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.formats.delta.schema.arrow_types import from_arrow, from_arrow_field
from gapless.formats.delta.schema.changes import TYPE_CHANGES, may_widen
from gapless.formats.delta.schema.column_mapping import ID, NAME, max_field_id, needs_mapping
from gapless.formats.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    encode_type,
)
from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.types import with_children
from gapless.publish.source import SourceColumns
from gapless.publish.stored_types import OlderTypes

_COMMENT = b"comment"
"""The one key of a field's metadata that is for other readers; theirs, such as `delta.generationExpression`, would bind them to what is no
concern of ours."""
_NOTHING = StructType(fields=())
_VOID = PrimitiveType("void")


def published_schema(columns: SourceColumns, before: StructType | None, last_id: int, older: OlderTypes | None) -> StructType:
    """The columns; `before` is the schema that was published last, `last_id` the highest field id that was given.

    `older` says what all live files hold, where that was looked at; without it they may hold whatever the table was published with. Raises
    UnsupportedType for a column that Delta does not have, or whose files hold a type that its type widening does not lead on from.
    """
    if columns.schema is None:
        return _NOTHING
    known = before or _NOTHING
    declared = from_arrow(pa.schema([_plain(field) for field in columns.schema]))
    mapped = bool(columns.ids.stored) or any(NAME in field.metadata for field in known) or needs_mapping(declared)
    numbers = iter(range(max(last_id, max_field_id(known)) + 1, 2**31))
    schema = _struct(declared, known, (), columns.ids if mapped else None, numbers)
    return _told_struct(schema, known, (), older)


def changes_types(now: StructType, before: StructType) -> bool:
    """Whether a column, by its physical name, has another type than it had, but for one that type widening leads to."""
    known = {field.physical_name: field for field in before}
    for field in now:
        old = known.get(field.physical_name)
        was = {} if old is None else dict(_leaves(old.type))
        for inner, leaf in _leaves(field.type):
            if inner in was and was[inner] != leaf and not may_widen(was[inner], leaf):
                return True
        for inner, struct in _structs(field.type):
            other = None if old is None else dict(_structs(old.type)).get(inner)
            if other is not None and changes_types(struct, other):
                return True
    return False


def _plain(field: pa.Field) -> pa.Field:
    """The field, and those nested in it, with its comment alone of its metadata."""
    comment = (field.metadata or {}).get(_COMMENT)
    kept = None if comment is None else {_COMMENT: comment}
    return field.with_type(with_children(field.type, _plain)).remove_metadata().with_metadata(kept)


def _struct(now: StructType, was: StructType, path: ColumnPath, ids: ColumnIds | None, numbers: Iterator[int]) -> StructType:
    """The struct under physical names, if `ids` are given, with the field ids that it had."""
    known = {field.physical_name: field for field in was}
    fields = []
    for field in now:
        at = (*path, field.name)
        stored = field.name if ids is None else ids.stored_name(*at)
        old = known.get(stored)
        new = replace(field, type=_type(field.type, None if old is None else old.type, at, ids, numbers))
        if ids is not None:
            number = old.field_id if old is not None and old.field_id is not None else next(numbers)
            new = new.with_metadata(**{ID: number, NAME: stored})
        fields.append(new)
    return StructType(fields=tuple(fields))


def _type(now: DeltaType, was: DeltaType | None, path: ColumnPath, ids: ColumnIds | None, numbers: Iterator[int]) -> DeltaType:
    match now:
        case StructType():
            return _struct(now, was if isinstance(was, StructType) else _NOTHING, path, ids, numbers)
        case ArrayType():
            old = was.element if isinstance(was, ArrayType) else None
            return replace(now, element=_type(now.element, old, (*path, "element"), ids, numbers))
        case MapType():
            key, value = (was.key, was.value) if isinstance(was, MapType) else (None, None)
            return replace(
                now,
                key=_type(now.key, key, (*path, "key"), ids, numbers),
                value=_type(now.value, value, (*path, "value"), ids, numbers),
            )
    return now


# -- delta.typeChanges ---------------------------------------------------------------------------------------------------


def _told_struct(now: StructType, was: StructType, path: ColumnPath, older: OlderTypes | None) -> StructType:
    """The struct, whose fields tell what their files may hold."""
    known = {field.physical_name: field for field in was}
    fields = []
    for field in now:
        old, at = known.get(field.physical_name), (*path, field.name)
        told = [change for inner, leaf in _leaves(field.type) for change in _changes(leaf, old, inner, (*at, *inner), older)]
        new = replace(field, type=_told(field.type, None if old is None else old.type, at, older))
        fields.append(new.with_metadata(**{TYPE_CHANGES: told or None}))
    return StructType(fields=tuple(fields))


def _told(now: DeltaType, was: DeltaType | None, path: ColumnPath, older: OlderTypes | None) -> DeltaType:
    match now:
        case StructType():
            return _told_struct(now, was if isinstance(was, StructType) else _NOTHING, path, older)
        case ArrayType():
            old = was.element if isinstance(was, ArrayType) else None
            return replace(now, element=_told(now.element, old, (*path, "element"), older))
        case MapType():
            key, value = (was.key, was.value) if isinstance(was, MapType) else (None, None)
            return replace(
                now, key=_told(now.key, key, (*path, "key"), older), value=_told(now.value, value, (*path, "value"), older)
            )
    return now


def _changes(
    now: PrimitiveType, old: StructField | None, inner: ColumnPath, path: ColumnPath, older: OlderTypes | None
) -> list[dict[str, Any]]:
    """The types that files may hold of a leaf, each as a change to the next or to that of now. Raises UnsupportedType."""
    place = {"fieldPath": ".".join(inner)} if inner else {}
    known = () if old is None else old.metadata.get(TYPE_CHANGES, ())
    told = [change for change in known if change.get("fieldPath", "") == ".".join(inner)]
    was = None if old is None else dict(_leaves(old.type)).get(inner)
    before = [] if was in (None, now, _VOID) else [was]
    looked = ((_delta_type(type_, path), paths) for type_, paths in (older or {}).get(path, {}).items())
    found = {type_: paths for type_, paths in looked if type_ != now}
    for type_, paths in found.items():
        if not may_widen(type_, now):
            raise _no_such_step(path, type_, now, f"{paths[0]} holds {type_.name}")
    if older is None and before and not may_widen(before[0], now) and not may_widen(now, before[0]):
        raise _no_such_step(path, before[0], now, f"Its files hold {before[0].name}")
    if before and may_widen(before[0], now) and not found:
        return [*told, {"fromType": encode_type(before[0]), "toType": encode_type(now), **place}]
    if not before and not found:
        return told
    # A restore went back to an earlier type, or files are older than what is published.
    each = [PrimitiveType(str(change["fromType"])) for change in told]
    held = dict.fromkeys(type_ for type_ in (*each, *before, *found) if may_widen(type_, now))
    return [{"fromType": encode_type(type_), "toType": encode_type(now), **place} for type_ in held]


def _no_such_step(path: ColumnPath, held: PrimitiveType, now: PrimitiveType, why: str) -> UnsupportedType:
    name = ".".join(path)
    return UnsupportedType(
        f"column {name!r} cannot become {now.name} where it is published as Delta",
        why=f"{why}, and Delta's type widening has no step from {held.name} to {now.name}",
        fix="Leave the type as it is, write the files that hold the other type anew"
        " (table.set_properties({'publish': ['delta']}, rewrite=True), or gapless publish --rewrite), or publish it no more",
        column=name,
        type=now.name,
    )


def _delta_type(type_: pa.DataType, path: ColumnPath) -> PrimitiveType:
    found = from_arrow_field(pa.field(path[-1], type_)).type
    assert isinstance(found, PrimitiveType)  # of a leaf
    return found


def _leaves(type_: DeltaType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, PrimitiveType]]:
    """The primitive types of a field, through lists and maps but not structs, whose fields tell for themselves."""
    match type_:
        case PrimitiveType():
            yield path, type_
        case ArrayType():
            yield from _leaves(type_.element, (*path, "element"))
        case MapType():
            yield from _leaves(type_.key, (*path, "key"))
            yield from _leaves(type_.value, (*path, "value"))


def _structs(type_: DeltaType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, StructType]]:
    """The nearest structs of a field, through lists and maps."""
    match type_:
        case StructType():
            yield path, type_
        case ArrayType():
            yield from _structs(type_.element, (*path, "element"))
        case MapType():
            yield from _structs(type_.key, (*path, "key"))
            yield from _structs(type_.value, (*path, "value"))
