"""Encode and decode min/max statistics in JSON: exact, or widened so that they hold whoever wrote them."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from gapless.formats.delta.iso_time import DAY_US, FIRST_DAY, LAST_DAY, days_text, instant_text, parse_days, parse_instant
from gapless.formats.delta.schema.arrow_types import decimal_size
from gapless.formats.delta.schema.types import DeltaType, PrimitiveType
from gapless.model.stats import Bound, text_above

Span = tuple[Bound | None, Bound | None]
"""The least and the greatest value that a text may stand for."""
_NOTHING: Span = (None, None)

json_text = json.JSONEncoder(ensure_ascii=False).encode
"""A text as JSON has it."""
TEXT_LENGTH = 32
"""Characters to which writers cut texts, unless the table says otherwise."""
_WIDE = Context(prec=80)
_FLOAT_DIGITS = 17
_MS_US = 1_000
_MINUTE_US = 60_000_000
_LAST_ODD_OFFSET_US = 73_600_000_000_000
"""In May 1972 the last zone (Liberia's) took an offset of whole minutes."""
_RANGES = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_NON_FINITE = {"infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}


def read_bound(raw: Any, type_: DeltaType, *, top: bool, was_float: bool = False) -> Bound | None:
    """A bound from JSON, the column's largest value if `top`, else its smallest; None for what is no bound of the type.

    Timestamps may have been cut to milliseconds, texts to their first characters, decimals may have gone through a float, zones'
    offsets may lack their seconds, and where a `double` column `was_float`, the text may be the shortest of a 32-bit one: the bound
    is loosened by as much.
    """
    if raw is None or not isinstance(type_, PrimitiveType):
        return None
    try:
        size = decimal_size(type_)
        if size is not None:
            return _read_decimal(raw, *size)[top]
        read = _READERS.get(type_.name)
        span = _NOTHING if read is None else read(raw, type_.name)
        return _both_floats(span[0], raw)[top] if was_float and type_.name == "double" else span[top]
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, struct.error):
        return None


def write_bound(bound: Bound | None, type_: DeltaType, *, top: bool, text_length: int = TEXT_LENGTH) -> str | None:
    """The strict JSON of a bound, or a looser one; None where none can be written: NaN, years beyond 1 to 9999."""
    if bound is None or not isinstance(type_, PrimitiveType):
        return None
    if isinstance(bound, Decimal):
        return f"{bound:f}"
    write = _WRITERS.get(type_.name)
    if write is not None and isinstance(bound, int):
        return write(bound)
    if isinstance(bound, str):
        cut = _cut(bound, text_length, top=top)
        return json_text(cut) if cut is not None and text_length else None
    if isinstance(bound, float):
        return _write_float(bound, top=top)
    return json.dumps(bound) if isinstance(bound, int) else None


def _cut(text: str, length: int, *, top: bool) -> str | None:
    if len(text) <= length:
        return text
    return text_above(text[:length]) if top else text[:length]


def _write_float(value: float, *, top: bool) -> str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        # As Spark has them; readers such as deltalake's take an absent bound for a null one, and lose the file's rows.
        return '"Infinity"' if value > 0 else '"-Infinity"'
    # Readers that order floats by their bits put -0.0 before 0.0.
    return float.__repr__(value or (0.0 if top else -0.0))


def _write_date(days: int) -> str | None:
    return f'"{days_text(days)}"' if FIRST_DAY <= days <= LAST_DAY else None


def _instant_writer(zone: str) -> Callable[[int], str | None]:
    def write(ns: int) -> str | None:
        us = ns // 1_000
        return f'"{instant_text(us, zone=zone)}"' if FIRST_DAY <= us // DAY_US <= LAST_DAY else None

    return write


_WRITERS: dict[str, Callable[[int], str | None]] = {
    "date": _write_date,
    "timestamp": _instant_writer("Z"),
    "timestamp_ntz": _instant_writer(""),
}


def _read_whole(raw: Any, name: str) -> Span:
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal) or raw != int(raw):
        return _NOTHING
    value, bits = int(raw), _RANGES[name]
    return (value, value) if -(1 << bits) <= value < 1 << bits else _NOTHING


def _read_float(raw: Any, name: str) -> Span:
    if isinstance(raw, str):
        raw = _NON_FINITE[raw.lower()]
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal):
        return _NOTHING
    value = float(raw)
    if name == "float" and math.isfinite(value):
        # The shortest text of a 32-bit float is another number when read with 64 bits.
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return _NOTHING if math.isnan(value) else (value, value)


def _both_floats(value: Any, raw: Any) -> Span:
    """The span of a number as 64 and as 32 bits have it; one beyond those of 32 bits was never a float."""
    try:
        short = value if value is None else _read_float(raw, "float")[0]
    except OverflowError:
        short = value
    return (value, value) if short is None else (min(value, short), max(value, short))


def _read_flag(raw: Any, _name: str) -> Span:
    return (raw, raw) if isinstance(raw, bool) else _NOTHING


def _read_text(raw: Any, _name: str) -> Span:
    raw.encode()  # half of a surrogate pair, from a text cut within it, is no text
    # U+FFFD stands for bytes that were no text, or for "anything" after a cut.
    whole, odd, _ = raw.partition("\ufffd")
    return whole, text_above(whole) if odd or len(raw) >= TEXT_LENGTH else whole


def _read_date(raw: Any, _name: str) -> Span:
    days = parse_days(raw)
    return days, days


def _read_instant(raw: Any, name: str) -> Span:
    us, _, zoned = parse_instant(raw)
    if not zoned and name == "timestamp":
        return _NOTHING
    low = high = us
    if zoned and raw[-3] == ":" and us < _LAST_ODD_OFFSET_US:
        low, high = us - _MINUTE_US, us + _MINUTE_US
    elif us % _MS_US == 0:
        low, high = us - (_MS_US - 1 if us < 0 else 0), us + _MS_US - 1
    return low * 1_000, high * 1_000


_READERS: dict[str, Callable[[Any, str], Span]] = {
    **dict.fromkeys(_RANGES, _read_whole),
    "float": _read_float,
    "double": _read_float,
    "boolean": _read_flag,
    "string": _read_text,
    "date": _read_date,
    "timestamp": _read_instant,
    "timestamp_ntz": _read_instant,
}


def _read_decimal(raw: Any, precision: int, scale: int) -> Span:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float | Decimal):
        return _NOTHING
    value, unit = Decimal(str(raw)), Decimal(1).scaleb(-scale)
    slack = Decimal(0)
    if not isinstance(raw, str) and len(value.as_tuple().digits) <= _FLOAT_DIGITS:
        slack = abs(value) * Decimal(2) ** -51
    if slack and slack < unit / 2:
        # A float this near tells the decimals of the scale apart; one farther off may be any of several.
        value, slack = value.quantize(unit, ROUND_HALF_EVEN, _WIDE), Decimal(0)
    low = _WIDE.subtract(value, slack).quantize(unit, ROUND_FLOOR, _WIDE)
    high = _WIDE.add(value, slack).quantize(unit, ROUND_CEILING, _WIDE)
    most = Decimal((0, (9,) * precision, -scale))
    return max(-most, low), min(most, high)
