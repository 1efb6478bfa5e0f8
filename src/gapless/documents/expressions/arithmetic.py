"""Expressions that compute with numbers and dates. Pure.

Results have the type that MongoDB gives them: int with int is int, or long where it does not fit, or double where that does not either; a
double makes a double, and a Decimal128 a Decimal128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, TypeVar

from bson.decimal128 import Decimal128

from gapless.documents.expressions.operands import Make, function, null_through, wrong_result, wrong_value
from gapless.documents.expressions.scope import is_null
from gapless.documents.filters.operands import cut, whole
from gapless.documents.values.dates import from_milliseconds, is_date, milliseconds_of
from gapless.documents.values.numbers import DECIMALS, INT64, Number, as_decimal, fitting, is_number
from gapless.documents.values.sums import Sum

T = TypeVar("T")

_EXACT = Context(prec=800)
"""For doubles as decimals, of which each has one that is exact."""


def _number(operator: str, value: Any) -> Any:
    if not is_number(value):
        raise wrong_value(operator, value, "a number")
    return value


def _any_decimal(*values: Number) -> bool:
    return any(isinstance(one, Decimal128) for one in values)


def _any_double(*values: Number) -> bool:
    return any(isinstance(one, float) for one in values)


# -- of several operands -----------------------------------------------------------------------------------------------


def _add(*values: Any) -> Any:
    total, date = Sum(), None
    for value in values:
        if is_null(value):
            return None
        if is_date(value):
            if date is not None:
                raise wrong_value("$add", value, "no second date")
            date = value
        else:
            total.add(_number("$add", value))
    return total.result() if date is None else _later("$add", date, total.result())


def _later(operator: str, date: Any, by: Number) -> Any:
    """A date so many milliseconds later."""
    ms = cut(round(by) if isinstance(by, float) and math.isfinite(by) else by)
    if ms is None or not -INT64 <= milliseconds_of(date) + ms < INT64:
        raise wrong_result(operator, by, "Dates have 64 bits of milliseconds")
    return from_milliseconds(milliseconds_of(date) + ms)


def _subtract(one: Any, other: Any) -> Any:
    if is_date(one):
        if is_date(other):
            return fitting(milliseconds_of(one) - milliseconds_of(other), narrow=False)
        return _later("$subtract", one, _negated(_number("$subtract", other)))
    return difference(_number("$subtract", one), _number("$subtract", other))


def _negated(value: Number) -> Number:
    return Decimal128(DECIMALS.minus(as_decimal(value))) if isinstance(value, Decimal128) else -value


def difference(one: Any, other: Any) -> Number:
    """One number less another."""
    if _any_decimal(one, other):
        return Decimal128(DECIMALS.subtract(as_decimal(one), as_decimal(other)))
    if _any_double(one, other):
        return float(one) - float(other)
    return fitting(int(one) - int(other), one, other)


def _multiply(*values: Any) -> Any:
    found: Any = 1
    for value in values:
        if is_null(value):
            return None
        number = _number("$multiply", value)
        if _any_decimal(found, number):
            found = Decimal128(DECIMALS.multiply(as_decimal(found), as_decimal(number)))
        elif _any_double(found, number):
            found = float(found) * float(number)
        else:
            found = fitting(int(found) * int(number), found, number)
    return found


def _not_zero(operator: str, one: Any, divisor: T) -> T:
    """What something is divided by. Raises as `wrong_result` for 0."""
    if divisor == 0:
        raise wrong_result(operator, one, "Nothing is divided by 0")
    return divisor


def _divide(one: Any, other: Any) -> Number:
    first, second = _number("$divide", one), _number("$divide", other)
    if _any_decimal(first, second):
        return Decimal128(DECIMALS.divide(as_decimal(first), _not_zero("$divide", one, as_decimal(second))))
    _not_zero("$divide", one, second)
    return float(first) / float(second)


def _modulo(one: Any, other: Any) -> Number:
    first, second = _number("$mod", one), _number("$mod", other)
    if _any_decimal(first, second):
        return Decimal128(DECIMALS.remainder(as_decimal(first), _not_zero("$mod", one, as_decimal(second))))
    _not_zero("$mod", one, second)
    if _any_double(first, second):
        dividend = float(first)
        return math.fmod(dividend, float(second)) if math.isfinite(dividend) else math.nan
    rest = abs(int(first)) % abs(int(second))
    return fitting(-rest if first < 0 else rest, first, second)


def _power(one: Any, other: Any) -> Number:
    base, exponent = _number("$pow", one), _number("$pow", other)
    if _any_decimal(base, exponent):
        if as_decimal(base) == 0 and _below_zero(exponent):
            raise wrong_result("$pow", one, "0 has no power below 0")
        return Decimal128(DECIMALS.power(as_decimal(base), as_decimal(exponent)))
    if base == 0 and exponent < 0:
        raise wrong_result("$pow", one, "0 has no power below 0")
    # More than 64 bits come out of any other base to so high a power.
    if isinstance(base, int) and isinstance(exponent, int) and (abs(base) <= 1 or 0 <= exponent < 64):
        return fitting(int(base) ** (abs(exponent) % 2 if base == -1 else abs(exponent)), base, exponent)
    return _double_power(float(base), float(exponent))


def _double_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.nan


def _logarithm(one: Any, other: Any) -> Number:
    number, base = _number("$log", one), _number("$log", other)
    if not _above_zero(number) or not _above_zero(base) or as_decimal(base) == 1:
        raise wrong_result("$log", [one, other], "It wants a number above 0, and a base above 0 that is not 1")
    if _any_decimal(number, base):
        return Decimal128(DECIMALS.divide(DECIMALS.ln(as_decimal(number)), DECIMALS.ln(as_decimal(base))))
    return math.log(float(number)) / math.log(float(base))


def _below_zero(value: Number) -> bool:
    number = as_decimal(value)
    return not number.is_nan() and number < 0


def _above_zero(value: Number) -> bool:
    """Whether a number is; NaN is let through."""
    number = as_decimal(value)
    return number.is_nan() or number > 0


# -- of one operand ----------------------------------------------------------------------------------------------------


def _absolute(value: Any) -> Number:
    number = _number("$abs", value)
    if isinstance(number, Decimal128):
        return Decimal128(abs(as_decimal(number)))
    if isinstance(number, int) and number == -INT64:
        raise wrong_result("$abs", value, "BSON's integers have 64 bits")
    return abs(number) if isinstance(number, float) else fitting(abs(int(number)), number)


def _rounded(operator: str, mode: str) -> Callable[[Any], Number]:
    def made(value: Any) -> Number:
        return _to_place(_number(operator, value), 0, mode)

    return made


def _to_place_of(operator: str, mode: str) -> Callable[..., Any]:
    def made(value: Any, place: Any = 0) -> Any:
        if is_null(value) or is_null(place):
            return None
        at = whole(place)
        if at is None or not -20 <= at <= 100:
            raise wrong_value(operator, place, "a whole number from -20 to 100")
        return _to_place(_number(operator, value), at, mode)

    return made


def _to_place(value: Number, place: int, mode: str) -> Number:
    if isinstance(value, int):
        if place >= 0:
            return value
        found = int(Decimal(int(value)).scaleb(place, _EXACT).to_integral_value(mode)) * 10**-place
        if not -INT64 <= found < INT64:
            raise wrong_result("$round", value, "BSON's integers have 64 bits")
        return fitting(found, value)
    number = as_decimal(value) if isinstance(value, Decimal128) else Decimal(value)
    if not number.is_finite():
        return value
    if isinstance(value, float):
        # A result of 0 keeps the sign.
        return float(number.scaleb(place, _EXACT).to_integral_value(mode).scaleb(-place, _EXACT))
    if place == 0:
        return Decimal128(number.to_integral_value(mode))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    fine = place > DECIMALS.prec + number.adjusted()
    return value if fine else Decimal128(number.quantize(Decimal(1).scaleb(-place), mode, _EXACT))


def _root(value: Any) -> Number:
    number = _number("$sqrt", value)
    if _below_zero(number):
        raise wrong_result("$sqrt", value, "It wants a number from 0 on")
    if isinstance(number, Decimal128):
        return Decimal128(DECIMALS.sqrt(as_decimal(number)))
    return math.sqrt(number)


def _exponential(value: Any) -> Number:
    number = _number("$exp", value)
    if isinstance(number, Decimal128):
        return Decimal128(DECIMALS.exp(as_decimal(number)))
    try:
        return math.exp(number)
    except OverflowError:
        return math.inf


def _logarithm_of(
    operator: str, plain: Callable[[float], float], exact: Callable[[Decimal], Decimal]
) -> Callable[[Any], Number]:
    def made(value: Any) -> Number:
        number = _number(operator, value)
        if not _above_zero(number):
            raise wrong_result(operator, value, "It wants a number above 0")
        return Decimal128(exact(as_decimal(number))) if isinstance(number, Decimal128) else plain(float(number))

    return made


ARITHMETIC: Mapping[str, Make] = {
    "$add": function(_add, 0, None),
    "$subtract": function(null_through(_subtract), 2),
    "$multiply": function(_multiply, 0, None),
    "$divide": function(null_through(_divide), 2),
    "$mod": function(null_through(_modulo), 2),
    "$pow": function(null_through(_power), 2),
    "$log": function(null_through(_logarithm), 2),
    "$abs": function(null_through(_absolute), 1),
    "$ceil": function(null_through(_rounded("$ceil", ROUND_CEILING)), 1),
    "$floor": function(null_through(_rounded("$floor", ROUND_FLOOR)), 1),
    "$round": function(_to_place_of("$round", ROUND_HALF_EVEN), 1, 2),
    "$trunc": function(_to_place_of("$trunc", ROUND_DOWN), 1, 2),
    "$sqrt": function(null_through(_root), 1),
    "$exp": function(null_through(_exponential), 1),
    "$ln": function(null_through(_logarithm_of("$ln", math.log, DECIMALS.ln)), 1),
    "$log10": function(null_through(_logarithm_of("$log10", math.log10, DECIMALS.log10)), 1),
}
