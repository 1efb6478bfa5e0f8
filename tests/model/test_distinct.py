"""Distinct whole numbers: the same as Python's own sets have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.model.stats import distinct

WIDTHS = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
}


@pytest.mark.parametrize("dtype", WIDTHS)
def test_distinct_values_ascend_and_keep_their_width(dtype: str) -> None:
    @given(st.lists(st.one_of(st.sampled_from([0, 1, 2]), WIDTHS[dtype])))
    def holds(values: list[int]) -> None:
        given_values = np.array(values, dtype=dtype)
        found = distinct(given_values)
        assert found.dtype == given_values.dtype
        assert found.tolist() == sorted(set(values))
        assert given_values.tolist() == values

    holds()


def test_a_view_of_every_second_value_is_read_as_it_is() -> None:
    assert distinct(np.array([3, 9, 1, 9, 3, 9], dtype=np.int64)[::2]).tolist() == [1, 3]
