"""Ids of documents as texts: equal for values that are equal in a query, and in their order as far as statistics need it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from gapless.documents.values.order import Key, TypeOrder, sort_key
from gapless.errors import InvalidValue

WHOLE_NUMBERS = "n:2:"
"""How the texts of numbers begin whose whole part has 64 bits."""
_HALF = 1 << 63
_REFUSED: Mapping[TypeOrder, str] = {TypeOrder.ARRAY: "an array", TypeOrder.REGEX: "a regular expression"}


def id_text(value: object) -> str:
    """The text of an `_id`. Raises InvalidValue for an array and a regular expression, which MongoDB does not take either.

    >>> id_text(1) == id_text(1.0), id_text(True) == id_text(1), id_text("a"), id_text(2) < id_text(2.5) < id_text(3)
    (True, False, 's:a', True)
    """
    key = sort_key(value)
    if (refused := _REFUSED.get(key[0])) is not None:
        raise InvalidValue(
            f"{refused} cannot be an _id",
            why="An _id is one value, and is looked for as such",
            fix="Pass a text, a number, an ObjectId or a document",
            column="_id",
            row=0,
            value=value,
        )
    return key_text(key)


def key_text(key: Key) -> str:
    """The text of a value by its key; those of one type compare as the values do, but for fractions of one whole number and documents."""
    order = key[0]
    match order:
        case TypeOrder.NUMBER:
            return f"n:{_number_text(key)}"
        case TypeOrder.STRING:
            return f"s:{key[1]}"
        case TypeOrder.OBJECT_ID:
            return f"o:{key[1].hex()}"
        case TypeOrder.DATE:
            return f"d:{key[1] + _HALF:016x}"
        case TypeOrder.BOOL:
            return f"b:{int(key[1])}"
        case TypeOrder.BINARY:
            return f"x:{key[1]:08x}:{key[2]:02x}:{key[3].hex()}"
        case TypeOrder.TIMESTAMP:
            return f"t:{key[1]:08x}{key[2]:08x}"
        case TypeOrder.OBJECT:
            return "{" + ",".join(f"{name!r}:{key_text(one)}" for _, name, one in key[1]) + "}"
        case TypeOrder.ARRAY:
            return "[" + ",".join(map(key_text, key[1])) + "]"
        case TypeOrder.CODE_WITH_SCOPE:
            return f"z{int(order)}:{key[1]!r}{key_text(key[2])}"
        case _:
            return f"z{int(order)}:{key[1:]!r}"


def number_prefix(key: Key) -> str:
    """What the texts of all numbers begin with that have the whole part of this one."""
    return f"n:{_number_text(key).partition('+')[0]}"


def _number_text(key: Key) -> str:
    if key[1] == 0:
        return "0"
    value: int | float | Decimal = key[2]
    if isinstance(value, int):
        return _whole_text(value)
    if (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, Decimal) and value.is_infinite()):
        return "1:" if value < 0 else "4"
    exact = Fraction(value)
    floor = exact.numerator // exact.denominator
    if floor == exact:
        return _whole_text(floor)
    return f"{_whole_text(floor)}+{exact.numerator}/{exact.denominator}"


def _whole_text(value: int) -> str:
    if -_HALF <= value < _HALF:
        return f"2:{value + _HALF:016x}"
    # Beyond 64 bits only floats and decimals reach, which are rarely ids: their order is not told, and never relied on.
    return f"{'1' if value < 0 else '3'}:{value}"
