"""The Hilbert curve through rows: as the z-order, without its jumps, so that a stretch of it spans less of each column.

After John Skilling, "Programming the Hilbert curve" (2004), for all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gapless.parquet.z_order import RANK_BITS, interleave

Numbers = npt.NDArray[np.uint64]


def hilbert(ranks: Sequence[Numbers]) -> Numbers:
    """The place along the curve of each row, from its ranks in one to `z_order.MAX_COLUMNS` columns, numbers of `RANK_BITS` bits."""
    if len(ranks) == 1:
        return ranks[0]
    axes = list(ranks)
    for bit in range(RANK_BITS - 1, 0, -1):
        _unfold(axes, np.uint64(bit))
    return interleave(_gray(axes))


def _unfold(axes: list[Numbers], bit: np.uint64) -> None:
    """Turn and mirror what lies below one bit of the axes as the curve does there."""
    low = (np.uint64(1) << bit) - np.uint64(1)
    for place, axis in enumerate(axes):
        upper = (axis >> bit) & np.uint64(1) == 1
        swapped = np.where(upper, np.uint64(0), (axes[0] ^ axis) & low)
        axes[0] = axes[0] ^ np.where(upper, low, swapped)
        if place:
            axes[place] = axis ^ swapped


def _gray(axes: list[Numbers]) -> list[Numbers]:
    for place in range(1, len(axes)):
        axes[place] = axes[place] ^ axes[place - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(RANK_BITS - 1, 0, -1):
        upper = (axes[-1] >> np.uint64(bit)) & np.uint64(1) == 1
        flips ^= np.where(upper, (np.uint64(1) << np.uint64(bit)) - np.uint64(1), np.uint64(0))
    return [axis ^ flips for axis in axes]
