"""Time to bucket: examples, edges and the cases from the field."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from gapless.coverage.bucket import grid_of, parse_zone
from gapless.errors import InvalidOption, InvalidTime, InvalidValue
from gapless.model.index import Bucket, FixedWidth, IntWidth, LocalDays, Months, parse_bucket
from gapless.model.instant import NS_PER_DAY, format_instant, ns_from_datetime, parse_instant

HOUR = FixedWidth(3600 * 10**9)
DAY = FixedWidth(NS_PER_DAY)


def ns(text: str) -> int:
    return parse_instant(text)[0]


def ids(bucket: Bucket, values: list[int], unit_ns: int = 1) -> list[int]:
    found = grid_of(bucket).ids(np.array(values, dtype=np.int64), unit_ns)
    assert found.dtype == np.int64
    return [int(i) for i in found]


def bounds(bucket: Bucket, value: int) -> tuple[str, str]:
    grid = grid_of(bucket)
    at = grid.id_of(value)
    return format_instant(grid.start(at)), format_instant(grid.end(at))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_cov_02_bucket_does_not_depend_on_the_process_zone(zone: str) -> None:
    code = (
        "import numpy as np; from gapless.coverage.bucket import grid_of; from gapless.model.index import *;"
        "v = 1704139200 * 10**9; a = np.array([v]);"
        f"g = grid_of(FixedWidth({NS_PER_DAY})); l = grid_of(LocalDays(1, 'Asia/Kolkata')); m = grid_of(Months(1));"
        "print(g.id_of(v), g.ids(a)[0], l.id_of(v), l.ids(a)[0], l.start(19724) // 10**9, m.ids(a)[0])"
    )
    env = {**os.environ, "TZ": zone, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["19723", "19723", "19724", "19724", "1704133800", "648"]


def test_cov_04_local_months_follow_the_clock_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    starts = [ns_from_datetime(datetime(2023, month, 1, tzinfo=berlin)) for month in range(1, 13)]
    months = Months(1, "Europe/Berlin")
    found = ids(months, starts)
    assert found == list(range(636, 648))
    assert [grid_of(months).start(at) for at in found] == starts
    clocks = [format_instant(grid_of(months).start(at))[11:16] for at in found]
    assert clocks == ["23:00"] * 3 + ["22:00"] * 7 + ["23:00"] * 2


def test_cov_07_bucket_bounds_are_times_and_integers() -> None:
    assert bounds(HOUR, ns("1970-01-01T00:10Z")) == ("1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z")
    tens = grid_of(IntWidth(10))
    at = tens.id_of(-11)
    assert (at, tens.start(at), tens.end(at)) == (-2, -20, -10)


def test_cov_14_buckets_before_1970() -> None:
    at = ns("1969-12-31T12:59:59Z")
    assert bounds(HOUR, at) == ("1969-12-31T12:00:00Z", "1969-12-31T13:00:00Z")
    assert bounds(DAY, -1) == ("1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z")
    assert bounds(Months(1), -1)[0] == "1969-12-01T00:00:00Z"
    assert bounds(LocalDays(1, "America/New_York"), -1)[0] == "1969-12-31T05:00:00Z"
    assert ids(HOUR, [at, -1, 0]) == [-12, -1, 0]


@pytest.mark.parametrize("text", ["2262-04-11T23:47:16.854775807Z", "1677-09-21T00:12:43.145224193Z"])
def test_cov_18_ends_of_the_ns_range(text: str) -> None:
    value = ns(text)
    for bucket in (DAY, Months(1), LocalDays(1, "Asia/Kolkata"), Months(1, "America/New_York"), FixedWidth(1)):
        grid = grid_of(bucket)
        (at,) = ids(bucket, [value])
        assert at == grid.id_of(value)
        assert grid.start(at) <= value < grid.end(at)
    assert bounds(DAY, value)[0][:10] == text[:10]


def test_extreme_int64_values() -> None:
    low, high = -(2**63), 2**63 - 1
    for bucket in (DAY, FixedWidth(1), FixedWidth(7), FixedWidth(2**32 * NS_PER_DAY - 1)):
        assert ids(bucket, [low, high]) == [low // bucket.ns, high // bucket.ns]
    seconds = 10**9
    for wide in (DAY, FixedWidth(seconds), FixedWidth(2**32 * NS_PER_DAY - NS_PER_DAY)):
        assert ids(wide, [low, high], seconds) == [low * seconds // wide.ns, high * seconds // wide.ns]
    assert ids(Months(1), [low, high], seconds) == [grid_of(Months(1)).id_of(v * seconds) for v in (low, high)]


def test_microseconds_of_the_year_9000() -> None:
    value = ns("9000-02-28T23:59:59.999999Z") // 1000
    for bucket in (HOUR, Months(1), LocalDays(1, "Europe/Berlin"), Months(3, "America/St_Johns")):
        assert ids(bucket, [value], 1000) == [grid_of(bucket).id_of(value * 1000)]


def test_uint64_ids_keep_their_type() -> None:
    values = np.array([0, 9, 10, 2**64 - 1], dtype=np.uint64)
    found = grid_of(IntWidth(10), signed=False).ids(values)
    assert found.dtype == np.uint64
    assert found.tolist() == [0, 0, 1, (2**64 - 1) // 10]


@pytest.mark.parametrize(("bucket", "unit"), [("100us", 10**9), ("1500us", 10**6), ("1ns", 1000)])
def test_a_bucket_finer_than_the_unit_is_refused(bucket: str, unit: int) -> None:
    with pytest.raises(InvalidOption, match="whole number of the index's unit"):
        grid_of(parse_bucket(bucket, "timestamp")).ids(np.array([1]), unit)


def test_a_unit_that_does_not_divide_a_second_is_refused_for_local_days() -> None:
    with pytest.raises(InvalidOption):
        grid_of(LocalDays(1, "UTC")).ids(np.array([1]), 60 * 10**9)


def test_days_of_23_and_25_hours() -> None:
    grid = grid_of(LocalDays(1, "America/New_York"))
    lengths = {
        day: (grid.end(grid.id_of(ns(day + "T12:00Z"))) - grid.start(grid.id_of(ns(day + "T12:00Z")))) // HOUR.ns
        for day in ("2024-03-09", "2024-03-10", "2024-11-03")
    }
    assert lengths == {"2024-03-09": 24, "2024-03-10": 23, "2024-11-03": 25}


def test_a_skipped_midnight_starts_at_the_change() -> None:
    # Sao Paulo went from 00:00 to 01:00; Toronto in 1919 from 23:30 to 00:30, so that midnight lies inside the change.
    assert bounds(LocalDays(1, "America/Sao_Paulo"), ns("2018-11-04T12:00Z")) == (
        "2018-11-04T03:00:00Z",
        "2018-11-05T02:00:00Z",
    )
    grid = grid_of(LocalDays(1, "America/Toronto"))
    at = grid.id_of(ns("1919-03-31T12:00Z"))
    assert format_instant(grid.start(at)) == "1919-03-31T04:30:00Z"
    assert grid.id_of(ns("1919-03-31T04:30Z") - 1) == at - 1


def test_the_first_of_two_midnights_starts_the_day() -> None:
    # St John's set the clock back at 00:01, so that midnight came twice.
    assert bounds(LocalDays(1, "America/St_Johns"), ns("2010-11-07T12:00Z"))[0] == "2010-11-07T02:30:00Z"


def test_a_day_that_the_zone_left_out_is_empty() -> None:
    grid = grid_of(LocalDays(1, "Pacific/Apia"))
    skipped = 15_338  # 2011-12-30
    assert grid.start(skipped) == grid.end(skipped) == ns("2011-12-30T10:00Z")
    assert list(grid.skipped(skipped - 1000, skipped + 1000)) == [skipped]
    assert list(grid.skipped(skipped + 1, skipped + 1000)) == []
    change = ns("2011-12-30T10:00Z")
    assert ids(LocalDays(1, "Pacific/Apia"), [change - 1, change]) == [skipped - 1, skipped + 1]
    # Kanton left out the last day of a year.
    assert list(grid_of(LocalDays(1, "Pacific/Kanton")).skipped(9000, 9500)) == [9130]
    assert list(grid_of(LocalDays(2, "Pacific/Apia")).skipped(0, 10_000)) == []


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize("bucket", [LocalDays, Months])
def test_local_buckets_end_with_the_calendar(zone: str, bucket: type[LocalDays | Months]) -> None:
    grid = grid_of(bucket(1, zone))
    for value in (ns("-0001-06-01T00:00Z"), ns("+10000-06-01T00:00Z")):
        with pytest.raises(InvalidTime, match="1 to 9999"):
            grid.id_of(value)
        with pytest.raises(InvalidValue, match="1 to 9999") as caught:
            grid.ids(np.array([0, value // 10**9]), 10**9)
        assert caught.value.row == 1
        with pytest.raises(InvalidTime):
            grid.start(value // NS_PER_DAY if bucket is LocalDays else value // NS_PER_DAY // 28)
    last = grid.id_of(ns("9999-12-31T12:00Z"))
    assert grid.start(last) < grid.end(last)
    first = grid.id_of(ns("0001-01-01T12:00Z"))
    assert grid.start(first) < ns("0001-01-01T12:00Z") < grid.end(first)


def test_the_end_of_the_last_day_follows_the_last_rule() -> None:
    grid = grid_of(LocalDays(1, "America/New_York"))
    assert format_instant(grid.end(grid.id_of(ns("9999-12-31T12:00Z")))) == "+10000-01-01T05:00:00Z"


def test_a_far_stray_date_does_not_change_the_others() -> None:
    values = [ns(t) // 10**9 for t in ("2024-03-10T04:59:59Z", "2024-03-10T05:00Z", "0002-01-01T00:00Z", "9998-12-31T23:00Z")]
    grid = grid_of(LocalDays(1, "America/New_York"))
    assert grid.ids(np.array(values), 10**9).tolist() == [grid.id_of(v * 10**9) for v in values]


@pytest.mark.parametrize("bucket", [DAY, Months(1), LocalDays(1, "UTC"), Months(2, "UTC"), IntWidth(3)])
def test_no_values_no_ids(bucket: Bucket) -> None:
    assert grid_of(bucket).ids(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("bucket", [HOUR, IntWidth(7), Months(3), LocalDays(2, "Europe/Berlin"), Months(1, "Asia/Kolkata")])
def test_a_grid_knows_its_width(bucket: Bucket) -> None:
    assert grid_of(bucket).bucket == bucket
    longer = grid_of(grid_of(bucket).times(5))
    grid = grid_of(bucket)
    assert (longer.start(7), longer.end(7)) == (grid.start(35), grid.end(39))


def test_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(InvalidOption, match="America/New_York"):
        parse_zone("America/NewYork")
    with pytest.raises(InvalidOption):
        grid_of(LocalDays(1, "Mars/Phobos"))


@pytest.mark.parametrize(
    "name", ["", "America", "../etc/passwd", "/etc/localtime", "localtime", "right/UTC", "a\0b", "Europe/Berlin/x"]
)
def test_names_that_are_no_zone(name: str) -> None:
    with pytest.raises(InvalidOption):
        parse_zone(name)


def test_zone_is_read_by_its_name() -> None:
    moment = datetime(2024, 7, 1, tzinfo=UTC).astimezone(parse_zone("Australia/Lord_Howe"))
    assert moment.utcoffset() == timedelta(hours=10, minutes=30)
