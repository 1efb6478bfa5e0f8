"""The table's declared columns in Spark: its DDL types, and columns of files turned into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gapless.errors import CorruptTable, UnsupportedType
from gapless.model.column_ids import AS_NAMED, ColumnIds, Fields
from gapless.model.instant import NS_PER
from gapless.model.stats import Bound
from gapless.model.types import bare_type, is_any_list
from gapless.model.widening import why_not

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


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


_LONG = range(-(2**63), 2**63)


def spark_columns(source: pa.Schema, target: pa.Schema, ids: ColumnIds) -> list[SparkColumn]:
    """The declared columns of `target`, in its order, out of a frame that was read under `file_schema(source)`.

    `source` has the stored names and types of files, `ids` are the table's: a column that the files lack has its default, or is null.
    Raises UnsupportedType, and CorruptTable where types do not fit. Like `gapless.model.fit.to_declared`, but for Spark.
    """
    return [_column(source, field, ids).alias(field.name) for field in target]


def _column(source: pa.Schema, field: pa.Field, ids: ColumnIds) -> SparkColumn:
    from pyspark.sql import functions

    where = source.get_field_index(ids.stored_name(field.name))
    if where < 0:
        return literal(ids.defaults.get((field.name,)), field.type, field.name)
    stored = source.field(where)
    fields = ids.reading(field.name) if ids else AS_NAMED
    return _convert(functions.col(quoted(stored.name)), stored.type, field.type, fields, field.name)


def _convert(column: SparkColumn, source: pa.DataType, target: pa.DataType, fields: Fields, where: str) -> SparkColumn:
    """A value of a file's type as the declared type, at any depth."""
    source = bare_type(source)
    if not fields and file_type(source, where) == spark_type(target, where):
        return column
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct(column, source, target, fields, where)
    if is_any_list(source) and is_any_list(target):
        return _list(column, source, target, fields, where)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _map(column, source, target, fields, where)
    return _leaf(column, source, target, where)


def _struct(column: SparkColumn, source: pa.DataType, target: pa.DataType, fields: Fields, where: str) -> SparkColumn:
    from pyspark.sql import functions

    found = {child.name: child.type for child in source}
    parts = []
    for child in target:
        at, path = (child.name,), f"{where}.{child.name}"
        name = fields.names.get(at, child.name)
        if name in found:
            part = _convert(column.getField(name), found[name], child.type, fields.below(child.name), path)
        else:
            part = literal(fields.fills.get(at), child.type, path)
        parts.append(part.alias(child.name))
    made = functions.struct(*parts)
    if fields.fills:
        # A constant is never null, and Spark's way to Arrow fails on such a field below a struct that may be.
        made = made.cast(spark_type(target, where))
    return functions.when(column.isNotNull(), made)


def _list(column: SparkColumn, source: pa.DataType, target: pa.DataType, fields: Fields, where: str) -> SparkColumn:
    from pyspark.sql import functions

    below, path = fields.below("element"), f"{where}.element"
    return functions.transform(column, lambda one: _convert(one, source.value_type, target.value_type, below, path))


def _map(column: SparkColumn, source: pa.DataType, target: pa.DataType, fields: Fields, where: str) -> SparkColumn:
    from pyspark.sql import functions

    keys = partial(_convert, source=source.key_type, target=target.key_type, fields=fields.below("key"), where=f"{where}.key")
    items = partial(
        _convert, source=source.item_type, target=target.item_type, fields=fields.below("value"), where=f"{where}.value"
    )
    changed = functions.transform_values(column, lambda _, item: items(item))
    return functions.transform_keys(changed, lambda key, _: keys(key))


def _leaf(column: SparkColumn, source: pa.DataType, target: pa.DataType, where: str) -> SparkColumn:
    from pyspark.sql import functions

    reason = why_not(source, target)
    if reason is not None:
        raise CorruptTable(
            f"column {where!r} is {target} in the log and {source} in a segment: {reason}",
            why="Spark cannot look at each value whether it fits all the same",
            fix="Compact the table, which writes its columns as they are declared; or read it with table.scan()",
            path="data",
        )
    if pa.types.is_duration(source) and source.unit != "us":
        column = column * _interval_of(NS_PER[source.unit])
    elif pa.types.is_time32(source):
        # As files hold it, a count of ms.
        column = functions.expr("time'00:00:00'") + column * _interval_of(NS_PER["ms"])
    return column.cast(spark_type(target, where))


def literal(value: Bound | None, type_: pa.DataType, where: str) -> SparkColumn:
    """One value of a declared type, or null, as a column. Raises UnsupportedType."""
    from pyspark.sql import functions

    found = functions.lit(None) if value is None else _value(value, type_)
    return found.cast(spark_type(type_, where))


def _value(value: Any, type_: pa.DataType) -> SparkColumn:
    from pyspark.sql import functions

    if pa.types.is_date(type_):
        return functions.date_from_unix_date(functions.lit(value))
    if pa.types.is_timestamp(type_):
        us = value // NS_PER["us"]
        return functions.timestamp_micros(functions.lit(us)) if type_.tz else functions.expr(f"timestamp_ntz'{_wall_text(us)}'")
    if pa.types.is_duration(type_):
        return _interval_of(value)
    if pa.types.is_time(type_):
        return functions.expr("time'00:00:00'") + _interval_of(value)
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else functions.lit(value)


def number(value: int) -> SparkColumn:
    """An integer as a column, of more than 64 bits as a decimal."""
    from pyspark.sql import functions

    return functions.lit(value if value in _LONG else Decimal(value))


def _wall_text(us: int) -> str:
    """A wall-clock time as Spark reads it, years past 9999 with a sign."""
    text = str(np.datetime64(us, "us"))
    return text if text[0] == "-" or text.index("-") == 4 else f"+{text}"


def _interval_of(ns: int) -> SparkColumn:
    from pyspark.sql import functions

    return functions.lit(timedelta(microseconds=ns // NS_PER["us"]))
