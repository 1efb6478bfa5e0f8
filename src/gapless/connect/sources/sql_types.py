"""Which Arrow types the columns of SQL databases have, and their values as arrays of these, exactly."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.errors import InvalidValue, UnsupportedType, shorten

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

_ADDRESSES = IPv4Address | IPv6Address | IPv4Interface | IPv6Interface | IPv4Network | IPv6Network
_MOST_DIGITS_128, _MOST_DIGITS_256 = 38, 76


def arrow_type(type_: TypeEngine[Any], column: str, dialect: str) -> pa.DataType:
    """The Arrow type of a column of a table; raises UnsupportedType where none holds every value of its."""
    import sqlalchemy as sa

    simple: tuple[tuple[Any, pa.DataType], ...] = (
        (sa.Boolean, pa.bool_()),
        (sa.Date, pa.date32()),
        (sa.Time, pa.time64("us")),
        (sa.LargeBinary, pa.binary()),
        (sa.String, pa.string()),
        (sa.Uuid, pa.string()),
        (sa.JSON, pa.string()),
    )
    if isinstance(type_, sa.Integer):
        return _integer(type_, dialect)
    if isinstance(type_, sa.Float):
        return pa.float32() if dialect == "postgresql" and isinstance(type_, sa.REAL) else pa.float64()
    if isinstance(type_, sa.Numeric):
        return _decimal(type_, column)
    if isinstance(type_, sa.DateTime):
        return pa.timestamp("us", "UTC" if type_.timezone else None)
    if isinstance(type_, sa.Time) and type_.timezone:
        raise _unsupported(column, type_, "Arrow's times of day have no offset")
    found = next((arrow for kind, arrow in simple if isinstance(type_, kind)), None)
    if found is None:
        raise _unsupported(column, type_, "No Arrow type is known to hold each of its values")
    return found


def _integer(type_: TypeEngine[Any], dialect: str) -> pa.DataType:
    import sqlalchemy as sa

    # SQLite stores 64 bits whatever a column is called.
    bits = 64 if dialect == "sqlite" or isinstance(type_, sa.BigInteger) else 16 if isinstance(type_, sa.SmallInteger) else 32
    return pa.type_for_alias(f"{'u' if getattr(type_, 'unsigned', False) else ''}int{bits}")


def _decimal(type_: Any, column: str) -> pa.DataType:
    precision, scale = type_.precision, type_.scale or 0
    if precision is None or precision > _MOST_DIGITS_256:
        raise _unsupported(column, type_, "It may have any number of digits")
    return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS_128 else pa.decimal256(precision, scale)


def _unsupported(column: str, type_: object, why: str) -> UnsupportedType:
    import sqlalchemy as sa

    named = "a SQL type that SQLAlchemy does not know" if isinstance(type_, sa.types.NullType) else f"the SQL type {type_!r}"
    return UnsupportedType(
        f"column {column!r} has {named}",
        why=why,
        fix="Pass schema= with the columns that are wanted and their types, or query= that casts or leaves it out",
        column=column,
        type=repr(type_),
    )


def sql_type(type_: pa.DataType | None) -> TypeEngine[Any]:
    """The type as which a column is read that is to be of this Arrow type: none where the driver's own values are taken."""
    import sqlalchemy as sa

    if type_ is None:
        return sa.types.NullType()
    if pa.types.is_timestamp(type_):
        return sa.DateTime(timezone=type_.tz is not None)
    if pa.types.is_date(type_):
        return sa.Date()
    if pa.types.is_time(type_):
        return sa.Time()
    return sa.Boolean() if pa.types.is_boolean(type_) else sa.types.NullType()


def to_arrow(values: Sequence[object], field: pa.Field, source: str) -> pa.Array:
    """Values of a driver as an array; raises InvalidValue for the first that the type does not hold exactly."""
    plain = _plain_of(field.type)
    made = list[object]()
    for row, value in enumerate(values):
        try:
            made.append(None if value is None else plain(value))
        except (ValueError, TypeError, InvalidOperation) as error:
            raise _invalid(field, row, value, str(error), source) from error
    try:
        return pa.array(made, field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        for row, value in enumerate(made):
            try:
                pa.array([value], field.type)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise _invalid(field, row, values[row], f"{field.type} does not hold it exactly", source) from error
        raise


def _plain_of(type_: pa.DataType) -> Callable[[Any], object]:
    """What makes a driver's value one that Arrow takes without a guess."""
    if pa.types.is_decimal(type_):
        return _as_decimal
    if pa.types.is_timestamp(type_):
        return _as_local if type_.tz is None else _as_instant
    if pa.types.is_time(type_):
        return _as_time
    if pa.types.is_string(type_):
        return _as_text
    return bytes if pa.types.is_binary(type_) else _as_it_is


def _as_it_is(value: object) -> object:
    return value


def _as_decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError("It is no number")
    # SQLite has doubles for decimals: the shortest text that means the double is what was written.
    found = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not found.is_finite():
        raise ValueError("A decimal is finite")
    return found


def _as_local(value: object) -> object:
    if not isinstance(value, date):
        raise TypeError("It is no time")
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError("It has a zone, and the column has none")
    return value


def _as_instant(value: object) -> object:
    if not isinstance(value, datetime):
        raise TypeError("It is no time with a zone")
    if value.tzinfo is None:
        raise ValueError("It has no zone, and the column holds instants")
    return value


def _as_time(value: object) -> object:
    if isinstance(value, time) and value.tzinfo is not None:
        raise ValueError("It has an offset, and the column has none")
    return value


def _as_text(value: object) -> object:
    """What has one text only is that: a UUID, a number of any digits, an address."""
    return str(value) if isinstance(value, uuid.UUID | Decimal | _ADDRESSES) else value


def _invalid(field: pa.Field, row: int, value: object, why: str, source: str) -> InvalidValue:
    return InvalidValue(
        f"column {field.name!r} holds {shorten(value)} in row {row} (from 0) of {source}",
        why=f"As {field.type}: {why}",
        fix="Mend the value, declare another type with schema=, or cast the column in query=",
        column=field.name,
        row=row,
        value=value,
        source=source,
    )
