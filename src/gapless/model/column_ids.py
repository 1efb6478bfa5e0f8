"""Column identities (column mapping): names may change, go and come back while files keep the stored names.

A *path* names a column or a nested field by declared names: `("s", "x")`. The values of a list are the step "element", the
keys and values of a map "key" and "value".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from gapless.errors import UnknownColumn, nearest
from gapless.model.stats import Bound
from gapless.model.types import children, is_any_list, with_children

ColumnPath = tuple[str, ...]
_DOTS = "A dot leads into a struct; pass a tuple of names where a name itself holds a dot"
T = TypeVar("T")


def steps(type_: pa.DataType) -> tuple[str, ...]:
    """The last step of the path of each child field of a type, in the order of `children`.

    >>> steps(pa.map_(pa.string(), pa.int8()))
    ('key', 'value')
    """
    if pa.types.is_struct(type_):
        return tuple(child.name for child in type_)
    if pa.types.is_map(type_):
        return ("key", "value")
    return ("element",) if is_any_list(type_) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where the fields of structs take their values from, where not from fields of their own names; paths within one type."""

    names: Mapping[ColumnPath, str] = field(default_factory=dict)
    """The name in the source of a field of the target."""
    fills: Mapping[ColumnPath, Bound] = field(default_factory=dict)
    """The value of a field of the target that the source lacks, where that is not null."""

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return bool(self.names or self.fills)

    def below(self, step: str) -> Fields:
        """The same for the fields below a child."""
        return Fields(names=_below(self.names, step), fills=_below(self.fills, step)) if self else self


AS_NAMED = Fields()
"""Every field takes the values of the field of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIds:
    """The identity of each column of a table and of each field nested in one, as far as its name does not say it.

    A field has a *stored name*, which Parquet files and statistics know it by and which never changes: its first name, unless
    another field beside it had that one before.
    """

    stored: Mapping[ColumnPath, str] = field(default_factory=dict)
    """Stored names that are not the declared ones."""
    former: Mapping[ColumnPath, tuple[str, ...]] = field(default_factory=dict)
    """The names that a field had before, oldest first."""
    defaults: Mapping[ColumnPath, Bound] = field(default_factory=dict)
    """What rows have that were written without the field, where that is not null."""
    retired: Mapping[ColumnPath, frozenset[str]] = field(default_factory=dict)
    """By the path of a struct (`()` is the table): stored names of fields it had, which no new one may take."""

    def __bool__(self) -> bool:
        """Whether it says anything."""
        return bool(self.stored or self.former or self.defaults or self.retired)

    def stored_name(self, *path: str) -> str:
        """What files call the column or nested field at a path, within its parent."""
        return self.stored.get(path, path[-1])

    def named(self, by_stored: Mapping[str, T]) -> dict[str, T]:
        """What is said of columns by their stored names, by their names; nothing of a column that was dropped, whose name is another's."""
        moved = {path[0]: name for path, name in self.stored.items() if len(path) == 1}
        others = moved.keys() | set(moved.values())
        known = {name: value for name, value in by_stored.items() if name not in others}
        return known | {name: by_stored[stored] for name, stored in moved.items() if stored in by_stored}

    def physical(self, column: pa.Field) -> pa.Field:
        """A declared column under its stored name, nested fields too; types stay as they are declared."""
        return self._physical(column, (column.name,)) if self else column

    def _physical(self, declared: pa.Field, path: ColumnPath) -> pa.Field:
        known = iter(steps(declared.type))
        type_ = with_children(declared.type, lambda child: self._physical(child, (*path, next(known))))
        return declared.with_name(self.stored.get(path, declared.name)).with_type(type_)

    def physical_schema(self, schema: pa.Schema) -> pa.Schema:
        """Declared columns under their stored names, nested ones too; with the schema's metadata."""
        return pa.schema([self.physical(column) for column in schema], metadata=schema.metadata) if self else schema

    def reading(self, column: str) -> Fields:
        """How a column's declared type takes its nested fields from a file."""
        return Fields(names=_below(self.stored, column), fills=_below(self.defaults, column))

    def input(self, column: str) -> Fields:
        """How a column's declared type takes its nested fields from an input, which knows declared names."""
        return Fields(fills=_below(self.defaults, column))

    def writing(self, column: str) -> Fields:
        """How the type that files hold takes a column's nested fields from declared values."""
        inverse = {self.stored_path(path)[1:]: path[-1] for path in self.stored if len(path) > 1 and path[0] == column}
        return Fields(names=inverse)

    def stored_path(self, path: ColumnPath) -> ColumnPath:
        """The path with each step's stored name."""
        return tuple(self.stored_name(*path[: depth + 1]) for depth in range(len(path)))

    def was(self, name: str, parent: ColumnPath = ()) -> str | None:
        """What a name that is no field of `parent` stood for, as a clause: fields that were renamed, or dropped; None: never any."""
        now = [path[-1] for path, names in self.former.items() if path[:-1] == parent and name in names]
        if now:
            return f"it is called {' or '.join(map(repr, now))} now"
        return "it was dropped" if name in self.retired.get(parent, ()) else None

    def moved(self, old: ColumnPath, new: ColumnPath) -> ColumnIds:
        """The same for a field whose path has changed, with all that is nested in it."""

        def move(values: Mapping[ColumnPath, T]) -> dict[ColumnPath, T]:
            return {new + path[len(old) :] if path[: len(old)] == old else path: value for path, value in values.items()}

        return ColumnIds(
            stored=move(self.stored), former=move(self.former), defaults=move(self.defaults), retired=move(self.retired)
        )

    def without(self, gone: ColumnPath) -> ColumnIds:
        """The same without a field and all that is nested in it."""

        def keep(values: Mapping[ColumnPath, T]) -> dict[ColumnPath, T]:
            return {path: value for path, value in values.items() if path[: len(gone)] != gone}

        return ColumnIds(
            stored=keep(self.stored), former=keep(self.former), defaults=keep(self.defaults), retired=keep(self.retired)
        )


