"""Lengths of time as people write them: "10 seconds", "5m", "12h"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from gapless.errors import InvalidOption, nearest, shorten

_UNITS: Mapping[str, timedelta] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), timedelta(milliseconds=1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
    **dict.fromkeys(("w", "week", "weeks"), timedelta(weeks=1)),
}
"""Units of one length: a month or a year has none."""
_LONGEST = timedelta(days=10_000_000)


def parse_duration(given: object, option: str) -> timedelta:
    """A length of time of 0 or more: a timedelta, or a text with a whole number and a unit from ms to weeks. Raises InvalidOption.

    `option` is what messages call it, such as "compact" or "--older-than".

    >>> parse_duration("10 seconds", "every"), parse_duration("5m", "every")
    (datetime.timedelta(seconds=10), datetime.timedelta(seconds=300))
    """
    if isinstance(given, timedelta):
        if not timedelta(0) <= given < _LONGEST:
            raise _refuse(given, option, "It is 0 or more, and less than 10,000,000 days", f'Pass {option}="10 minutes"')
        return given
    match = re.fullmatch(r"\s*(\d+)\s*([^\W\d]*)\s*", given) if isinstance(given, str) else None
    if match is None:
        raise _refuse(given, option, _RULE, f'Write it such as {option}="10 minutes" or "5m"')
    count, unit = match[1], match[2].lower()
    if not unit and not int(count[:32]):
        return timedelta(0)
    if unit not in _UNITS:
        months = unit.startswith(("mo", "year")) or unit == "y"
        why = "A month or a year has no one length" if months else _RULE
        fix = "Say it in days" if months else nearest(unit, _UNITS) if unit else f"Write the unit too, such as {count[:12]}s"
        raise _refuse(given, option, why, fix)
    if len(count) > 20 or int(count) * (_UNITS[unit] / timedelta(days=1)) >= _LONGEST.days:
        raise _refuse(given, option, "It is less than 10,000,000 days", "Pass a shorter one")
    return int(count) * _UNITS[unit]


_RULE = "It is a whole number and a unit: ms, s, m, h, d or w, or their names"


def _refuse(given: object, option: str, why: str, fix: str) -> InvalidOption:
    return InvalidOption(f"{option}={shorten(given)} is no length of time", why=why, fix=fix, option=option, value=given)
