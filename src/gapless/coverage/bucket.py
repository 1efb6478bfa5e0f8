"""Bucket ids of index values, and the bounds of buckets.

A `Grid` numbers the buckets of an index by floor division, so that bucket `id` is the half-open interval
`[start(id), end(id))` and ids before 1970 are negative. A grid has no state and asks no clock or process zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from gapless.coverage.local_days import MAX_DAY, MIN_DAY, day_of, days_of, midnight_s, parse_zone, skipped_days
from gapless.errors import InvalidOption, InvalidTime
from gapless.model.index import Bucket, FixedWidth, IndexSpec, IntWidth, LocalDays, Months, format_bucket
from gapless.model.instant import NS_PER_DAY, civil_from_days, days_from_civil

__all__ = ["EvenGrid", "Grid", "LocalDayGrid", "LocalMonthGrid", "MonthGrid", "grid_of", "index_grid", "parse_zone"]

Ids = npt.NDArray[Any]
"""int64, or uint64 where the index is uint64."""

_NS_PER_S = 1_000_000_000
_INT64_MAX = 2**63 - 1


class Grid(Protocol):
    """The buckets of one index. Scalars are unbounded: nanoseconds since 1970 UTC (or of the wall clock), or integers."""

    @property
    def bucket(self) -> Bucket:
        """The width it was made of."""
        ...

    @property
    def signed(self) -> bool:
        """False for a uint64 index, whose ids start at zero."""
        ...

    def ids(self, values: Ids, unit_ns: int = 1) -> Ids:
        """Bucket ids of index values: int64 in units of `unit_ns` nanoseconds and int64 out, or uint64 (with
        `unit_ns=1`) and uint64 out; same shape. Raises InvalidOption where buckets are no whole number of the unit,
        InvalidValue (with the row) where local days need a year from 1 to 9999.
        """
        ...

    def id_of(self, value: int) -> int:
        """The bucket that holds a value. Raises InvalidTime where local days need a year from 1 to 9999."""
        ...

    def start(self, bucket_id: int) -> int:
        """The first value of a bucket. Raises InvalidTime as `id_of` does."""
        ...

    def end(self, bucket_id: int) -> int:
        """The value just past a bucket. Raises InvalidTime as `id_of` does."""
        ...

    def skipped(self, start: int, end: int) -> Sequence[int]:
        """Ids of `[start, end)` that are no time at all, ascending: local days that a zone left out. Nothing is missing there."""
        ...

    def times(self, count: int) -> Bucket:
        """The width of `count` buckets together."""
        ...


def index_grid(index: IndexSpec) -> Grid:
    """The grid of a table's buckets; raises as `grid_of`."""
    return grid_of(index.bucket, signed=index.type != "uint64")


def grid_of(bucket: Bucket, *, signed: bool = True) -> Grid:
    """The grid of a bucket width; `signed=False` for a uint64 index. Raises InvalidOption for an unknown zone.

    >>> grid_of(IntWidth(10)).id_of(-11)
    -2
    """
    match bucket:
        case FixedWidth() | IntWidth():
            return EvenGrid(bucket, signed)
        case Months(months, None):
            return MonthGrid(months)
        case Months(months, str(timezone)):
            return LocalMonthGrid(months, parse_zone(timezone))
        case LocalDays(days, timezone):
            return LocalDayGrid(days, parse_zone(timezone))
    raise AssertionError(bucket)


class _Unbroken:
    """A grid in which every bucket is some time."""

    __slots__ = ()

    def skipped(self, start: int, end: int) -> Sequence[int]:  # noqa: ARG002 - the answer is the same for every range
        """None."""
        return ()


class _Signed:
    """A grid of time, which goes on before 1970."""

    __slots__ = ()

    @property
    def signed(self) -> bool:
        """Times before 1970 have negative ids."""
        return True


@dataclass(frozen=True, slots=True)
class EvenGrid(_Unbroken):
    """Buckets of one length, counted from zero."""

    bucket: FixedWidth | IntWidth
    signed: bool = True

    @property
    def width(self) -> int:
        """Length of a bucket: ns, or a plain number for an integer index."""
        return self.bucket.ns if isinstance(self.bucket, FixedWidth) else self.bucket.width

    def ids(self, values: Ids, unit_ns: int = 1) -> Ids:
        """See `Grid.ids`."""
        count, rest = divmod(self.width, unit_ns)
        if rest:
            raise _not_whole(self.bucket, unit_ns)
        if count > _INT64_MAX:  # such a bucket ends at zero or begins there
            return np.where(values < 0, -1, 0).astype(values.dtype)
        ids: Ids = values // values.dtype.type(count)
        return ids

    def id_of(self, value: int) -> int:
        """See `Grid.id_of`."""
        return value // self.width

    def start(self, bucket_id: int) -> int:
        """See `Grid.start`."""
        return bucket_id * self.width

    def end(self, bucket_id: int) -> int:
        """See `Grid.end`."""
        return (bucket_id + 1) * self.width

    def times(self, count: int) -> Bucket:
        """See `Grid.times`."""
        return FixedWidth(self.width * count) if isinstance(self.bucket, FixedWidth) else IntWidth(self.width * count)


