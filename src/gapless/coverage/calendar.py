"""Calendars: stretches of time in which rows are expected, and weekly hours such as `mon-fri 09:30-16:00 America/New_York`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Protocol
from zoneinfo import available_timezones

from gapless.coverage.local_days import MAX_DAY, MIN_DAY, day_of, parse_zone, wall_s
from gapless.errors import InvalidOption, nearest
from gapless.model.instant import NS_PER, days_from_civil, ns_from_datetime

Moment = datetime | int
"""An instant: a datetime, or ns since 1970-01-01T00:00Z (of the wall clock for a naive index)."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Half-open stretches of time, ascending, none reaching into the next; outside of them nothing is expected.

    A list of sessions is a `Calendar` too: that of exactly these sessions.
    """

    opens_ns: tuple[int, ...]
    """When each begins: ns since 1970-01-01T00:00Z (of the wall clock for a naive index)."""
    closes_ns: tuple[int, ...]
    """The ns just past the end of each."""

    def __post_init__(self) -> None:
        bounds = list(zip(self.opens_ns, self.closes_ns, strict=False))
        ordered = all(left[1] <= right[0] for left, right in pairwise(bounds)) and all(start < end for start, end in bounds)
        if len(self.opens_ns) != len(self.closes_ns) or not ordered:
            raise InvalidOption(
                f"{len(self.opens_ns)} opens and {len(self.closes_ns)} closes are no sessions",
                why="Each session must end after it begins, and not after the next begins",
                fix="Make them with Sessions.of(pairs), which takes any order and joins what overlaps",
                option="calendar", value=self,
            )  # fmt: skip

    @classmethod
    def of(cls, pairs: Iterable[tuple[Moment, Moment]]) -> Sessions:
        """Sessions from (start, end) pairs in any order: those that overlap or touch become one, empty ones are left out.

        >>> Sessions.of([(20, 30), (0, 10), (10, 12), (5, 5)])
        Sessions(opens_ns=(0, 20), closes_ns=(12, 30))
        """
        opens: list[int] = []
        closes: list[int] = []
        for start, end in sorted((_ns(start), _ns(end)) for start, end in pairs):
            if closes and start <= closes[-1]:
                closes[-1] = max(closes[-1], end)
            elif start < end:
                opens.append(start)
                closes.append(end)
        return cls(tuple(opens), tuple(closes))

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:  # noqa: ARG002 - see `Calendar`: more may be given
        """These."""
        return self


class Calendar(Protocol):
    """When rows are expected. What has this one method can be given as `calendar=`."""

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:
        """All sessions that reach into `[start_ns, end_ns)`, ns since 1970-01-01T00:00Z; others may be among them."""
        ...


def _ns(moment: Moment) -> int:
    return ns_from_datetime(moment) if isinstance(moment, datetime) else moment


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyHours:
    """Sessions on days of the week, by the clock of a time zone, but for holidays: a `Calendar`.

    A session begins and ends when the clock on the wall says so, however long it then is: at the first of two times that a clock
    change repeats, at the change where one skips its time; a session that is skipped whole does not take place. One that ends past
    midnight belongs to the day on which it begins.
    """

    shifts: tuple[Shift, ...]
    """Days and the hours that all of them have."""
    timezone: str | None = None
    """IANA zone of the clock; None for the table's own, UTC where it has none."""
    holidays: tuple[date, ...] = ()
    """Days on which no session begins, ascending."""

    def __post_init__(self) -> None:
        if self.timezone is not None:
            parse_zone(self.timezone)
        if not self.shifts:
            raise InvalidOption(
                "a week without a day expects nothing",
                why="Everything would look complete",
                fix='Name days, such as "mon-fri"',
                option="calendar", value=self,
            )  # fmt: skip

    @classmethod
    def parse(cls, text: str, holidays: Iterable[date] = ()) -> WeeklyHours:
        """Read days, hours, zone and holidays: `mon-fri 09:30-16:00 America/New_York except 2026-12-25`.

        Days are `mon` … `sun`, ranges of them (`sun-thu`) or lists (`mon,wed`). Hours are `09:30-16:00`, the end being just past the
        session; several are a day with breaks (`09:00-11:30,12:30-15:00`); an end that is not later than the start is on the next day
        (`sun-thu 18:00-17:00`). Without hours a day counts whole. `;` parts days of different hours (`mon-thu 09:00-17:00; fri
        09:00-13:00`). `except` and what `holidays` adds name days on which no session begins. Raises InvalidOption.
        """
        week = parse_week(text)
        return cls(
            shifts=week.shifts, timezone=week.timezone, holidays=tuple(sorted({*week.holidays, *map(_date_only, holidays)}))
        )

    @property
    def text(self) -> str:
        """The shortest text that `parse` reads as this calendar.

        >>> WeeklyHours.parse("Mon-Fri, 9:30-16:00  UTC").text
        'mon-fri 09:30-16:00 UTC'
        """
        return format_week(self.shifts, self.timezone, self.holidays)

    def sessions(self, start_ns: int, end_ns: int) -> Sessions:
        """All sessions that reach into `[start_ns, end_ns)`. Raises InvalidTime outside the local years 1 to 9999."""
        zone = parse_zone(self.timezone or "UTC")
        first, last = (day_of(zone, ns // NS_PER["s"]) for ns in (start_ns, max(start_ns, end_ns - 1)))
        # A session that began the day before may reach in.
        days = range(max(MIN_DAY, first - 1), min(MAX_DAY, last) + 1)
        return Sessions.of(
            (wall_s(zone, day, opens) * NS_PER["s"], wall_s(zone, day, closes) * NS_PER["s"])
            for day, opens, closes in self._on(days)
        )

    def _on(self, days: range) -> Iterator[tuple[int, int, int]]:
        """Day number, and first and end second of its clock, of each session that begins on one of the days."""
        hours: list[list[tuple[int, int]]] = [[] for _ in range(7)]
        for shift in self.shifts:
            for weekday in shift.days:
                hours[weekday] += shift.hours
        closed = {days_from_civil(day.year, day.month, day.day) for day in self.holidays}
        for day in days:
            # 1970-01-01 was a Thursday.
            for opens, closes in hours[(day + 3) % 7] if day not in closed else ():
                yield day, opens, closes if closes > opens else closes + DAY_S


def _date_only(day: object) -> date:
    if not isinstance(day, date):
        raise InvalidOption(
            f"holiday {day!r} is no date",
            fix="Pass datetime.date(2026, 12, 25), or write `except 2026-12-25` in the text",
            option="holidays", value=day,
        )  # fmt: skip
    return date(day.year, day.month, day.day)
