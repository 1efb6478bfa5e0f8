"""Numbers and dates as texts, and back, as MongoDB writes them. Pure."""

from __future__ import annotations

import math
from datetime import UTC
from typing import Any

from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128

from gapless.documents.values.dates import from_milliseconds, milliseconds_of
from gapless.documents.values.numbers import Number


def number_text(value: Number) -> str:
    """A number as a text: of a double 16 digits.

    >>> number_text(1.0), number_text(0.1), number_text(1e20), number_text(float("inf"))
    ('1', '0.1', '1e+20', 'Infinity')
    """
    if isinstance(value, Decimal128):
        return str(value)
    if isinstance(value, int):
        return str(int(value))
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{value:.16g}"


def date_text(value: Any) -> str:
    """A date as a text, in UTC with milliseconds.

    >>> date_text(from_milliseconds(25_200_000))
    '1970-01-01T07:00:00.000Z'
    """
    found = from_milliseconds(milliseconds_of(value))
    if isinstance(found, DatetimeMS):
        return f"{int(found)} ms"
    return f"{found.replace(tzinfo=UTC):%Y-%m-%dT%H:%M:%S}.{found.microsecond // 1000:03d}Z".rjust(24, "0")
