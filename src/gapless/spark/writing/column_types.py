"""Which types of Spark's columns a table keeps: what Arrow has no type for, or would make something else of, is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.errors import UnsupportedType

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_KEPT = frozenset(
    {
        "BinaryType", "BooleanType", "ByteType", "DateType", "DayTimeIntervalType", "DecimalType", "DoubleType", "FloatType",
        "IntegerType", "LongType", "ShortType", "TimeType", "TimestampNTZType", "TimestampType",
    }
)  # fmt: skip
_BINARY_ORDER = "UTF8_BINARY"
_ALONE = "Arrow has no such type, and a table would hold it as one of other meaning"


def check_column_types(schema: StructType) -> None:
    """Raise UnsupportedType where a column of a DataFrame, or a part of one at any depth, has a type that no table keeps.

    Kept are numbers, texts in Spark's default collation, bytes, booleans, dates, timestamps with and without a zone, times of day,
    intervals of days and seconds, and lists, maps and structs of these; `void` where it may be null. Not kept: VARIANT, GEOMETRY and
    GEOGRAPHY, collated texts, intervals of months and calendar intervals, `char` and `varchar` that kept their length in the schema, types
    of users, whatever comes new.
    """
    for field in schema.fields:
        _check(field.dataType, field.name, field.name, nullable=field.nullable)


def _check(type_: DataType, path: str, column: str, *, nullable: bool) -> None:
    name = type(type_).__name__
    if name == "StructType":
        for field in type_.fields:  # type: ignore[attr-defined]  # told apart by name, without Spark
            _check(field.dataType, f"{path}.{field.name}", column, nullable=field.nullable)
    elif name == "ArrayType":
        _check(type_.elementType, f"{path}.element", column, nullable=type_.containsNull)  # type: ignore[attr-defined]
    elif name == "MapType":
        _check(type_.keyType, f"{path}.key", column, nullable=False)  # type: ignore[attr-defined]
        _check(type_.valueType, f"{path}.value", column, nullable=type_.valueContainsNull)  # type: ignore[attr-defined]
    elif not _is_kept(type_, name, nullable=nullable):
        raise _unsupported(type_, name, path, column)


def _is_kept(type_: DataType, name: str, *, nullable: bool) -> bool:
    if name == "StringType":
        return getattr(type_, "collation", _BINARY_ORDER) == _BINARY_ORDER
    return nullable if name == "NullType" else name in _KEPT


def _unsupported(type_: DataType, name: str, path: str, column: str) -> UnsupportedType:
    why, fix = _ADVICE.get(name, (_ALONE, "Cast it to a type that tables have, or leave the column out"))
    if hasattr(type_, "sqlType"):
        why, fix = _OF_USERS
    shown = type_.simpleString()
    return UnsupportedType(
        f"column {path!r} of the DataFrame has type {shown if shown != 'udt' else name}, which no table keeps",
        why=why,
        fix=fix.format(x=f"`{column.replace('`', '``')}`"),
        column=path,
        type=shown,
    )


_OF_USERS = (
    "It is a type of users, of which only the values below it would be left",
    "Write these as columns: of vectors pyspark.ml.functions.vector_to_array({x})",
)
_ADVICE = {
    "VariantType": (_ALONE, "Write its text, to_json({x}), or what you need of it, variant_get({x}, '$.a', 'int')"),
    "GeometryType": (_ALONE, "Write its bytes, st_asbinary({x}), and its SRID as a column of its own"),
    "GeographyType": (_ALONE, "Write its bytes, st_asbinary({x}), and its SRID as a column of its own"),
    "StringType": (
        "A table compares texts byte by byte, so other texts would be equal, and another order would hold",
        "Take the collation away: CAST({x} AS STRING), in lists, maps and structs a cast to their type with STRING",
    ),
    "CharType": ("A table's texts have no length", "CAST({x} AS STRING)"),
    "VarcharType": ("A table's texts have no length", "CAST({x} AS STRING)"),
    "CalendarIntervalType": (
        "Arrow and Parquet have no type for it as Spark hands it over",
        "Write its parts as numbers, extract(DAY FROM {x}) and so on, or its text, CAST({x} AS STRING)",
    ),
    "YearMonthIntervalType": (
        "Arrow and Parquet have no type for it as Spark hands it over",
        "Write the months as a number: CAST(CAST({x} AS INTERVAL MONTH) AS INT)",
    ),
    "NullType": (
        "array() and map() say of no element what type it has",
        "Cast the column to the type that it is to have: CAST({x} AS ARRAY<INT>)",
    ),
}
