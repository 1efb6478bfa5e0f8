"""Coverage against a calendar of expected times, from a table."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import gapless as gl
from gapless.coverage.calendar import Sessions, WeeklyHours
from gapless.errors import InvalidOption, InvalidTime, NotSupported

TRADING = "mon-fri 09:30-16:00 America/New_York"
NEW_YORK = ZoneInfo("America/New_York")
_counter = itertools.count()


def table(**options: Any) -> gl.TimeSeriesTable:
    return gl.create(f"memory://calendar-{next(_counter)}", **{"index": "ts", "bucket": "1m", **options})


def minutes(first: datetime, end: datetime) -> list[datetime]:
    return [first + timedelta(minutes=at) for at in range(int((end - first).total_seconds()) // 60)]


def session(day: date) -> list[datetime]:
    """Every minute of a trading day, in UTC."""
    opens = datetime(day.year, day.month, day.day, 9, 30, tzinfo=NEW_YORK).astimezone(UTC)
    return minutes(opens, opens + timedelta(hours=6.5))


# Two weeks of trading, with the change of the clocks on 8 March between them.
TWO_WEEKS = [day for at in range(12) if (day := date(2026, 3, 2) + timedelta(days=at)).weekday() < 5]


def test_nights_and_weekends_are_no_gaps() -> None:
    trades = table()
    trades.append({"ts": [at for day in TWO_WEEKS for at in session(day)]})
    covered = trades.coverage(calendar=TRADING)
    assert (covered.gaps(), covered.ratio, covered.expected) == ([], 1.0, 10 * 390)
    assert len(trades.coverage().gaps()) == 9
    window = covered.last_full_window(3900)
    assert window is not None
    assert (window.start, window.end) == (session(TWO_WEEKS[0])[0], session(TWO_WEEKS[-1])[-1] + timedelta(minutes=1))


def test_a_gap_from_fridays_close_to_mondays_open_is_one() -> None:
    lost = {
        datetime(2026, 3, 6, 20, 59, tzinfo=UTC),
        datetime(2026, 3, 9, 13, 30, tzinfo=UTC),
        datetime(2026, 3, 10, 13, 30, tzinfo=UTC),
    }
    trades = table()
    trades.append({"ts": [at for day in TWO_WEEKS for at in session(day) if at not in lost]})
    found = [(gap.start, gap.end, gap.buckets) for gap in trades.coverage(calendar=TRADING).gaps()]
    assert found == [
        (datetime(2026, 3, 6, 20, 59, tzinfo=UTC), datetime(2026, 3, 9, 13, 31, tzinfo=UTC), 2),
        (datetime(2026, 3, 10, 13, 30, tzinfo=UTC), datetime(2026, 3, 10, 13, 31, tzinfo=UTC), 1),
    ]


def test_rows_outside_of_the_sessions_count_neither_way() -> None:
    trades = table(entity=["s"])
    inside = session(date(2026, 3, 6))
    outside = [datetime(2026, 3, 6, 12, tzinfo=UTC), datetime(2026, 3, 7, 15, tzinfo=UTC)]
    trades.append({"ts": [*inside, *outside], "s": ["A"] * 392})
    covered = trades.coverage(calendar=TRADING)
    assert (covered.covered, covered.expected, covered.gaps(), len(covered.buckets())) == (390, 390, [], 390)
    (gap,) = trades.coverage("2026-03-06T00:00Z", "2026-03-09T14:00Z", calendar=TRADING, identities=["A"]).gaps()
    assert (gap.start, gap.buckets) == (datetime(2026, 3, 9, 13, 30, tzinfo=UTC), 30)
    never = trades.coverage("2026-03-06T00:00Z", "2026-03-10T00:00Z", calendar=TRADING, identities=["B"])
    assert [(gap.identity, gap.buckets) for gap in never.gaps()] == [(("B",), 780)]


def test_hours_and_days_that_a_session_reaches_into_are_expected() -> None:
    hourly = table(bucket="1h")
    covered = hourly.coverage("2026-03-06T00:00Z", "2026-03-07T00:00Z", calendar=TRADING)
    (gap,) = covered.gaps()
    assert (gap.start.hour, gap.end.hour, gap.buckets) == (14, 21, 7)
    # A New York session lies within one UTC day, a whole New York day in two.
    daily = table(bucket="1d")
    days = [gap.start.day for gap in daily.coverage("2026-03-06", "2026-03-10", calendar=TRADING).gaps(1)]
    assert days == [6, 9]
    days = [gap.start.day for gap in daily.coverage("2026-03-06", "2026-03-10", calendar="mon-fri America/New_York").gaps(1)]
    assert days == [6, 7, 9]
    days = [gap.start.day for gap in daily.coverage("2026-03-06", "2026-03-10", calendar="mon-fri").gaps(1)]
    assert days == [6, 9]
    local = table(bucket="1d", timezone="America/New_York")
    for calendar in ("mon-fri", TRADING, "mon-fri America/New_York"):
        days = [gap.start.day for gap in local.coverage("2026-03-06", "2026-03-11", calendar=calendar).gaps(1)]
        assert days == [6, 9, 10]
    holidays = WeeklyHours.parse("mon-fri", holidays=[date(2026, 3, 9)])
    assert [gap.start.day for gap in local.coverage("2026-03-06", "2026-03-11", calendar=holidays).gaps(1)] == [6, 10]


@pytest.mark.parametrize(
    ("options", "hour"),
    [
        ({}, 9),
        ({"timezone": "America/New_York"}, 14),
        ({"schema": pa.schema([("ts", pa.timestamp("us", "America/New_York"))])}, 14),
        ({"schema": pa.schema([("ts", pa.timestamp("us", "-05:00"))])}, 9),
        ({"schema": pa.schema([("ts", pa.timestamp("us"))])}, 9),
    ],
)
def test_hours_without_a_zone_are_those_of_the_table(options: dict[str, Any], hour: int) -> None:
    hourly = table(bucket="1h", **options)
    aware = options.get("schema") is None or options["schema"].field("ts").type.tz
    bounds = ("2026-03-06T00:00Z", "2026-03-07T00:00Z") if aware else ("2026-03-06T00:00", "2026-03-07T00:00")
    (gap,) = hourly.coverage(*bounds, calendar="mon-fri 09:00-10:00").gaps()
    assert (gap.start.astimezone(UTC) if gap.start.tzinfo else gap.start).hour == hour


def test_calendars_that_do_not_fit_are_refused() -> None:
    bounds = ("2026-03-06T00:00", "2026-03-07T00:00")
    naive = table(schema=pa.schema([("ts", pa.timestamp("us"))]))
    with pytest.raises(InvalidOption, match="which clock its times mean is not known"):
        naive.coverage(*bounds, calendar=TRADING)
    with pytest.raises(InvalidOption, match="which clock"):
        naive.coverage(*bounds, calendar="XNYS")
    integers = table(index_type="int64", bucket=10)
    with pytest.raises(InvalidOption, match="int64"):
        integers.coverage(0, 100, calendar="mon-fri")
    with pytest.raises(InvalidOption, match="A dict does not say"):
        table().coverage(*bounds, calendar={"mon": 1})  # type: ignore[arg-type]  # what users will try
    with pytest.raises(InvalidOption, match="'9-17' is no day"):
        table().coverage(*bounds, calendar="mon-fri 9-17")
    with pytest.raises(InvalidOption, match=r"names no day|is no day"):
        table().coverage(*bounds, calendar="trading hours")


def test_a_calendar_is_whatever_has_sessions() -> None:
    class EveryOtherHour:
        def sessions(self, start_ns: int, end_ns: int) -> Sessions:
            hour = 3600 * 10**9
            return Sessions.of((at, at + hour) for at in range(start_ns // (2 * hour) * 2 * hour, end_ns, 2 * hour))

    hourly = table(bucket="1h")
    covered = hourly.coverage("2026-03-06T00:00Z", "2026-03-07T00:00Z", calendar=EveryOtherHour())
    assert (covered.expected, [gap.start.hour for gap in covered.gaps(1)]) == (12, list(range(0, 24, 2)))
    fixed = Sessions.of([(datetime(2026, 3, 6, 3, tzinfo=UTC), datetime(2026, 3, 6, 5, tzinfo=UTC))])
    assert hourly.coverage("2026-03-06T00:00Z", "2026-03-07T00:00Z", calendar=fixed).expected == 2


def test_nothing_to_look_at() -> None:
    assert table().coverage(calendar=TRADING).expected == 0
    assert table().coverage("2026-03-07T00:00Z", "2026-03-08T00:00Z", calendar=TRADING).gaps() == []


def test_exchanges_need_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(NotSupported, match="pip install exchange-calendars") as caught:
        table().coverage("2026-03-06T00:00Z", "2026-03-07T00:00Z", calendar="XNYS")
    assert caught.value.feature == "exchange-calendars"
    # An empty question asks no library.
    assert table().coverage(calendar="XNYS").expected == 0


@pytest.fixture
def _exchanges(require: Callable[[object, str], None]) -> None:
    require(find_spec("exchange_calendars"), "exchange-calendars is not installed")


@pytest.mark.usefixtures("_exchanges")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # exchange-calendars has some with pandas 3.1
def test_an_exchange_knows_its_holidays_breaks_and_early_closes() -> None:
    trades = table()
    # The day after Thanksgiving closes at 13:00; Christmas Day is closed.
    friday = trades.coverage("2024-11-29T00:00Z", "2024-11-30T00:00Z", calendar="XNYS")
    assert friday.expected == 210
    assert trades.coverage("2024-12-25T00:00Z", "2024-12-26T00:00Z", calendar="XNYS").expected == 0
    weekly = trades.coverage("2024-03-04T00:00Z", "2024-03-16T00:00Z", calendar=TRADING)
    assert trades.coverage("2024-03-04T00:00Z", "2024-03-16T00:00Z", calendar="XNYS").gaps(390) == weekly.gaps(390)
    hong_kong = trades.coverage("2024-03-04T00:00Z", "2024-03-05T00:00Z", calendar="XHKG")
    assert [(gap.start.hour, gap.start.minute, gap.buckets) for gap in hong_kong.gaps(150)] == [
        (1, 30, 150),
        (5, 0, 150),
        (7, 30, 30),
    ]
    assert trades.coverage("2024-03-09T00:00Z", "2024-03-10T00:00Z", calendar="24/7").expected == 1440
    with pytest.raises(InvalidOption, match="Did you mean 'XNYS'"):
        trades.coverage("2024-03-04T00:00Z", "2024-03-05T00:00Z", calendar="XNYSE")
    with pytest.raises(InvalidTime, match="1960"):
        trades.coverage("1950-03-04T00:00Z", "1950-03-05T00:00Z", calendar="XHKG")
    with pytest.raises(InvalidTime, match="XNYS"):
        trades.coverage("9000-03-04T00:00Z", "9000-03-05T00:00Z", calendar="XNYS")
