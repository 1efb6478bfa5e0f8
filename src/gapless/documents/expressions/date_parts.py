"""Expressions that take dates apart and put them together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gapless.documents.expressions.operands import (
    Given,
    Make,
    Parsing,
    named,
    read_named,
    wrong_call,
    wrong_result,
    wrong_value,
)
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null
from gapless.documents.expressions.zones import beyond_years, instant, instant_of, local, zone_of
from gapless.documents.filters.operands import whole
from gapless.documents.values.dates import from_milliseconds

Part = Callable[[datetime], int]


def week_of_year(day: datetime) -> int:
    """Weeks begin on Sunday; those before the first one are 0."""
    return (day.timetuple().tm_yday + 6 - day.isoweekday() % 7) // 7


PARTS: Mapping[str, Part] = {
    "$year": lambda day: day.year,
    "$month": lambda day: day.month,
    "$dayOfMonth": lambda day: day.day,
    "$hour": lambda day: day.hour,
    "$minute": lambda day: day.minute,
    "$second": lambda day: day.second,
    "$millisecond": lambda day: day.microsecond // 1000,
    "$dayOfWeek": lambda day: day.isoweekday() % 7 + 1,
    "$dayOfYear": lambda day: day.timetuple().tm_yday,
    "$week": week_of_year,
    "$isoDayOfWeek": lambda day: day.isoweekday(),
    "$isoWeek": lambda day: day.isocalendar().week,
    "$isoWeekYear": lambda day: day.isocalendar().year,
}


def _part(part: Part) -> Make:
    def make(operator: str, given: Any, at: Parsing) -> Evaluate:
        timezone: Evaluate = Constant("UTC")
        if isinstance(given, Mapping) and not any(str(name).startswith("$") for name in given):
            operands = read_named(operator, given, ("date",), ("timezone",))
            given = operands["date"]
            timezone = at.read(operands["timezone"]) if "timezone" in operands else timezone
        elif isinstance(given, list | tuple):
            if len(given) != 1:
                raise wrong_call(operator, given, "It takes one date", "Pass {'date': …, 'timezone': …} for another zone")
            (given,) = given
        date = at.read(given)

        def told(scope: Scope) -> int | None:
            value, zone = date(scope), timezone(scope)
            if is_null(value) or is_null(zone):
                return None
            return part(local(operator, instant_of(operator, value), zone_of(operator, zone)))

        return told

    return make


def _to_parts(given: Given) -> dict[str, int] | None:
    operator = "$dateToParts"
    date, zone, iso = given["date"], given.get("timezone", "UTC"), given.get("iso8601", False)
    if is_null(date) or is_null(zone) or is_null(iso):
        return None
    if not isinstance(iso, bool):
        raise wrong_value(operator, iso, "true or false")
    day = local(operator, instant_of(operator, date), zone_of(operator, zone))
    dates = {"isoWeekYear": "$isoWeekYear", "isoWeek": "$isoWeek", "isoDayOfWeek": "$isoDayOfWeek"}
    plain = {"year": "$year", "month": "$month", "day": "$dayOfMonth"}
    times = {"hour": "$hour", "minute": "$minute", "second": "$second", "millisecond": "$millisecond"}
    return {name: PARTS[part](day) for name, part in {**(dates if iso else plain), **times}.items()}


_TIMES = ("hour", "minute", "second", "millisecond")
_FROM: Mapping[str, tuple[str, ...]] = {
    "year": ("year", "month", "day", *_TIMES),
    "isoWeekYear": ("isoWeekYear", "isoWeek", "isoDayOfWeek", *_TIMES),
}
_BOUND = 1 << 15
"""Parts may lie beyond their ends, and carry over: month 14 is February of the next year."""


def _from_parts(operator: str, given: Any, at: Parsing) -> Evaluate:
    known = _FROM["isoWeekYear" if isinstance(given, Mapping) and "isoWeekYear" in given else "year"]
    operands = read_named(operator, given, known[:1], (*known[1:], "timezone"))
    parts = {name: at.read(one) for name, one in operands.items()}

    def made(scope: Scope) -> Any:
        told = {name: one(scope) for name, one in parts.items()}
        if any(map(is_null, told.values())):
            return None
        zone = zone_of(operator, told.pop("timezone", "UTC"))
        numbers = [_whole(operator, told.get(name, 1 if at_ < 3 else 0)) for at_, name in enumerate(known)]
        if not 1 <= numbers[0] <= 9999:
            raise beyond_years(operator, numbers[0])
        try:
            day = _day(known[0], *numbers[:3])
            hour, minute, second, ms = numbers[3:]
            moment = day + timedelta(hours=hour, minutes=minute, seconds=second, milliseconds=ms)
        except (OverflowError, ValueError) as error:
            raise beyond_years(operator, numbers) from error
        return from_milliseconds(instant(operator, moment.replace(tzinfo=zone)))

    return made


def _whole(operator: str, value: Any) -> int:
    found = whole(value)
    if found is None:
        raise wrong_value(operator, value, "a whole number")
    if not -_BOUND <= found < _BOUND:
        raise wrong_result(operator, value, f"A part is from {-_BOUND} to {_BOUND - 1}")
    return found


def _day(kind: str, year: int, second: int, third: int) -> datetime:
    if kind == "year":
        years, month = divmod(second - 1, 12)
        return datetime(year + years, month + 1, 1, tzinfo=UTC) + timedelta(days=third - 1)
    return datetime.fromisocalendar(year, 1, 1).replace(tzinfo=UTC) + timedelta(weeks=second - 1, days=third - 1)


DATE_PARTS: Mapping[str, Make] = {
    **{name: _part(part) for name, part in PARTS.items()},
    "$dateToParts": named(_to_parts, ("date",), ("timezone", "iso8601")),
    "$dateFromParts": _from_parts,
}
