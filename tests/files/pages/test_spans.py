"""Stretches of rows: none that is kept is lost, and they are exact where they say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.files.pages import page_slice
from gapless.files.pages.page_slice import RowRanges, merged

rows = st.sets(st.integers(0, 120))


def near_of(kept: set[int]) -> RowRanges:
    found = np.array(sorted(kept), np.int64)
    return merged(found, found + 1)


def held(near: RowRanges) -> set[int]:
    return {row for first, end in near.spans for row in range(first, end)}


@pytest.fixture(autouse=True, scope="module")
def _small_gaps() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_slice, "GAP_ROWS", 5)
        yield


@given(rows)
def test_merged_rows_hold_all_that_are_kept_and_no_long_gap(kept: set[int]) -> None:
    near = near_of(kept)
    assert kept <= held(near)
    assert near.exact == (held(near) == kept)
    assert all(first < end for first, end in near.spans)
    assert all(one[1] + 5 <= two[0] for one, two in zip(near.spans, near.spans[1:], strict=False))
    assert {first for first, _ in near.spans} | {end - 1 for _, end in near.spans} <= kept
    assert near.hull == ((min(kept), max(kept) + 1) if kept else (0, 0))
    assert near.rows >= len(held(near))


@given(rows, rows)
def test_rows_of_both_are_those_that_each_holds(left: set[int], right: set[int]) -> None:
    one, two = near_of(left), near_of(right)
    both = one.both(two)
    assert held(both) == held(one) & held(two)
    assert left & right <= held(both)
    assert not both.exact or held(both) == left & right
