"""The index and entity columns of rows in any order, taken in batch by batch: their bounds, coverage, and whether they are sorted.

The same as `sort_run` finds, without moving a row: a batch stays in the processor's cache, and no two of its rows are compared that
need not be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import CoverageMap, StoredIds, stored_ids
from gapless.coverage.bucket import Grid
from gapless.files.sort.run import index_values, unit_ns
from gapless.model.fit import null_key
from gapless.model.index import Identity, IndexSpec
from gapless.model.segment import Bounds

Array = npt.NDArray[Any]

_DENSE = 8
"""So many cells a row a table of (identity, bucket) may have, to be marked and not sorted."""
_NONE: Sequence[Identity] = ((),)
"""The identities where there are no entity columns."""
_PIECE_ROWS = 1 << 15
"""Keys of so many rows fit into the cache of a processor."""
_PAIRS = 1 << 20
"""Distinct pairs of single batches that are gathered before they become bitmaps."""


@dataclass(slots=True)
class KeyScan:
    """Takes in batches; after the last, it says what the rows come to."""

    index: IndexSpec
    grid: Grid
    rows: int = 0
    in_order: bool = True
    """Whether all rows so far are in order of identity and index value."""
    bounds: Bounds | None = None
    """None before the first row."""
    _covered: CoverageMap = field(default_factory=CoverageMap)
    _pairs: list[tuple[Array, StoredIds]] = field(default_factory=list)
    """What is not in `_covered` yet: numbers of identities, and buckets."""
    _gathered: int = 0
    _known: dict[Identity, int] = field(default_factory=dict)
    """The number of each identity."""
    _numbered: tuple[Sequence[Identity], Array] = ((), np.zeros(0, dtype=np.int64))
    """The last list of identities, and their numbers."""
    _spellings: dict[str, _DictionaryCache] = field(default_factory=lambda: defaultdict(_DictionaryCache))
    """Of each entity column."""
    _last: tuple[Identity, int] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the rows of a batch that has the key columns in stored types; texts may be dictionaries.

        Raises NullKey, with the row counted from the first batch; InvalidValue for a time that local days do not reach.
        """
        self._refuse_nulls(batch)
        if not batch.num_rows:
            return
        column = batch.column(self.index.column)
        values = index_values(pa.chunked_array([column]))
        codes, identities = self._identity_codes(batch)
        self._grow_bounds(values, unit_ns(column.type))
        for start in range(0, batch.num_rows, _PIECE_ROWS):
            piece = slice(start, start + _PIECE_ROWS)
            self._take(codes[piece], values[piece], self.grid.ids(values[piece], unit_ns(column.type)), identities)
        self.rows += batch.num_rows

    @property
    def coverage(self) -> CoverageMap:
        """The (identity, bucket) pairs that hold at least one row."""
        self._settle()
        return self._covered

    def _refuse_nulls(self, batch: pa.RecordBatch) -> None:
        for name in self.index.keys:
            column = batch.column(name)
            if column.null_count:
                row = self.rows + pc.index(column.is_null(), True).as_py()
                raise null_key(name, self.index, row)

    def _identity_codes(self, batch: pa.RecordBatch) -> tuple[Array, Sequence[Identity]]:
        """Each row's identity as a place in a list of identities, some of which may be those of no row."""
        codes, identities = np.zeros(batch.num_rows, dtype=np.int32), _NONE
        for name in self.index.entity:
            spelling = self._spellings[name]
            more = spelling.read(batch.column(name))
            if identities is _NONE:
                codes, identities = more, spelling.identities
            else:
                codes, identities = _combined(codes, identities, more, spelling.values)
        return codes, identities

    def _grow_bounds(self, values: Array, scale: int) -> None:
        first, last = int(values.min()) * scale, int(values.max()) * scale
        old = self.bounds or Bounds(first=first, last=last)
        self.bounds = Bounds(first=min(old.first, first), last=max(old.last, last))

    def _take(self, codes: Array, values: Array, ids: Array, identities: Sequence[Identity]) -> None:
        """Check the order of some rows, and gather their distinct (identity, bucket) pairs, most of them once."""
        if self.in_order:
            changes = np.flatnonzero(codes[1:] != codes[:-1])
            self._check_order(codes, values, identities, changes)
        if self.in_order:
            fresh = ids[1:] != ids[:-1]
            fresh[changes] = True
            first = np.concatenate([[0], np.flatnonzero(fresh) + 1])
            codes, ids = codes[first], ids[first]
        else:
            codes, ids = _distinct(codes, ids, len(identities))
        self._pairs.append((self._numbers(identities)[codes], stored_ids(ids)))
        self._gathered += len(ids)
        if self._gathered >= _PAIRS:
            self._settle()

    def _check_order(self, codes: Array, values: Array, identities: Sequence[Identity], changes: Array) -> None:
        """Note where rows are not in order any more; another identity than before comes after each of `changes`."""
        first, last = ((identities[int(codes[at])], int(values[at])) for at in (0, -1))
        follows = self._last is None or self._last <= first
        self.in_order, self._last = follows and _is_sorted(codes, values, identities, changes), last

    def _numbers(self, identities: Sequence[Identity]) -> Array:
        """The number of each identity among those of all batches."""
        if identities is not self._numbered[0]:
            known = self._known
            numbers = [known.setdefault(one, len(known)) for one in identities]
            self._numbered = identities, np.array(numbers, dtype=np.int64)
        return self._numbered[1]

    def _settle(self) -> None:
        """Turn the gathered pairs into bitmaps."""
        if self._pairs:
            codes, ids = (np.concatenate(arrays) for arrays in zip(*self._pairs, strict=True))
            self._covered = self._covered.union(CoverageMap.from_runs(tuple(self._known), codes, ids))
            self._pairs, self._gathered = [], 0


