"""Columns of rows as PostgreSQL has them, and their values as its driver takes them. Pure."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from gapless.errors import UnsupportedType

_NAMES = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "real", pa.float64(): "double precision", pa.string(): "text", pa.large_string(): "text",
    pa.binary(): "bytea", pa.large_binary(): "bytea", pa.date32(): "date",
}  # fmt: skip


def postgres_type(type_: pa.DataType, column: str) -> str:
    """The type of a column that holds each value exactly; lists, structs and maps are `jsonb`. Raises UnsupportedType.

    >>> postgres_type(pa.timestamp("us", "UTC"), "ts")
    'timestamptz'
    """
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision},{type_.scale})"
    if pa.types.is_time(type_):
        return "time"
    if pa.types.is_duration(type_):
        return "interval"
    if pa.types.is_nested(type_):
        return "jsonb"
    raise UnsupportedType(
        f"column {column!r} is of {type_}, which has no type in PostgreSQL",
        why="A table is made of columns that hold each value exactly",
        fix="CAST it in the query",
        column=column,
        type=str(type_),
    )


def rows_of(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Values of each row, for the driver. Of an array, a struct or a map its JSON."""
    makers = [_maker(field.type) for field in rows.schema]
    for batch in rows.to_batches():
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield tuple(
                value if make is None or value is None else make(value) for make, value in zip(makers, values, strict=True)
            )


def _maker(type_: pa.DataType) -> Callable[[Any], Any] | None:
    if not pa.types.is_nested(type_):
        return None
    return lambda value: json.dumps(_plain(value, type_), allow_nan=False)


def _plain(value: Any, type_: pa.DataType) -> object:
    """A value as JSON has it: of a map an object, and a text of what is no number, text or truth value; bytes in base64."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {str(key): _plain(item, type_.item_type) for key, item in value}
    if pa.types.is_struct(type_):
        return {child.name: _plain(value[child.name], child.type) for child in type_}
    if pa.types.is_nested(type_):
        return [_plain(one, type_.value_type) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    is_json = isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if is_json else str(value)
