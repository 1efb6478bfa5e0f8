"""The coverage of rows in order, found without a step for every bucket where buckets follow each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gapless.coverage.bitmap import CoverageMap, stored_ids
from gapless.coverage.bucket import Ids
from gapless.model.index import Identity
from gapless.parquet.page import cuts
from gapless.parquet.row_order import FEW_ROWS
from gapless.parquet.threads import side_by_side

Array = npt.NDArray[Any]

_BLOCK_ROWS = 1 << 15
"""What is found on the way in so many rows fits into a processor's cache."""

_LONG = 32
"""Rows a stretch of buckets, in the mean, from which on to add stretches to a bitmap takes less than to add buckets."""


class _Found(NamedTuple):
    """Buckets, or stretches of them, in order."""

    codes: Array
    """Whose identities'."""
    firsts: Ids
    """The bucket, or the first of the stretch."""
    lasts: Ids
    """The last of the stretch; of buckets none."""


def coverage_of(identities: Sequence[Identity], codes: Array, values: Array, ids_of: Callable[[Array], Ids]) -> CoverageMap:
    """The (identity, bucket) pairs of rows that are sorted by code, then value.

    `codes` has for each row the place of its identity in `identities`, `values` its index value, of whose bucket `ids_of` gives the id; what
    that raises is raised. Taken a block of rows at a time, on all cores.
    """

    def find(start: int, end: int) -> _Found:
        # Of a bucket that began in the block before nothing begins here.
        first = max(0, start - 1)
        return _found(codes[first:end], ids_of(values[first:end]), whole=not start)

    blocks = side_by_side([partial(find, start, end) for start, end in cuts(len(codes), _BLOCK_ROWS)], values.nbytes)
    made: list[CoverageMap] = []
    if long := [one for one in blocks if len(one.lasts)]:
        all_codes, firsts, lasts = map(_joined, zip(*long, strict=True))
        made.append(CoverageMap.from_stretches(identities, all_codes, stored_ids(firsts), stored_ids(lasts)))
    if short := [one for one in blocks if not len(one.lasts)]:
        all_codes, ids, _ = map(_joined, zip(*short, strict=True))
        made.append(CoverageMap.from_runs(identities, all_codes, stored_ids(ids)))
    return CoverageMap.union_of(made)


def _found(codes: Array, ids: Ids, *, whole: bool) -> _Found:
    """The stretches of buckets that lie in some rows, where these are long; else the buckets that begin in them, but, unless `whole`, in the first."""
    # Ids fall where the identity changes only.
    steps, other = ids[1:] - ids[:-1], codes[1:] != codes[:-1]
    if len(codes) > FEW_ROWS:
        breaks = ((steps.view(np.uint64) > 1) | other).nonzero()[0]
        if len(breaks) * _LONG <= len(codes):
            firsts, lasts = np.concatenate((_ZERO, breaks + 1)), np.append(breaks, len(ids) - 1)
            return _Found(codes[firsts], ids[firsts], ids[lasts])
    begins = (steps.astype(bool) | other).nonzero()[0] + 1
    begins = np.concatenate((_ZERO, begins)) if whole else begins
    return _Found(codes[begins], ids[begins], ids[:0])


_ZERO = np.zeros(1, dtype=np.int64)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
