"""Weekly hours as text, `mon-fri 09:30-16:00 America/New_York except 2026-12-25`, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from zoneinfo import available_timezones

from gapless.coverage.calendar import parse_zone
from gapless.errors import InvalidOption, nearest

DAY_S = 86_400
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = r"(\d{1,2}):(\d\d)(?::(\d\d))?"
_HOURS = re.compile(rf"{_CLOCK}-{_CLOCK}")
_WHOLE_DAY = (0, DAY_S)


@dataclass(frozen=True, slots=True)
class Shift:
    """Days of the week and the hours they have."""

    days: tuple[int, ...]
    """0 for Monday … 6 for Sunday, ascending."""
    hours: tuple[tuple[int, int], ...] = (_WHOLE_DAY,)
    """Of each session its start, and the end just past it, in seconds of the clock since midnight; an end that is not later than
    the start is on the next day.
    """


@dataclass(frozen=True, slots=True)
class Week:
    """What a text says."""

    shifts: tuple[Shift, ...]
    timezone: str | None
    holidays: tuple[date, ...]


def is_weekly(text: str) -> bool:
    """Whether a text begins with a day of the week, as all weekly hours do.

    >>> is_weekly("Mon-fri 09:00-17:00"), is_weekly("XNYS")
    (True, False)
    """
    words = _words(text)
    return bool(words) and _days(words[0]) is not None


def parse_week(text: str) -> Week:
    """Read weekly hours; see `WeeklyHours.parse`. Raises InvalidOption that names the word it cannot read."""
    body, *holidays = re.split(r"\bexcept\b", text, maxsplit=1, flags=re.IGNORECASE)
    shifts: list[Shift] = []
    zones: set[str] = set()
    # "09:30 - 16:00" is one word.
    for part in re.sub(r"\s*[-–]\s*", "-", body).split(";"):
        found, rest = _shifts(text, _words(part))
        shifts += found
        zones |= rest
    if not shifts:
        raise _refuse(text, "it names no day", 'Begin with days, such as "mon-fri"')
    if len(zones) > 1:
        raise _refuse(text, f"it names {len(zones)} time zones, {' and '.join(sorted(zones))}", "Name one zone, at the end")
    return Week(tuple(shifts), next(iter(zones), None), tuple(_date(text, word) for word in _words(*holidays)))


def format_week(shifts: Sequence[Shift], timezone: str | None, holidays: Sequence[date]) -> str:
    """The text that `parse_week` reads as these."""
    parts = "; ".join(_shift_text(shift) for shift in shifts)
    zone = f" {timezone}" if timezone else ""
    return parts + zone + (f" except {', '.join(day.isoformat() for day in holidays)}" if holidays else "")


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in re.split(r"[\s,;]+", text) if word]


def _shifts(text: str, words: Sequence[str]) -> tuple[list[Shift], set[str]]:
    """The shifts of one part, and the zones it names; days that come after hours begin another shift."""
    shifts: list[Shift] = []
    zones: set[str] = set()
    days: set[int] = set()
    hours: list[tuple[int, int]] = []
    for word in words:
        if (more := _days(word)) is not None:
            if hours:
                shifts.append(Shift(tuple(sorted(days)), tuple(hours)))
                days, hours = set(), []
            days |= more
        elif match := _HOURS.fullmatch(word):
            if not days:
                raise _refuse(text, f"the hours {word} have no day", "Write the days first: mon-fri 09:30-16:00")
            hours.append(_hours(text, word, match.groups(default="0")))
        else:
            zones.add(_zone(text, word))
    if days:
        shifts.append(Shift(tuple(sorted(days)), tuple(hours) or (_WHOLE_DAY,)))
    return shifts, zones


def _days(word: str) -> set[int] | None:
    """The days that a word names: `mon`, `Friday`, `sun-thu`; None where it names none."""
    numbers = [_day(name) for name in word.lower().split("-")]
    if not 1 <= len(numbers) <= 2 or None in numbers:
        return None
    first, last = numbers[0] or 0, numbers[-1] or 0
    return {(first + step) % 7 for step in range((last - first) % 7 + 1)}


def _day(name: str) -> int | None:
    for names in (_DAYS, _LONG):
        if name in names:
            return names.index(name)
    return None


def _hours(text: str, word: str, digits: Sequence[str]) -> tuple[int, int]:
    numbers = [int(one) for one in digits]
    start, end = (hour * 3600 + minute * 60 + second for hour, minute, second in (numbers[:3], numbers[3:]))
    if any(one >= 60 for one in (*numbers[1:3], *numbers[4:])) or start >= DAY_S or end > DAY_S:
        raise _refuse(text, f"{word} is no stretch of a day", "Hours go from 00:00 to 24:00: 09:30-16:00")
    return start, end


def _zone(text: str, word: str) -> str:
    try:
        return parse_zone(word).key
    except InvalidOption:
        fix = nearest(word, (*_DAYS, *available_timezones())) if word[:1].isalpha() else "Write hours as 09:30-16:00"
        raise _refuse(text, f"{word!r} is no day, no hours and no time zone", fix) from None


def _date(text: str, word: str) -> date:
    try:
        return date.fromisoformat(word)
    except ValueError:
        raise _refuse(text, f"{word!r} after `except` is no date", "Write holidays as 2026-12-25") from None


def _shift_text(shift: Shift) -> str:
    days = ",".join(_day_ranges(shift.days))
    return days if shift.hours == (_WHOLE_DAY,) else f"{days} {','.join('-'.join(map(_clock, pair)) for pair in shift.hours)}"


def _day_ranges(days: Sequence[int]) -> Iterator[str]:
    """Runs of days, round the end of the week too, each as one text."""
    if len(days) == 7:
        yield "mon-sun"
        return
    for first in (day for day in days if (day - 1) % 7 not in days):
        length = next(step for step in range(1, 8) if (first + step) % 7 not in days)
        yield _DAYS[first] if length == 1 else f"{_DAYS[first]}-{_DAYS[(first + length - 1) % 7]}"


def _clock(second: int) -> str:
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}"
    return f"{text}:{second % 60:02d}" if second % 60 else text


def _refuse(text: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(
        f"calendar {text!r} cannot be read", why=why[:1].upper() + why[1:], fix=fix, option="calendar", value=text
    )
