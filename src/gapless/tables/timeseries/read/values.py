"""Index values as users write and read them: datetimes, dates, texts and integers outside, whole numbers inside."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.coverage.local_days import midnight_s, parse_zone
from gapless.errors import InvalidTime
from gapless.model.index import IndexSpec
from gapless.model.instant import NS_PER, NS_PER_DAY, datetime_from_ns, format_instant, ns_from_date, ns_from_datetime
from gapless.tables.shared.versions import read_time, whole_number

_DATETIME_NS = (ns_from_date(date.min), ns_from_date(date.max))
_INT_RANGES = {"int64": (-(2**63), 2**63), "uint64": (0, 2**64)}


def parse_index_value(value: object, index: IndexSpec, schema: pa.Schema | None, *, name: str) -> int:
    """A caller's index value as ns since 1970 (timestamp) or as it is (integer index).

    Takes datetime, date (its midnight), ISO text, numpy and pandas timestamps; integers for an integer index. A naive time is the
    wall clock of a naive index, or of the table's `timezone`. Raises InvalidTime, naming the argument.
    """
    if index.type != "timestamp":
        return _parse_integer(value, index, name)
    ns, aware = read_time(value, name)
    if aware is None:
        return midnight_s(parse_zone(index.timezone), ns // NS_PER_DAY) * NS_PER["s"] if index.timezone else ns
    table_aware = is_aware(index, schema)
    if aware and table_aware is False:
        raise InvalidTime(
            f"{name}={value!r} has a time zone, and the index {index.column!r} has none",
            why="Which wall clock the index means is not known, so the two cannot be compared",
            fix=f"Pass a naive time, such as {format_instant(ns, suffix='')!r}",
            value=value,
        )
    if not aware and table_aware and index.timezone is None:
        raise InvalidTime(
            f"{name}={value!r} has no time zone, and the index {index.column!r} has one",
            why="Without a zone it could be any of some forty instants",
            fix=f"Pass an offset, such as {format_instant(ns)!r}",
            value=value,
        )
    return _localise(ns, index, value, name) if not aware and index.timezone else ns


def presenter(index: IndexSpec, schema: pa.Schema | None, *like: object) -> Callable[[int], Any]:
    """How index values are shown: integers as they are; times as datetimes, in the table's zone, else the index's (UTC unless it
    says another), naive where the index is. What a datetime cannot hold (ns, years past 9999) is a numpy.datetime64 in UTC.

    While the table has neither a zone nor a schema, times are in UTC where one of the caller's own, `like`, says its zone.
    """
    if index.type != "timestamp":
        return int
    zone = display_zone(index, schema)
    if is_aware(index, schema) is None and any(map(_says_zone, like)):
        zone = UTC

    return partial(_present, zone)


def _present(zone: tzinfo | None, ns: int) -> Any:
    if ns % NS_PER["us"] or not _DATETIME_NS[0] <= ns < _DATETIME_NS[1]:
        return _beyond_datetime(ns)
    moment = datetime_from_ns(ns)
    return moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone)


def _beyond_datetime(ns: int) -> np.datetime64:
    """Exactly, in the finest unit that reaches so far; the first value of a unit, whose number means NaT, in steps of two.

    >>> _beyond_datetime(-(2**63))
    np.datetime64('1677-09-21T00:12:43.145224192','2ns')
    """
    for unit, step in sorted(NS_PER.items(), key=lambda item: item[1]):
        count, rest = divmod(ns, step)
        if not rest and -(2**63) <= count < 2**63:
            return _datetime64(count // 2, f"2{unit}") if count == -(2**63) else _datetime64(count, unit)
    # No index holds it: the end of a bucket that reaches past the last value of its unit, which is shown to the millisecond.
    return _datetime64(ns // NS_PER["ms"], "ms")


def _datetime64(count: int, spelled: str) -> np.datetime64:
    moment: np.datetime64 = np.array([count], np.int64).view(f"datetime64[{spelled}]")[0]
    return moment


def _says_zone(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and value == "now") and read_time(value, "like")[1] is True


def format_index_value(ns: int, index: IndexSpec, schema: pa.Schema | None) -> str:
    """An index value as error messages show it: RFC 3339 in UTC, without a zone where the index has none, or the integer."""
    if index.type != "timestamp":
        return str(ns)
    return format_instant(ns, "Z" if is_aware(index, schema) else "")


def display_zone(index: IndexSpec, schema: pa.Schema | None) -> tzinfo | None:
    """The zone that times are shown in: the table's, else the index's (UTC for a mere offset); None for a naive index."""
    if index.timezone is not None:
        return parse_zone(index.timezone)
    declared = schema.field(index.column).type.tz if schema is not None else None
    if declared is None:
        return None
    return UTC if declared == "UTC" or re.match(r"[+-]\d\d", declared) else parse_zone(declared)


def is_aware(index: IndexSpec, schema: pa.Schema | None) -> bool | None:
    """Whether index values are instants, not times of an unknown clock; None while the table has neither a zone nor a schema."""
    if index.timezone is not None:
        return True
    return None if schema is None else schema.field(index.column).type.tz is not None


def _parse_integer(value: object, index: IndexSpec, name: str) -> int:
    low, end = _INT_RANGES[index.type]
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value):
        value = int(value)
    number = None if isinstance(value, np.bool_) else whole_number(value)
    if number is None:
        raise InvalidTime(
            f"{name}={value!r} is no whole number",
            why=f"The index {index.column!r} is {index.type}",
            fix=f"Pass a whole number, such as {name}=0",
            value=value,
        )
    # The end of a half-open range may lie one past the largest value.
    if not low <= number <= end:
        raise InvalidTime(
            f"{name}={number} is out of range", why=f"{index.type} reaches from {low} up to {end - 1}", value=value
        )
    return number


def _localise(ns: int, index: IndexSpec, value: object, name: str) -> int:
    """The instant of a wall-clock time in the table's zone."""
    assert index.timezone is not None
    zone = parse_zone(index.timezone)
    whole, rest = divmod(ns, NS_PER["us"])
    try:
        wall = datetime(1970, 1, 1) + timedelta(microseconds=whole)  # noqa: DTZ001  # a wall clock has no zone
        first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        offsets = first.utcoffset(), second.utcoffset()
        exists = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == wall
    except OverflowError as error:
        raise InvalidTime(
            f"{name}={value!r} is out of range", why="Local times reach from year 1 to 9999", value=value
        ) from error
    if offsets[0] != offsets[1] or not exists:
        raise InvalidTime(
            f"{name}={value!r} is {'skipped' if not exists else 'ambiguous'} in {index.timezone}",
            why="The clock changes there",
            fix="Pass the time with its offset",
            value=value,
        )
    return ns_from_datetime(first) + rest
