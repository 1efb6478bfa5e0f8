"""Coverage against Python sets, and gaps against a brute-force walk over every bucket."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, Overlap, array_of, clip, count_in, overlap, range_bitmap, stored_ids
from gapless.coverage.bucket import grid_of
from gapless.coverage.expected import Span, plan_ranges
from gapless.coverage.gap import Coverage, Gap, covered_runs, missing_runs
from gapless.model.index import Identity, IntWidth

Model = dict[Identity, set[int]]

SIGN = 2**63
TOP = 2**64
names: st.SearchStrategy[Identity] = st.sampled_from([("A",), ("B",), ("",), ("é",), ("\U0001f600",)])
small = st.integers(-30, 30)
edges = st.one_of(small, st.integers(-(2**63), -(2**63) + 9), st.integers(2**63 - 10, 2**63 - 1), st.integers(-70_000, 70_000))
models = st.dictionaries(names, st.sets(edges, min_size=1, max_size=30), max_size=4)
near_models = st.dictionaries(names, st.sets(small, min_size=1, max_size=40), max_size=4)


def mapped(model: Model) -> CoverageMap:
    return CoverageMap({i: BitMap64([at + SIGN for at in ids]) for i, ids in model.items()})


def back(coverage: CoverageMap) -> Model:
    return {i: {at - SIGN for at in bitmap} for i, bitmap in coverage.items()}


def each(left: Model, right: Model, what: Callable[[set[int], set[int]], set[int]]) -> Model:
    found = {i: what(left.get(i, set()), right.get(i, set())) for i in left | right}
    return {i: ids for i, ids in found.items() if ids}


@given(models, models)
def test_algebra_is_that_of_sets(left: Model, right: Model) -> None:
    a, b = mapped(left), mapped(right)
    assert back(a.union(b)) == each(left, right, set.union)
    assert back(a.intersection(b)) == each(left, right, set.intersection)
    assert back(a.difference(b)) == each(left, right, set.difference)
    assert a.is_disjoint(b) == (not each(left, right, set.intersection))
    assert a.cardinality() == sum(map(len, left.values()))
    assert (a == b) == (left == right)
    assert a.identities() == tuple(sorted(left, key=lambda i: str(i[0]).encode()))
    assert back(a.restrict([("A",), ("é",), ("Z",)])) == {i: ids for i, ids in left.items() if i in {("A",), ("é",)}}
    assert a.restrict(lambda i: i != ("A",)) == mapped({i: ids for i, ids in left.items() if i != ("A",)})
    # and nothing was changed on the way
    assert (back(a), back(b)) == (left, right)


@given(st.lists(models, max_size=5))
def test_union_of_many(many: list[Model]) -> None:
    total: Model = {}
    for model in many:
        total = each(total, model, set.union)
    assert back(CoverageMap.union_of(map(mapped, many))) == total


@given(
    st.lists(names, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), edges), max_size=60),
    st.sampled_from([np.int8, np.int32, np.uint16, np.int64]),
)
def test_from_runs_is_a_set_of_pairs(identities: list[Identity], rows: list[tuple[int, int]], code_type: type) -> None:
    rows = [(code % len(identities), at) for code, at in rows]
    model: Model = {}
    for code, at in rows:
        model.setdefault(identities[code], set()).add(at)
    codes: npt.NDArray[Any] = np.array([code for code, _ in rows], dtype=code_type)
    ids = stored_ids(np.array([at for _, at in rows], dtype=np.int64))
    assert back(CoverageMap.from_runs(identities, codes, ids)) == model


stored = st.one_of(st.integers(0, 60), st.integers(TOP - 40, TOP - 1), st.integers(SIGN - 20, SIGN + 20))
bounds = st.one_of(stored, st.just(TOP)).flatmap(lambda a: st.tuples(st.just(a), st.one_of(stored, st.just(TOP)))).map(sorted)


@given(st.sets(stored, max_size=40), bounds)
def test_parts_of_a_bitmap(members: set[int], span: list[int]) -> None:
    start, end = span
    bitmap = BitMap64(members)
    inside = sorted(m for m in members if start <= m < end)
    assert array_of(clip(bitmap, start, end)).tolist() == inside
    assert count_in(bitmap, start, end) == len(inside)
    covered, missing = covered_runs(bitmap, start, end), missing_runs(bitmap, start, end)
    assert [m for first, last in covered for m in range(first, last)] == inside
    both = sorted(covered + missing)
    assert all(first < last for first, last in both)
    assert [first for first, _ in both] == [start, *(last for _, last in both)][: len(both)]
    assert sum(last - first for first, last in both) == end - start
    # maximal: no two runs of a kind touch
    assert all(a[1] < b[0] for runs in (covered, missing) for a, b in pairwise(runs))
    assert set(bitmap) == members


@given(bounds.filter(lambda span: span[1] - span[0] < 1000))
def test_range_bitmap(span: list[int]) -> None:
    assert list(range_bitmap(*span)) == list(range(*span))


@given(near_models, near_models)
def test_overlap_names_the_first(new: Model, present: Model) -> None:
    common = each(new, present, set.intersection)
    found = overlap(mapped(new), mapped(present))
    if not common:
        assert found is None
        return
    first = min(common, key=lambda i: str(i[0]).encode())
    assert found == Overlap(
        identity=first,
        first=min(common[first]),
        last=max(common[first]),
        buckets=sum(map(len, common.values())),
        identities=len(common),
    )


def brute_spans(
    model: Model, start: int | None, end: int | None, wanted: list[Identity] | None, width: int
) -> dict[Identity, range]:
    union = set().union(*model.values()) if model else set()
    spans = {}
    for identity in sorted(set(model if wanted is None else wanted), key=lambda i: str(i[0]).encode()):
        own = model.get(identity) or union
        if (start is None or end is None) and not own:  # nothing is known of its ends
            spans[identity] = range(0)
            continue
        # A bucket is expected if some index value in it lies in the range.
        low = min(own) if start is None else start // width
        high = max(own) + 1 if end is None else -(-end // width)
        spans[identity] = range(0) if start is not None and start == end else range(low, high)
    return spans


ends = st.one_of(st.none(), st.integers(-100, 100))


@given(near_models, ends, ends, st.one_of(st.none(), st.lists(names, max_size=4)), st.sampled_from([1, 3]))
def test_gaps_are_those_of_a_walk_over_every_bucket(
    model: Model, start: int | None, end: int | None, wanted: list[Identity] | None, width: int
) -> None:
    if start is not None and end is not None and start > end:
        start, end = end, start
    grid = grid_of(IntWidth(width))
    spans = brute_spans(model, start, end, wanted, width)
    coverage = mapped(model)
    answer = Coverage(coverage, grid, plan_ranges(coverage, grid, start, end, wanted), int)
    gaps, covered = [], []
    for identity, span in spans.items():
        for missing, run in groupby(span, key=lambda at: at not in model.get(identity, ())):
            ids = list(run)
            if missing:
                gaps.append(Gap(identity, ids[0] * width, (ids[-1] + 1) * width, len(ids)))
            else:
                covered += [(identity, at * width, (at + 1) * width) for at in ids]
    assert answer.gaps() == gaps
    assert answer.longest_gap() == max(gaps, key=lambda gap: gap.buckets, default=None)
    assert [(b.identity, b.start, b.end) for b in answer.buckets()] == covered
    assert answer.covered == len(covered)
    assert answer.expected == sum(map(len, spans.values()))
    assert answer.ratio == (len(covered) / answer.expected if answer.expected else 1.0)
    assert answer.identities == tuple(spans)
    parts = answer.by_identity()
    assert [gap for part in parts.values() for gap in part.gaps()] == gaps
    assert f"gaps={len(gaps)}" in repr(answer)


@given(near_models, ends, ends, st.integers(1, 6))
def test_full_windows_and_unions_by_brute_force(model: Model, start: int | None, end: int | None, length: int) -> None:
    if start is not None and end is not None and start > end:
        start, end = end, start
    grid = grid_of(IntWidth(1))
    spans = brute_spans(model, start, end, None, 1)
    coverage = mapped(model)
    answer = Coverage(coverage, grid, plan_ranges(coverage, grid, start, end, None), int)
    parts = [model[i] & set(span) for i, span in spans.items()]
    full = set.intersection(*parts) if parts else set()
    windows = [at for at in full if all(at + k in full for k in range(length))]
    found = answer.last_full_window(length)
    assert (found and (found.start, found.end, found.buckets)) == (
        (max(windows), max(windows) + length, length) if windows else None
    )
    filled = [span for span in spans.values() if span]
    whole = range(min(s.start for s in filled), max(s.stop for s in filled)) if filled else range(0)
    union = answer.union()
    assert union.expected == len(whole)
    assert union.covered == len(set().union(*parts))
    assert [at for gap in union.gaps() for at in range(gap.start, gap.end)] == [
        at for at in whole if all(at not in p for p in parts)
    ]


@given(st.sets(st.integers(0, 200), min_size=1), st.integers(0, 200))
def test_unsigned_ids_stay_as_they_are(ids: set[int], end: int) -> None:
    coverage = CoverageMap({(): BitMap64(ids)})
    grid = grid_of(IntWidth(1), signed=False)
    answer = Coverage(coverage, grid, plan_ranges(coverage, grid, None, end, None), int)
    assert [at for gap in answer.gaps() for at in range(gap.start, gap.end)] == sorted(set(range(min(ids), end)) - ids)
    assert answer.spans[()] == Span(min(ids), max(min(ids), end))
