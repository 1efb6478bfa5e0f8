"""Sessions, and which buckets they make expected."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyroaring import BitMap64

from gapless.coverage.bitmap import SIGN
from gapless.coverage.bucket import grid_of
from gapless.coverage.calendar import Sessions
from gapless.coverage.expected import ExpectedIds, Span, plan_expected
from gapless.errors import InvalidOption
from gapless.model.index import FixedWidth, IntWidth, LocalDays
from gapless.model.instant import NS_PER_DAY

HOUR = 3600 * 10**9


def ids_of(found: ExpectedIds, span: Span) -> list[int]:
    return [at for at in range(span.start, span.end) if found.count(Span(at, at + 1))]


def test_sessions_are_put_in_order_and_joined() -> None:
    of = Sessions.of([(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 3 * 10**9), (0, 5), (5, 7), (9, 9), (20, 30), (22, 25)])
    assert of == Sessions((0, 20, 10**9), (7, 30, 3 * 10**9))
    assert of.sessions(0, 1) == of


@pytest.mark.parametrize(("opens", "closes"), [((0,), ()), ((5,), (5,)), ((0, 5), (6, 7)), ((5, 0), (6, 1))])
def test_sessions_that_are_none_are_refused(opens: tuple[int, ...], closes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidOption, match=r"Sessions\.of"):
        Sessions(opens, closes)


def test_a_bucket_is_expected_if_a_session_reaches_into_it() -> None:
    grid, span = grid_of(FixedWidth(HOUR)), Span(-3, 12)
    sessions = Sessions.of(
        [(-HOUR // 2, HOUR), (3 * HOUR + HOUR // 2, 3 * HOUR + HOUR // 2 + 1), (5 * HOUR, 7 * HOUR), (99 * HOUR, 100 * HOUR)]
    )
    found = plan_expected(grid, span, sessions)
    assert ids_of(found, span) == [-1, 0, 3, 5, 6]
    assert (found.count(span), found.count(Span(0, 6)), found.count(Span(4, 4))) == (5, 3, 0)
    assert repr(found) == "ExpectedIds(runs=3, buckets=5)"
    assert plan_expected(grid, Span(7, 7), sessions).count(Span(0, 100)) == 0
    assert plan_expected(grid, span, Sessions((), ())).count(span) == 0
    # one session over all of it
    assert plan_expected(grid, span, Sessions((-99 * HOUR,), (99 * HOUR,))).count(span) == span.count


def test_parts_go_by_what_is_expected() -> None:
    found = ExpectedIds([Span(0, 3), Span(10, 12), Span(20, 21)])
    assert list(found.within(Span(1, 15))) == [Span(1, 3), Span(10, 12)]
    assert list(found.within(Span(3, 10))) == list(found.within(Span(11, 11))) == []
    assert list(found.within(Span(-5, 21))) == [Span(0, 3), Span(10, 12), Span(20, 21)]
    assert list(found.cut(Span(-5, 50), 2)) == [Span(0, 2), Span(2, 11), Span(11, 21)]
    assert list(found.cut(Span(4, 9), 2)) == []
    assert (found.last(1, 20), found.last(4, 21)) == (Span(11, 12), Span(2, 21))


def test_what_is_kept_of_a_bitmap() -> None:
    found = ExpectedIds([Span(-3, 3), Span(10, 12), Span(20, 21)])
    for members in ([], [-9], [-3, 2, 3, 9, 10, 11, 12, 20, 21], [4, 5], [10], [12], [-3, 20]):
        bitmap = BitMap64([at + SIGN for at in members])
        kept = [at - SIGN for at in found.keep(bitmap, SIGN)]
        assert kept == [at for at in members if -3 <= at < 3 or 10 <= at < 12 or at == 20]
        assert [at - SIGN for at in bitmap] == members
    assert not ExpectedIds(()).keep(BitMap64([1]), 0)


def test_without_sessions_all_is_expected_but_days_left_out() -> None:
    whole = Span(-(2**63), 2**63)
    everything = plan_expected(grid_of(IntWidth(1)), whole)
    assert (everything.count(whole), list(everything.within(Span(5, 7)))) == (2**64, [Span(5, 7)])
    apia = grid_of(LocalDays(1, "Pacific/Apia"))
    span = Span(15_335, 15_342)  # 2011-12-27 … 2012-01-02, without the 30th
    assert ids_of(plan_expected(apia, span), span) == [15_335, 15_336, 15_337, 15_339, 15_340, 15_341]
    whole_week = Sessions((apia.start(15_330),), (apia.end(15_350),))
    assert ids_of(plan_expected(apia, span, whole_week), span) == [15_335, 15_336, 15_337, 15_339, 15_340, 15_341]


def test_tiny_buckets_cost_what_their_sessions_cost() -> None:
    grid = grid_of(FixedWidth(1))
    year = Span(0, 365 * NS_PER_DAY)
    found = plan_expected(grid, year, Sessions.of((day * NS_PER_DAY, day * NS_PER_DAY + HOUR) for day in range(365)))
    assert found.count(year) == 365 * HOUR
    kept = found.keep(BitMap64([SIGN, SIGN + HOUR, SIGN + 364 * NS_PER_DAY]), SIGN)
    assert list(kept) == [SIGN, SIGN + 364 * NS_PER_DAY]
