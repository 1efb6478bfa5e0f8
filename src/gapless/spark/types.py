"""What Spark calls the types of columns, as texts of its DDL: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from gapless.errors import UnsupportedType
from gapless.model.types import bare_type, is_any_list

Name = Callable[[pa.DataType, str], str]

_NAMES = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "decimal(20,0)",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary",
    pa.date32(): "date", pa.date64(): "date", pa.time64("us"): "time(6)", pa.duration("us"): "interval day to second",
    pa.null(): "void",
}  # fmt: skip
"""Types that Spark reads from Parquet as they are."""
_TIME, _DURATION = "time(6)", "interval day to second"
_COUNTED = {pa.duration("s"): _DURATION, pa.duration("ms"): _DURATION, pa.time32("s"): _TIME, pa.time32("ms"): _TIME}
"""Types that Spark reads from Parquet as numbers, and what these mean."""


def spark_type(type_: pa.DataType, where: str) -> str:
    """The type under which Spark shows a column's values, each exactly; `where` names the column, for messages.

    Unsigned integers are the next wider signed type, uint64 is `decimal(20,0)`. Raises UnsupportedType where Spark has no such type:
    ns, float16, decimals of more than 38 digits.

    >>> spark_type(pa.timestamp("ms", "Europe/Paris"), "ts")
    'timestamp_ltz'
    """
    found = _COUNTED.get(bare_type(type_))
    return found or _name(type_, where, spark_type)


def file_type(type_: pa.DataType, where: str) -> str:
    """The type that Spark's Parquet reader gives a column of a file, which `spark_column` turns into what it means.

    Raises UnsupportedType as `spark_type` does.
    """
    bare = bare_type(type_)
    if bare in _COUNTED:
        return "bigint" if pa.types.is_duration(bare) else "int"
    return _name(type_, where, file_type)


def ddl(fields: Iterable[tuple[str, str]]) -> str:
    """A schema of (name, type) pairs as DDL; every column may be null."""
    return ", ".join(f"{quoted(name)} {type_}" for name, type_ in fields)


def quoted(name: str) -> str:
    """A column's name as Spark's SQL writes it, whatever characters it has.

    >>> quoted("a.`b`")
    '`a.``b```'
    """
    return f"`{name.replace('`', '``')}`"


def _name(type_: pa.DataType, where: str, name: Name) -> str:
    t, type_ = pa.types, bare_type(type_)
    if type_ in _NAMES:
        return _NAMES[type_]
    if t.is_fixed_size_binary(type_):
        return "binary"
    if t.is_timestamp(type_) and type_.unit != "ns":
        # What plain "timestamp" is, a session says.
        return "timestamp_ltz" if type_.tz else "timestamp_ntz"
    if t.is_decimal(type_) and type_.precision <= 38:
        return f"decimal({type_.precision},{type_.scale})"
    if is_any_list(type_):
        return f"array<{name(type_.value_type, f'{where}.element')}>"
    if t.is_map(type_):
        return f"map<{name(type_.key_type, f'{where}.key')},{name(type_.item_type, f'{where}.value')}>"
    if t.is_struct(type_):
        parts = (f"{quoted(child.name)}:{name(child.type, f'{where}.{child.name}')}" for child in type_)
        return f"struct<{','.join(parts)}>"
    raise UnsupportedType(
        f"column {where!r} has type {type_}, which Spark cannot hold exactly",
        why="Spark counts time in µs, floats in 32 or 64 bits, decimals in at most 38 digits",
        fix="Leave it out with columns=[…], or read it with table.scan()",
        column=where,
        type=str(type_),
    )
