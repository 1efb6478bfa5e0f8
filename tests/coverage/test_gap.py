"""The answers about coverage: ranges, gaps, windows and the cases from the field."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, overlap
from gapless.coverage.bucket import grid_of
from gapless.coverage.expected import Span, plan_ranges
from gapless.coverage.gap import Coverage, Gap, Window, fraction
from gapless.errors import InvalidOption, InvalidTime
from gapless.model.index import Bucket, FixedWidth, Identity, IntWidth, LocalDays, Months
from gapless.model.instant import NS_PER_DAY, format_instant, parse_instant

SIGN = 2**63
HOUR = FixedWidth(3600 * 10**9)
DAY = FixedWidth(NS_PER_DAY)
A: Identity = ("A",)
B: Identity = ("B",)


def ns(text: str) -> int:
    return parse_instant(text)[0]


def covering(bucket: Bucket, covered: dict[Identity, Sequence[str | int]]) -> CoverageMap:
    grid = grid_of(bucket)
    return CoverageMap(
        {i: BitMap64([grid.id_of(ns(v) if isinstance(v, str) else v) + SIGN for v in values]) for i, values in covered.items()}
    )


def ask(
    bucket: Bucket,
    covered: dict[Identity, Sequence[str | int]],
    start: str | int | None = None,
    end: str | int | None = None,
    identities: Sequence[Identity] | None = None,
) -> Coverage[str]:
    grid, coverage = grid_of(bucket), covering(bucket, covered)
    low, high = (ns(v) if isinstance(v, str) else v for v in (start, end))
    present = str if isinstance(bucket, IntWidth) else format_instant
    return Coverage(coverage, grid, plan_ranges(coverage, grid, low, high, identities), present)


def shown(coverage: Coverage[str]) -> list[tuple[object, ...]]:
    return [(*gap.identity, gap.start[:13], gap.end[:13], gap.buckets) for gap in coverage.gaps()]


TWO_HOURS: dict[Identity, Sequence[str | int]] = {(): ["2024-01-01T10:00Z", "2024-01-01T11:59Z"]}


def test_cov_05_range_end_is_exclusive() -> None:
    ten, twelve = "2024-01-01T10:00Z", "2024-01-01T12:00Z"
    assert shown(ask(HOUR, TWO_HOURS, ten, twelve)) == []
    assert shown(ask(HOUR, TWO_HOURS, ten, "2024-01-01T12:00:00.000001Z")) == [("2024-01-01T12", "2024-01-01T13", 1)]
    empty = ask(HOUR, TWO_HOURS, twelve, twelve)
    assert shown(empty) == []
    assert (empty.ratio, empty.expected, empty.covered) == (1.0, 0, 0)
    assert empty.longest_gap() is None
    assert empty.last_full_window() is None
    inside = ask(HOUR, TWO_HOURS, "2024-01-01T12:30Z", "2024-01-01T12:30Z")
    assert (shown(inside), inside.expected) == ([], 0)


def test_cov_07_overlap_names_bucket_ids_that_become_bounds() -> None:
    grid = grid_of(HOUR)
    new = covering(HOUR, {("A", "x"): ["1970-01-01T00:10Z"]})
    found = overlap(new, new)
    assert found is not None
    assert found.identity == ("A", "x")
    assert (found.first, found.last, found.buckets, found.identities) == (0, 0, 1, 1)
    assert (grid.start(found.first), grid.end(found.last)) == (0, HOUR.ns)
    integers = covering(IntWidth(10), {(): [-11]})
    found = overlap(integers, integers)
    assert found is not None
    assert (grid_of(IntWidth(10)).start(found.first), grid_of(IntWidth(10)).end(found.last)) == (-20, -10)
    unsigned = CoverageMap({(): BitMap64([3])})
    found = overlap(unsigned, unsigned, signed=False)
    assert found is not None
    assert found.first == 3


def test_cov_04_months_of_a_year_have_no_gap() -> None:
    months = Months(1, "Europe/Berlin")
    starts = [grid_of(months).start(at) for at in range(636, 648)]
    full = ask(months, {(): starts}, "2022-12-31T23:00Z", "2023-12-31T23:00Z")
    assert (full.ratio, full.expected, shown(full)) == (1.0, 12, [])
    bounds = [(b.start, b.end) for b in full.buckets()]
    assert len(bounds) == 12
    assert [end for _, end in bounds[:-1]] == [start for start, _ in bounds[1:]]


def test_cov_14_gaps_before_1970() -> None:
    answer = ask(HOUR, {(): ["1969-12-31T12:59:59Z", "1970-01-01T01:00Z"]})
    assert shown(answer) == [("1969-12-31T13", "1970-01-01T01", 12)]


def test_cov_18_ends_of_the_ns_range_have_right_bounds() -> None:
    first, last = "1677-09-21T00:12:43.145224193Z", "2262-04-11T23:47:16.854775807Z"
    answer = ask(DAY, {(): [first, last]}, start=first)
    assert answer.gaps() == [Gap((), "1677-09-22T00:00:00Z", "2262-04-11T00:00:00Z", answer.expected - 2)]
    assert [b.end for b in answer.buckets()] == ["1677-09-22T00:00:00Z", "2262-04-12T00:00:00Z"]


def test_each_identity_has_its_own_span() -> None:
    answer = ask(IntWidth(1), {B: [5, 8], A: [0, 1, 4]})
    assert answer.gaps() == [Gap(A, "2", "4", 2), Gap(B, "6", "8", 2)]
    assert answer.identities == (A, B)
    assert answer.spans == {A: Span(0, 5), B: Span(5, 9)}
    assert answer.longest_gap() == Gap(A, "2", "4", 2)
    assert repr(answer) == "Coverage(ratio=0.5555, identities=2, gaps=2)"
    assert answer.by_identity()[B].gaps() == [Gap(B, "6", "8", 2)]


def test_one_end_alone_and_a_dead_feed() -> None:
    covered: dict[Identity, Sequence[str | int]] = {A: [0, 1, 4], B: [5, 8]}
    assert ask(IntWidth(1), covered, end=10).gaps() == [
        Gap(A, "2", "4", 2),
        Gap(A, "5", "10", 5),
        Gap(B, "6", "8", 2),
        Gap(B, "9", "10", 1),
    ]
    assert ask(IntWidth(1), covered, start=3).gaps() == [Gap(A, "3", "4", 1), Gap(B, "3", "5", 2), Gap(B, "6", "8", 2)]
    past = ask(IntWidth(1), covered, start=7)
    assert (past.gaps(), past.spans[A].count) == ([Gap(B, "7", "8", 1)], 0)


def test_an_absent_identity_is_one_whole_gap() -> None:
    covered: dict[Identity, Sequence[str | int]] = {A: [0, 1], B: [5, 8]}
    absent: Identity = ("never",)
    assert ask(IntWidth(1), covered, identities=[absent]).gaps() == [Gap(absent, "0", "9", 9)]
    assert ask(IntWidth(1), covered, end=20, identities=[absent, A]).gaps() == [
        Gap(A, "2", "20", 18),
        Gap(absent, "0", "20", 20),
    ]
    assert ask(IntWidth(1), covered, 2, 4, [absent]).gaps() == [Gap(absent, "2", "4", 2)]
    nothing = ask(IntWidth(1), {}, 2, None, [absent])
    assert (nothing.gaps(), nothing.ratio, nothing.expected) == ([], 1.0, 0)
    assert ask(IntWidth(1), {}, 2, 4, [()]).gaps() == [Gap((), "2", "4", 2)]


def test_a_reversed_range_is_refused() -> None:
    with pytest.raises(InvalidTime, match="2024-01-02T00:00:00"):
        ask(HOUR, TWO_HOURS, "2024-01-02T00:00Z", "2024-01-01T00:00Z")


@pytest.mark.parametrize("identities", [None, [A], [A, ("B",)]])
def test_ranges_without_end_cost_nothing(identities: Sequence[Identity] | None) -> None:
    covered: dict[Identity, Sequence[str | int]] = {A: [-(2**63), 5, 2**63 - 1]}
    answer = ask(IntWidth(1), covered, identities=identities)
    assert answer.gaps()[:2] == [Gap(A, str(-(2**63) + 1), "5", 2**63 + 4), Gap(A, "6", str(2**63 - 1), 2**63 - 7)]
    assert ask(IntWidth(1), {A: [0]}, 0, 2**63).gaps() == [Gap(A, "1", str(2**63), 2**63 - 1)]
    # No value lies past the end of int64, so no bucket is expected there.
    assert ask(IntWidth(1), {A: [0]}, 0, 10**30).gaps() == [Gap(A, "1", str(2**63), 2**63 - 1)]


def test_the_ratio_is_one_only_where_nothing_is_missing() -> None:
    assert fraction(2**60 - 1, 2**60) < 1.0
    assert fraction(2**60, 2**60) == fraction(0, 0) == 1.0
    assert fraction(0, 5) == 0.0


def test_a_day_that_the_zone_left_out_is_no_gap() -> None:
    apia = LocalDays(1, "Pacific/Apia")
    noon = "T22:00Z"  # of the local day before the change: 12:00 at UTC-10
    around = ask(apia, {(): ["2011-12-28" + noon, "2011-12-29" + noon, "2011-12-30" + noon]})
    assert (around.expected, around.covered, around.gaps(), around.ratio) == (3, 3, [], 1.0)
    assert around.last_full_window(3) == Window("2011-12-28T10:00:00Z", "2011-12-31T10:00:00Z", 3)
    assert around.last_full_window(4) is None
    across = ask(apia, {(): ["2011-12-28" + noon, "2011-12-31" + noon]})
    assert across.gaps() == [Gap((), "2011-12-29T10:00:00Z", "2011-12-31T10:00:00Z", 2)]
    ending = ask(apia, {(): ["2011-12-28" + noon, "2011-12-30" + noon]})
    assert ending.gaps() == [Gap((), "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 1)]


def test_last_full_window_wants_every_identity() -> None:
    covered: dict[Identity, Sequence[str | int]] = {A: [1, 2, 3, 5, 6, 9], B: [2, 3, 5, 6, 7]}
    answer = ask(IntWidth(1), covered)
    assert answer.last_full_window() == Window("6", "7", 1)
    assert answer.last_full_window(2) == Window("5", "7", 2)
    assert answer.last_full_window(3) is None
    assert ask(IntWidth(1), covered, identities=[A, ("never",)]).last_full_window() is None
    assert ask(IntWidth(1), {}).last_full_window() is None
    with pytest.raises(InvalidOption):
        answer.last_full_window(0)


def test_union_counts_a_bucket_that_anyone_covers() -> None:
    union = ask(IntWidth(1), {A: [1, 2, 9], B: [3, 6]}).union()
    assert union.identities == ((),)
    assert union.gaps() == [Gap((), "4", "6", 2), Gap((), "7", "9", 2)]
    assert (union.covered, union.expected) == (5, 9)
    none = ask(IntWidth(1), {}).union()
    assert (none.gaps(), none.ratio) == ([], 1.0)


def test_a_minute_grid_of_a_thousand_identities_is_quick() -> None:
    minutes = BitMap64(range(SIGN, SIGN + 525_600))
    minutes.remove_range(SIGN + 1000, SIGN + 1010)
    coverage = CoverageMap({(i,): minutes for i in range(1000)})
    grid = grid_of(FixedWidth(60 * 10**9))
    answer = Coverage(coverage, grid, plan_ranges(coverage, grid, None, None, None), int)
    assert len(answer.gaps()) == 1000
    assert answer.expected - answer.covered == 10_000