PLAIN = ColumnIds()
"""Every column is stored under its name."""


def renamed_since(schema: pa.Schema, ids: ColumnIds, now: pa.Schema, now_ids: ColumnIds) -> tuple[pa.Schema, ColumnIds]:
    """Columns of files under the names that they have by now, by their identity, nested fields too; and how files know them.

    What the table does not have any more, or not yet, keeps its name.
    """
    stored: dict[ColumnPath, str] = {}

    def below(type_: pa.DataType, old: ColumnPath, new: ColumnPath, now_type: pa.DataType) -> pa.DataType:
        beside = dict(zip(steps(now_type), (child.type for child in children(now_type)), strict=True))
        named = iter(steps(type_))
        return with_children(type_, lambda child: rename(child, (*old, next(named)), new, beside))

    def rename(field: pa.Field, old: ColumnPath, above: ColumnPath, beside: Mapping[str, pa.DataType]) -> pa.Field:
        kept = ids.stored_name(*old)
        name = next((one for one in beside if now_ids.stored_name(*above, one) == kept), old[-1])
        new = (*above, name)
        if kept != name:
            stored[new] = kept
        type_ = below(field.type, old, new, beside.get(name, pa.null()))
        return field.with_name(field.name if name == old[-1] else name).with_type(type_)

    top = {field.name: field.type for field in now}
    fields = [rename(field, (field.name,), (), top) for field in schema]
    return pa.schema(fields, metadata=schema.metadata), ColumnIds(stored=stored)


def _below(values: Mapping[ColumnPath, T], step: str) -> dict[ColumnPath, T]:
    return {path[1:]: value for path, value in values.items() if path[0] == step and len(path) > 1}


def _root(schema: pa.Schema) -> pa.Field:
    """A schema as one struct, so that a column is a nested field like any other."""
    return pa.field("", pa.struct(list(schema)))


def find_field(schema: pa.Schema, path: ColumnPath, *, nested: bool = False) -> pa.Field:
    """The field at a path; for `()` one whose type is the struct of all columns. Raises UnknownColumn.

    `nested` says that the path was asked for as a part of a longer one.
    """
    found = _root(schema)
    for depth, step in enumerate(path):
        known = steps(found.type)
        if step not in known:
            raise UnknownColumn(
                f"there is no column {'.'.join(path[: depth + 1])!r}",
                why=_DOTS if nested or len(path) > 1 else "",
                fix=nearest(step, known),
                column=".".join(path), columns=known,
            )  # fmt: skip
        found = tuple(children(found.type))[known.index(step)]
    return found


def change_field(schema: pa.Schema, path: ColumnPath, change: Callable[[pa.Field], pa.Field]) -> pa.Schema:
    """The schema with the field at a path changed; for `()` the struct of all columns. The field is there."""
    return pa.schema(list(_changed(_root(schema), path, change).type), metadata=schema.metadata)


def _changed(column: pa.Field, path: ColumnPath, change: Callable[[pa.Field], pa.Field]) -> pa.Field:
    if not path:
        return change(column)
    known = iter(steps(column.type))
    return column.with_type(
        with_children(column.type, lambda child: _changed(child, path[1:], change) if next(known) == path[0] else child)
    )
