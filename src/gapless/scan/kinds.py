"""Which Arrow types a filter can compare, and the type of an operand."""

from __future__ import annotations

from typing import Any

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


_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_DECIMALS = (pa.decimal32(1), pa.decimal64(1), pa.decimal128(1), pa.decimal256(1))
_EXAMPLES: dict[Kind, tuple[pa.DataType, ...]] = {
    "null": (pa.null(),),
    "bool": (pa.bool_(),),
    "number": (*_WHOLE, pa.float16(), pa.float32(), pa.float64(), *_DECIMALS),
    "text": (pa.string(), pa.large_string()),
    "bytes": (pa.binary(), pa.large_binary(), pa.binary(1)),
    "date": (pa.date32(), pa.date64()),
    "time": (pa.time32("s"), pa.time64("us")),
    "duration": (pa.duration("s"),),
}
_KINDS: dict[int, Kind] = {type_.id: kind for kind, types in _EXAMPLES.items() for type_ in types}


def kind_of(type_: pa.DataType) -> Kind | None:
    """The kind of a type's values; None where they have no order (nested types, extensions)."""
    plain = plain_type(type_)
    if pa.types.is_timestamp(plain):
        return "timestamp" if plain.tz is None else "timestamptz"
    return _KINDS.get(plain.id)


def column_type(column: Column, schema: pa.Schema) -> pa.DataType:
    """The type of a column or struct field in `schema`; raises UnknownColumn."""
    holder: Any = schema
    found: pa.DataType = None
    for depth, name in enumerate(column.path):
        at = -1 if holder is None else holder.get_field_index(name)
        if at < 0:
            raise UnknownColumn(
                f"there is no column {'.'.join(column.path[: depth + 1])!r}",
                fix=nearest(name, [] if holder is None else [field.name for field in holder]),
                column=".".join(column.path[: depth + 1]), columns=tuple(schema.names),
            )  # fmt: skip
        found = holder.field(at).type
        holder = found if pa.types.is_struct(found) else None
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
