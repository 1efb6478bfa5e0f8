"""The schema under which rows can be read that were written for another one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from gapless.dialects.timeseries.actions import TableMeta
from gapless.model.column_ids import ColumnIds
from gapless.model.schema import settle
from gapless.model.types import children
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
        settle(column, ours[stored].with_name(column.name)) if pa.types.is_null(column.type) and stored in ours else column
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
