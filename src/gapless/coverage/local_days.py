"""Local days as instants: when each day of a time zone begins, one by one and for whole arrays.

Days are numbered from 1970-01-01 (local). A day begins at its local midnight: the first of two where a clock change
repeats it, the change itself where one skips it. A day that is skipped whole (Samoa, 2011-12-30) begins where the next does.
Nothing here depends on the process's own zone.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt

from gapless.errors import InvalidOption, InvalidTime, InvalidValue, nearest
from gapless.model.instant import civil_from_days, days_from_civil, format_instant

Ints = npt.NDArray[np.int64]

MIN_DAY = days_from_civil(1, 1, 1)
MAX_DAY = days_from_civil(9999, 12, 31)
_DAY_S = 86_400
_NS_PER_S = 1_000_000_000
_DAYS_PER_400_YEARS = 146_097
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def parse_zone(name: str) -> ZoneInfo:
    """The IANA zone of this name; raises InvalidOption (with the nearest name) where there is none.

    >>> parse_zone("Europe/Berlin").key
    'Europe/Berlin'
    """
    # "localtime" is whatever this machine is set to; "right/…" counts leap seconds, which no stored instant does.
    if not name.startswith(("localtime", "right/", "posix/", "posixrules")):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # not found, no valid key, a folder such as "America"
            pass
    raise InvalidOption(
        f"timezone {name!r} is not known",
        why="A time zone is named as in the IANA database, such as 'America/New_York'",
        fix=nearest(name, available_timezones() - {"localtime"}),
        option="timezone", value=name,
    )  # fmt: skip


def midnight_s(zone: ZoneInfo, day: int) -> int:
    """When local day number `day` begins: whole seconds since 1970-01-01T00:00Z.

    Any day: outside the years 1 to 9999 by the zone's first offset and its last rule.
    """
    return wall_s(zone, day, 0)


def wall_s(zone: ZoneInfo, day: int, second: int) -> int:
    """When the clock on the wall reads `second` (from 0; past a day's end it counts on) of local day number `day`: whole seconds
    since 1970-01-01T00:00Z. The first of two instants where a clock change repeats that time, the change where one skips it.
    """
    if not 0 <= second < _DAY_S:
        day, second = day + second // _DAY_S, second % _DAY_S
    if day < MIN_DAY:
        return wall_s(zone, MIN_DAY, second) + (day - MIN_DAY) * _DAY_S
    if day > MAX_DAY:
        # The Gregorian calendar, and with it a zone's last rule, repeats every 400 years to the day of the week.
        cycles = -((MAX_DAY - day) // _DAYS_PER_400_YEARS)
        return wall_s(zone, day - cycles * _DAYS_PER_400_YEARS, second) + cycles * _DAYS_PER_400_YEARS * _DAY_S
    local = (datetime.fromordinal(day + _EPOCH_ORDINAL) + timedelta(seconds=second)).replace(tzinfo=zone)
    before, after = _offset_s(local), _offset_s(local.replace(fold=1))
    wall = day * _DAY_S + second
    first = wall - before
    return first if before >= after else _change_s(zone, wall - after, first, before)


def _offset_s(local: datetime) -> int:
    offset = local.utcoffset() or timedelta()
    return offset.days * _DAY_S + offset.seconds


def _change_s(zone: ZoneInfo, low: int, high: int, before: int) -> int:
    """The first second of `(low, high]` at which the zone's offset is no longer `before`."""
    while high - low > 1:
        middle = (low + high) // 2
        utc = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=middle)
        if _offset_s(zone.fromutc(utc)) == before:
            low = middle
        else:
            high = middle
    return high


def day_of(zone: ZoneInfo, second: int) -> int:
    """The local day that holds an instant, given in whole seconds since 1970 UTC.

    Raises InvalidTime outside the local years 1 to 9999.
    """
    day = second // _DAY_S
    if MIN_DAY - 2 <= day <= MAX_DAY + 2:
        while midnight_s(zone, day) > second:
            day -= 1
        while midnight_s(zone, day + 1) <= second:
            day += 1
    if not MIN_DAY <= day <= MAX_DAY:
        raise InvalidTime(
            f"{format_instant(second * _NS_PER_S)} has no local day in {zone.key}",
            why="Local days and months are known for the years 1 to 9999",
            fix="Take a time in between, or a table without a time zone",
            value=second * _NS_PER_S,
        )
    return day


@lru_cache(maxsize=4096)
def _midnights_of_year(zone: ZoneInfo, year: int) -> Ints:
    """Seconds at which each local day of a year begins."""
    first, end = days_from_civil(year, 1, 1), days_from_civil(year + 1, 1, 1)
    return np.fromiter((midnight_s(zone, day) for day in range(first, end)), dtype=np.int64, count=end - first)


def _years_in(seconds: Ints, low: int, high: int) -> list[int]:
    """The years, each with its neighbours, that hold instants between days `low` and `high`; ascending."""
    first, last = civil_from_days(low)[0], civil_from_days(high)[0]
    if last - first <= 200:
        return list(range(first, last + 1))
    # A stray far date must not cost the years between: look which ones are there.
    years = np.unique((seconds // _DAY_S).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)) + 1970
    around = np.unique(np.concatenate([years - 1, years, years + 1]))
    return [int(y) for y in around if 1 <= y <= 9999]


def days_of(zone: ZoneInfo, seconds: Ints) -> Ints:
    """The local day of every instant, given in whole seconds since 1970 UTC.

    Raises InvalidValue, with the row in the array, for one outside the local years 1 to 9999.
    """
    if seconds.size == 0:
        return seconds
    low, high = (_day_of_row(zone, seconds, int(row)) for row in (seconds.argmin(), seconds.argmax()))
    years = _years_in(seconds, low, high)
    starts = np.concatenate([_midnights_of_year(zone, year) for year in years])
    days = np.concatenate([np.arange(days_from_civil(y, 1, 1), days_from_civil(y + 1, 1, 1)) for y in years])
    found: Ints = days[np.searchsorted(starts, seconds, side="right") - 1]
    return found


def _day_of_row(zone: ZoneInfo, seconds: Ints, row: int) -> int:
    try:
        return day_of(zone, int(seconds[row]))
    except InvalidTime as error:
        raise InvalidValue(error.what, why=error.why, fix=error.fix, row=row, value=error.value, column="") from None


def skipped_days(zone: ZoneInfo, start: int, end: int) -> list[int]:
    """The local days of `[start, end)` that the zone left out whole; ascending."""
    low, high = max(start, MIN_DAY), min(end, MAX_DAY)
    if low >= high:
        return []
    years = range(civil_from_days(low)[0], civil_from_days(high - 1)[0] + 1)
    return [day for year in years for day in _skipped_of_year(zone, year) if low <= day < high]


@lru_cache(maxsize=16_384)
def _skipped_of_year(zone: ZoneInfo, year: int) -> tuple[int, ...]:
    # A day can only go missing where the offset grows by most of a day: no need to look at the days of other years.
    ends = datetime(year, 1, 1, tzinfo=zone), datetime(year, 12, 31, 23, fold=1, tzinfo=zone)
    if _offset_s(ends[1]) - _offset_s(ends[0]) < _DAY_S // 2:
        return ()
    first = days_from_civil(year, 1, 1)
    starts = np.append(_midnights_of_year(zone, year), midnight_s(zone, days_from_civil(year + 1, 1, 1)))
    return tuple(first + int(at) for at in np.flatnonzero(np.diff(starts) == 0))
