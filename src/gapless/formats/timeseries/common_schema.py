"""The schema in which rows of several versions of a table can be read together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from gapless.errors import InvalidOption
from gapless.formats.timeseries.actions import TableMeta
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.schema import resolve_null_type
from gapless.model.types import children, with_children
from gapless.model.widening import why_not_widen


def common_schema(now: TableMeta, written: pa.Schema, ids: ColumnIds, empty: frozenset[str] = frozenset()) -> pa.Schema | str:
    """The table's schema once it has taken segments that were written for `written` (with `ids`); or why it cannot read them.

    It can where each column they hold, by its stored name, is still there, with that type or one it was widened to, and nothing
    that they lack has to be there; columns that are `empty`, by their stored names, hold nothing but nulls or defaults and may be gone.
    Columns whose type was not known take theirs. A table that has no columns (now, or again) takes all of them, if it would find them
    in the files under the names that it gives them.
    """
    if now.schema is None:
        return written if ids == now.ids else "the columns were given other identities than the table without columns knows"
    ours = {ids.stored_name(column.name): column for column in written if not pa.types.is_null(column.type)}
    theirs = {now.ids.stored_name(column.name): column for column in now.schema}
    reasons = [_gone(column, stored, now) for stored, column in ours.items() if stored not in theirs and stored not in empty]
    for stored, column in theirs.items():
        reasons += _differences(column, now, ours.get(stored), ids)
    if reasons:
        return "; ".join(reasons)
    fields = [
        resolve_null_type(column, ours[stored].with_name(column.name))
        if pa.types.is_null(column.type) and stored in ours
        else column
        for stored, column in theirs.items()
    ]
    return pa.schema(fields, metadata=now.schema.metadata)


def _gone(column: pa.Field, stored: str, now: TableMeta) -> str:
    dropped = stored in now.ids.retired.get((), ())
    return f"column {column.name!r} {'was dropped' if dropped else 'is not in the schema that came first'}"


def _differences(column: pa.Field, now: TableMeta, written: pa.Field | None, ids: ColumnIds) -> Iterator[str]:
    """Why what was written of a column cannot be read as what it is now."""
    if written is None:
        if not column.nullable:
            yield f"column {column.name!r} is missing and may not be null"
        return
    if pa.types.is_null(column.type):
        return
    there, here = now.ids.physical(column), ids.physical(written)
    is_key = column.name in now.index.keys
    if there.type != here.type and (is_key or why_not_widen(here.type, there.type)):
        yield f"column {column.name!r} is {written.type} here and {column.type} in the schema that came first"
    elif _may_be_null(here, there):
        yield f"column {column.name!r} may be null here and not in the schema that came first"


def _may_be_null(here: pa.Field, there: pa.Field) -> bool:
    """Whether nulls are allowed where they no longer are, at any depth."""
    if here.nullable and not there.nullable:
        return True
    if pa.types.is_struct(here.type):
        return any(_may_be_null(child, there.type.field(child.name)) for child in here.type)
    return any(_may_be_null(*pair) for pair in zip(children(here.type), children(there.type), strict=True))


def reading_meta(metas: Sequence[TableMeta]) -> TableMeta:
    """Of the metadata of some versions, oldest first: the last that has columns, each in a type that holds all its values exactly.

    That is its own type, unless a restore took the column back to a narrower one. Raises InvalidOption where there is no such type.
    """
    last = next((one for one in reversed(metas) if one.schema is not None), metas[-1])
    for other in metas:
        last = _widened(last, other)
    return last


def _widened(now: TableMeta, then: TableMeta) -> TableMeta:
    """Metadata with each column in a type that also holds what it was, by its identity, under other metadata."""
    if now.schema is None or then.schema is None or now.schema == then.schema:
        return now
    before = {field.name: field for field in then.ids.physical_schema(then.schema)}
    columns = [_holding(now.ids, column, before, (column.name,)) for column in now.schema]
    return replace(now, schema=pa.schema(columns, metadata=now.schema.metadata))


def _holding(ids: ColumnIds, now: pa.Field, before: dict[str, pa.Field], path: ColumnPath) -> pa.Field:
    """A field of a struct in a type that also holds the field of its identity among those from before, where there is one."""
    then = before.get(ids.stored_name(*path))
    return now if then is None else _both(ids, now, then, path)


def _both(ids: ColumnIds, now: pa.Field, then: pa.Field, path: ColumnPath) -> pa.Field:
    nullable = now.nullable or then.nullable
    known = iter(steps(now.type))
    if pa.types.is_struct(now.type) and pa.types.is_struct(then.type):
        fields = {child.name: child for child in then.type}
        type_ = with_children(now.type, lambda child: _holding(ids, child, fields, (*path, child.name)))
    elif steps(now.type) and now.type.id == then.type.id:
        old = children(then.type)
        type_ = with_children(now.type, lambda child: _both(ids, child, next(old), (*path, next(known))))
    else:
        type_ = _wider(now.type, then.type, path)
    return now.with_type(type_).with_nullable(nullable)


def _wider(now: pa.DataType, then: pa.DataType, path: ColumnPath) -> pa.DataType:
    """The one of two types that holds every value of the other."""
    if why_not_widen(then, now) is None:
        return now
    if why_not_widen(now, then) is None:
        return then
    raise InvalidOption(
        f"column {'.'.join(path)!r} is {now} in one of these versions and was {then} in another",
        why="Neither holds every value of the other: the column went another way after a restore",
        fix="Ask for less, with one type of it; or read the two versions whole, with at(version=…)",
        option="from_version",
        value=None,
    )
