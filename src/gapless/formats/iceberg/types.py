"""Iceberg's primitive types: which one an Arrow type is, which promotions there are. Pure (the table spec, "Primitive Types")."""

from __future__ import annotations

import re

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.model.types import bare_type

PrimitiveType = str
"""As the table's metadata spells it: `long`, `decimal(9, 2)`, `fixed[16]`, `timestamptz`."""

_PLAIN: dict[pa.DataType, PrimitiveType] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.string(): "string",
    pa.binary(): "binary",
}
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_MOST_DIGITS = 38
_PROMOTIONS = {("int", "long"), ("float", "double")}


def primitive_type(type_: pa.DataType, column: str) -> PrimitiveType:
    """The type of a column without children. Raises UnsupportedType for one that version 2 does not have, or that engines read wrongly."""
    bare = bare_type(type_)
    if bare in _PLAIN:
        return _PLAIN[bare]
    if pa.types.is_timestamp(bare) and bare.unit != "ns":
        return "timestamp" if bare.tz is None else "timestamptz"
    if pa.types.is_decimal(bare) and bare.precision <= _MOST_DIGITS:
        return f"decimal({bare.precision}, {bare.scale})"
    if pa.types.is_fixed_size_binary(bare):
        return f"fixed[{bare.byte_width}]"
    why, fix = _refusal(bare)
    raise UnsupportedType(
        f"column {column!r} of type {type_} cannot be published as Iceberg", why=why, fix=fix, column=column, type=str(type_)
    )


def _refusal(type_: pa.DataType) -> tuple[str, str]:
    """Why a type cannot be published, and what to do."""
    if pa.types.is_timestamp(type_):
        return "Version 2 of Iceberg has microseconds alone", "Keep it as timestamp[us]"
    if pa.types.is_time(type_):
        return "Spark reads no table with times of day, and others take milliseconds for microseconds", "Keep it as int64"
    if pa.types.is_unsigned_integer(type_):
        return (
            "Iceberg has no unsigned types, and Spark reads no file that holds such values",
            "Keep it as a wider type: int16, int32 or int64",
        )
    if type_ == pa.float16():
        return "Iceberg has no such type", "Cast it to float32"
    if pa.types.is_decimal(type_):
        return f"Iceberg has at most {_MOST_DIGITS} digits", f"Cast it to decimal128({_MOST_DIGITS}, {type_.scale})"
    return "Version 2 of Iceberg has no such type", "Cast it to one that it has, such as int64, or leave the column out"


def may_promote(old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether readers take values of files that hold `old` for a column that is `new` by now.

    >>> may_promote("int", "long"), may_promote("int", "double")
    (True, False)
    """
    if old == new or (old, new) in _PROMOTIONS:
        return True
    was, now = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    return was is not None and now is not None and was[2] == now[2] and int(was[1]) <= int(now[1])


def takes(held: pa.DataType, type_: PrimitiveType) -> bool:
    """Whether readers take the values that a file holds for those of a column. Milliseconds they take for microseconds, silently."""
    if pa.types.is_timestamp(held) and held.unit != "us":
        return False
    try:
        return may_promote(primitive_type(held, ""), type_)
    except UnsupportedType:
        return False


def decimal_scale(type_: PrimitiveType) -> int | None:
    """The scale of a decimal; None for another type."""
    match = _DECIMAL.fullmatch(type_)
    return None if match is None else int(match[2])
