"""The order that rows are put into: by identity, then by index value, rows of one key as they came."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.numbers import arrow_of, numbers_of
from gapless.parquet.page import cuts
from gapless.parquet.threads import side_by_side

Positions = npt.NDArray[np.integer[Any]]
Codes = npt.NDArray[np.integer[Any]]
"""For each row the number of its identity, from 0."""

FEW_ROWS = 1 << 12
"""Up to so many rows are ordered by the calls that begin soonest."""
_BLOCK_ROWS = 1 << 15
"""The codes and places of so many rows fit into a processor's cache."""
_STREAMS = 1 << 10
"""Places in memory that a processor writes to by turns about as fast as to one."""


class Order:
    """A permutation of rows."""

    __slots__ = ("_rows", "codes", "places")

    def __init__(self, codes: Codes, rows: Positions | None = None, *, places: Positions | None = None) -> None:
        """`rows` has, for each place in the order, the position of the row that goes there; or `places`, for each row, its place."""
        self.codes = codes
        """The codes of the rows, in the order: ascending."""
        self._rows = rows
        self.places = places
        """Said where it is faster to send each value to its place than to fetch one for each place."""

    @property
    def rows(self) -> Positions:
        """For each place the position of the row that goes there."""
        if self._rows is None:
            assert self.places is not None
            rows = memory_for(len(self.places), np.int64)
            rows[self.places] = np.arange(len(rows))
            self._rows = rows
        return self._rows


def memory_for(count: int, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """So many numbers of a type, whichever they are: in memory that Arrow has from before, where numpy's is new to the process each time."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def order_of(codes: Codes, values: npt.NDArray[Any], count: int, *, scatter: bool = False) -> Order | None:
    """The order of rows by code, of which there are `count`, then value, stably; None where rows are in it.

    `scatter` says that columns will be put into order which can be scattered.
    """
    rising = values[1:] >= values[:-1]
    if bool(rising.all()):
        if count < 2 or bool((codes[1:] >= codes[:-1]).all()):
            return None
        if scatter and count <= _STREAMS:
            return _scattering(codes, count)
        return Order(_sorted(codes, count), _by_code(codes))
    if bool(((codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & rising)).all()):
        return None
    by_both = np.lexsort((values, codes)) if len(codes) <= FEW_ROWS else _by_packed(codes, values, count)
    return Order(_sorted(codes, count), by_both)


def _sorted(codes: Codes, count: int) -> Codes:
    """The codes, of which there are `count`, ascending."""
    if count < 2:
        return codes
    if len(codes) <= FEW_ROWS:
        return np.sort(codes)
    return np.repeat(np.arange(count, dtype=codes.dtype), np.bincount(codes, minlength=count))


def _by_code(codes: Codes) -> Positions:
    """The stable order by code alone."""
    if len(codes) <= FEW_ROWS or codes.itemsize > 2:
        return np.argsort(codes, kind="stable")
    # Arrow counts codes of 16 bits and less, in a third of the time of numpy's radix sort; its sort of them is stable by its word.
    return numbers_of(pc.array_sort_indices(arrow_of(codes))).view(np.int64)


def _by_packed(codes: Codes, values: npt.NDArray[Any], count: int) -> Positions:
    """The stable order by code and value: both are packed into one number with the position, since numbers are sorted fastest."""
    low, high = int(values.min()), int(values.max())
    offsets = values.view(np.uint64) - np.uint64(low % 2**64)
    place_bits, code_bits, value_bits = ((end - 1).bit_length() for end in (len(codes), count, high - low + 1))
    dropped = max(0, place_bits + code_bits + value_bits - 64)
    keys = offsets >> np.uint64(dropped)
    keys <<= np.uint64(place_bits)
    if code_bits:
        keys |= codes.astype(np.uint64) << np.uint64(place_bits + value_bits - dropped)
    keys |= np.arange(len(codes), dtype=np.uint64)
    keys.sort()
    rows = (keys & np.uint64((1 << place_bits) - 1)).view(np.int64)
    if dropped:
        keys >>= np.uint64(place_bits)
        _sort_ties(rows, keys, values)
    return rows


def _sort_ties(rows: Positions, keys: npt.NDArray[np.uint64], values: npt.NDArray[Any]) -> None:
    """Put rows of one key, which ascends, into the order of their values, in place."""
    tied = keys[1:] == keys[:-1]
    falls = values[rows[1:]] < values[rows[:-1]]
    if (tied & falls).any():
        among = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        some = rows[among]
        rows[among] = some[np.lexsort((values[some], keys[among]))]


def _scattering(codes: Codes, count: int) -> Order:
    """The stable order by code, as the place of each row; found a block of rows at a time, on all cores."""
    blocks = list(cuts(len(codes), _BLOCK_ROWS))
    places = memory_for(len(codes), np.int64)
    edges = np.linspace(0, len(blocks), min(len(blocks), pa.cpu_count()) + 1).astype(int).tolist()
    parts = [slice(first, last) for first, last in pairwise(edges)]

    def counted(part: slice) -> npt.NDArray[np.int64]:
        return np.array([np.bincount(codes[start:end], minlength=count) for start, end in blocks[part]])

    sizes = np.concatenate(side_by_side([partial(counted, part) for part in parts], places.nbytes))
    whole = sizes.sum(axis=0)
    # By block, where the rows of each code go, less where they would be in the block, were it in its own order.
    shifts = (whole.cumsum() - whole) + (sizes.cumsum(axis=0) - sizes) - (sizes.cumsum(axis=1) - sizes)
    steps = np.arange(_BLOCK_ROWS)

    def place(part: slice) -> None:
        for (start, end), shift, size in zip(blocks[part], shifts[part], sizes[part], strict=True):
            to = np.repeat(shift, size)
            to += steps[: end - start]
            places[start:end][np.argsort(codes[start:end], kind="stable")] = to

    side_by_side([partial(place, part) for part in parts], places.nbytes)
    return Order(np.repeat(np.arange(count, dtype=codes.dtype), whole), places=places)
