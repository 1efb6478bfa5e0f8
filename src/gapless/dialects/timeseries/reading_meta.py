"""Under which columns rows of several versions can be read together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from gapless.dialects.timeseries.actions import TableMeta
from gapless.errors import InvalidOption
from gapless.model.column_ids import ColumnIds, ColumnPath, steps
from gapless.model.types import children, with_children
from gapless.model.widening import why_not_widen


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