@dataclass(frozen=True, slots=True)
class MonthGrid(_Signed, _Unbroken):
    """Whole calendar months of UTC or of the wall clock, in the proleptic Gregorian calendar."""

    months: int

    @property
    def bucket(self) -> Bucket:
        """See `Grid.bucket`."""
        return Months(self.months)

    def ids(self, values: Ids, unit_ns: int = 1) -> Ids:
        """See `Grid.ids`."""
        return _months_of(values // _count(self.bucket, NS_PER_DAY, unit_ns)) // np.int64(self.months)

    def id_of(self, value: int) -> int:
        """See `Grid.id_of`."""
        return _month_of(value // NS_PER_DAY) // self.months

    def start(self, bucket_id: int) -> int:
        """See `Grid.start`."""
        return _first_day(bucket_id * self.months) * NS_PER_DAY

    def end(self, bucket_id: int) -> int:
        """See `Grid.end`."""
        return self.start(bucket_id + 1)

    def times(self, count: int) -> Bucket:
        """See `Grid.times`."""
        return Months(self.months * count)


@dataclass(frozen=True, slots=True)
class LocalDayGrid(_Signed):
    """Whole days of a time zone, counted from its own 1970-01-01."""

    days: int
    zone: ZoneInfo

    @property
    def bucket(self) -> Bucket:
        """See `Grid.bucket`."""
        return LocalDays(self.days, self.zone.key)

    def ids(self, values: Ids, unit_ns: int = 1) -> Ids:
        """See `Grid.ids`."""
        return days_of(self.zone, values // _count(self.bucket, _NS_PER_S, unit_ns)) // np.int64(self.days)

    def id_of(self, value: int) -> int:
        """See `Grid.id_of`."""
        return day_of(self.zone, value // _NS_PER_S) // self.days

    def start(self, bucket_id: int) -> int:
        """See `Grid.start`."""
        return _boundary(self.zone, bucket_id * self.days, (bucket_id + 1) * self.days)[0]

    def end(self, bucket_id: int) -> int:
        """See `Grid.end`."""
        return _boundary(self.zone, bucket_id * self.days, (bucket_id + 1) * self.days)[1]

    def skipped(self, start: int, end: int) -> Sequence[int]:
        """See `Grid.skipped`."""
        return skipped_days(self.zone, start, end) if self.days == 1 else ()

    def times(self, count: int) -> Bucket:
        """See `Grid.times`."""
        return LocalDays(self.days * count, self.zone.key)


@dataclass(frozen=True, slots=True)
class LocalMonthGrid(_Signed, _Unbroken):
    """Whole calendar months of a time zone."""

    months: int
    zone: ZoneInfo

    @property
    def bucket(self) -> Bucket:
        """See `Grid.bucket`."""
        return Months(self.months, self.zone.key)

    def ids(self, values: Ids, unit_ns: int = 1) -> Ids:
        """See `Grid.ids`."""
        return _months_of(days_of(self.zone, values // _count(self.bucket, _NS_PER_S, unit_ns))) // np.int64(self.months)

    def id_of(self, value: int) -> int:
        """See `Grid.id_of`."""
        return _month_of(day_of(self.zone, value // _NS_PER_S)) // self.months

    def start(self, bucket_id: int) -> int:
        """See `Grid.start`."""
        return _boundary(self.zone, *self._days(bucket_id))[0]

    def end(self, bucket_id: int) -> int:
        """See `Grid.end`."""
        return _boundary(self.zone, *self._days(bucket_id))[1]

    def _days(self, bucket_id: int) -> tuple[int, int]:
        return _first_day(bucket_id * self.months), _first_day((bucket_id + 1) * self.months)

    def times(self, count: int) -> Bucket:
        """See `Grid.times`."""
        return Months(self.months * count, self.zone.key)


def _count(bucket: Bucket, of_ns: int, unit_ns: int) -> np.int64:
    """How many units make `of_ns`, the grain of this kind of bucket."""
    count, rest = divmod(of_ns, unit_ns)
    if rest:
        raise _not_whole(bucket, unit_ns)
    return np.int64(count)


def _not_whole(bucket: Bucket, unit_ns: int) -> InvalidOption:
    return InvalidOption(
        f"bucket {format_bucket(bucket)!r} cannot be counted in units of {unit_ns} ns",
        why="A bucket must be a whole number of the index's unit, or its bounds could not be written as index values",
        fix="Take a longer bucket, or an index of a finer unit",
        option="bucket", value=format_bucket(bucket),
    )  # fmt: skip


def _months_of(days: Ids) -> Ids:
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _month_of(day: int) -> int:
    year, month, _ = civil_from_days(day)
    return (year - 1970) * 12 + month - 1


def _first_day(month: int) -> int:
    return days_from_civil(1970 + month // 12, month % 12 + 1, 1)


def _boundary(zone: ZoneInfo, first: int, end: int) -> tuple[int, int]:
    """`[start, end)` in ns of the local days `[first, end)`, some of which must lie in the years 1 to 9999."""
    if end <= MIN_DAY or first > MAX_DAY:
        raise InvalidTime(
            f"the local days from number {first} to {end} of {zone.key} have no known bounds",
            why="Local days and months are known for the years 1 to 9999",
            fix="Take a range in between, or a table without a time zone",
            value=first * NS_PER_DAY,
        )
    return midnight_s(zone, first) * _NS_PER_S, midnight_s(zone, end) * _NS_PER_S
