"""Dates as milliseconds since 1970 in UTC, and back. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from bson.datetime_ms import DatetimeMS

from gapless.documents.values.order import milliseconds

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # dates of documents are naive, in UTC
_LEAST, _MOST = -62_135_596_800_000, 253_402_300_799_999
"""From the year 1 to 9999."""


def is_date(value: object) -> bool:
    """Whether a value is one of BSON's dates."""
    return isinstance(value, datetime | DatetimeMS)


def milliseconds_of(date: Any) -> int:
    """Milliseconds of a date."""
    return int(date) if isinstance(date, DatetimeMS) else milliseconds(date)


def from_milliseconds(ms: int) -> datetime | DatetimeMS:
    """The date, as documents have it: naive, in UTC; a `DatetimeMS` where Python's do not reach."""
    return _EPOCH + timedelta(milliseconds=ms) if _LEAST <= ms <= _MOST else DatetimeMS(ms)


def date_of_ns(ns: int) -> datetime:
    """The date of nanoseconds since 1970 in UTC, as a clock has them, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=ns // 1_000_000)
