"""What the paths of a filter name in the columns of a table: a filter that names none is refused before anything is read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from gapless.documents.filters.tree import (
    All,
    At,
    Condition,
    Contains,
    Each,
    ElementMatches,
    Neither,
    Not,
    Path,
    Some,
    Test,
)
from gapless.documents.rows.values import is_variant
from gapless.errors import UnknownColumn, UnsupportedType, nearest
from gapless.model.types import children, is_any_list


def columns_named(condition: Condition, schema: pa.Schema) -> tuple[str, ...]:
    """The top-level columns that a condition may read, in the schema's order."""
    if not _is_of_paths(condition):
        return tuple(schema.names)
    named = {path[0] for path, _ in _tests(condition)}
    return tuple(name for name in schema.names if name in named)


def _is_of_paths(condition: Condition) -> bool:
    match condition:
        case All(conditions) | Some(conditions) | Neither(conditions):
            return all(map(_is_of_paths, conditions))
    return isinstance(condition, At)


def check_paths(condition: Condition, schema: pa.Schema) -> None:
    """Raise UnknownColumn for a path that no row can have, UnsupportedType for one into what documents cannot hold."""
    _check(condition, list(schema), ())


def _tests(condition: Condition) -> Iterator[tuple[Path, Test]]:
    match condition:
        case All(conditions) | Some(conditions) | Neither(conditions):
            for one in conditions:
                yield from _tests(one)
        case At(path, test):
            yield path, test


def _check(condition: Condition, fields: Sequence[pa.Field], above: Path) -> None:
    for path, test in _tests(condition):
        for found in _named(path, fields, above):
            _check_held(found, (*above, *path))
            for inner in _of_elements(test):
                _check(inner, _fields_of_elements(found), (*above, *path))


def _of_elements(test: Test) -> Iterator[Condition]:
    """The filters of documents in an array that a test has; those in arrays of it are not followed."""
    match test:
        case ElementMatches(condition):
            yield condition
        case Not(inner):
            yield from _of_elements(inner)
        case Each(tests) | Contains(tests):
            for one in tests:
                yield from _of_elements(one)


def _fields_of_elements(field: pa.Field | None) -> Sequence[pa.Field]:
    if field is None or is_variant(field) or not is_any_list(field.type):
        return [ANYTHING]
    element = field.type.value_field
    # An array in an array is looked at as if its places were fields.
    return list(element.type) if pa.types.is_struct(element.type) and not is_variant(element) else [ANYTHING]


ANYTHING = pa.field("", pa.null())
"""Stands among fields where each name may be one."""


def _named(path: Path, fields: Sequence[pa.Field], above: Path) -> list[pa.Field | None]:
    """The fields that a path may name, None for a place of no declared type. Raises UnknownColumn where there is none."""
    if ANYTHING in fields:
        return [None]
    known = {field.name: field for field in fields}
    if path[0] not in known:
        raise _unknown(path, 1, above, list(known))
    return _below(known[path[0]], path, 1, above)


def _below(field: pa.Field, path: Path, depth: int, above: Path) -> list[pa.Field | None]:
    if depth == len(path):
        return [field]
    name, type_ = path[depth], field.type
    if is_variant(field):
        return [None]
    if pa.types.is_map(type_):
        _check_held(field, (*above, *path[:depth]))
        return _below(type_.item_field, path, depth + 1, above)
    if is_any_list(type_):
        element, found = type_.value_field, list[pa.Field | None]()
        if name.isdecimal():
            found += _below(element, path, depth + 1, above)
        holds_fields = pa.types.is_struct(element.type) or pa.types.is_map(element.type) or is_variant(element)
        if holds_fields and (not found or _has(element, name)):
            found += _below(element, path, depth, above)
        if found:
            return found
    inside = list(type_) if pa.types.is_struct(type_) else []
    found_field = next((one for one in inside if one.name == name), None)
    if found_field is None:
        raise _unknown(path, depth + 1, above, [one.name for one in inside])
    return _below(found_field, path, depth + 1, above)


def _has(field: pa.Field, name: str) -> bool:
    return not pa.types.is_struct(field.type) or is_variant(field) or field.type.get_field_index(name) >= 0


def _check_held(field: pa.Field | None, path: Path) -> None:
    if field is None or is_variant(field):
        return
    if pa.types.is_map(field.type) and not pa.types.is_string(field.type.key_type):
        raise UnsupportedType(
            f"column {'.'.join(path)!r} of type {field.type} cannot be looked at by a filter",
            why="A map is a document here, whose names are texts",
            fix="Filter by SQL: table.scan(where=…)",
            column=".".join(path),
            type=str(field.type),
        )
    for child in children(field.type):
        _check_held(child, path)


def _unknown(path: Path, depth: int, above: Path, names: list[str]) -> UnknownColumn:
    named = ".".join((*above, *path[:depth]))
    return UnknownColumn(
        f"there is no column {named!r}",
        why="Rows of a table all have its columns: the filter would find none, or with $ne all",
        fix=nearest(path[depth - 1], names) if names else "Leave it out",
        column=named,
        columns=tuple(names),
    )
