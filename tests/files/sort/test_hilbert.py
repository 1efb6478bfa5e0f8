"""Rows along the Hilbert curve."""

from __future__ import annotations

import numpy as np
import pytest

from gapless.files.sort.curve_sort import RANK_BITS, hilbert, interleave


@pytest.mark.parametrize(("width", "bits"), [(2, 1), (2, 5), (3, 3), (4, 2)])
def test_each_step_along_the_curve_goes_to_a_neighbour(width: int, bits: int) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(1 << bits, dtype=np.uint64)] * width, indexing="ij")).reshape(width, -1)
    places = hilbert([axis << np.uint64(RANK_BITS - bits) for axis in grid])
    assert len(np.unique(places)) == grid.shape[1], "each cell has its own place"
    steps = np.abs(np.diff(grid[:, np.argsort(places)].astype(int), axis=1)).sum(axis=0)
    assert set(steps.tolist()) == {1}


def test_a_quarter_of_the_curve_is_a_quarter_of_the_square() -> None:
    side = np.arange(64, dtype=np.uint64)
    a, b = (axis.ravel() << np.uint64(RANK_BITS - 6) for axis in np.meshgrid(side, side))
    first = np.argsort(hilbert([a, b]))[:1024]
    assert {len(np.unique(axis[first])) for axis in (a, b)} == {32}


def test_one_column_is_in_its_own_order() -> None:
    ranks = np.array([5, 0, 65_535, 7], dtype=np.uint64)
    assert hilbert([ranks]).tolist() == ranks.tolist()


def test_a_stretch_of_the_curve_spans_less_than_one_of_the_z_order() -> None:
    """What a file of 1/100 of the rows spans: its bounds are what filters go by."""
    numbers = np.random.default_rng(7).integers(0, 1 << RANK_BITS, (2, 20_000)).astype(np.uint64)

    def spanned(places: np.ndarray) -> float:
        files = np.array_split(numbers[:, np.argsort(places)], 100, axis=1)
        return float(np.mean([(np.ptp(file, axis=1).astype(float)).prod() for file in files]))

    assert spanned(hilbert(list(numbers))) < 0.6 * spanned(interleave(list(numbers)))
