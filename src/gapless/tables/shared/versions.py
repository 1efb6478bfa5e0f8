"""Versions as callers name them: numbers and times; warnings of damage."""

from __future__ import annotations

import re
import warnings
from datetime import date, datetime

import numpy as np

from gapless.errors import CorruptTable, InvalidOption, InvalidTime, LogWarning
from gapless.model.instant import NS_PER, format_instant, ns_from_date, ns_from_datetime, parse_instant

_DATE_ONLY = re.compile(r"[+-]?\d{4,}-\d\d-\d\d")


def parse_instant_value(value: object, *, name: str) -> int:
    """An instant that is no index value, in ns since 1970 UTC, from what `parse_index_value` takes for a timestamp.

    Raises InvalidTime, naming the argument, also for a time without a zone and for a date.
    """
    ns, aware = read_time(value, name)
    if not aware:
        raise InvalidTime(
            f"{name}={value!r} has no time zone",
            why="Without a zone it could be any of some forty instants",
            fix=f"Pass an offset, such as {format_instant(ns)!r}, or an aware datetime",
            value=value,
        )
    return ns


def parse_version(value: object, name: str = "version", *, first: int = 1) -> int:
    """A version number that a caller typed, of a table whose versions begin with `first`; raises InvalidOption for what is no whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidOption(
            f"{name}={value!r} is no version",
            why=f"Versions are whole numbers from {first}",
            fix=f"Pass {name}={first}",
            option=name,
            value=value,
        )
    return int(value.__index__())


def warn_of_damage(damage: CorruptTable) -> None:
    """Tell that commits which could have expired versions were not read."""
    what = f"{damage.what}; whether a later commit expired the version that was asked for is not known"
    warnings.warn(what, LogWarning, stacklevel=2)


def read_time(value: object, name: str) -> tuple[int, bool | None]:
    """(ns, whether it said its zone; None for a date, which never does)."""
    if value != value or value is None or str(value) == "NaT":  # noqa: PLR0124  # NaT is the value that differs from itself
        raise InvalidTime(f"{name}={value!r} is no instant", fix="Leave the argument out for an open end", value=value)
    if isinstance(value, datetime):
        return ns_from_datetime(value) + int(getattr(value, "nanosecond", 0)), value.tzinfo is not None
    if isinstance(value, date):
        return ns_from_date(value), None
    if isinstance(value, np.datetime64):
        unit, count = np.datetime_data(value.dtype)
        if unit in NS_PER:
            return int(value.astype(np.int64)) * count * NS_PER[unit], False
        return int(value.astype("datetime64[s]").astype(np.int64)) * NS_PER["s"], None if unit in (
            "Y",
            "M",
            "W",
            "D",
        ) else False
    if isinstance(value, str):
        try:
            ns, aware = parse_instant(value)
        except ValueError as error:
            fix = 'Pass an ISO 8601 text such as "2013-01-31" or "2013-01-31T06:00:00Z"'
            raise InvalidTime(f"{name}={value!r} cannot be read", why=str(error), fix=fix, value=value) from error
        return ns, None if _DATE_ONLY.fullmatch(value.strip()) else aware
    raise InvalidTime(
        f"{name}={value!r} is of type {type(value).__name__}, which is no time",
        why="A bare number would need its unit said" if isinstance(value, int | float) else "The index is a timestamp",
        fix="Pass a datetime, a date, an ISO 8601 text, or a numpy or pandas timestamp",
        value=value,
    )
