"""What a heat map shows: cell sizes, rows, fractions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import grid_of
from gapless.coverage.expected import plan_ranges
from gapless.coverage.gap import Coverage
from gapless.coverage.heatmap import plan_heatmap
from gapless.errors import InvalidOption
from gapless.model.index import Bucket, FixedWidth, Identity, IntWidth, LocalDays, Months

SIGN = 2**63
HOUR = FixedWidth(3600 * 10**9)


def answer(bucket: Bucket, covered: Mapping[Identity, list[int]], end: int | None = None) -> Coverage[int]:
    coverage = CoverageMap({i: BitMap64([at + SIGN for at in ids]) for i, ids in covered.items()})
    grid = grid_of(bucket)
    return Coverage(coverage, grid, plan_ranges(coverage, grid, None, end, None), int)


def test_hours_of_a_month_become_days() -> None:
    hours = [at for at in range(24 * 30) if at // 24 != 3 and at != 5 * 24]
    plan = plan_heatmap(answer(HOUR, {("EWR",): hours}), 40, 10)
    assert (plan.cell, plan.cell_buckets, plan.values.shape, plan.labels) == ("1d", 24, (1, 30), ("EWR",))
    assert plan.values[0, 2:7].tolist() == [1.0, 0.0, 1.0, 23 / 24, 1.0]
    assert plan.edges == tuple(day * 24 * HOUR.ns for day in range(31))


@pytest.mark.parametrize(
    ("bucket", "count", "width", "cell"),
    [
        (HOUR, 24 * 365, 200, "2d"), (HOUR, 24 * 365, 60, "7d"), (HOUR, 24, 60, "1h"), (HOUR, 24 * 5, 60, "2h"),
        (FixedWidth(100_000), 10_000, 100, "10ms"), (LocalDays(1, "Europe/Berlin"), 365, 60, "7d"),
        (Months(1), 240, 100, "3mo"), (IntWidth(10), 900, 100, "100"), (FixedWidth(7 * 10**9), 100, 30, "28s"),
    ],
)  # fmt: skip
def test_cells_have_natural_sizes(bucket: Bucket, count: int, width: int, cell: str) -> None:
    plan = plan_heatmap(answer(bucket, {(): list(range(count))}), width, 10)
    assert plan.cell == cell
    assert plan.values.shape[1] <= width
    assert plan.labels == ("all",)
    assert np.all(plan.values == 1.0)


def test_first_and_last_cells_end_with_the_span() -> None:
    plan = plan_heatmap(answer(IntWidth(1), {("a",): [3, 4, 5, 12, 20]}), 3, 5)
    assert (plan.edges, plan.cell_buckets) == ((3, 10, 20, 21), 10)
    assert plan.values.tolist() == [[3 / 7, 1 / 10, 1.0]]


def test_nothing_expected_is_nan() -> None:
    plan = plan_heatmap(answer(IntWidth(1), {("a",): [0, 1], ("b",): [3]}), 10, 5)
    assert np.isnan(plan.values).tolist() == [[False, False, True, True], [True, True, True, False]]


def test_neighbours_share_a_row() -> None:
    covered: dict[Identity, list[int]] = {(f"s{i}", "x"): [0, 1] if i % 2 else [0] for i in range(5)}
    plan = plan_heatmap(answer(IntWidth(1), covered, end=2), 10, 3)
    assert plan.labels == ("s0, x … s1, x (2)", "s2, x … s3, x (2)", "s4, x")
    assert [len(row) for row in plan.rows] == [2, 2, 1]
    assert plan.values.tolist() == [[1.0, 0.5], [1.0, 0.5], [1.0, 0.0]]


def test_nothing_to_show() -> None:
    assert plan_heatmap(answer(IntWidth(1), {}), 10, 5).values.shape == (0, 0)
    plan = plan_heatmap(answer(IntWidth(1), {("a",): [5]}, end=5), 10, 5)
    assert (plan.values.shape, plan.edges) == ((1, 0), ())
    with pytest.raises(InvalidOption):
        plan_heatmap(answer(IntWidth(1), {}), 0, 5)


def test_one_column_holds_both_sides_of_zero() -> None:
    plan = plan_heatmap(answer(IntWidth(1), {("a",): [-1, 1]}), 1, 1)
    assert (plan.values.tolist(), plan.edges, plan.cell) == ([[2 / 3]], (-1, 2), "3")


def test_the_whole_of_int64_fits() -> None:
    plan = plan_heatmap(answer(IntWidth(1), {("a",): [-(2**63), 0, 2**63 - 1]}), 80, 5)
    assert plan.values.shape[1] <= 80
    assert len(plan.edges) == plan.values.shape[1] + 1
    assert (plan.edges[0], plan.edges[-1]) == (-(2**63), 2**63)


@given(
    st.dictionaries(st.sampled_from([(c,) for c in "abcdef"]), st.lists(st.integers(-300, 300), min_size=1), min_size=1),
    st.integers(1, 40),
    st.integers(1, 8),
)
def test_cells_add_up_to_the_whole(covered: Mapping[Identity, list[int]], width: int, height: int) -> None:
    coverage = answer(IntWidth(1), covered)
    plan = plan_heatmap(coverage, width, height)
    assert plan.values.shape == (len(plan.rows), len(plan.edges) - 1)
    assert len(plan.rows) <= height
    assert len(plan.edges) - 1 <= width
    assert [i for row in plan.rows for i in row] == list(coverage.identities)
    for row, values in zip(plan.rows, plan.values, strict=True):
        for column, value in enumerate(values):
            cell = range(plan.edges[column], plan.edges[column + 1])
            expected = sum(min(covered[i]) <= at <= max(covered[i]) for i in row for at in cell)
            there = sum(at in covered[i] for i in row for at in cell)
            assert np.isnan(value) if not expected else value == pytest.approx(there / expected)
