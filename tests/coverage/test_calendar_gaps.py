"""Gaps with a calendar against a walk over every minute, with zoneinfo, and over every bucket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.coverage.bitmap import SIGN, CoverageMap
from gapless.coverage.bucket import Grid, grid_of
from gapless.coverage.calendar import Shift, WeeklyHours
from gapless.coverage.expected import Span, plan_expected
from gapless.coverage.gap import Coverage, Gap
from gapless.coverage.heatmap import plan_heatmap
from gapless.model.index import Bucket, FixedWidth, Identity, LocalDays

MINUTE_NS = 60 * 10**9
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAYS = 9
CHANGES = (
    ("UTC", date(2026, 3, 1)),
    ("America/New_York", date(2026, 3, 5)),
    ("America/New_York", date(2026, 10, 28)),
    ("Europe/Berlin", date(2026, 10, 22)),
    ("Australia/Lord_Howe", date(2026, 4, 1)),  # by half an hour
    ("America/Havana", date(2026, 10, 29)),  # midnight twice
    ("America/Sao_Paulo", date(2018, 11, 1)),  # midnight skipped
    ("Pacific/Apia", date(2011, 12, 27)),  # a day left out
)


@dataclass(frozen=True)
class Walk:
    """Every minute of some days around a clock change: its number since 1970 and what the clock on the wall reads."""

    zone: str
    minutes: range
    walls: tuple[datetime, ...]

    def first(self, wall: datetime) -> int:
        """The first minute at which the clock reads this or later."""
        return next((m for m, read in zip(self.minutes, self.walls, strict=True) if read >= wall), self.minutes.stop)


def walk(zone: str, first: date) -> Walk:
    start = int((datetime(first.year, first.month, first.day, tzinfo=ZoneInfo(zone)) - EPOCH).total_seconds()) // 60
    minutes = range(start, start + DAYS * 1440)
    walls = tuple((EPOCH + timedelta(minutes=m)).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for m in minutes)
    return Walk(zone, minutes, walls)


WALKS = [walk(zone, first) for zone, first in CHANGES]
# Half of them at night, when clocks change.
quarters = st.one_of(st.integers(0, 12), st.integers(0, 95)).map(lambda quarter: quarter * 900)
shifts = st.builds(
    lambda days, hours: Shift(tuple(sorted(days)), tuple(hours)),
    st.sets(st.integers(0, 6), min_size=1),
    st.lists(st.tuples(quarters, st.one_of(quarters, st.just(86_400))), min_size=1, max_size=2),
)


def open_minutes(walked: Walk, week: WeeklyHours) -> set[int]:
    """Minutes inside a session: from when the clock first reads its start to when it first reads its end."""
    found: set[int] = set()
    day = walked.walls[0].date() - timedelta(days=1)
    while day <= walked.walls[-1].date():
        midnight = datetime(day.year, day.month, day.day)
        for shift in week.shifts if day not in week.holidays else ():
            for opens, closes in shift.hours if day.weekday() in shift.days else ():
                end = midnight + timedelta(seconds=closes, days=closes <= opens)
                found.update(range(walked.first(midnight + timedelta(seconds=opens)), walked.first(end)))
        day += timedelta(days=1)
    return found


def bucket_of(walked: Walk, bucket: Bucket, at: int) -> int:
    if isinstance(bucket, FixedWidth):
        return walked.minutes[at] * MINUTE_NS // bucket.ns
    return (walked.walls[at].date() - date(1970, 1, 1)).days


@st.composite
def questions(draw: st.DrawFn) -> tuple[Walk, Bucket, WeeklyHours, dict[Identity, set[int]], dict[Identity, Span]]:
    walked = draw(st.sampled_from(WALKS))
    day = walked.walls[0].date()
    holidays = draw(
        st.sets(st.integers(0, DAYS), max_size=2).map(lambda found: tuple(day + timedelta(days=at) for at in sorted(found)))
    )
    week = WeeklyHours(shifts=tuple(draw(st.lists(shifts, min_size=1, max_size=2))), timezone=walked.zone, holidays=holidays)
    minutes = draw(st.sampled_from([15, 60, 7, 1440, 0]))
    bucket: Bucket = FixedWidth(minutes * MINUTE_NS) if minutes else LocalDays(1, walked.zone)
    ids = [bucket_of(walked, bucket, at) for at in (0, len(walked.minutes) - 1)]
    spans: dict[Identity, Span] = {}
    covered: dict[Identity, set[int]] = {}
    inside = st.integers(ids[0] + 1, ids[1] - 1)
    for name in ("A", "B"):
        low, high = sorted((draw(inside), draw(inside)))
        spans[(name,)] = Span(low, high)
        holes = [(a, a + draw(st.integers(0, 60))) for a in draw(st.lists(st.integers(low, max(low, high)), max_size=4))]
        covered[(name,)] = {at for at in range(low - 3, high + 3) if not any(a <= at < b for a, b in holes)}
    return walked, bucket, week, covered, spans


def runs_of_missing(expected: list[int], covered: set[int]) -> list[list[int]]:
    return [list(run) for missing, run in groupby(expected, key=lambda at: at not in covered) if missing]


def as_gaps(identity: Identity, grid: Grid, runs: list[list[int]]) -> list[Gap[int]]:
    return [Gap(identity, grid.start(run[0]), grid.end(run[-1]), len(run)) for run in runs]


@given(questions(), st.integers(1, 40))
def test_answers_with_a_calendar_are_those_of_a_walk(
    question: tuple[Walk, Bucket, WeeklyHours, dict[Identity, set[int]], dict[Identity, Span]], size: int
) -> None:
    walked, bucket, week, covered, spans = question
    grid = grid_of(bucket)
    opened = {bucket_of(walked, bucket, m - walked.minutes.start) for m in open_minutes(walked, week) if m in walked.minutes}
    whole = Span(min(s.start for s in spans.values()), max(s.end for s in spans.values()))
    ids = plan_expected(grid, whole, week.sessions(grid.start(whole.start), grid.end(max(whole.start, whole.end - 1))))
    cover = CoverageMap({i: BitMap64([at + SIGN for at in found]) for i, found in covered.items()})
    answer = Coverage(cover, grid, spans, int, ids)

    expected = {i: [at for at in range(s.start, s.end) if at in opened] for i, s in spans.items()}
    missing = {i: runs_of_missing(expected[i], covered[i]) for i in spans}
    gaps = [gap for i, runs in missing.items() for gap in as_gaps(i, grid, runs)]
    assert answer.gaps() == gaps
    assert answer.expected == sum(map(len, expected.values()))
    assert answer.covered == sum(at in covered[i] for i, found in expected.items() for at in found)
    assert (answer.ratio == 1.0) == (not gaps)
    assert answer.longest_gap() == max(gaps, key=lambda gap: gap.buckets, default=None)
    assert [grid.id_of(b.start) for b in answer.buckets()] == [
        at for i, found in expected.items() for at in found if at in covered[i]
    ]
    cut = [run[at : at + size] for runs in missing.values() for run in runs for at in range(0, len(run), size)]
    assert [(gap.start, gap.end, gap.buckets) for gap in answer.gaps(size)] == [
        (grid.start(part[0]), grid.end(part[-1]), len(part)) for part in cut
    ]
    assert [gap for one in answer.by_identity().values() for gap in one.gaps()] == gaps
    _check_window(answer, grid, sorted(opened), [set(expected[i]) & covered[i] for i in spans], size)
    _check_union(answer, grid, opened, expected, covered, spans)
    _check_cells(answer, grid, expected, covered)


def _check_window(answer: Coverage[int], grid: Grid, opened: list[int], parts: list[set[int]], size: int) -> None:
    full = set.intersection(*parts)
    windows = [opened[at : at + size] for at in range(len(opened) - size + 1)]
    last = next((window for window in reversed(windows) if full.issuperset(window)), None)
    found = answer.last_full_window(size)
    assert (found and (found.start, found.end, found.buckets)) == (
        (grid.start(last[0]), grid.end(last[-1]), size) if last else None
    )


def _check_union(
    answer: Coverage[int],
    grid: Grid,
    opened: set[int],
    expected: dict[Identity, list[int]],
    covered: dict[Identity, set[int]],
    spans: dict[Identity, Span],
) -> None:
    filled = [span for span in spans.values() if span.count]
    whole = range(min(s.start for s in filled), max(s.end for s in filled)) if filled else range(0)
    anyone = {at for i in expected for at in set(expected[i]) & covered[i]}
    union = answer.union()
    assert union.gaps() == as_gaps((), grid, runs_of_missing([at for at in whole if at in opened], anyone))
    assert union.covered == len(anyone)


def _check_cells(
    answer: Coverage[int], grid: Grid, expected: dict[Identity, list[int]], covered: dict[Identity, set[int]]
) -> None:
    plan = plan_heatmap(answer, 11, 2)
    for row, values in zip(plan.rows, plan.values.tolist(), strict=True):
        for (low, high), value in zip(pairwise(plan.edges), values, strict=True):
            cell = [(i, at) for i in row for at in expected[i] if low <= grid.start(at) < high]
            there = sum(at in covered[i] for i, at in cell)
            assert value == there / len(cell) if cell else value != value  # noqa: PLR0124 - NaN: nothing is expected


@given(st.lists(shifts, min_size=1, max_size=3), st.sampled_from([None, "UTC", "Asia/Tokyo"]), st.sets(st.dates(), max_size=3))
@example([Shift((0, 5, 6), ((0, 86_400),)), Shift((1,), ((64_800, 61_200),))], None, set())
def test_the_text_of_a_week_reads_back(found: list[Shift], zone: str | None, holidays: set[date]) -> None:
    week = WeeklyHours(shifts=tuple(found), timezone=zone, holidays=tuple(sorted(holidays)))
    assert WeeklyHours.parse(week.text) == week