def _is_sorted(codes: Array, values: Array, identities: Sequence[Identity], changes: Array) -> bool:
    """Whether rows are in order of identity and value; another identity than before comes after each of `changes`."""
    before, after = codes[changes], codes[changes + 1]
    if not all(identities[one] < identities[other] for one, other in zip(before.tolist(), after.tolist(), strict=True)):
        return False
    rising = values[1:] >= values[:-1]
    rising[changes] = True
    return bool(rising.all())


def _distinct(codes: Array, ids: Array, count: int) -> tuple[Array, Array]:
    """The distinct pairs of codes, all below `count`, and bucket ids in any order; some may be given more than once."""
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    if span * count <= _DENSE * len(ids):
        places = codes * np.int64(span)
        places += (ids - ids.dtype.type(low)).view(np.int64)
        marked = np.zeros(span * count, dtype=bool)
        marked[places] = True
        codes, offsets = np.divmod(np.flatnonzero(marked), span)
        return codes, offsets.astype(ids.dtype) + ids.dtype.type(low)
    fresh = np.concatenate([[True], (ids[1:] != ids[:-1]) | (codes[1:] != codes[:-1])])
    return codes[fresh], ids[fresh]


@dataclass(slots=True)
class _DictionaryCache:
    """What the places of a dictionary mean; batch after batch mostly has the same one."""

    dictionary: pa.Array = field(default_factory=lambda: pa.array([], pa.null()))
    values: list[Any] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)
    """The values as identities of their own."""

    def read(self, column: pa.Array) -> Array:
        """Each row's value as a place in `values`."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if not encoded.dictionary.equals(self.dictionary):
            self.dictionary, self.values = encoded.dictionary, encoded.dictionary.to_pylist()
            self.identities = [(value,) for value in self.values]
        places: Array = encoded.indices.to_numpy(zero_copy_only=False)
        return places


def _combined(codes: Array, identities: Sequence[Identity], more: Array, values: Sequence[Any]) -> tuple[Array, list[Identity]]:
    """Codes of identities, and of the values of one more column, as codes of the identities with those values."""
    codes = codes * np.int64(len(values)) + more
    count = len(identities) * len(values)
    if count > _DENSE * len(codes):
        present, codes = np.unique(codes, return_inverse=True)
    else:
        present = np.arange(count)
    pairs = (divmod(code, len(values)) for code in present.tolist())
    return codes, [(*identities[left], values[right]) for left, right in pairs]
