"""Which segments are read together, in which order, and in which windows."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.index import Identity, IndexSpec, parse_bucket
from gapless.model.segment import Bounds, InlineCoverage, Segment
from gapless.predicate import plan
from gapless.predicate.plan import ReadGroup, plan_groups, row_bytes

INDEX = IndexSpec(column="i", type="int64", bucket=parse_bucket(10, "int64"), entity=("e",))
SCHEMA = pa.schema([("i", pa.int64()), ("e", pa.string())])


def segment(
    first: int, last: int, rows: int = 10, identity: Identity | None = None, sorted_by: tuple[str, ...] = ("e", "i")
) -> Segment:
    return Segment(
        path=f"data/{first}-{last}-{rows}.parquet",
        rows=rows,
        size=1,
        bounds=Bounds(first=first, last=last),
        index_type="int64",
        identity=identity,
        identity_types=("utf8",) if identity else (),
        coverage=InlineCoverage(b""),
        sorted_by=sorted_by,
    )


def shape(groups: tuple[ReadGroup, ...]) -> list[tuple[list[int], bool]]:
    return [([s.bounds.first for s in group.segments], group.sort) for group in groups]


def test_segments_that_lie_apart_are_read_one_by_one_in_index_order() -> None:
    groups = plan_groups([segment(20, 29), segment(0, 9), segment(9, 12)], INDEX, SCHEMA, by_index=False)
    assert shape(groups) == [([0], False), ([9], False), ([20], False)]


def test_segments_that_overlap_are_sorted_together() -> None:
    groups = plan_groups([segment(0, 9), segment(8, 15), segment(14, 20), segment(30, 31)], INDEX, SCHEMA, by_index=False)
    assert shape(groups) == [([0, 8, 14], True), ([30], False)]


def test_identities_alone_in_their_segments_are_told_apart() -> None:
    segments = [segment(0, 9, identity=("a",)), segment(0, 9, rows=11, identity=("b",)), segment(10, 12, identity=("a",))]
    assert shape(plan_groups(segments, INDEX, SCHEMA, by_index=False)) == [([0], False), ([10], False), ([0], False)]
    assert shape(plan_groups(segments, INDEX, SCHEMA, by_index=True)) == [([0, 0], True), ([10], False)]


@pytest.mark.parametrize("by_index", [True, False])
def test_a_segment_that_is_not_in_order_is_sorted(by_index: bool) -> None:
    (group,) = plan_groups([segment(0, 9, sorted_by=())], INDEX, SCHEMA, by_index=by_index)
    assert group.sort
    (group,) = plan_groups([segment(0, 9)], INDEX, SCHEMA, by_index=by_index)
    assert group.sort is by_index


def test_an_outlier_does_not_put_all_rows_into_one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SORT_BYTES", 100 * row_bytes(SCHEMA))
    outlier, *rest = [segment(-(10**15), 3, rows=2), *(segment(k, 1_000, rows=200 + k) for k in range(5))]
    (group,) = plan_groups([outlier, *rest], INDEX, SCHEMA, by_index=False)
    assert len([window for window in group.windows if window[1] > 0]) >= 9


bounds = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**40), st.integers(1, 500))


@given(parts=st.lists(bounds, min_size=1, max_size=8), limit=st.integers(1, 300))
def test_windows_cover_the_range_once(parts: list[tuple[int, int, int]], limit: int) -> None:
    segments = [segment(first, first + length, rows) for first, length, rows in parts]
    windows = plan.index_windows(segments, limit)
    rows = sum(s.rows for s in segments)
    if not windows:
        assert rows <= limit
        return
    assert windows[0][0] == min(s.bounds.first for s in segments)
    assert windows[-1][1] == max(s.bounds.last for s in segments) + 1
    assert all(start < end for start, end in windows)
    assert all(one[1] == other[0] for one, other in pairwise(windows))
    assert len(windows) <= 2 * rows // limit + 2 * len(segments) + 1
