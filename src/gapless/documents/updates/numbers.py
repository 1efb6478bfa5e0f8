"""Arithmetic of BSON's numbers, with the types that its results have. Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from bson.decimal128 import Decimal128, create_decimal128_context
from bson.int64 import Int64

from gapless.errors import InvalidValue

_INT32, _INT64 = 1 << 31, 1 << 63
_CONTEXT = create_decimal128_context()
Number = int | float | Decimal128


def is_number(value: object) -> bool:
    """Whether a value is one of BSON's numbers."""
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def add(a: Number, b: Number) -> Number:
    """The sum. Raises InvalidValue where it has more than 64 bits."""
    return _computed("$inc", a, b, lambda x, y: x + y, _CONTEXT.add)


def multiply(a: Number, b: Number) -> Number:
    """The product. Raises InvalidValue where it has more than 64 bits."""
    return _computed("$mul", a, b, lambda x, y: x * y, _CONTEXT.multiply)


def whole_number(value: int, *others: int) -> int:
    """A whole number: of 32 bits where all of `others` are and it fits, else of 64."""
    narrow = not any(isinstance(one, Int64) or not -_INT32 <= one < _INT32 for one in others)
    return value if narrow and -_INT32 <= value < _INT32 else Int64(value)


def _computed(
    operator: str, a: Number, b: Number, plain: Callable[[Any, Any], Any], exact: Callable[[Decimal, Decimal], Decimal]
) -> Number:
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return Decimal128(exact(_decimal(a), _decimal(b)))
    if isinstance(a, float) or isinstance(b, float):
        return float(plain(float(a), float(b)))
    found = plain(int(a), int(b))
    if not -_INT64 <= found < _INT64:
        raise InvalidValue(
            f"{operator} of {int(a)} and {int(b)} has more than 64 bits",
            why="BSON's integers have 64; nothing was changed",
            fix="Keep such numbers as Decimal128",
            column="",
            row=0,
            value=found,
        )
    return whole_number(found, a, b)


def _decimal(value: Number) -> Decimal:
    if isinstance(value, Decimal128):
        return value.to_decimal()
    # Of a double 15 digits are meant, zeros at their end too.
    return Decimal(f"{value:.14e}") if isinstance(value, float) else Decimal(int(value))
