"""Schema evolution: add, rename, drop, widen and reorder columns, with defaults of exactly their types, as pure steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NoReturn

import numpy as np
import pyarrow as pa

from gapless.errors import InvalidChange, InvalidOption, UnknownColumn, nearest
from gapless.model.column_ids import ColumnIds, ColumnPath, change_field, find_field, steps
from gapless.model.convert import Misfit, convert
from gapless.model.stats import Bound, stats_value
from gapless.model.types import children, declared_field, with_children
from gapless.model.widening import why_not_widen, wider_types


def parse_default(value: object, type_: pa.DataType, name: str) -> Bound:
    """A default as the log keeps it; `type_` is the column's declared type, `name` its own, for messages.

    Takes what `pyarrow.array` does. Nothing is rounded, but that a Python float means the nearest value of a narrower float.
    Raises InvalidOption for a value that is none of the type, and for a nested column, which has no default but null.
    """
    if any(children(type_)) or pa.types.is_null(type_):
        raise _refused(value, type_, name, "A default is a single value, and this type has parts, or is not known yet")
    try:
        return stats_value(_array(value, type_)[0], type_)
    except (Misfit, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _refused(value, type_, name, str(error)) from error


def _array(value: object, type_: pa.DataType) -> pa.Array:
    if isinstance(value, np.number | np.bool_):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and not pa.types.is_temporal(type_):
        if pa.types.is_integer(type_):
            return pa.array([value], type_)
        value = Decimal(value)
    if isinstance(value, Decimal) and pa.types.is_floating(type_):
        found = pa.array([float(value)], type_)
        if found[0].as_py() != value:
            raise ValueError(f"{type_} does not hold it exactly")
        return found
    if isinstance(value, float) and pa.types.is_floating(type_):
        found = pa.array([value], type_)
        if math.isinf(found[0].as_py()) and not math.isinf(value):
            raise ValueError(f"{type_} does not reach so far")
        return found
    if isinstance(value, bytes):
        return pa.array([value], type_)
    return convert(pa.array([value]), type_)


def _refused(value: object, type_: pa.DataType, name: str, why: str) -> InvalidOption:
    shown = value.as_py() if isinstance(value, pa.Scalar) else value
    return InvalidOption(
        f"{shown!r} is no default of column {name!r}, which is {type_}",
        why=why,
        fix=f"Pass one value that {type_} holds exactly, or leave the default out: older rows are then null",
        option="default", value=value,
    )  # fmt: skip


COMMENT = b"comment"
"""The key of a field's metadata under which its comment lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A table's columns at one version."""

    schema: pa.Schema
    """Declared names and types."""
    ids: ColumnIds
    keys: tuple[str, ...]
    """The index and the entity columns, which stay what they are."""

    def same_as(self, other: Columns) -> bool:
        """Whether nothing differs, metadata and comments among it."""
        return self.ids == other.ids and bool(self.schema.equals(other.schema, check_metadata=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column, or a field nested in one, that is to be added; it may always be null."""

    path: ColumnPath
    type: pa.DataType
    default: object = None
    """What rows have that were or will be written without it: a single value, exactly one of `type`."""
    after: str | None = None
    """The name, beside it, that it follows; None puts it last."""
    comment: str | None = None


def parse_path(name: object, schema: pa.Schema) -> ColumnPath:
    """The path that a caller means: a sequence as it is, a text as a column of that very name, else cut at its dots.

    Raises InvalidOption for what names nothing.
    """
    if isinstance(name, str):
        path: tuple[object, ...] = (name,) if name in schema.names else tuple(name.split("."))
    else:
        path = tuple(name) if isinstance(name, Sequence) else ()
    if not path or not all(isinstance(step, str) and step for step in path):
        raise InvalidOption(
            f"{name!r} names no column",
            fix="Pass a name, a dotted path such as 'address.city', or a tuple where names hold dots",
            option="name", value=name,
        )  # fmt: skip
    return tuple(map(str, path))


def parse_type(given: object) -> pa.DataType:
    """An Arrow type, or its short name such as "int64"; raises InvalidOption."""
    try:
        return given if isinstance(given, pa.DataType) else pa.type_for_alias(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidOption(
            f"{given!r} is no Arrow type",
            fix='Pass a pyarrow type or its short name: pa.timestamp("us", "UTC"), "int32", "double", "string"',
            option="type", value=given,
        ) from error  # fmt: skip


def parse_names(names: object) -> tuple[str, ...]:
    """Different names of columns, in an order; raises InvalidOption for anything else."""
    given = tuple(names) if isinstance(names, Sequence) else ()
    whole = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(name, str) for name in given)
    if not whole or len(set(given)) < len(given):
        fix = "Name each column once, in a list"
        raise InvalidOption(f"{names!r} is no list of different names", fix=fix, option="names", value=names)
    return given


def parse_metadata(metadata: object) -> dict[str, str | None]:
    """Keys of a schema's metadata with their texts; raises InvalidOption for what is no mapping."""
    if not isinstance(metadata, Mapping):
        fix = 'Pass a mapping, such as {"owner": "desk 7"}'
        raise InvalidOption(f"{metadata!r} is no metadata", fix=fix, option="metadata", value=metadata)
    return dict(metadata)


