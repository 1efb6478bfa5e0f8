"""Which Arrow types a filter can compare, and the type of an operand."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import UnknownColumn, nearest
from gapless.scan.predicate import Call, Column, Kind, Operand


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type that compute kernels work on: dictionaries by their values, views as large, half as single floats."""
    if pa.types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_binary_view(type_):
        return pa.large_binary()
    return pa.float32() if pa.types.is_float16(type_) else type_


def kind_of(type_: pa.DataType) -> Kind | None:
    """The kind of a type's values; None where they have no order (nested types, extensions)."""
    plain = plain_type(type_)
    if pa.types.is_timestamp(plain):
        return "timestamp" if plain.tz is None else "timestamptz"
    checks: tuple[tuple[Kind, bool], ...] = (
        ("null", pa.types.is_null(plain)),
        ("bool", pa.types.is_boolean(plain)),
        ("number", pa.types.is_integer(plain) or pa.types.is_floating(plain) or pa.types.is_decimal(plain)),
        ("text", pa.types.is_string(plain) or pa.types.is_large_string(plain)),
        ("bytes", pa.types.is_binary(plain) or pa.types.is_large_binary(plain) or pa.types.is_fixed_size_binary(plain)),
        ("date", pa.types.is_date(plain)),
        ("time", pa.types.is_time(plain)),
        ("duration", pa.types.is_duration(plain)),
    )
    return next((kind for kind, holds in checks if holds), None)


def column_type(column: Column, schema: pa.Schema) -> pa.DataType:
    """The type of a column or struct field in `schema`; raises UnknownColumn."""
    fields: dict[str, pa.DataType] = {f.name: f.type for f in schema}
    found: pa.DataType = None
    for depth, name in enumerate(column.path):
        if name not in fields:
            raise UnknownColumn(
                f"there is no column {'.'.join(column.path[: depth + 1])!r}",
                fix=nearest(name, fields),
                column=".".join(column.path[: depth + 1]), columns=tuple(schema.names),
            )  # fmt: skip
        found = fields[name]
        fields = {f.name: f.type for f in found} if pa.types.is_struct(found) else {}
    return found


def widened(type_: pa.DataType) -> pa.DataType:
    """The type that holds the absolute value of every number of `type_`."""
    if pa.types.is_signed_integer(type_):
        return pa.decimal128(19, 0) if type_.bit_width == 64 else pa.int64()
    return type_


def type_of(operand: Column | Call, schema: pa.Schema) -> pa.DataType:
    """The Arrow type of an operand's values (of a column: as the schema declares it); raises UnknownColumn."""
    if isinstance(operand, Column):
        return column_type(operand, schema)
    first = _typed(operand.args[0], schema)
    match operand.name:
        case "abs":
            return widened(plain_type(first))
        case "length":
            return pa.int64()
        case _:
            return plain_type(first)


def _typed(operand: Operand, schema: pa.Schema) -> pa.DataType:
    if not isinstance(operand, Column | Call):
        raise TypeError("the first argument of a function is a column or a function")
    return type_of(operand, schema)
