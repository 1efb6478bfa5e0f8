"""The calendar that repeats each week: trading hours and business days of a time zone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from gapless.coverage.calendar import MAX_DAY, MIN_DAY, day_of, parse_zone, wall_s
from gapless.coverage.sessions import Sessions
from gapless.coverage.weekly_text import DAY_S, Shift, format_week, parse_week
from gapless.errors import InvalidOption
from gapless.model.instant import NS_PER, days_from_civil


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
