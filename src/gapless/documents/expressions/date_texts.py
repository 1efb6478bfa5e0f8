"""Expressions that write dates as texts, and read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any

from gapless.documents.expressions.date_parts import week_of_year
from gapless.documents.expressions.operands import (
    Given,
    Make,
    Parsing,
    read_named,
    wrong_result,
    wrong_value,
)
from gapless.documents.expressions.scope import Constant, Evaluate, Scope, is_null
from gapless.documents.expressions.zones import instant, instant_of, local, zone_of
from gapless.documents.values.dates import from_milliseconds
from gapless.errors import InvalidValue

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WRITTEN: Mapping[str, Callable[[datetime], str]] = {
    "Y": lambda day: f"{day.year:04d}",
    "m": lambda day: f"{day.month:02d}",
    "d": lambda day: f"{day.day:02d}",
    "H": lambda day: f"{day.hour:02d}",
    "M": lambda day: f"{day.minute:02d}",
    "S": lambda day: f"{day.second:02d}",
    "L": lambda day: f"{day.microsecond // 1000:03d}",
    "j": lambda day: f"{day.timetuple().tm_yday:03d}",
    "w": lambda day: f"{day.isoweekday() % 7 + 1}",
    "u": lambda day: f"{day.isoweekday()}",
    "U": lambda day: f"{week_of_year(day):02d}",
    "V": lambda day: f"{day.isocalendar().week:02d}",
    "G": lambda day: f"{day.isocalendar().year:04d}",
    "b": lambda day: _MONTHS[day.month - 1][:3].lower(),
    "B": lambda day: _MONTHS[day.month - 1].lower(),
    "z": lambda day: _offset(day),  # noqa: PLW0108  # it stands below
    "Z": lambda day: f"{_minutes(day):+d}",
    "%": lambda _: "%",
}
_ISO = "%Y-%m-%dT%H:%M:%S.%L"
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


def _minutes(day: datetime) -> int:
    return (day.utcoffset() or timedelta()) // timedelta(minutes=1)


def _offset(day: datetime) -> str:
    hours, minutes = divmod(abs(_minutes(day)), 60)
    return f"{'-' if _minutes(day) < 0 else '+'}{hours:02d}{minutes:02d}"


def _to_text(operator: str, given: Any, at: Parsing) -> Evaluate:
    operands = read_named(operator, given, ("date",), ("format", "timezone", "onNull"))
    date, timezone = at.read(operands["date"]), at.read(operands.get("timezone", "UTC"))
    shape = at.read(operands["format"]) if "format" in operands else Constant(None)
    on_null = at.read(operands["onNull"]) if "onNull" in operands else Constant(None)

    def written(scope: Scope) -> Any:
        value, zone, wanted = date(scope), timezone(scope), shape(scope)
        if is_null(value):
            return on_null(scope)
        if is_null(zone) or ("format" in operands and is_null(wanted)):
            return None
        place = zone_of(operator, zone)
        if not isinstance(wanted, str | None):
            raise wrong_value(operator, wanted, "a text as format")
        if wanted is None:
            wanted = f"{_ISO}Z" if place is UTC else _ISO
        day = local(operator, instant_of(operator, value), place)
        return _DIRECTIVE.sub(lambda found: _directive(operator, _WRITTEN, found, wanted)(day), wanted)

    return written


def _directive(operator: str, known: Mapping[str, Any], found: re.Match[str], wanted: str) -> Any:
    if found.group(1) not in known:
        raise wrong_result(operator, wanted, f"{found.group()} is none of {', '.join(f'%{one}' for one in known)}")
    return known[found.group(1)]


# -- reading -----------------------------------------------------------------------------------------------------------

_READ: Mapping[str, str] = {
    "Y": r"(?P<Y>[0-9]{4})",
    "m": r"(?P<m>[0-9]{1,2})",
    "d": r"(?P<d>[0-9]{1,2})",
    "H": r"(?P<H>[0-9]{1,2})",
    "M": r"(?P<M>[0-9]{1,2})",
    "S": r"(?P<S>[0-9]{1,2})",
    "L": r"(?P<L>[0-9]{1,3})",
    "j": r"(?P<j>[0-9]{1,3})",
    "u": r"(?P<u>[1-7])",
    "V": r"(?P<V>[0-9]{1,2})",
    "G": r"(?P<G>[0-9]{4})",
    "b": r"(?P<b>[A-Za-z]{3})",
    "B": r"(?P<B>[A-Za-z]+)",
    "z": r"(?P<z>Z|[+-][0-9]{2}:?[0-9]{2})",
    "Z": r"(?P<Z>[+-]?[0-9]{1,3})",
    "%": "%",
}
_ISO_TEXT = re.compile(
    r"(?P<Y>[0-9]{4})-(?P<m>[0-9]{2})(-(?P<d>[0-9]{2})([T ](?P<H>[0-9]{2}):(?P<M>[0-9]{2})(:(?P<S>[0-9]{2})([.,](?P<L>[0-9]{1,9}))?)?)?)?"
    r" ?(?P<z>Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)


def iso_milliseconds(operator: str, text: str, zone: tzinfo | None = None) -> int:
    """The instant that an ISO 8601 text names, in UTC or `zone` where it names none. Raises InvalidValue."""
    return _instant(operator, text, _ISO_TEXT, zone)


@lru_cache(maxsize=512)
def _pattern(operator: str, wanted: str) -> re.Pattern[str]:
    parts, end = [], 0
    for found in _DIRECTIVE.finditer(wanted):
        parts += [re.escape(wanted[end : found.start()]), _directive(operator, _READ, found, wanted)]
        end = found.end()
    try:
        return re.compile("".join([*parts, re.escape(wanted[end:])]))
    except re.error as error:
        raise wrong_result(operator, wanted, "It names a part twice") from error


def _from_text(given: Given) -> Any:
    operator = "$dateFromString"
    text, zone, wanted = given["dateString"], given.get("timezone"), given.get("format", _ISO)
    if not isinstance(text, str):
        raise wrong_value(operator, text, "a text")
    if ("timezone" in given and is_null(zone)) or is_null(wanted):
        return None
    place = zone_of(operator, zone) if "timezone" in given else None
    if not isinstance(wanted, str):
        raise wrong_value(operator, wanted, "a text as format")
    pattern = _pattern(operator, wanted) if "format" in given else _ISO_TEXT
    return from_milliseconds(_instant(operator, text, pattern, place))


def _instant(operator: str, text: str, pattern: re.Pattern[str], zone: tzinfo | None) -> int:
    found = pattern.fullmatch(text)
    if found is None:
        why = "Without a format it wants an ISO 8601 date" if pattern is _ISO_TEXT else "It is not in the format"
        raise wrong_result(operator, text, why)
    told = {name: part for name, part in found.groupdict().items() if part is not None}
    named_zone = told.get("z") or told.get("Z")
    if named_zone is not None and zone is not None:
        raise wrong_result(operator, text, "It names a zone itself, and another is given")
    try:
        moment = _day(told) + timedelta(
            hours=_part(told, "H", 23),
            minutes=_part(told, "M", 59),
            seconds=_part(told, "S", 59),
            milliseconds=int(told.get("L", "0").ljust(3, "0")[:3]),
        )
    except (ValueError, OverflowError) as error:
        raise wrong_result(operator, text, "There is no such day or time") from error
    if "Z" in told:
        return instant(operator, moment.replace(tzinfo=UTC)) - int(told["Z"]) * 60_000
    place = zone_of(operator, told["z"]) if "z" in told else zone or UTC
    return instant(operator, moment.replace(tzinfo=place))


def _part(told: Mapping[str, str], name: str, most: int) -> int:
    """Raises ValueError."""
    found = int(told.get(name, "0"))
    if found > most:
        raise ValueError(name)
    return found


def _day(told: Mapping[str, str]) -> datetime:
    """Raises ValueError."""
    if "G" in told:
        return datetime.fromisocalendar(int(told["G"]), int(told.get("V", 1)), int(told.get("u", 1)))
    year = int(told.get("Y", 1970))
    if "j" in told:
        found = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=int(told["j"]) - 1)
        if found.year != year:
            raise ValueError(told["j"])
        return found
    month = int(told.get("m", 1))
    for name, length in (("b", 3), ("B", None)):
        if name in told:
            month = [one[:length].lower() for one in _MONTHS].index(told[name].lower()) + 1
    return datetime(year, month, int(told.get("d", 1)), tzinfo=UTC)


def _reading(operator: str, given: Any, at: Parsing) -> Evaluate:
    others = ("format", "timezone", "onError", "onNull")
    operands = read_named(operator, given, ("dateString",), others)
    on_null = at.read(operands["onNull"]) if "onNull" in operands else Constant(None)
    on_error = at.read(operands["onError"]) if "onError" in operands else None
    parts = {name: at.read(one) for name, one in operands.items() if name not in ("onError", "onNull")}

    def read(scope: Scope) -> Any:
        values = {name: one(scope) for name, one in parts.items()}
        if is_null(values["dateString"]):
            return on_null(scope)
        try:
            return _from_text(values)
        except InvalidValue:
            if on_error is None:
                raise
            return on_error(scope)

    return read


DATE_TEXTS: Mapping[str, Make] = {"$dateToString": _to_text, "$dateFromString": _reading}
