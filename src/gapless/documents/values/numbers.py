"""Arithmetic of BSON's numbers, with the types that its results have. Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from bson.decimal128 import Decimal128, create_decimal128_context
from bson.int64 import Int64

from gapless.errors import InvalidValue

INT32, INT64 = 1 << 31, 1 << 63
DECIMALS = create_decimal128_context()
"""The arithmetic of Decimal128: 34 digits, half to even."""
Number = int | float | Decimal128
_NUMBERS = frozenset((int, Int64, float, Decimal128))


def is_number(value: object) -> bool:
    """Whether a value is one of BSON's numbers."""
    if type(value) in _NUMBERS:
        return True
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def add(a: Number, b: Number) -> Number:
    """The sum. Raises InvalidValue where it has more than 64 bits."""
    return _computed("$inc", a, b, lambda x, y: x + y, DECIMALS.add)


def multiply(a: Number, b: Number) -> Number:
    """The product. Raises InvalidValue where it has more than 64 bits."""
    return _computed("$mul", a, b, lambda x, y: x * y, DECIMALS.multiply)


def whole_number(value: int, *others: int) -> int:
    """A whole number: of 32 bits where all of `others` are and it fits, else of 64."""
    narrow = not any(isinstance(one, Int64) or not -INT32 <= one < INT32 for one in others)
    return value if narrow and -INT32 <= value < INT32 else Int64(value)


def fitting(value: int, *others: int, narrow: bool = True) -> Number:
    """As `whole_number` gives it; a double where it has more than 64 bits. Without `narrow` it is never of 32.

    >>> fitting(2**31, 1), fitting(2**63, 1)
    (2147483648, 9.223372036854776e+18)
    """
    if not -INT64 <= value < INT64:
        return float(value)
    return whole_number(value, *others) if narrow else Int64(value)


def _computed(
    operator: str, a: Number, b: Number, plain: Callable[[Any, Any], Any], exact: Callable[[Decimal, Decimal], Decimal]
) -> Number:
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return Decimal128(exact(as_decimal(a), as_decimal(b)))
    if isinstance(a, float) or isinstance(b, float):
        return float(plain(float(a), float(b)))
    found = plain(int(a), int(b))
    if not -INT64 <= found < INT64:
        raise InvalidValue(
            f"{operator} of {int(a)} and {int(b)} has more than 64 bits",
            why="BSON's integers have 64; nothing was changed",
            fix="Keep such numbers as Decimal128",
            column="",
            row=0,
            value=found,
        )
    return whole_number(found, a, b)


def as_decimal(value: Number) -> Decimal:
    """A number as a decimal."""
    if isinstance(value, Decimal128):
        found = value.to_decimal()
        # A NaN that signals would raise in any comparison.
        return Decimal("NaN") if found.is_snan() else found
    # Of a double 15 digits are meant, zeros at their end too.
    return Decimal(f"{value:.14e}") if isinstance(value, float) else Decimal(int(value))