def add_column(columns: Columns, new: NewColumn) -> Columns:
    """Add a column, or a field to a struct. Raises InvalidChange, UnknownColumn, UnsupportedType, InvalidOption."""
    *parent, name = new.path
    beside = _fields_of(columns, tuple(parent))
    if name in [field.name for field in beside]:
        _refuse(new.path, "exists already", "Choose another name, or drop or rename the one that is there")
    _check_name(new.path)
    metadata = _merged(None, {COMMENT: new.comment})
    field = declared_field(pa.field(name, new.type, metadata=metadata), ".".join(new.path) if parent else None)
    at = len(beside) if new.after is None else 1 + _place(beside, new.after)
    default = None if new.default is None else parse_default(new.default, field.type, ".".join(new.path))
    schema = _with_fields(columns.schema, tuple(parent), [*beside[:at], field, *beside[at:]])
    return replace(columns, schema=schema, ids=_born(columns.ids, new.path, beside, default))


def _born(ids: ColumnIds, path: ColumnPath, beside: Sequence[pa.Field], default: object) -> ColumnIds:
    """The identities with a new field, under a stored name that no other field of its parent has or had."""
    parent, name = path[:-1], path[-1]
    known = {ids.stored_name(*parent, field.name) for field in beside} | ids.retired.get(parent, frozenset())
    # Readers of other formats tell no names apart by case: they would find another field's values in older files.
    taken = {one.lower() for one in known}
    stored, count = name, 1
    while stored.lower() in taken:
        count += 1
        stored = f"{name}~{count}"
    if stored != name:
        ids = replace(ids, stored={**ids.stored, path: stored})
    return ids if default is None else replace(ids, defaults={**ids.defaults, path: default})  # type: ignore[dict-item]


def rename_column(columns: Columns, path: ColumnPath, new: str) -> Columns:
    """Give a column or nested field another name. Raises InvalidChange, UnknownColumn."""
    field, target = _changeable(columns, path, "renamed"), (*path[:-1], new)
    if new == path[-1]:
        return columns
    beside = _fields_of(columns, path[:-1])
    if new in [other.name for other in beside]:
        _refuse(target, "exists already", "Choose another name, or drop or rename the one that is there first")
    _check_name(target)
    fields = [field.with_name(new) if other.name == path[-1] else other for other in beside]
    return replace(columns, schema=_with_fields(columns.schema, path[:-1], fields), ids=_renamed(columns.ids, path, target))


def _renamed(ids: ColumnIds, path: ColumnPath, target: ColumnPath) -> ColumnIds:
    name, names = ids.stored_name(*path), (*ids.former.get(path, ()), path[-1])
    moved = ids.moved(path, target)
    stored = {known: said for known, said in moved.stored.items() if known != target}
    former = {**moved.former, target: tuple(one for one in dict.fromkeys(names) if one != target[-1])}
    return replace(moved, stored=stored if name == target[-1] else {**stored, target: name}, former=former)


def drop_column(columns: Columns, path: ColumnPath) -> Columns:
    """Take a column or nested field away; its stored name is never used again. Raises InvalidChange, UnknownColumn."""
    _changeable(columns, path, "dropped")
    parent, ids = path[:-1], columns.ids
    left = [field for field in _fields_of(columns, parent) if field.name != path[-1]]
    if not left:
        _refuse(path, "cannot be dropped: it is the last field of its struct", f"Drop {'.'.join(parent)!r} as a whole")
    retired = {**ids.retired, parent: ids.retired.get(parent, frozenset()) | {ids.stored_name(*path)}}
    ids = replace(ids, retired=retired).without(path)
    return replace(columns, schema=_with_fields(columns.schema, parent, left), ids=ids)


def widen_column(columns: Columns, path: ColumnPath, type_: pa.DataType) -> Columns:
    """Give a column or nested field a type that holds every value of its own, exactly.

    A column whose type is not known yet takes any. Raises InvalidChange, UnknownColumn, UnsupportedType.
    """
    field = _changeable(columns, path, "widened")
    wanted = declared_field(pa.field(field.name, type_), ".".join(path)).type
    reason = None if pa.types.is_null(field.type) else _why_not(field.type, wanted)
    if reason:
        allowed = wider_types(field.type)
        what = f"cannot be widened from {field.type} to {wanted}: {reason}"
        fix = (
            f"It may become {' or '.join(allowed)}"
            if allowed
            else "No other type holds every value of it: add a column instead"
        )
        _refuse(path, what, fix, why="Every value that it holds or may hold has to stay exactly what it is")
    made = field.with_type(wanted if pa.types.is_null(field.type) else _leaves(field.type, wanted))
    return replace(columns, schema=change_field(columns.schema, path, lambda _: made))


def _why_not(source: pa.DataType, target: pa.DataType) -> str | None:
    return why_not_widen(source, target) if _alike(source, target) else "it would have other fields"


