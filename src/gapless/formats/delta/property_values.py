"""The texts of Delta's table properties as values: flags, counts, sizes, intervals, columns, choices."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_INTERVAL = re.compile(r"(?:interval\s+)?((?:\d+(?:\.\d+)?\s+[a-z]+\s*)+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s+([a-z]+)")
_SIZE = re.compile(r"(\d+)\s*(b|k|kb|m|mb|g|gb|t|tb)?")
_SHIFT = {None: 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.,\s](?:[^`.,]*[^`.,\s])?))\s*([.,]|$)")


def parse_flag(text: str) -> bool:
    """`true` or `false`, in any case; raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


def parse_count(least: int) -> Callable[[str], int]:
    """Reads whole numbers from `least` up; it raises ValueError."""

    def parse(text: str) -> int:
        number = int(text)
        if not least <= number < 2**63:
            raise ValueError(f"not a whole number from {least} up")
        return number

    return parse


def parse_size(text: str) -> int:
    """Bytes, at least one: `134217728`, `128mb`; raises ValueError.

    >>> parse_size("128mb")
    134217728
    """
    found = _SIZE.fullmatch(text.strip().lower())
    size = int(found[1]) << _SHIFT[found[2] and found[2][0]] if found else 0
    if not 0 < size < 2**63:
        raise ValueError("no size in bytes, such as 134217728 or 128mb")
    return size


def parse_interval(text: str) -> timedelta:
    """Spark's interval texts of units that have one length, weeks the longest; raises ValueError.

    >>> parse_interval("interval 1 week 2 hours")
    datetime.timedelta(days=7, seconds=7200)
    """
    found = _INTERVAL.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("no interval, such as 'interval 30 days'")
    total = Fraction(0)
    for number, unit in _PART.findall(found[1]):
        if unit.removesuffix("s") not in _US:
            raise ValueError(f"an interval has no unit {unit!r} here; months and years have no one length")
        total += Fraction(number) * _US[unit.removesuffix("s")]
    try:
        return timedelta(microseconds=int(total))
    except OverflowError as error:
        raise ValueError("too long an interval") from error


def interval_text(length: timedelta) -> str:
    """The interval in its largest whole unit below weeks; raises ValueError for a negative one.

    >>> interval_text(timedelta(days=30))
    'interval 30 days'
    """
    us = length // timedelta(microseconds=1)
    if us < 0:
        raise ValueError("a negative interval")
    unit = next(name for name in ("day", "hour", "minute", "second", "millisecond", "microsecond") if us % _US[name] == 0)
    return f"interval {us // _US[unit]} {unit}s"


def parse_columns(text: str) -> tuple[tuple[str, ...], ...]:
    """Columns by comma, nested ones by dots, odd names in backticks; raises ValueError.

    >>> parse_columns("a, b.c, `d.e`")
    (('a',), ('b', 'c'), ('d.e',))
    """
    columns: list[tuple[str, ...]] = []
    parts: list[str] = []
    at, ended = 0, not text.strip()
    while not ended:
        found = _NAME.match(text, at)
        if found is None:
            raise ValueError("no list of columns, such as 'a, b.c'")
        parts.append(found[1].replace("``", "`") if found[1] else found[2])
        if found[3] != ".":
            columns.append(tuple(parts))
            parts = []
        at, ended = found.end(), not found[3]
    return tuple(columns)


def parse_choice(*choices: str) -> Callable[[str], str]:
    """Reads one of some words, in any case; it raises ValueError."""
    known = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"not one of {', '.join(choices)}")
        return known[text.lower()]

    return parse


def parse_text(text: str) -> str:
    """Any text."""
    return text
