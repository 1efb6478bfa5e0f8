"""Dates and instants as texts, against Python's own calendar and beyond it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.delta.iso_time import DAY_US, days_text, instant_text, parse_days, parse_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_dates_are_those_of_python(day: date) -> None:
    days = day.toordinal() - date(1970, 1, 1).toordinal()
    assert days_text(days) == day.isoformat()
    assert parse_days(day.isoformat()) == days


@given(st.integers(-3_000_000, 300_000_000))
def test_days_of_any_year_come_back(days: int) -> None:
    assert parse_days(days_text(days)) == days
    assert parse_days(days_text(days + 1)) == days + 1


def test_type_21_delta_dates_before_1582_are_proleptic() -> None:
    assert parse_days("1001-01-01") == -353_920
    assert parse_days("1582-10-15") - parse_days("1582-10-04") == 11


def test_years_beyond_9999_have_a_sign() -> None:
    assert days_text(parse_days("9999-12-31") + 1) == "+10000-01-01"
    assert days_text(parse_days("0000-01-01") - 1) == "-0001-12-31"


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_are_those_of_python(at: datetime) -> None:
    us = (at - EPOCH) // timedelta(microseconds=1)
    assert parse_instant(at.isoformat()) == (us, 1 if at.microsecond else 1_000_000, True)
    assert datetime.fromisoformat(instant_text(us)) == at
    assert parse_instant(instant_text(us)) == (us, 1, True)
    assert parse_instant(instant_text(us, separator=" ", zone="")) == (us, 1, False)


@given(st.datetimes(timezones=st.timezones()).filter(lambda at: 2 < at.year < 9998))
def test_offsets_are_those_of_python(at: datetime) -> None:
    text = at.isoformat()
    assert parse_instant(text)[0] == (at - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-02", (DAY_US, DAY_US, False)),
        ("1970-01-01 00:01", (60_000_000, 60_000_000, False)),
        ("1970-01-01 00:00:01", (1_000_000, 1_000_000, False)),
        ("1970-01-01 00:00:00.5", (500_000, 100_000, False)),
        ("1970-01-01T00:00:00.123Z", (123_000, 1_000, True)),
        ("1970-01-01T00:00:00.123456000Z", (123_456, 1, True)),
        ("1970-01-01 00:00:00 UTC", (0, 1_000_000, True)),
        ("1970-01-01T00:00:00+0100", (-3_600_000_000, 1_000_000, True)),
        ("1850-01-01T01:01:01+00:53:28", ((parse_days("1850-01-01") * 86_400 + 453) * 1_000_000, 1_000_000, True)),
    ],
)
def test_forms_of_instants(text: str, found: tuple[int, int, bool]) -> None:
    assert parse_instant(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "1970", "1970-13-01", "1970-02-30", "1900-02-29", "1970-01-01T", "1970-01-01 24:00:00", "1970-01-01 00:60", "1970-01-01 00:00:60",
     "1970-01-01T00:00:00.0000001Z", "1970-01-01T00:00:00X", "1970-01-01T00:00:00+1", "x1970-01-01", "1970-01-01 1"],
)  # fmt: skip
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match="no "):
        parse_instant(text)
