"""ISO 8601 texts: what Python reads is read alike, 24:00 ends a day, and a form that is not read is refused by its name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.instant import NS_PER_DAY, ns_from_datetime
from gapless.model.time.iso_text import canonical, parse_iso

MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
DATES = ("%Y-%m-%d", "%Y%m%d", "%G-W%V-%u", "%GW%V%u", "%Y-%j", "%Y%j")
CLOCKS = ("%H", "%H:%M", "%H:%M:%S", "%H%M", "%H%M%S", "%H:%M:%S.%f", "%H%M%S,%f")
ZONES = ("", "Z", "+01:00", "-0330", "+14", "-09:30:15")


def written(when: datetime, format_: str) -> str:
    """strftime with years of four digits."""
    year, iso_year = f"{when.year:04d}", f"{when.isocalendar().year:04d}"
    return when.strftime(format_.replace("%Y", year).replace("%G", iso_year))


@given(MOMENTS, st.sampled_from(DATES), st.sampled_from("T "), st.sampled_from(CLOCKS), st.sampled_from(ZONES))
def test_t2_03_every_form_of_date_clock_and_offset_is_read(
    when: datetime, date: str, between: str, clock: str, zone: str
) -> None:
    text = written(when, date) + between + written(when, clock) + zone
    expected = when.replace(minute=when.minute if "M" in clock else 0)
    expected = expected.replace(second=when.second if "S" in clock else 0, microsecond=when.microsecond if "f" in clock else 0)
    offset = datetime.fromisoformat(f"2026-01-05T00:00{zone}").utcoffset() or timedelta()
    found = parse_iso(text)
    assert found.ns == ns_from_datetime(expected) - offset // timedelta(microseconds=1) * 1000
    assert (found.aware, found.is_date) == (zone != "", False)
    if "j" not in date and when.isocalendar().year == when.year:
        # Python reads no ordinal dates.
        assert found.ns == ns_from_datetime(datetime.fromisoformat(text))


@given(MOMENTS, st.sampled_from(DATES))
def test_a_date_alone_is_a_date_unless_it_is_digits_alone(when: datetime, format_: str) -> None:
    text = written(when, format_)
    if text.isdigit():
        with pytest.raises(ValueError, match="number"):
            parse_iso(text)
        return
    found = parse_iso(text)
    assert (found.is_date, found.aware) == (True, False)
    assert found.ns == ns_from_datetime(when.replace(hour=0, minute=0, second=0, microsecond=0))
    assert canonical(text) == written(when, "%Y-%m-%d")


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from(DATES), st.sampled_from(["", "Z", "+01:00"]))
def test_t2_03_24_00_is_the_next_midnight(when: datetime, date: str, zone: str) -> None:
    day = written(when, date)
    midnight = parse_iso(f"{day}T00:00{zone}").ns
    for clock in ("24:00", "24:00:00", "24:00:00.0", "24:00:00,000000000", "2400", "240000"):
        assert parse_iso(f"{day}T{clock}{zone}").ns == midnight + NS_PER_DAY
    for clock in ("24:30", "24:00:01", "24:00:00.000000001", "25:00", "2401"):
        with pytest.raises(ValueError, match=r"24:00"):
            parse_iso(f"{day}T{clock}{zone}")


@given(MOMENTS, st.sampled_from(DATES), st.sampled_from(CLOCKS), st.sampled_from(ZONES[:-1]))
def test_the_canonical_text_is_the_same_time_as_python_reads_it(when: datetime, date: str, clock: str, zone: str) -> None:
    text = written(when, date) + "T" + written(when, clock) + zone
    shown = canonical(text)
    if shown is None:
        assert (
            not ns_from_datetime(datetime(1, 1, 1))
            <= parse_iso(text).ns
            < ns_from_datetime(datetime(9999, 12, 31)) + NS_PER_DAY
        )
    elif shown[:4] != "0000":
        assert ns_from_datetime(datetime.fromisoformat(shown)) == parse_iso(text).ns


@given(st.text("0123456789-:TWZ+.,/P ", max_size=24))
def test_any_text_is_a_time_or_says_what_it_is(text: str) -> None:
    """And what Python reads as well is the same to it."""
    try:
        found = parse_iso(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either way is right
        return
    try:
        expected = datetime.fromisoformat(text)
    except ValueError:
        return
    assert found.ns // 1000 == ns_from_datetime(expected) // 1000


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("P1D", "duration"),
        ("PT5M", "duration"),
        ("2026-01-05/2026-01-06", "interval"),
        ("2026-01-05T00:00Z/PT1H", "interval"),
        ("2026-01", "month or week without a day"),
        ("2026-W02", "month or week without a day"),
        ("--01-05", "without a year"),
        ("2026-01-05T09.5Z", "fraction of an hour"),
        ("2026-01-05T09:30,5Z", "fraction of a minute"),
        ("2026-01-05T09:30:00.1234567890Z", "more than nine digits"),
        ("09:30", "time of day without a date"),
        ("2026-01-05T00:00+01:00[Europe/Berlin]", "brackets"),
        ("2026-01-05 00:00:00 UTC", "name of a zone"),
        ("2026-01-05 00:00 Europe/Berlin", "name of a zone"),
        ("Mon, 05 Jan 2026 00:00:00 GMT", "begins with a word"),
        ("2026-1-5", "digits of its date"),
        ("26-01-05", "digits of its date"),
        ("2026-02-30", "no such day"),
        ("2025-W53-1", "no such day"),
        ("2025-366", "no such day"),
        ("2016-12-31T23:59:60Z", "leap second"),
        ("2026-01-05T09:60Z", "no time of day"),
        ("2026-01-05T09:00+24:00", "offset"),
        ("20260105", "number"),
        ("1767571200.25", "number"),
        ("20260105-0930", "no ISO 8601"),
        ("05/01/2026", "no ISO 8601"),
        ("", "no ISO 8601"),
    ],
)
def test_t2_03_a_form_that_is_not_read_is_named(text: str, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        parse_iso(text)
    assert canonical(text) is None


def test_years_beyond_four_digits_are_read_but_have_no_form_for_arrow() -> None:
    assert parse_iso("+12026-01-05T00:00Z").ns == ns_from_datetime(datetime(2026, 1, 5)) + 10_000 * 146_097 // 400 * NS_PER_DAY
    assert canonical("+12026-01-05T00:00Z") is None
    assert parse_iso("9999-12-31T24:00").ns == ns_from_datetime(datetime(9999, 12, 31)) + NS_PER_DAY
    assert canonical("9999-12-31T24:00") is None
    assert parse_iso(" 2026-01-05t00:00z ").ns == ns_from_datetime(datetime(2026, 1, 5, tzinfo=timezone(timedelta())))
    assert parse_iso("2026-01-05Z").aware
    assert parse_iso("2026-01-05+01:00").ns == ns_from_datetime(datetime(2026, 1, 4, 23, tzinfo=UTC))
