"""Wall times of a zone as instants, for whole arrays at once and from the same zone data on every machine.

Zone data comes from `zoneinfo` (the system's, else the tzdata package), not from pyarrow, which fails where the system has none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.model.instant import NS_PER, days_from_civil

Ints = npt.NDArray[np.int64]

_DAY_S = 86_400
_MIN_DAY, _MAX_DAY = days_from_civil(1, 1, 1), days_from_civil(9999, 12, 31)
_LOCAL_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class NoInstant(Exception):
    """A wall time that is no single instant: `row` in the array, `kind` "skips", "repeats" or "range"."""

    def __init__(self, row: int, kind: str) -> None:
        super().__init__(kind)
        self.row, self.kind = row, kind


def instants(wall: pa.Array, zone: str) -> pa.Array:
    """The instants (timestamp[unit, UTC]) of naive timestamps without nulls, read on the wall clock of `zone`.

    Raises NoInstant for the first wall time that a clock change skips or repeats, or that lies outside the years 1 to 9999.
    """
    per_s = NS_PER["s"] // NS_PER[wall.type.unit]
    values: Ints = wall.cast(pa.int64()).to_numpy(zero_copy_only=False)
    offsets = _offsets(values // per_s, ZoneInfo(zone)) * per_s
    found = values - offsets
    wrapped = ((offsets > 0) & (found > values)) | ((offsets < 0) & (found < values))
    _refuse(wrapped, "range")
    return pa.array(found).cast(pa.timestamp(wall.type.unit, "UTC"))


def _refuse(bad: npt.NDArray[np.bool_], kind: str) -> None:
    if bad.any():
        raise NoInstant(int(bad.argmax()), kind)


def _offsets(seconds: Ints, zone: ZoneInfo) -> Ints:
    """The zone's offset from UTC, in seconds, at each wall time."""
    days = seconds // _DAY_S
    _refuse((days < _MIN_DAY) | (days > _MAX_DAY), "range")
    unique, inverse = np.unique(days, return_inverse=True)
    by_day = [_offset_of_day(zone, int(day)) for day in unique]
    changing = np.array([offset is None for offset in by_day], dtype=bool)[inverse]
    offsets = np.array([offset or 0 for offset in by_day], dtype=np.int64)[inverse]
    if changing.any():
        offsets[changing] = _offsets_by_second(seconds, np.flatnonzero(changing), zone)
    return offsets


def _offsets_by_second(seconds: Ints, rows: npt.NDArray[np.intp], zone: ZoneInfo) -> Ints:
    unique, inverse = np.unique(seconds[rows], return_inverse=True)
    pairs = np.array([_both_offsets(zone, int(second)) for second in unique], dtype=np.int64)[inverse]
    doubtful = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    if doubtful.size:
        first = int(doubtful[0])
        raise NoInstant(int(rows[first]), "skips" if pairs[first, 0] < pairs[first, 1] else "repeats")
    return pairs[:, 0]


@lru_cache(maxsize=65_536)
def _offset_of_day(zone: ZoneInfo, day: int) -> int | None:
    """The offset of a whole local day; None where it may change within.

    No zone changes its offset twice within six days (a test looks), so the day's ends tell all.
    """
    found = {*_both_offsets(zone, day * _DAY_S), *_both_offsets(zone, (day + 1) * _DAY_S - 1)}
    return found.pop() if len(found) == 1 else None


def _both_offsets(zone: ZoneInfo, second: int) -> tuple[int, int]:
    """The offsets at a wall time before and after a change: they differ where it is repeated (first is greater) or skipped."""
    local = (_LOCAL_EPOCH + timedelta(seconds=second)).replace(tzinfo=zone)
    return _seconds(local.utcoffset()), _seconds(local.replace(fold=1).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    offset = offset or timedelta()
    return offset.days * _DAY_S + offset.seconds
