"""Dates in time zones, as the expressions of dates take them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from gapless.documents.expressions.operands import wrong_result, wrong_value
from gapless.documents.values.dates import from_milliseconds, is_date, milliseconds_of
from gapless.errors import InvalidValue

_OFFSET = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})?")
_UTC = ("UTC", "GMT", "Z")


def zone_of(operator: str, value: Any) -> tzinfo:
    """The zone of a name ("Europe/Paris") or an offset ("+02:30", "+0230", "+02"). Raises InvalidValue."""
    if not isinstance(value, str):
        raise wrong_value(operator, value, "a text that names a time zone")
    if (found := _zone(value)) is None:
        raise wrong_result(operator, value, "It is no time zone: 'Europe/Paris' and '+02:30' are")
    return found


@lru_cache(maxsize=512)
def _zone(name: str) -> tzinfo | None:
    if name in _UTC:
        return UTC
    if (offset := _OFFSET.fullmatch(name)) is not None:
        sign, hours, minutes = offset.groups()
        span = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-span if sign == "-" else span) if span < timedelta(days=1) else None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def instant_of(operator: str, value: Any) -> int:
    """The milliseconds of a date, a timestamp or an ObjectId. Raises InvalidValue."""
    if is_date(value):
        return milliseconds_of(value)
    if isinstance(value, Timestamp):
        return value.time * 1000
    if isinstance(value, ObjectId):
        return int.from_bytes(value.binary[:4], "big") * 1000
    raise wrong_value(operator, value, "a date, timestamp or ObjectId")


def local(operator: str, ms: int, zone: tzinfo) -> datetime:
    """An instant on the clocks of a zone. Raises InvalidValue for years that are not from 1 to 9999."""
    found = from_milliseconds(ms)
    try:
        if not isinstance(found, DatetimeMS):
            return found.replace(tzinfo=UTC).astimezone(zone)
    except OverflowError:
        pass
    raise beyond_years(operator, ms)


def instant(operator: str, moment: datetime) -> int:
    """The milliseconds of a time on the clocks of its zone: of two the first, and of none the time as far after the leap. Raises InvalidValue."""
    try:
        return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except OverflowError as error:
        raise beyond_years(operator, str(moment)) from error


def beyond_years(operator: str, value: object) -> InvalidValue:
    """The error for a date that has no calendar here."""
    return wrong_result(operator, value, "Years are from 1 to 9999")
