"""The order of BSON values: which of two types comes first, and which of two values of a type. Pure.

Source: MongoDB's manual, "Comparison/Sort Order". Values are those of `bson`, the codec of pymongo: `None, bool, int, Int64, float, Decimal128,
str, bytes, Binary, UUID, ObjectId, datetime` (naive ones are in UTC), `DatetimeMS, Timestamp, Regex, re.Pattern, Code, DBRef, MinKey, MaxKey`,
lists and tuples, and mappings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from gapless.errors import InvalidValue

Key = tuple[Any, ...]
"""Keys of any two values can be compared; equal ones are of values that are equal in a query, and have one hash."""


class Missing(Enum):
    """The value of a field that is not there."""

    MISSING = "missing"


MISSING = Missing.MISSING


class TypeOrder(IntEnum):
    """Types that are compared with each other by value; the lower comes first."""

    MIN_KEY = -1
    NULL = 5
    """A missing value too."""
    NUMBER = 10
    STRING = 15
    OBJECT = 20
    ARRAY = 25
    BINARY = 30
    OBJECT_ID = 35
    BOOL = 40
    DATE = 45
    TIMESTAMP = 47
    REGEX = 50
    CODE = 60
    CODE_WITH_SCOPE = 65
    MAX_KEY = 127


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_INT32, _INT64 = 1 << 31, 1 << 63
_NULL: Key = (TypeOrder.NULL,)
_FLAGS = {re.IGNORECASE: "i", re.LOCALE: "l", re.MULTILINE: "m", re.DOTALL: "s", re.UNICODE: "u", re.VERBOSE: "x"}
_NAN: Key = (TypeOrder.NUMBER, 0)


def sort_key(value: object) -> Key:
    """What a value is sorted and told apart by. Raises InvalidValue for one that BSON does not have.

    >>> sort_key(1) == sort_key(1.0), sort_key(True) == sort_key(1), sort_key(2**53 + 1) > sort_key(float(2**53))
    (True, False, True)
    >>> sort_key({"a": 1, "b": 2}) == sort_key({"b": 2, "a": 1})
    False
    """
    made = _KEYS.get(type(value))
    if made is None:
        made = next((made for type_, made in _KEYS.items() if isinstance(value, type_)), None)
        if made is None:
            raise no_value(value)
    return made(value)


def order_of(value: object) -> TypeOrder:
    """The type of a value, among those that are compared with each other. Raises InvalidValue."""
    return TypeOrder(sort_key(value)[0])


def type_number(value: object) -> int:
    """BSON's number of a value's type, as `$type` takes it. Raises InvalidValue."""
    order = order_of(value)
    if order is TypeOrder.NUMBER:
        if isinstance(value, float):
            return 1
        is_int = isinstance(value, int) and not isinstance(value, Int64) and -_INT32 <= value < _INT32
        return 19 if isinstance(value, Decimal128) else 16 if is_int else 18
    return _NUMBERS[order]


def milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970 in UTC, as BSON has them: parts of one are cut off."""
    return ((moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - _EPOCH) // _MS


def pattern_of(value: Regex[Any] | re.Pattern[Any]) -> tuple[str, str]:
    """The text and the options of a regular expression, in the order of the alphabet."""
    text = value.pattern
    flags = "".join(letter for flag, letter in _FLAGS.items() if value.flags & flag)
    return text.decode() if isinstance(text, bytes) else text, "".join(sorted(flags.replace("u", "")))


def no_value(value: object) -> InvalidValue:
    """The error for a Python value that BSON has no type for."""
    return InvalidValue(
        f"a {type(value).__name__} is no value of a document",
        why="BSON has no type for it",
        fix="Pass a text, number, bool, None, datetime, ObjectId, bytes, list or dict, or a type of pymongo's bson",
        column="",
        row=0,
        value=value,
    )


# -- the key of each type ----------------------------------------------------------------------------------------------


def _integer(value: int) -> Key:
    if not -_INT64 <= value < _INT64:
        raise InvalidValue(
            f"{value} has more than 64 bits",
            why="BSON's integers have 64",
            fix="Pass a Decimal128, or a text",
            column="",
            row=0,
            value=value,
        )
    return TypeOrder.NUMBER, 1, int(value)


def _float(value: float) -> Key:
    return _NAN if value != value else (TypeOrder.NUMBER, 1, value)  # noqa: PLR0124  # NaN


def _decimal(value: Decimal128) -> Key:
    number = value.to_decimal()
    return _NAN if number.is_nan() else (TypeOrder.NUMBER, 1, number)


def _object(value: Mapping[str, Any]) -> Key:
    found = []
    for name, one in value.items():
        key = sort_key(one)
        found.append((key[0], name, key))
    return TypeOrder.OBJECT, tuple(found)


def _array(value: list[Any] | tuple[Any, ...]) -> Key:
    return TypeOrder.ARRAY, tuple(map(sort_key, value))


def _binary(value: bytes) -> Key:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return TypeOrder.BINARY, len(value), subtype, bytes(value)


def _code(value: Code) -> Key:
    if value.scope is None:
        return TypeOrder.CODE, str(value)
    return TypeOrder.CODE_WITH_SCOPE, str(value), sort_key(value.scope)


def _timestamp(value: Timestamp) -> Key:
    return TypeOrder.TIMESTAMP, value.time, value.inc


_KEYS: Mapping[type, Callable[[Any], Key]] = {
    type(None): lambda _: _NULL,
    Missing: lambda _: _NULL,
    bool: lambda value: (TypeOrder.BOOL, value),
    int: _integer,
    Int64: _integer,
    float: _float,
    Decimal128: _decimal,
    Code: _code,
    str: lambda value: (TypeOrder.STRING, value),
    dict: _object,
    list: _array,
    tuple: _array,
    bytes: _binary,
    Binary: _binary,
    UUID: lambda value: (TypeOrder.BINARY, 16, 4, value.bytes),
    ObjectId: lambda value: (TypeOrder.OBJECT_ID, value.binary),
    datetime: lambda value: (TypeOrder.DATE, milliseconds(value)),
    DatetimeMS: lambda value: (TypeOrder.DATE, int(value)),
    Timestamp: _timestamp,
    Regex: lambda value: (TypeOrder.REGEX, *pattern_of(value)),
    re.Pattern: lambda value: (TypeOrder.REGEX, *pattern_of(value)),
    DBRef: lambda value: _object(value.as_doc()),
    MinKey: lambda _: (TypeOrder.MIN_KEY,),
    MaxKey: lambda _: (TypeOrder.MAX_KEY,),
    Mapping: _object,
}
"""By the type of a value; for subclasses the first that fits: a bool is an int in Python, and code a text."""
_NUMBERS: Mapping[TypeOrder, int] = {
    TypeOrder.MIN_KEY: -1,
    TypeOrder.NULL: 10,
    TypeOrder.STRING: 2,
    TypeOrder.OBJECT: 3,
    TypeOrder.ARRAY: 4,
    TypeOrder.BINARY: 5,
    TypeOrder.OBJECT_ID: 7,
    TypeOrder.BOOL: 8,
    TypeOrder.DATE: 9,
    TypeOrder.REGEX: 11,
    TypeOrder.CODE: 13,
    TypeOrder.CODE_WITH_SCOPE: 15,
    TypeOrder.TIMESTAMP: 17,
    TypeOrder.MAX_KEY: 127,
}
