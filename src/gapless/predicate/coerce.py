"""Coerce literals to a column's type exactly, without rounding or overflow; which Arrow types a filter can compare.

A type holds only some values: whole numbers in a range, multiples of 0.01, whole milliseconds. A comparison with a
literal between two of them is the comparison with the lower one (`x < 2.5` of whole numbers is `x <= 2`); one
beyond them all is true or false for every value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from gapless.errors import InvalidTime, UnknownColumn, nearest
from gapless.model.instant import NS_PER, NS_PER_DAY, Unit, civil_from_days, ns_from_datetime
from gapless.model.stats import Bound
from gapless.predicate.predicate import Call, Column, Kind, Op, Operand, Value

UTC_NAMES = ("UTC", "Z", "Etc/UTC", "+00:00")
"""What Arrow types may call UTC."""

CoercedLiteral = tuple[Op, Bound] | bool | None
"""A comparison with a value that the type holds; or its answer for every value that is not null; None: always null."""

_Side = Literal["below", "at", "between", "above"]


def coerce_literal(op: Op, literal: Value, type_: pa.DataType) -> CoercedLiteral:
    """`x op literal` for columns x of `type_` (of the literal's kind): see `Settled`. Timestamps settle to ns, dates to days.

    A whole number is compared exactly. A number with a fraction means the nearest float of a floating column, as
    `x = 0.1` expects. Raises InvalidTime for a date whose midnight a zone cannot tell.
    """
    if literal.value is None or pa.types.is_null(type_):
        return None
    if literal.kind == "number":
        side, value = _number(cast("float | Decimal", literal.value), type_)
    elif literal.kind in ("bool", "text", "bytes"):
        side, value = "at", literal.value
    else:
        side, value = _instant(literal, type_)
    return _compare(op, side, value)


def _compare(op: Op, side: _Side, value: Bound) -> CoercedLiteral:
    if side == "at":
        return op, value
    if op in ("=", "!="):
        return op == "!="
    less = op in ("<", "<=")
    if side == "between":
        return ("<=" if less else ">"), value
    return less == (side == "above")


def _on_grid(floor: int, lowest: int, highest: int, *, exact: bool) -> tuple[_Side, int]:
    """Where a value with this floor lies among the whole numbers from `lowest` to `highest`."""
    if floor < lowest:
        return "below", lowest
    if floor > highest:
        return "above", highest
    return ("at" if exact else "between"), floor


def _number(value: float | Decimal, type_: pa.DataType) -> tuple[_Side, Bound]:
    if pa.types.is_floating(type_):
        return _float(value, type_)
    if isinstance(value, float) and not math.isfinite(value):
        return ("below" if value < 0 else "above"), value
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    scaled = Fraction(value) * Fraction(10) ** scale
    if not pa.types.is_decimal(type_):
        signed = pa.types.is_signed_integer(type_)
        bits = type_.bit_width - signed
        return _on_grid(math.floor(scaled), -(2**bits) if signed else 0, 2**bits - 1, exact=scaled.denominator == 1)
    limit = 10**type_.precision - 1
    side, units = _on_grid(math.floor(scaled), -limit, limit, exact=scaled.denominator == 1)
    return side, decimal_of(units, scale)


def decimal_of(units: int, scale: int) -> Decimal:
    """`units / 10**scale`, exactly (Decimal's arithmetic would round to its context)."""
    return Decimal((int(units < 0), tuple(int(digit) for digit in str(abs(units))), -scale))


_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


def _float(value: float | Decimal, type_: pa.DataType) -> tuple[_Side, Bound]:
    if isinstance(value, float) and not math.isfinite(value):
        return "at", value
    kind: Any = _FLOATS[type_.bit_width]  # numpy's overloads don't cover a choice of float types
    with np.errstate(over="ignore"):
        nearest = kind(_double(value))
    if isinstance(value, Decimal) and value != value.to_integral_value() and np.isfinite(nearest):
        return "at", float(nearest)
    exact = Fraction(value)
    while nearest > 0 and (np.isinf(nearest) or Fraction(float(nearest)) > exact):
        nearest = np.nextafter(nearest, kind(-np.inf))
    while np.isfinite(nearest) and Fraction(float(nearest)) > exact:
        nearest = np.nextafter(nearest, kind(-np.inf))
    at = bool(np.isfinite(nearest)) and Fraction(float(nearest)) == exact
    return ("at" if at else "between"), float(nearest)


def _double(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def unit_ns(type_: pa.DataType) -> int:
    """Nanoseconds of one step of a temporal type; a day for both date types."""
    return NS_PER_DAY if pa.types.is_date(type_) else NS_PER[cast("Unit", type_.unit)]


def _instant(literal: Value, type_: pa.DataType) -> tuple[_Side, Bound]:
    value = cast("int", literal.value)
    if literal.kind == "date":
        aware = pa.types.is_timestamp(type_) and type_.tz is not None
        ns = _midnight(value, type_.tz) if aware else value * NS_PER_DAY
    else:
        ns = value
    step = unit_ns(type_)
    bits = type_.bit_width - 1
    side, units = _on_grid(ns // step, -(2**bits), 2**bits - 1, exact=ns % step == 0)
    return side, units if pa.types.is_date(type_) else units * step


def _midnight(days: int, timezone: str) -> int:
    """The instant, in ns, at which the day `days` after 1970-01-01 begins on the clocks of `timezone`."""
    if timezone in UTC_NAMES:
        return days * NS_PER_DAY
    if offset := re.fullmatch(r"([+-])(\d\d):?(\d\d)", timezone):
        minutes = int(offset[1] + "1") * (60 * int(offset[2]) + int(offset[3]))
        return days * NS_PER_DAY - minutes * 60 * NS_PER["s"]
    try:
        zone = ZoneInfo(timezone)
        day = datetime.combine(date(*civil_from_days(days)), time(), tzinfo=zone)
        earlier, later = (day.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except (ZoneInfoNotFoundError, ValueError, OverflowError) as error:
        shown = "-".join(f"{part:02d}" for part in civil_from_days(days))
        raise InvalidTime(
            f"the date {shown} cannot be placed in the zone {timezone!r}",
            why=f"No zone rule is known for it ({error})",
            fix="Pass a date-time with its offset, such as '2024-05-01T00:00:00+02:00'",
            value=shown,
        ) from error
    skipped = earlier.astimezone(zone).replace(tzinfo=None) != day.replace(tzinfo=None)
    if skipped:
        later, earlier = earlier, later
        return ns_from_datetime(_first_after(later, earlier, zone, day.date()))
    return ns_from_datetime(earlier)


def _first_after(high: datetime, low: datetime, zone: ZoneInfo, day: date) -> datetime:
    """The first whole second of `day` between two instants, where the clock jumps over its midnight."""
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        low, high = (low, middle) if middle.astimezone(zone).date() >= day else (middle, high)
    return high


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type that compute kernels work on: dictionaries by their values, views as large, half as single floats."""
    if pa.types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_binary_view(type_):
        return pa.large_binary()
    return pa.float32() if pa.types.is_float16(type_) else type_


_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_DECIMALS = (pa.decimal32(1), pa.decimal64(1), pa.decimal128(1), pa.decimal256(1))
_EXAMPLES: dict[Kind, tuple[pa.DataType, ...]] = {
    "null": (pa.null(),),
    "bool": (pa.bool_(),),
    "number": (*_WHOLE, pa.float16(), pa.float32(), pa.float64(), *_DECIMALS),
    "text": (pa.string(), pa.large_string()),
    "bytes": (pa.binary(), pa.large_binary(), pa.binary(1)),
    "date": (pa.date32(), pa.date64()),
    "time": (pa.time32("s"), pa.time64("us")),
    "duration": (pa.duration("s"),),
}
_KINDS: dict[int, Kind] = {type_.id: kind for kind, types in _EXAMPLES.items() for type_ in types}


def kind_of(type_: pa.DataType) -> Kind | None:
    """The kind of a type's values; None where they have no order (nested types, extensions)."""
    plain = plain_type(type_)
    if pa.types.is_timestamp(plain):
        return "timestamp" if plain.tz is None else "timestamptz"
    return _KINDS.get(plain.id)


def column_type(column: Column, schema: pa.Schema) -> pa.DataType:
    """The type of a column or struct field in `schema`; raises UnknownColumn."""
    holder: Any = schema
    found: pa.DataType = None
    for depth, name in enumerate(column.path):
        at = -1 if holder is None else holder.get_field_index(name)
        if at < 0:
            raise UnknownColumn(
                f"there is no column {'.'.join(column.path[: depth + 1])!r}",
                fix=nearest(name, [] if holder is None else [field.name for field in holder]),
                column=".".join(column.path[: depth + 1]), columns=tuple(schema.names),
            )  # fmt: skip
        found = holder.field(at).type
        holder = found if pa.types.is_struct(found) else None
    return found


def widened(type_: pa.DataType) -> pa.DataType:
    """The type that holds the absolute value of every number of `type_`."""
    if pa.types.is_signed_integer(type_):
        return pa.decimal128(19, 0) if type_.bit_width == 64 else pa.int64()
    return type_


def type_of(operand: Column | Call, schema: pa.Schema) -> pa.DataType:
    """The Arrow type of an operand's values (of a column: as the schema declares it); raises UnknownColumn."""
    if isinstance(operand, Column):
        return column_type(operand, schema)
    first = _typed(operand.args[0], schema)
    match operand.name:
        case "abs":
            return widened(plain_type(first))
        case "length":
            return pa.int64()
        case _:
            return plain_type(first)


def _typed(operand: Operand, schema: pa.Schema) -> pa.DataType:
    if not isinstance(operand, Column | Call):
        raise TypeError("the first argument of a function is a column or a function")
    return type_of(operand, schema)


_TESTS: dict[Op, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0, "!=": lambda sign: sign != 0, "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0, ">": lambda sign: sign > 0, ">=": lambda sign: sign >= 0,
}  # fmt: skip


def holds(op: Op, left: Bound, right: Bound) -> bool:
    """`left op right` of two values of one kind: exact, NaN equal to itself and above every number."""
    return _TESTS[op](_sign(left, right))


def _sign(left: Any, right: Any) -> int:  # values of one kind, which mypy cannot see
    nan, other_nan = is_nan(left), is_nan(right)
    if nan or other_nan:
        return nan - other_nan
    return int(left > right) - int(left < right)


def is_nan(value: Bound | None) -> bool:
    """Whether a value is the floating NaN."""
    return isinstance(value, float) and math.isnan(value)


def compare_values(op: Op, left: Value, right: Value) -> bool | None:
    """Answer a comparison of two literals; raises ValueError where their kinds differ."""
    if left.value is None or right.value is None:
        return None
    if left.kind == right.kind:
        return holds(op, left.value, right.value)
    if {left.kind, right.kind} == {"date", "timestamp"}:
        return holds(op, _ns(left), _ns(right))
    raise ValueError(f"{left.value!r} is of kind {left.kind}, and {right.value!r} is of kind {right.kind}")


def _ns(value: Value) -> int:
    number = value.value
    if not isinstance(number, int):
        raise TypeError("dates and times are ints")
    return number * NS_PER_DAY if value.kind == "date" else number


def same_kind(left: Bound, right: Bound) -> bool:
    """Whether two bounds can be compared: both texts, both bytes, both booleans or both numbers."""
    if type(left) is type(right):
        return True
    for kind in (str, bytes, bool):
        if isinstance(left, kind) or isinstance(right, kind):
            return isinstance(left, kind) and isinstance(right, kind)
    return isinstance(left, int | float | Decimal) and isinstance(right, int | float | Decimal)
