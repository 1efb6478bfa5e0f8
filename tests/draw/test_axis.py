"""Ticks at round times of the zone, texts of one precision, no column too narrow to be seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.draw.axis import Axis, axis_of
from gapless.model.instant import NS_PER, NS_PER_DAY, days_from_civil

NEW_YORK = ZoneInfo("America/New_York")


def between(start: datetime, end: datetime) -> Axis:
    return axis_of([start, start + (end - start) / 2, end])


def ticks(axis: Axis, room: int = 100) -> list[str]:
    return [f"{tick.text} {tick.below}".strip() for tick in axis.ticks(room)]


def test_a_year_has_months() -> None:
    assert ticks(between(datetime(2012, 11, 15), datetime(2013, 6, 2))) == [
        "Dec 2012",
        "Jan 2013",
        "Feb",
        "Mar",
        "Apr",
        "May",
        "Jun",
    ]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (timedelta(days=3650), ["1970", "1971", "1972", "1973", "1974", "1975", "1976", "1977", "1978", "1979"]),
        (timedelta(days=20), ["Jan 5 1970", "Jan 12", "Jan 19"]),
        (
            timedelta(days=3),
            ["00:00 1970-01-01", "12:00", "00:00 1970-01-02", "12:00", "00:00 1970-01-03", "12:00", "00:00 1970-01-04"],
        ),
        (timedelta(minutes=4), ["00:00 1970-01-01", "00:01", "00:02", "00:03", "00:04"]),
        (timedelta(milliseconds=4), [f"00:00:00.00{n}{' 1970-01-01' * (n == 0)}" for n in range(5)]),
    ],
)
def test_steps_follow_the_length(length: timedelta, expected: list[str]) -> None:
    room = 110 if length > timedelta(days=1000) else 40 if length > timedelta(days=5) else 90
    start = datetime(1970, 1, 1)
    assert ticks(between(start, start + length), room) == expected


def test_ticks_are_round_on_the_wall_clock_across_a_clock_change() -> None:
    axis = between(datetime(2013, 3, 9, 3, tzinfo=NEW_YORK), datetime(2013, 3, 12, 3, tzinfo=NEW_YORK))
    found = axis.ticks(40)
    assert [f"{t.text} {t.below}".strip() for t in found] == ["Mar 10 2013", "Mar 11", "Mar 12"]
    hours = [tick.value // (3600 * NS_PER["s"]) for tick in found]
    assert np.diff(hours).tolist() == [23, 24]


def test_integers() -> None:
    assert ticks(axis_of([30, 1_000, 2_100]), 40) == ["500", "1,000", "1,500", "2,000"]
    assert ticks(axis_of([-(2**63), 0, 2**63])) == ["-5,000,000,000,000,000,000", "0", "5,000,000,000,000,000,000"]


def test_years_that_no_datetime_holds() -> None:
    edges = [np.datetime64(days_from_civil(year, 1, 1) * 86_400 * 10**6, "us") for year in (-4000, 3000, 20_000)]
    axis = axis_of(edges)
    assert axis.edges[0] == days_from_civil(-4000, 1, 1) * NS_PER_DAY
    assert ticks(axis) == ["0", "5000", "10000", "15000", "20000"]
    assert axis.texts(axis.edges) == ["-4000-01-01", "3000-01-01", "+20000-01-01"]


def test_nanoseconds_beside_datetimes() -> None:
    axis = axis_of([datetime(1970, 1, 1, tzinfo=UTC), np.datetime64(500, "ns"), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)])
    assert (axis.edges, axis.zone, axis.is_time) == ((0, 500, 1000), UTC, True)


def test_texts_have_one_precision() -> None:
    axis = between(datetime(2013, 1, 1), datetime(2013, 1, 3))
    assert axis.texts([0, NS_PER_DAY]) == ["1970-01-01", "1970-01-02"]
    assert axis.texts([0, 3600 * NS_PER["s"]]) == ["1970-01-01 00:00", "1970-01-01 01:00"]
    assert axis.texts([0, 1]) == ["1970-01-01 00:00:00", "1970-01-01 00:00:00.000000001"]
    assert axis.texts([]) == []


def test_outer_columns_can_be_seen() -> None:
    axis = axis_of([99, 100, 10_100, 20_100, 20_101])
    assert axis.edges == (99, 100, 10_100, 20_100, 20_101)
    assert axis.drawn[1] - axis.drawn[0] == axis.drawn[-1] - axis.drawn[-2] == 20_002 // 300
    assert (axis.place(axis.drawn[0]), axis.place(axis.drawn[-1])) == (0.0, 1.0)
    assert axis_of([0, 10, 20]).drawn == (0, 10, 20)


def test_nothing_to_mark() -> None:
    assert axis_of([]).ticks(100) == []


@given(st.integers(-(2**62), 2**62), st.integers(1, 2**62), st.integers(20, 200), st.booleans())
def test_ticks_lie_within_and_fit(start: int, length: int, room: int, is_time: bool) -> None:
    axis = Axis(edges=(start, start + length), is_time=is_time, zone=NEW_YORK if is_time else None)
    found = axis.ticks(room)
    assert all(start <= tick.value <= start + length for tick in found)
    assert [t.value for t in found] == sorted({t.value for t in found})
    assert sum(len(tick.text) + 2 for tick in found) <= room
