"""Expressions that add to dates, cut them off, and count between them. Pure."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from gapless.documents.expressions.operands import Given, Make, named, wrong_result, wrong_value
from gapless.documents.expressions.scope import is_null
from gapless.documents.expressions.zones import beyond_years, instant, instant_of, local, zone_of
from gapless.documents.filters.operands import whole
from gapless.documents.values.dates import from_milliseconds
from gapless.documents.values.numbers import fitting

_MONTHS: Mapping[str, int] = {"year": 12, "quarter": 3, "month": 1}
_DAYS: Mapping[str, int] = {"week": 7, "day": 1}
_MS: Mapping[str, int] = {"hour": 3_600_000, "minute": 60_000, "second": 1000, "millisecond": 1}
UNITS = (*_MONTHS, *_DAYS, *_MS)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_REFERENCE = datetime(2000, 1, 1)  # noqa: DTZ001  # on the clocks of whatever zone
"""Bins of `$dateTrunc` are counted from here."""


def _unit(operator: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong_value(operator, value, "a text that names a unit")
    if value not in UNITS:
        raise wrong_result(operator, value, f"Units are {', '.join(UNITS)}")
    return value


def _weekday(operator: str, value: Any) -> int:
    """From 0 for Monday."""
    if not isinstance(value, str):
        raise wrong_value(operator, value, "a text that names a day of the week")
    found = next((at for at, name in enumerate(_WEEKDAYS) if value.lower() in (name, name[:3])), None)
    if found is None:
        raise wrong_result(operator, value, "Weeks start on monday, tuesday, … or sunday")
    return found


def _moved(operator: str, sign: int) -> Make:
    def made(given: Given) -> Any:
        date, zone = given["startDate"], given.get("timezone", "UTC")
        if any(map(is_null, (date, zone, given["unit"], given["amount"]))):
            return None
        unit, amount = _unit(operator, given["unit"]), whole(given["amount"])
        if amount is None:
            raise wrong_value(operator, given["amount"], "a whole number")
        ms = instant_of(operator, date)
        return from_milliseconds(later(operator, ms, unit, sign * amount, zone_of(operator, zone)))

    return named(made, ("startDate", "unit", "amount"), ("timezone",))


def later(operator: str, ms: int, unit: str, amount: int, zone: tzinfo = UTC) -> int:
    """An instant so many units later, on the clocks of a zone where a unit is a day or longer. Raises InvalidValue."""
    if unit in _MS:
        return ms + amount * _MS[unit]
    moment = local(operator, ms, zone).replace(tzinfo=None)
    try:
        if unit in _DAYS:
            moved = moment + timedelta(days=amount * _DAYS[unit])
        else:
            years, month = divmod(moment.month - 1 + amount * _MONTHS[unit], 12)
            year = moment.year + years
            moved = moment.replace(
                year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]) if 1 <= year <= 9999 else 1
            )
    except (OverflowError, ValueError) as error:
        raise beyond_years(operator, [amount, unit]) from error
    # Milliseconds are kept, and what a date has below them.
    return instant(operator, moved.replace(tzinfo=zone))


def _difference(given: Given) -> Any:
    operator = "$dateDiff"
    start, end, zone = given["startDate"], given["endDate"], given.get("timezone", "UTC")
    if any(map(is_null, (start, end, zone, given["unit"]))):
        return None
    unit, first = _unit(operator, given["unit"]), given.get("startOfWeek", "sunday")
    if unit == "week" and is_null(first):
        return None
    place = zone_of(operator, zone)
    counts = [_count(operator, instant_of(operator, one), unit, place, first) for one in (start, end)]
    return fitting(counts[1] - counts[0], narrow=False)


def _count(operator: str, ms: int, unit: str, zone: tzinfo, first: Any) -> int:
    """The number of a unit in which an instant lies, counted from anywhere."""
    if unit in _MS:
        # Of the offset counts what is no whole hour: an hour that comes twice is two.
        offset = local(operator, ms, zone).utcoffset() or timedelta()
        return (ms + offset // timedelta(milliseconds=1) % _MS["hour"]) // _MS[unit]
    moment = local(operator, ms, zone)
    if unit in _MONTHS:
        return (moment.year * 12 + moment.month - 1) // _MONTHS[unit]
    days = moment.toordinal() - 1
    return (days - _weekday(operator, first)) // 7 if unit == "week" else days


def _truncated(given: Given) -> Any:
    operator = "$dateTrunc"
    date, zone, size = given["date"], given.get("timezone", "UTC"), given.get("binSize", 1)
    first = given.get("startOfWeek", "sunday")
    if any(map(is_null, (date, zone, given["unit"], size))):
        return None
    unit, bins, place = _unit(operator, given["unit"]), whole(size), zone_of(operator, zone)
    if unit == "week" and is_null(first):
        return None
    if bins is None or bins < 1:
        raise wrong_value(operator, size, "a whole number from 1 as binSize")
    ms = instant_of(operator, date)
    if unit in _MS:
        reference = instant(operator, _REFERENCE.replace(tzinfo=place))
        width = bins * _MS[unit]
        return from_milliseconds(reference + (ms - reference) // width * width)
    moment = local(operator, ms, place)
    try:
        begin = _begin(moment, unit, bins, _weekday(operator, first))
    except (OverflowError, ValueError) as error:
        raise beyond_years(operator, ms) from error
    return from_milliseconds(instant(operator, begin.replace(tzinfo=place)))


def _begin(moment: datetime, unit: str, bins: int, first: int) -> datetime:
    if unit in _MONTHS:
        width = bins * _MONTHS[unit]
        months = ((moment.year - 2000) * 12 + moment.month - 1) // width * width
        return datetime(2000 + months // 12, months % 12 + 1, 1, tzinfo=UTC)
    # The first of 2000 was a Saturday; the week that is counted from begins on the first such day of that year.
    start = _REFERENCE + timedelta(days=(first - _REFERENCE.weekday()) % 7 if unit == "week" else 0)
    width = bins * _DAYS[unit]
    days = (moment.toordinal() - start.toordinal()) // width * width
    return start + timedelta(days=days)


DATE_STEPS: Mapping[str, Make] = {
    "$dateAdd": _moved("$dateAdd", 1),
    "$dateSubtract": _moved("$dateSubtract", -1),
    "$dateDiff": named(_difference, ("startDate", "endDate", "unit"), ("timezone", "startOfWeek")),
    "$dateTrunc": named(_truncated, ("date", "unit"), ("binSize", "timezone", "startOfWeek")),
}
