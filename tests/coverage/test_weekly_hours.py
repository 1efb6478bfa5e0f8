"""Weekly hours: what a text means, and when the sessions are, clock changes among them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from gapless.coverage.calendar import Shift, WeeklyHours, is_weekly
from gapless.errors import InvalidOption, InvalidTime
from gapless.model.instant import format_instant, ns_from_datetime

H = 3600
WHOLE = ((0, 24 * H),)
WEEKDAYS = (0, 1, 2, 3, 4)


def shown(text: str, start: str, end: str, **options: Any) -> list[str]:
    """Sessions that reach into days `[start, end)` of UTC, as `dayThour:minute/dayThour:minute`."""
    bounds = [ns_from_datetime(datetime.fromisoformat(day).replace(tzinfo=UTC)) for day in (start, end)]
    found = WeeklyHours.parse(text, **options).sessions(*bounds)
    pairs = [(o, c) for o, c in zip(found.opens_ns, found.closes_ns, strict=True) if c > bounds[0] and o < bounds[1]]
    return ["/".join(format_instant(ns)[8:16] for ns in pair) for pair in pairs]


@pytest.mark.parametrize(
    ("text", "shifts", "zone"),
    [
        ("mon-fri", [Shift(WEEKDAYS, WHOLE)], None),
        ("Mon – Fri 9:30 – 16:00 America/New_York", [Shift(WEEKDAYS, ((34_200, 16 * H),))], "America/New_York"),
        ("monday,wed 09:00-11:30,12:30-15:00 UTC", [Shift((0, 2), ((9 * H, 41_400), (45_000, 15 * H)))], "UTC"),
        (
            "mon-thu 09:00-17:00; fri 09:00-13:00",
            [Shift((0, 1, 2, 3), ((9 * H, 17 * H),)), Shift((4,), ((9 * H, 13 * H),))],
            None,
        ),
        (
            "mon-thu 09:00-17:00, fri 09:00-13:00",
            [Shift((0, 1, 2, 3), ((9 * H, 17 * H),)), Shift((4,), ((9 * H, 13 * H),))],
            None,
        ),
        ("sun-thu 18:00-17:00", [Shift((0, 1, 2, 3, 6), ((18 * H, 17 * H),))], None),
        ("mon-fri; sat 10:00:30-24:00", [Shift(WEEKDAYS, WHOLE), Shift((5,), ((36_030, 24 * H),))], None),
    ],
)
def test_texts_mean(text: str, shifts: list[Shift], zone: str | None) -> None:
    week = WeeklyHours.parse(text)
    assert (list(week.shifts), week.timezone) == (shifts, zone)
    assert WeeklyHours.parse(week.text) == week
    assert is_weekly(text)


def test_holidays_come_from_the_text_and_beside_it() -> None:
    week = WeeklyHours.parse("mon-fri UTC except 2026-12-25, 2026-01-01", [datetime(2026, 7, 3, 12), date(2026, 1, 1)])
    assert week.holidays == (date(2026, 1, 1), date(2026, 7, 3), date(2026, 12, 25))
    assert week.text == "mon-fri UTC except 2026-01-01, 2026-07-03, 2026-12-25"
    with pytest.raises(InvalidOption, match="is no date"):
        WeeklyHours.parse("mon", ["2026-01-01"])  # type: ignore[list-item]  # what users will try


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no day"),
        ("UTC", "names no day"),
        ("mom-fri", "'mom-fri' is no day"),
        ("mon-fri 9-17", "Write hours as 09:30-16:00"),
        ("mon-tue-wed", "is no day"),
        ("09:00-10:00 mon", "have no day"),
        ("mon 24:00-25:00", "no stretch of a day"),
        ("mon 09:60-10:00", "no stretch of a day"),
        ("mon 24:00-24:00", "no stretch of a day"),
        ("mon UTC; tue Asia/Tokyo", "2 time zones, Asia/Tokyo and UTC"),
        ("mon America/NewYork", "Did you mean 'America/New_York'"),
        ("mon except christmas", "'christmas' after `except` is no date"),
    ],
)
def test_texts_that_mean_nothing(text: str, said: str) -> None:
    with pytest.raises(InvalidOption, match=said) as caught:
        WeeklyHours.parse(text)
    assert caught.value.option == "calendar"
    assert repr(text) in str(caught.value)


def test_hours_follow_the_clock_of_the_zone() -> None:
    trading = "mon-fri 09:30-16:00 America/New_York"
    # Friday before, and Monday after the clocks went forward on Sunday, 8 March 2026.
    assert shown(trading, "2026-03-06", "2026-03-10") == ["06T14:30/06T21:00", "09T13:30/09T20:00"]
    assert shown(trading, "2026-10-30", "2026-11-03") == ["30T13:30/30T20:00", "02T14:30/02T21:00"]
    assert shown("mon-fri 09:30-16:00", "2026-03-07", "2026-03-10") == ["09T09:30/09T16:00"]
    assert shown("sat-sun America/New_York", "2026-03-07", "2026-03-09") == ["07T05:00/09T04:00"]  # 47 hours, one session


def test_an_overnight_session_belongs_to_the_day_it_begins() -> None:
    futures = "sun-thu 18:00-17:00 America/Chicago"
    # From Sunday to Friday; the session of the change has 22 hours, not 23.
    assert shown(futures, "2026-03-07", "2026-03-11") == ["08T23:00/09T22:00", "09T23:00/10T22:00", "10T23:00/11T22:00"]
    assert shown("sat 18:00-17:00 America/Chicago", "2026-03-07", "2026-03-10") == ["08T00:00/08T22:00"]
    assert shown("sat 18:00-17:00 America/Chicago", "2026-10-31", "2026-11-03") == ["31T23:00/01T23:00"]  # 24 hours
    # one that began the day before reaches in
    assert shown("mon 22:00-02:00", "2026-03-10", "2026-03-11") == ["09T22:00/10T02:00"]
    assert shown("mon 09:00-09:00", "2026-03-10", "2026-03-11") == ["09T09:00/10T09:00"]
    # A holiday takes the session that begins on it, not the one that ends on it.
    assert shown("mon-tue 22:00-02:00", "2026-03-09", "2026-03-12", holidays=[date(2026, 3, 10)]) == ["09T22:00/10T02:00"]


def test_times_that_a_clock_change_skips_or_repeats() -> None:
    berlin = "Europe/Berlin"
    # 02:00 to 03:00 is skipped on 29 March 2026: such a time is the change itself, at 01:00Z.
    assert shown(f"sun 02:30-04:00 {berlin}", "2026-03-29", "2026-03-30") == ["29T01:00/29T02:00"]
    assert shown(f"sun 01:00-02:30 {berlin}", "2026-03-29", "2026-03-30") == ["29T00:00/29T01:00"]
    assert shown(f"sun 02:15-02:45 {berlin}", "2026-03-29", "2026-03-30") == []
    # 02:00 to 03:00 comes twice on 25 October 2026: such a time is the first of the two.
    assert shown(f"sun 02:30-04:00 {berlin}", "2026-10-25", "2026-10-26") == ["25T00:30/25T03:00"]
    assert shown(f"sun 01:00-02:30 {berlin}", "2026-10-25", "2026-10-26") == ["24T23:00/25T00:30"]
    assert shown(f"sun 02:15-02:45 {berlin}", "2026-10-25", "2026-10-26") == ["25T00:15/25T00:45"]


def test_sessions_at_the_ends_of_time() -> None:
    week = WeeklyHours.parse("mon-sun 12:00-13:00 Asia/Tokyo")
    first, last = (ns_from_datetime(datetime(*day, tzinfo=UTC)) for day in ((1, 1, 2), (9999, 12, 30)))
    assert week.sessions(first, first + 1).opens_ns[0] == first - 24 * H * 10**9 + 12 * H * 10**9 - (9 * H + 1139) * 10**9
    assert len(week.sessions(last, last + 24 * H * 10**9).opens_ns) == 3
    with pytest.raises(InvalidTime, match="years 1 to 9999"):
        week.sessions(last, last + 10 * 24 * H * 10**9)


def test_a_week_without_a_day_is_refused() -> None:
    with pytest.raises(InvalidOption, match="expects nothing"):
        WeeklyHours(shifts=())
    with pytest.raises(InvalidOption, match="not known"):
        WeeklyHours(shifts=(Shift((0,)),), timezone="Mars/Olympus")
