"""The z-order of rows: close to each other in all of some columns, so that few row groups hold what a filter on any of them keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.stats import supports_bounds

MAX_COLUMNS = 4
RANK_BITS = 64 // MAX_COLUMNS
"""Bits of a rank."""
_SPREAD = ((24, 0x000000FF000000FF), (12, 0x000F000F000F000F), (6, 0x0303030303030303), (3, 0x1111111111111111))


def has_rank(type_: pa.DataType) -> bool:
    """Whether rows can be ranked by values of this type."""
    return supports_bounds(type_)


def z_order(table: pa.Table, columns: tuple[str, ...]) -> npt.NDArray[Any]:
    """The positions of the table's rows along the z-order of one to `MAX_COLUMNS` columns, equal ones in the order they have.

    A value counts by its rank among the column's distinct values, so that skew does not matter; nulls and NaN come last.
    """
    return np.argsort(interleave([_ranks(table.column(name)) for name in columns]), kind="stable")


def interleave(ranks: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """The place along the z-order of each row, from its ranks in one to `MAX_COLUMNS` columns, numbers of `RANK_BITS` bits."""
    keys = np.zeros(len(ranks[0]), dtype=np.uint64)
    for place, numbers in enumerate(ranks):
        keys |= _spread(numbers) << np.uint64(MAX_COLUMNS - 1 - place)
    return keys


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Each row's rank among the distinct values, as a number of `RANK_BITS` bits over the whole of its range."""
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.uint64)
    top = max(1, int(ranks.max(initial=1)))
    scaled: npt.NDArray[np.uint64] = (ranks - np.uint64(1)) * np.uint64(1 << RANK_BITS) // np.uint64(top)
    return scaled


def _spread(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers of `RANK_BITS` bits with each bit moved to every fourth place."""
    spread = numbers
    for shift, mask in _SPREAD:
        spread = (spread | (spread << np.uint64(shift))) & np.uint64(mask)
    return spread
