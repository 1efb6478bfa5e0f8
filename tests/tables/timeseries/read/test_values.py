"""Index values as callers write them, and as answers show them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gapless.errors import InvalidTime
from gapless.model.index import FixedWidth, IndexSpec, IntWidth
from gapless.tables.timeseries.read.values import parse_index_value, presenter

HOUR_NS = 3_600 * 10**9
HOURLY = FixedWidth(HOUR_NS)
NAIVE = IndexSpec(column="ts", type="timestamp", bucket=HOURLY)
LOCAL = IndexSpec(column="ts", type="timestamp", bucket=HOURLY, timezone="America/Sao_Paulo")
NUMBERED = IndexSpec(column="n", type="int64", bucket=IntWidth(10))
UNSIGNED = IndexSpec(column="n", type="uint64", bucket=IntWidth(10))
NAIVE_SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False)])
UTC_SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False)])
BERLIN_SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "Europe/Berlin"), nullable=False)])


def read(value: object, index: IndexSpec = NAIVE, schema: pa.Schema | None = NAIVE_SCHEMA) -> int:
    return parse_index_value(value, index, schema, name="start")


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(1970, 1, 2),
        dt.date(1970, 1, 2),
        "1970-01-02",
        "1970-01-02T00:00",
        "1970-01-02 00:00:00.000000000",
        np.datetime64("1970-01-02"),
        np.datetime64("1970-01-02T00", "h"),
        np.datetime64("1970-01-02T00:00:00", "ns"),
        pd.Timestamp("1970-01-02"),
    ],
    ids=repr,
)
def test_ways_to_write_one_naive_time(value: object) -> None:
    assert read(value) == 24 * HOUR_NS


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(1970, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(1970, 1, 2, tzinfo=dt.UTC),
        "1970-01-02T00:00Z",
        "1970-01-01T19:00:00-05:00",
        pd.Timestamp("1970-01-02T01:00", tz="Europe/Berlin"),
        dt.date(1970, 1, 2),
        "1970-01-02",
    ],
    ids=repr,
)
def test_ways_to_write_one_instant(value: object) -> None:
    assert read(value, NAIVE, UTC_SCHEMA) == 24 * HOUR_NS


def test_nanoseconds_are_kept() -> None:
    assert read(pd.Timestamp(7)) == read(np.datetime64(7, "ns")) == read("1970-01-01T00:00:00.000000007") == 7


@pytest.mark.parametrize("value", ["1970-01-02T00:00", dt.datetime(1970, 1, 2), np.datetime64("1970-01-02T00")])
def test_naive_against_aware_says_what_to_pass(value: object) -> None:
    with pytest.raises(InvalidTime, match=r"Pass an offset, such as '1970-01-02T00:00:00Z'"):
        read(value, NAIVE, UTC_SCHEMA)


def test_aware_against_naive_says_what_to_pass() -> None:
    with pytest.raises(InvalidTime, match="Pass a naive time, such as '1970-01-02T00:00:00'"):
        read("1970-01-02T00:00Z")


def test_a_naive_time_is_the_wall_clock_of_a_table_with_a_zone() -> None:
    expected = dt.datetime(2024, 6, 1, 12, tzinfo=ZoneInfo("America/Sao_Paulo")).timestamp() * 10**9
    assert read("2024-06-01T12:00", LOCAL, UTC_SCHEMA) == expected


@pytest.mark.parametrize("value", [dt.date(2017, 10, 15), "2017-10-15", np.datetime64("2017-10-15")])
def test_a_date_whose_midnight_is_skipped_begins_at_the_change(value: object) -> None:
    assert read(value, LOCAL, UTC_SCHEMA) == read("2017-10-15T03:00Z", LOCAL, UTC_SCHEMA)


def test_a_date_whose_day_begins_within_a_skipped_hour_begins_at_the_change() -> None:
    """Toronto went from 23:30 on the 30th to 00:30 on the 31st."""
    toronto = replace(LOCAL, timezone="America/Toronto")
    assert read(dt.date(1919, 3, 31), toronto, UTC_SCHEMA) == read("1919-03-31T04:30Z", toronto, UTC_SCHEMA)
    assert read(dt.date(1919, 3, 30), toronto, UTC_SCHEMA) == read("1919-03-30T05:00Z", toronto, UTC_SCHEMA)


def test_a_date_whose_midnight_comes_twice_begins_at_the_first() -> None:
    havana = replace(LOCAL, timezone="America/Havana")
    assert read("2024-11-03", havana, UTC_SCHEMA) == read("2024-11-03T04:00Z", havana, UTC_SCHEMA)


@pytest.mark.parametrize(
    ("value", "what"),
    [("2017-10-15T00:30", "skipped"), ("2018-02-17T23:30", "ambiguous"), (dt.datetime(2017, 10, 15), "skipped")],
)
def test_a_wall_clock_time_without_one_instant_is_refused(value: object, what: str) -> None:
    with pytest.raises(InvalidTime, match=f"is {what} in America/Sao_Paulo"):
        read(value, LOCAL, UTC_SCHEMA)


@pytest.mark.parametrize(
    "value", [pd.NaT, np.datetime64("NaT"), float("nan"), None, 5, 1.5, True, object(), "yesterday", "2024-02-30", ""]
)
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidTime):
        read(value)


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), "7", " +7 "], ids=repr)
def test_ways_to_write_an_integer(value: object) -> None:
    assert read(value, NUMBERED, None) == 7


@pytest.mark.parametrize("value", [1.0, True, "1.5", dt.date(2024, 1, 1), None, 2**63 + 1, -(2**63) - 1], ids=repr)
def test_what_is_no_integer_of_the_index_is_refused(value: object) -> None:
    with pytest.raises(InvalidTime):
        read(value, NUMBERED, None)


def test_the_end_of_the_integers_may_be_named() -> None:
    assert read(2**64, UNSIGNED, None) == 2**64
    with pytest.raises(InvalidTime):
        read(-1, UNSIGNED, None)


def test_answers_come_in_the_zone_of_the_table_else_of_the_index() -> None:
    assert presenter(NAIVE, NAIVE_SCHEMA)(HOUR_NS) == dt.datetime(1970, 1, 1, 1)
    utc = presenter(NAIVE, UTC_SCHEMA)(HOUR_NS)
    assert (utc, utc.tzinfo) == (dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC), dt.UTC)
    assert presenter(NAIVE, BERLIN_SCHEMA)(HOUR_NS).isoformat() == "1970-01-01T02:00:00+01:00"
    assert presenter(LOCAL, UTC_SCHEMA)(HOUR_NS).isoformat() == "1969-12-31T22:00:00-03:00"
    assert presenter(NUMBERED, None)(-20) == -20


def test_what_a_datetime_cannot_hold_is_a_datetime64() -> None:
    present = presenter(NAIVE, UTC_SCHEMA)
    assert present(7) == np.datetime64(7, "ns")
    year_12000 = (np.datetime64("12000-01-01", "s").astype(int).item()) * 10**9
    assert present(year_12000) == np.datetime64("12000-01-01", "us")
