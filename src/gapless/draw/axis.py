"""The time axis of a heat map: positions, ticks and labels of index values, in the zone that they are shown in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from itertools import count, takewhile
from typing import cast

import numpy as np

from gapless.model.instant import (
    NS_PER,
    NS_PER_DAY,
    Unit,
    civil_from_days,
    datetime_from_ns,
    days_from_civil,
    format_instant,
    ns_from_date,
    ns_from_datetime,
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATETIME_NS = (ns_from_date(date.min) + NS_PER_DAY, ns_from_date(date.max) - NS_PER_DAY)
_NARROWEST = 300
"""The first and the last column are drawn at least this part of the whole wide, or a gap there would not be seen."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis."""

    value: int
    """ns, or the integer of an integer index."""
    text: str
    below: str
    """What `text` leaves out (the day of an hour, the year of a month) where that is new; else empty."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Every so many ns, integers or (calendar) months, counted from `origin`."""

    size: int
    months: bool = False
    origin: int = 0

    @property
    def least(self) -> int:
        """A lower bound of its length, ns or integers."""
        return self.size * 28 * NS_PER_DAY if self.months else self.size

    def marks(self, low: int, high: int) -> Iterator[int]:
        """Multiples from `low` to `high`, both inclusive."""
        if not self.months:
            first = -((self.origin - low) // self.size) * self.size + self.origin
            return iter(range(first, high + 1, self.size))
        year, month, _ = civil_from_days(low // NS_PER_DAY)
        numbers = count((year * 12 + month - 1) // self.size * self.size, self.size)
        starts = (days_from_civil(n // 12, n % 12 + 1, 1) * NS_PER_DAY for n in numbers)
        return (start for start in takewhile(lambda start: start <= high, starts) if start >= low)


def _integer_steps() -> Iterator[_Step]:
    return (_Step(step * 10**power) for power in count() for step in (1, 2, 5))


def _time_steps() -> Iterator[_Step]:
    yield from (_Step(step * 10**power) for power in range(9) for step in (1, 2, 5))
    seconds = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
    yield from (_Step(s * NS_PER["s"]) for s in seconds)
    yield from (_Step(days * NS_PER_DAY) for days in (1, 2))
    yield from (_Step(days * NS_PER_DAY, origin=4 * NS_PER_DAY) for days in (7, 14))  # Mondays
    yield from (_Step(months, months=True) for months in (1, 2, 3, 6))
    yield from (_Step(12 * step.size, months=True) for step in _integer_steps())


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Where the columns of a heat map lie."""

    edges: tuple[int, ...]
    """Between the columns, ascending: ns since 1970 (of the wall clock where there is no zone), or integers."""
    is_time: bool
    zone: tzinfo | None
    """What times are shown in; None for a naive index and for integers."""

    @property
    def name(self) -> str:
        """What the axis counts."""
        return "index" if not self.is_time else f"time ({self.zone})" if self.zone else "time"

    @property
    def drawn(self) -> tuple[int, ...]:
        """The edges, the outer two moved outwards where their column would be too narrow to be seen."""
        if len(self.edges) < 3:
            return self.edges
        first, *inner, last = self.edges
        least = (last - first) // _NARROWEST
        return (min(first, inner[0] - least), *inner, max(last, inner[-1] + least))

    def place(self, value: int) -> float:
        """How far across the drawing a value lies: 0.0 at its left end, 1.0 at its right end."""
        drawn = self.drawn
        return (value - drawn[0]) / (drawn[-1] - drawn[0])

    def ticks(self, room: int) -> list[Tick]:
        """Ticks at round values, as many as can be labelled in `room` characters side by side (none where none can); times are
        round on the wall clock of the zone.
        """
        if len(self.edges) < 2:
            return []
        low, high = self._wall(self.edges[0]), self._wall(self.edges[-1])
        for step in _time_steps() if self.is_time else _integer_steps():
            if (high - low) // step.least <= room:
                ticks = self._labelled(step, step.marks(low, high))
                if sum(max(6, len(tick.text), len(tick.below)) + 2 for tick in ticks) <= room:
                    return ticks
        raise AssertionError("steps grow without end")

    def texts(self, values: Sequence[int]) -> list[str]:
        """Index values in full, all to the same precision: dates where all are midnights."""
        if not self.is_time:
            return [f"{value:,}" for value in values]
        texts = [format_instant(self._wall(value), "").replace("T", " ") for value in values]
        for tail in (" 00:00:00", ":00"):
            if all(text.endswith(tail) for text in texts):
                return [text.removesuffix(tail) for text in texts]
        return texts

    def _labelled(self, step: _Step, walls: Iterable[int]) -> list[Tick]:
        ticks: list[Tick] = []
        above = ""
        for wall in walls:
            text, below = _label(step, wall) if self.is_time else (f"{wall:,}", "")
            value = self._instant(wall)
            if self.edges[0] <= value <= self.edges[-1]:
                ticks.append(Tick(value, text, below if below != above else ""))
                above = below
        return ticks

    def _wall(self, value: int) -> int:
        return value + self._offset(value)

    def _instant(self, wall: int) -> int:
        return wall - self._offset(wall - self._offset(wall))

    def _offset(self, ns: int) -> int:
        if self.zone is None or not _DATETIME_NS[0] <= ns < _DATETIME_NS[1]:
            return 0
        moment = datetime_from_ns(ns)
        offset = moment.astimezone(self.zone).utcoffset() or timedelta()
        return (offset.days * 86_400 + offset.seconds) * NS_PER["s"] + offset.microseconds * NS_PER["us"]


def axis_of(edges: Sequence[object]) -> Axis:
    """The axis of a heat map's edges: datetimes, `numpy.datetime64`s (UTC or naive, as the datetimes are) or integers."""
    zones = [edge.tzinfo for edge in edges if isinstance(edge, datetime)]
    return Axis(
        edges=tuple(axis_value(edge) for edge in edges),
        is_time=any(isinstance(edge, datetime | np.datetime64) for edge in edges),
        zone=next(iter(zones), None),
    )


def axis_value(value: object) -> int:
    """An index value as `Coverage` shows it, as ns since 1970 (or of the wall clock) or as the integer it is."""
    if isinstance(value, datetime):
        return ns_from_datetime(value)
    if isinstance(value, np.datetime64):
        unit, size = np.datetime_data(value.dtype)
        return int(value.astype(np.int64)) * size * NS_PER[cast("Unit", unit)]
    assert isinstance(value, int | np.integer), value
    return int(value)


def _label(step: _Step, wall: int) -> tuple[str, str]:
    """What a tick says, and what goes without saying after the first."""
    year, month, day = civil_from_days(wall // NS_PER_DAY)
    if step.months:
        return (str(year), "") if step.size % 12 == 0 else (_MONTHS[month - 1], str(year))
    if step.size >= NS_PER_DAY:
        return f"{_MONTHS[month - 1]} {day}", str(year)
    date_text = f"{year}-{month:02d}-{day:02d}"
    seconds, fraction = divmod(wall % NS_PER_DAY, NS_PER["s"])
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if step.size % (60 * NS_PER["s"]) == 0:
        return clock, date_text
    digits = next(digits for digits in (0, 3, 6, 9) if step.size % 10 ** (9 - digits) == 0)
    return f"{clock}:{seconds % 60:02d}" + (f".{fraction:09d}"[: digits + 1] if digits else ""), date_text
