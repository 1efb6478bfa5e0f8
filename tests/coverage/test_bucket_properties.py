"""Bucket math against Python's datetime, zoneinfo and plain integers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.coverage.bucket import grid_of
from gapless.coverage.local_days import midnight_s
from gapless.model.index import Bucket, FixedWidth, IntWidth, LocalDays, Months
from gapless.model.instant import NS_PER_DAY, days_from_civil

ZONES = [
    "America/New_York", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Apia", "America/St_Johns",
    "Australia/Lord_Howe", "America/Juneau", "Asia/Manila",
]  # fmt: skip
UNITS = {1: "ns", 10**3: "us", 10**6: "ms", 10**9: "s"}
# Years -4000 to 9000 of nanoseconds: more than 64 bits, so Python's integers.
INSTANTS = st.integers(days_from_civil(-4000, 1, 1) * NS_PER_DAY, days_from_civil(9000, 1, 1) * NS_PER_DAY)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = st.integers(
    int((datetime(1800, 1, 3, tzinfo=UTC) - EPOCH).total_seconds()),
    int((datetime(9990, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()),
)
MODERN = st.integers(-5_600_000_000, 4_102_444_800)
WIDTHS = st.one_of(
    st.integers(1, 10**21), st.sampled_from([1, 1000, 100_000, 10**9, 900 * 10**9, 3600 * 10**9, NS_PER_DAY, 7 * NS_PER_DAY])
)


def month_number(moment: date) -> int:
    return (moment.year - 1970) * 12 + moment.month - 1


@given(INSTANTS, WIDTHS)
def test_fixed_width_is_floor_division(value: int, width: int) -> None:
    grid = grid_of(FixedWidth(width))
    at = grid.id_of(value)
    assert at == (value - value % width) // width
    assert grid.start(at) <= value < grid.end(at)
    assert grid.end(at) - grid.start(at) == width
    assert grid.end(at) == grid.start(at + 1)


@given(INSTANTS, st.integers(1, 60))
def test_months_partition_all_of_time(value: int, months: int) -> None:
    grid = grid_of(Months(months))
    at = grid.id_of(value)
    assert grid.start(at) <= value < grid.end(at)
    assert grid.end(at) == grid.start(at + 1)
    assert grid.start(at) == grid_of(Months(1)).start(at * months)


@given(st.dates(), st.integers(0, NS_PER_DAY - 1), st.integers(1, 24))
def test_months_agree_with_datetime(day: date, in_day: int, months: int) -> None:
    value = (day - date(1970, 1, 1)).days * NS_PER_DAY + in_day
    at = grid_of(Months(months)).id_of(value)
    assert at == month_number(day) // months
    if value >= 0:
        first = date(1970 + at * months // 12, at * months % 12 + 1, 1)
        assert grid_of(Months(months)).start(at) == (first - date(1970, 1, 1)).days * NS_PER_DAY


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8),
    st.sampled_from(sorted(UNITS)),
    st.one_of(st.integers(1, 10**12), st.just(2**32 * 86_400)),
    st.integers(1, 40),
)
def test_arrays_agree_with_scalars(values: list[int], unit_ns: int, width: int, months: int) -> None:
    array = np.array(values, dtype=np.int64)
    buckets: list[Bucket] = [FixedWidth(width * unit_ns), Months(months)]
    for bucket in buckets:
        grid = grid_of(bucket)
        assert grid.ids(array, unit_ns).tolist() == [grid.id_of(v * unit_ns) for v in values]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=8), st.integers(1, 2**63 - 1))
def test_unsigned_arrays_agree_with_integers(values: list[int], width: int) -> None:
    found = grid_of(IntWidth(width), signed=False).ids(np.array(values, dtype=np.uint64))
    assert found.dtype == np.uint64
    assert found.tolist() == [v // width for v in values]


@given(
    st.lists(st.one_of(SECONDS, MODERN), min_size=1, max_size=12),
    st.sampled_from(ZONES),
    st.sampled_from(sorted(UNITS)),
    st.integers(1, 9),
)
def test_local_arrays_agree_with_scalars(seconds: list[int], zone: str, unit_ns: int, count: int) -> None:
    per_second = 10**9 // unit_ns
    values = [s * per_second + s % per_second for s in seconds if abs(s * per_second) < 2**62]
    array = np.array(values, dtype=np.int64)
    buckets: list[Bucket] = [LocalDays(count, zone), Months(count, zone)]
    for bucket in buckets:
        grid = grid_of(bucket)
        found = grid.ids(array, unit_ns).tolist()
        assert found == [grid.id_of(v * unit_ns) for v in values]
        for at, value in zip(found, values, strict=True):
            assert grid.start(at) <= value * unit_ns < grid.end(at) == grid.start(at + 1)


@given(st.one_of(SECONDS, MODERN), st.sampled_from(ZONES))
def test_local_days_are_those_of_the_wall_clock(second: int, zone: str) -> None:
    moment = (EPOCH + timedelta(seconds=second)).astimezone(ZoneInfo(zone))
    day = grid_of(LocalDays(1, zone)).id_of(second * 10**9)
    shown = (moment.date() - date(1970, 1, 1)).days
    # Only where a clock went back over midnight does a day, once begun, go on under yesterday's date.
    repeated = day == shown + 1 and midnight_s(ZoneInfo(zone), day) <= second and moment.fold == 1
    assert day == shown or repeated
    if day == shown:
        month = grid_of(Months(1, zone))
        assert month.id_of(second * 10**9) == month_number(moment)


@given(st.dates(min_value=date(1800, 1, 2), max_value=date(9999, 12, 30)), st.sampled_from(ZONES))
def test_a_local_day_begins_at_its_first_moment(day: date, zone: str) -> None:
    info = ZoneInfo(zone)
    start = midnight_s(info, (day - date(1970, 1, 1)).days)
    following = midnight_s(info, (day - date(1970, 1, 1)).days + 1)
    assert start <= following
    at = (EPOCH + timedelta(seconds=start)).astimezone(info)
    before = (EPOCH + timedelta(seconds=start - 1)).astimezone(info)
    assert before.date() < at.date()
    assert at.date() == day or start == following  # a day that was left out begins with the next


@given(st.integers(-(10**7), 10**7), st.sampled_from(ZONES))
def test_days_never_run_back(day: int, zone: str) -> None:
    assert midnight_s(ZoneInfo(zone), day) <= midnight_s(ZoneInfo(zone), day + 1)
