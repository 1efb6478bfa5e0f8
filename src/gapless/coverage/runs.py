"""Unbroken runs of stored ids, found without a step for every bucket."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap64

from gapless.coverage.bitmap import array_of, clip, count_in, range_bitmap

Run = tuple[int, int]
"""Stored ids, half-open."""


def covered_runs(bitmap: BitMap64, start: int, end: int) -> list[Run]:
    """Maximal runs of members within `[start, end)`, ascending. Takes memory with the number of members."""
    ids = array_of(clip(bitmap, start, end))
    if len(ids) == 0:
        return []
    breaks = np.flatnonzero(np.diff(ids) != 1)
    firsts = ids[np.concatenate([[0], breaks + 1])].tolist()
    lasts = ids[np.append(breaks, len(ids) - 1)].tolist()
    return [(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def missing_runs(bitmap: BitMap64, start: int, end: int) -> list[Run]:
    """Maximal runs of `[start, end)` that hold no member, ascending.

    Works with whichever is fewer, members or missing ids, so that a range of any length costs no more than what is in it.
    """
    covered = count_in(bitmap, start, end)
    if end - start <= covered:
        return []
    if end - start - covered < covered:
        return covered_runs(range_bitmap(start, end) - bitmap, start, end)
    runs = covered_runs(bitmap, start, end)
    firsts = [start, *(last for _, last in runs)]
    lasts = [*(first for first, _ in runs), end]
    return [(first, last) for first, last in zip(firsts, lasts, strict=True) if first < last]
