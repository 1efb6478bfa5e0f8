"""Parse and format dates and instants of any year, proleptic Gregorian: Python's own end at 9999."""

from __future__ import annotations

import re

DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: what every reader has."""
_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})")
_SEPARATOR = re.compile(r"[T ]")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_ZONE = re.compile(r"\s*(?:Z|UTC|([+-])(\d{2}):?(\d{2})(?::?(\d{2}))?)")
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_days(text: str) -> int:
    """Days since 1970-01-01 of a date's text; raises ValueError.

    >>> parse_days("1001-01-01")
    -353920
    """
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError("no date")
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if not 1 <= month <= 12 or not 1 <= day <= _MONTH_DAYS[month - 1] + (month == 2 and _is_leap(year)):
        raise ValueError("no day of the calendar")
    return _days(year, month, day)


def days_text(days: int) -> str:
    """The date's text; years beyond 9999 have a sign, as those before 0."""
    year, month, day = _civil(days)
    sign = "+" if year > 9999 else ("-" if year < 0 else "")
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def parse_instant(text: str) -> tuple[int, int, bool]:
    """Microseconds since 1970 of a date, alone or with a time and a zone (UTC where it has none).

    With it, how many microseconds the text leaves open (1 for a text in microseconds, 1,000 for milliseconds, 86,400,000,000 for a
    date alone), and whether it names a zone. Raises ValueError, also for a time that is no whole number of microseconds.
    """
    day, *rest_of = _SEPARATOR.split(text, 1)
    days_us = parse_days(day) * DAY_US
    if not rest_of:
        return days_us, DAY_US, False
    rest = rest_of[0]
    time = _TIME.match(rest)
    zone = None if time is None else _ZONE.fullmatch(rest, time.end())
    if time is None or (zone is None and time.end() < len(rest)):
        raise ValueError("no time of day")
    of_day, grain = _of_day(time)
    return days_us + of_day - _offset_us(zone), grain, zone is not None


def instant_text(us: int, *, separator: str = "T", zone: str = "Z", digits: int = 6) -> str:
    """The text of an instant, cut to so many digits of a second.

    >>> instant_text(1_123_456, digits=3)
    '1970-01-01T00:00:01.123Z'
    """
    days, rest = divmod(us, DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    shown = f".{fraction:06d}"[: digits + 1] if digits else ""
    return f"{days_text(days)}{separator}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{shown}{zone}"


def _of_day(time: re.Match[str]) -> tuple[int, int]:
    hour, minute, second, digits = int(time[1]), int(time[2]), int(time[3] or 0), time[4] or ""
    if hour > 23 or minute > 59 or second > 59 or digits[6:].strip("0"):
        raise ValueError("no time of day in microseconds")
    fraction = digits[:6]
    grain = int(10 ** (6 - len(fraction))) if time[3] else 60_000_000
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + int(fraction.ljust(6, "0")), grain


def _offset_us(zone: re.Match[str] | None) -> int:
    if zone is None or not zone[1]:
        return 0
    seconds = int(zone[2]) * 3600 + int(zone[3]) * 60 + int(zone[4] or 0)
    return (seconds if zone[1] == "+" else -seconds) * 1_000_000


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days(year: int, month: int, day: int) -> int:
    # Years begin in March here, so that a leap day is the last of its year; an era is 400 of them.
    era, of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year + era * 400 + (month >= 10), (month + 2) % 12 + 1, day
