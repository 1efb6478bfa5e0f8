"""When something is due: intervals, cron expressions, clock changes, and times that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import InvalidOption
from gapless.runtime.schedule import Schedule

S = 10**9
MINUTE = 60 * S


def ns(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * S


def text(at: int, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(at // S, UTC).astimezone(ZoneInfo(zone)).isoformat()


def times(schedule: Schedule, after: int, count: int) -> list[int]:
    found = [schedule.first_after(after)]
    while len(found) < count:
        found.append(schedule.following(found[-1], found[-1]))
    return found


def test_an_interval_counts_from_its_beginning() -> None:
    schedule = Schedule.parse("10 minutes")
    assert times(schedule, 7 * S, 3) == [7 * S + n * 10 * MINUTE for n in (1, 2, 3)]
    assert Schedule.parse(timedelta(minutes=10)) == schedule == Schedule.parse(schedule)


def test_of_an_interval_one_run_stands_for_those_that_were_missed() -> None:
    schedule = Schedule.parse("10 minutes")
    assert schedule.following(0, 35 * MINUTE) == 40 * MINUTE
    assert schedule.following(0, 40 * MINUTE) == 50 * MINUTE


def test_of_a_cron_expression_one_run_stands_for_those_that_were_missed() -> None:
    schedule = Schedule.parse("0 3 * * *")
    assert text(schedule.following(ns("2026-01-05T03:00"), ns("2026-01-09T12:00"))) == "2026-01-10T03:00:00+00:00"


def test_a_clock_that_is_set_back_makes_no_interval_longer() -> None:
    schedule = Schedule.parse("10 minutes")
    assert schedule.awaited(100 * MINUTE, 40 * MINUTE) == 50 * MINUTE
    assert schedule.awaited(45 * MINUTE, 40 * MINUTE) == 45 * MINUTE


def test_a_time_that_a_clock_change_skips_is_due_right_after_it() -> None:
    schedule = Schedule.parse("30 2 * * *", timezone="Europe/Berlin")
    found = times(schedule, ns("2026-03-28T01:00", "Europe/Berlin"), 3)
    assert [text(one, "Europe/Berlin") for one in found] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_that_a_clock_change_repeats_is_due_once() -> None:
    schedule = Schedule.parse("30 2 * * *", timezone="Europe/Berlin")
    found = times(schedule, ns("2026-10-24T12:00", "Europe/Berlin"), 2)
    assert [text(one, "Europe/Berlin") for one in found] == ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]


def test_within_the_repeated_hour_nothing_is_due_in_the_past() -> None:
    schedule = Schedule.parse("30 2 * * *", timezone="Europe/Berlin")
    second_time = ns("2026-10-25T01:10")  # UTC: the wall clock shows 2:10 for the second time
    assert text(schedule.first_after(second_time)) == "2026-10-26T01:30:00+00:00"


def test_times_with_a_star_are_those_that_the_clock_shows() -> None:
    schedule = Schedule.parse("*/30 * * * *", timezone="Europe/Berlin")
    found = times(schedule, ns("2026-10-24T23:45"), 6)
    assert {later - earlier for earlier, later in pairwise(found)} == {30 * MINUTE}


def test_names_of_common_expressions() -> None:
    assert Schedule.parse("@Daily") == Schedule.parse("0 0 * * *")
    assert Schedule.parse("0  3 * * MON").cron == "0 3 * * MON"


@given(
    cron=st.sampled_from(["30 2 * * *", "*/20 * * * *", "0 0 29 2 *", "15,45 1-3 * * SUN", "0 */6 * * *", "0 12 L * *"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    after=st.integers(ns("1990-01-01"), ns("2060-01-01")),
    jitter=st.sampled_from([None, "40 minutes"]),
)
def test_a_time_always_comes_after_the_one_before(cron: str, zone: str, after: int, jitter: str | None) -> None:
    schedule = Schedule.parse(cron, timezone=zone, jitter=jitter).delayed("orders")
    found = [after, *times(schedule, after, 3)]
    assert all(earlier < later for earlier, later in pairwise(found))


def test_names_have_delays_of_their_own_that_stay_the_same() -> None:
    plain, spread = Schedule.parse("0 3 * * *"), Schedule.parse("0 3 * * *", jitter="10 minutes")
    delays = {spread.delayed(f"table {n}").first_after(0) - plain.first_after(0) for n in range(50)}
    assert len(delays) == 50
    assert 0 <= min(delays) < 2 * MINUTE
    assert 8 * MINUTE < max(delays) < 10 * MINUTE
    assert spread.delayed("table 7") == spread.delayed("table 7")
    every = Schedule.parse("1h", jitter="10 minutes").delayed("table 7")
    assert times(every, 0, 2) == [60 * MINUTE + every.delay_ns, 120 * MINUTE + every.delay_ns]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("10 parsecs", "Did you mean 'secs'?"),
        ("100ms", "A second is the shortest"),
        ("0", "A second is the shortest"),
        ("0 3 * *", "It has 4 fields"),
        ("* * * * * *", "It has 6 fields"),
        ("61 * * * *", "Bad minute"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("@fortnightly", "It has 1 field;"),
        (None, "whole number and a unit"),
    ],
)
def test_what_is_no_schedule_is_refused(given: object, said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Schedule.parse(given, "compact")
    assert said in str(refused.value)
    assert refused.value.option == "compact"


def test_a_zone_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(InvalidOption, match="Europe/Berlin"):
        Schedule.parse("0 3 * * *", timezone="Europe/Berlni")
    with pytest.raises(InvalidOption, match="is no length of time"):
        Schedule.parse("0 3 * * *", jitter="a little")