def _alike(source: pa.DataType, target: pa.DataType) -> bool:
    pairs = zip(children(source), children(target), strict=False)
    return steps(source) == steps(target) and all(_alike(ours.type, theirs.type) for ours, theirs in pairs)


def _leaves(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The target type, whose fields keep the names, nullability and metadata that they have in the source."""
    known = iter(tuple(children(source)))

    def keep(child: pa.Field) -> pa.Field:
        old = next(known)
        return old.with_type(_leaves(old.type, child.type))

    return with_children(target, keep)


def reorder_columns(columns: Columns, names: Sequence[str], parent: ColumnPath = ()) -> Columns:
    """Put these columns (or fields of `parent`) first, in this order; the others follow as they stood. Raises UnknownColumn."""
    beside = _fields_of(columns, parent)
    first = [beside[_place(beside, name)] for name in names]
    others = [field for field in beside if field.name not in set(names)]
    return replace(columns, schema=_with_fields(columns.schema, parent, [*first, *others]))


def comment_column(columns: Columns, path: ColumnPath, comment: str | None) -> Columns:
    """Set what a column or nested field is said to be, under "comment" in its metadata; None takes that away."""
    find_field(columns.schema, path)

    def change(field: pa.Field) -> pa.Field:
        return field.with_metadata(_merged(field.metadata, {COMMENT: comment}))

    return replace(columns, schema=change_field(columns.schema, path, change))


def set_metadata(columns: Columns, metadata: Mapping[str, str | None]) -> Columns:
    """Set keys of the schema's metadata; None takes a key away. Raises InvalidOption for a value that is no text."""
    given = {_encoded(key): value for key, value in metadata.items()}
    return replace(columns, schema=columns.schema.with_metadata(_merged(columns.schema.metadata, given)))


def _merged(old: Mapping[bytes, bytes] | None, new: Mapping[bytes, str | None]) -> dict[bytes, bytes] | None:
    kept = {key: value for key, value in (old or {}).items() if key not in new}
    return kept | {key: _encoded(value) for key, value in new.items() if value is not None} or None


def _encoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise InvalidOption(
            f"{text!r} is no text", fix="Comments and metadata are texts: pass a str", option="metadata", value=text
        )
    return text.encode()


# -- paths -------------------------------------------------------------------------------------------------------------


def _changeable(columns: Columns, path: ColumnPath, done: str) -> pa.Field:
    """The field at a path, which may be changed so; raises UnknownColumn, InvalidChange."""
    field = find_field(columns.schema, path)
    if path[0] in columns.keys:
        _refuse(
            path,
            f"cannot be {done}: it is the index or an entity column",
            "Make a new table with the columns you want, and append this one's rows to it",
            why="Coverage, bounds and the order of every segment are counted in it",
        )
    _check_parents(columns.schema, path, done)
    is_field = pa.types.is_struct(find_field(columns.schema, path[:-1]).type)
    if done != "widened" and not is_field:
        _refuse(path, f"cannot be {done}: it is no field but the values of {'.'.join(path[:-1])!r}", "Name a field of a struct")
    return field


def _check_parents(schema: pa.Schema, path: ColumnPath, done: str) -> None:
    """Raise InvalidChange for what lies in the keys of a map."""
    for depth in range(1, len(path)):
        if path[depth] == "key" and pa.types.is_map(find_field(schema, path[:depth]).type):
            _refuse(
                path,
                f"cannot be {done}: it is in the keys of a map",
                "Leave it, or make a new column",
                why="A key is what finds its value",
            )


def _fields_of(columns: Columns, parent: ColumnPath) -> list[pa.Field]:
    """The fields of the struct at a path (`()`: the columns). Raises UnknownColumn, InvalidChange."""
    field = find_field(columns.schema, parent, nested=True)
    if not pa.types.is_struct(field.type):
        inner = steps(field.type)
        fix = f"Name the struct in it: {'.'.join((*parent, inner[-1]))}" if inner else "Name a struct"
        _refuse(parent, f"is {field.type} and has no fields of its own", fix)
    if parent:
        _check_parents(columns.schema, (*parent, ""), "changed")
    return list(field.type)


def _place(beside: Sequence[pa.Field], name: str) -> int:
    names = tuple(field.name for field in beside)
    if name not in names:
        raise UnknownColumn(f"there is no column {name!r}", fix=nearest(str(name), names), column=name, columns=names)
    return names.index(name)


def _with_fields(schema: pa.Schema, parent: ColumnPath, fields: Sequence[pa.Field]) -> pa.Schema:
    return change_field(schema, parent, lambda field: field.with_type(pa.struct(list(fields))))


def _check_name(path: ColumnPath) -> None:
    name: object = path[-1]
    if not isinstance(name, str) or name == "" or "\0" in name:
        _refuse(path, "is no name: a name is a text, not empty and without a NUL character", "Choose another name")


def _refuse(path: ColumnPath, what: str, fix: str, why: str = "") -> NoReturn:
    name = ".".join(map(str, path))
    raise InvalidChange(f"column {name!r} {what}", why=why, fix=fix, column=name)
