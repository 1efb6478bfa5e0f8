"""Whole numbers that rise by even steps, as the differences that Parquet calls DELTA_BINARY_PACKED."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gapless.model.distinct import distinct
from gapless.parquet.chunk_values import Array
from gapless.parquet.page import DELTA_NUMBER
from gapless.parquet.thrift import signed, unsigned

_BLOCK, _MINI = 128, 32
"""Differences of a block, which have their smallest in common, and of a miniblock, which are of one width."""
_HEAD = unsigned(_BLOCK) + unsigned(_BLOCK // _MINI)
_NO_WIDTHS = bytes(_BLOCK // _MINI)
_EVEN = 1_024
"""Values for each change of the step, from which on the differences are made here: others Arrow's writer makes faster."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Values of eight bytes by their differences."""

    values: Array
    encoding: int = DELTA_NUMBER

    @property
    def nbytes(self) -> int:
        """Bytes of all values, at most."""
        return int(self.values.nbytes)

    def body(self, start: int, end: int) -> bytes:
        """The first value, and blocks of differences."""
        values = self.values[start:end].view(np.int64)
        first = int(values[0]) if len(values) else 0
        return b"".join((_HEAD, unsigned(len(values)), signed(first), *_blocks(np.diff(values))))


def rises_evenly(values: Array) -> bool:
    """Whether the differences of such values are made here."""
    steps = np.diff(values)
    return len(values) > _EVEN and int(np.count_nonzero(steps[1:] != steps[:-1])) <= len(values) // _EVEN


def _blocks(steps: Array) -> Iterator[bytes]:
    """The blocks of differences; those without any of their own, as many as follow each other, at once."""
    changed = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    uneven = distinct(changed[changed % _BLOCK > 0] // _BLOCK)
    packed = dict(zip(uneven.tolist(), _uneven(steps, uneven), strict=True))
    edges = {0, *(changed // _BLOCK).tolist(), *packed, *(at + 1 for at in packed), -(-len(steps) // _BLOCK)}
    for start, end in pairwise(sorted(edges)):
        yield packed[start] if start in packed else (signed(int(steps[start * _BLOCK])) + _NO_WIDTHS) * (end - start)


def _uneven(steps: Array, blocks: Array) -> list[bytes]:
    """Blocks of several differences: the smallest, and what the others have above it, in as many bits as that takes in a miniblock."""
    if not len(blocks):
        return []
    # What fills up the last block takes no bits.
    filling = np.repeat(steps[len(steps) // _BLOCK * _BLOCK :].min(initial=steps[-1]), -len(steps) % _BLOCK)
    chosen = np.concatenate((steps, filling)).reshape(-1, _BLOCK)[blocks]
    least = chosen.min(axis=1)
    minis = (chosen - least[:, None]).view(np.uint64).reshape(-1, _MINI)
    widths = [int(most).bit_length() for most in minis.max(axis=1)]
    bits, count = _packed(minis, widths), _BLOCK // _MINI
    return [
        b"".join((signed(low), bytes(widths[at : at + count]), *bits[at : at + count]))
        for low, at in zip(least.tolist(), range(0, len(minis), count), strict=True)
    ]


def _packed(minis: Array, widths: Sequence[int]) -> list[bytes]:
    """The lowest bits of each number, the lowest of a byte first; as many of each miniblock as it is wide."""
    packed = [b""] * len(minis)
    for width in set(widths) - {0}:
        same = [at for at, one in enumerate(widths) if one == width]
        bits = np.unpackbits(minis[same].view(np.uint8).reshape(len(same), _MINI, 8), axis=2, bitorder="little")
        for at, row in zip(
            same, np.packbits(bits[:, :, :width].reshape(len(same), -1), axis=1, bitorder="little"), strict=True
        ):
            packed[at] = row.tobytes()
    return packed
