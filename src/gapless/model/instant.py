"""Instants as whole nanoseconds since 1970-01-01T00:00Z, in Python's unbounded integers; wall times of a zone as instants.

Text is RFC 3339; years outside 0000..9999 take a sign and five or more digits, as ISO 8601 expands them. The calendar is
proleptic Gregorian, after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".

Zone data comes from `zoneinfo` (the system's, else the tzdata package), not from pyarrow, which fails where the system has none.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args

Unit = Literal["s", "ms", "us", "ns"]
UNITS: tuple[Unit, ...] = get_args(Unit)
NS_PER: dict[Unit, int] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NS_PER_DAY = 86_400 * NS_PER["s"]

_TEXT = re.compile(
    r"([+-]?\d{4,})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?"
    r"\s*([Zz]|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?"
)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar.

    >>> days_from_civil(1001, 1, 1)
    -353920
    """
    shifted = year - (month <= 2)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The date `days` after 1970-01-01, as (year, month, day).

    >>> civil_from_days(-353920)
    (1001, 1, 1)
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + (3 if shifted_month < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def days_from_iso_week(year: int, week: int, weekday: int) -> int | None:
    """Days from 1970-01-01 to a day of an ISO 8601 week, `weekday` from 1 (Monday) to 7; None where the year has no such week.

    >>> days_from_iso_week(1970, 1, 4)
    0
    """
    # Week 1 holds 4 January; 1970-01-01 was a Thursday.
    begins, next_begins = (day - (day + 3) % 7 for day in (days_from_civil(year, 1, 4), days_from_civil(year + 1, 1, 4)))
    found = begins + (week - 1) * 7 + weekday - 1
    return found if 1 <= weekday <= 7 and begins <= found < next_begins else None


def format_instant(ns: int, suffix: str = "Z") -> str:
    """RFC 3339 text of an instant with 0, 3, 6 or 9 fraction digits, whichever is exact.

    >>> format_instant(-1)
    '1969-12-31T23:59:59.999999999Z'
    """
    days, in_day = divmod(ns, NS_PER_DAY)
    seconds, fraction = divmod(in_day, NS_PER["s"])
    digits = f".{fraction:09d}" if fraction else ""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{_day_text(days)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}{suffix}"


@lru_cache(4_096)
def _day_text(days: int) -> str:
    """The text of a date, so many days after 1970-01-01."""
    year, month, day = civil_from_days(days)
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{years}-{month:02d}-{day:02d}"


def parse_instant(text: str) -> tuple[int, bool]:
    """Read RFC 3339 or ISO 8601 text: (nanoseconds, whether it said its offset); raises ValueError.

    Without an offset the nanoseconds are those of the wall clock. A date alone is its midnight.

    >>> parse_instant("1970-01-01T01:00:00+01:00")
    (0, True)
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 date or date-time")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    days = existing_day(int(year), int(month), int(day))
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or not (hours < 24 and minutes < 60 and seconds < 60):
        raise ValueError(f"{text!r} names a date or time that does not exist")
    seconds += days * 86_400 + hours * 3_600 + minutes * 60
    if offset and offset not in "Zz":
        seconds -= _offset_seconds(offset)
    return seconds * NS_PER["s"] + (int(fraction.ljust(9, "0")) if fraction else 0), offset is not None


@lru_cache(4_096)
def existing_day(year: int, month: int, day: int) -> int | None:
    """Days from 1970-01-01 to a date; None where the calendar has no such date. A log names few days, and each many times."""
    if not 1 <= month <= 12:
        return None
    length = days_from_civil(year + (month == 12), month % 12 + 1, 1) - days_from_civil(year, month, 1)
    return days_from_civil(year, month, day) if 1 <= day <= length else None


def _offset_seconds(offset: str) -> int:
    """How far the wall clock of an offset such as +01:00 is ahead."""
    digits = offset[1:].replace(":", "")
    parts = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    ahead = sum(int(part) * scale for part, scale in zip(parts, (3600, 60, 1), strict=False))
    return -ahead if offset[0] == "-" else ahead


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ns_from_datetime(value: datetime) -> int:
    """Nanoseconds of an aware datetime's instant, or of a naive one's wall clock."""
    delta = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * NS_PER["s"] + delta.microseconds * NS_PER["us"]


def datetime_from_ns(ns: int) -> datetime:
    """The instant of nanoseconds since 1970 UTC in UTC, to the microsecond before; raises OverflowError outside of the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=ns // NS_PER["us"])


def ns_from_date(value: date) -> int:
    """Nanoseconds of a date's midnight on the wall clock."""
    return days_from_civil(value.year, value.month, value.day) * NS_PER_DAY


_MIN_DAY, _MAX_DAY = days_from_civil(1, 1, 1), days_from_civil(9999, 12, 31)
