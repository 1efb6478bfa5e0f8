"""Rows matched by key: null equals null, NaN equals NaN, -0.0 equals 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.parquet.run import index_values
from gapless.scan.kinds import kind_of

KeyIds = npt.NDArray[np.int64]
"""For each row the number of its key, from 0; -1 where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySet:
    """The distinct keys of some rows, numbered."""

    columns: tuple[str, ...]
    """Those by whose range few rows are left to look at come first."""
    ids: KeyIds
    """For each of those rows the number of its key."""
    count: int
    """How many distinct keys there are."""
    _levels: tuple[tuple[pa.Array, npt.NDArray[Any]], ...]
    """By column: its distinct values, and the pairs (number so far, place in them) that occur, as one sorted number each."""

    @classmethod
    def of(cls, rows: pa.Table, columns: tuple[str, ...]) -> KeySet:
        """The keys of `rows` in these columns, of which there is at least one; their types satisfy `can_match`."""
        columns = tuple(sorted(columns, key=lambda name: not _is_ordinal(rows.schema.field(name).type)))
        ids, count = np.zeros(rows.num_rows, dtype=np.int64), 1
        levels = []
        for name in columns:
            values = pc.unique(_canonical(rows.column(name)))
            pairs, ids = np.unique(_paired(ids, rows.column(name), values), return_inverse=True)
            count = len(pairs)
            levels.append((values, pairs))
        return cls(columns=columns, ids=ids, count=count if rows.num_rows else 0, _levels=tuple(levels))

    def match(self, rows: pa.Table) -> KeyIds:
        """For each row the number that its key has here, or -1. The columns are of the types that the keys were made of."""
        matched = np.full(rows.num_rows, -1, dtype=np.int64)
        left, ids = self._near(rows), np.zeros(1, dtype=np.int64)
        for name, (values, pairs) in zip(self.columns, self._levels, strict=True):
            if not len(left):
                return matched
            column = rows.column(name)
            wanted = _paired(ids, column if len(left) == len(column) else column.take(pa.array(left)), values)
            found = np.searchsorted(pairs, wanted)
            known = (wanted >= 0) & (pairs[np.minimum(found, len(pairs) - 1)] == wanted)
            left, ids = left[known], found[known]
        matched[left] = ids
        return matched

    def _near(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The positions of the rows that may have a key: by the range of the first column, where that is cheap to tell."""
        values, column = self._levels[0][0], rows.column(self.columns[0])
        if not self.count or not _is_ordinal(values.type) or values.null_count or column.null_count or not len(column):
            return np.arange(rows.num_rows if self.count else 0)
        known, given = index_values(pa.chunked_array([values])), index_values(column)
        return np.flatnonzero((given >= known.min()) & (given <= known.max()))

    def repeated(self) -> npt.NDArray[np.int64]:
        """The first row of each key that several rows have, by the order of their second rows."""
        _, first = np.unique(self.ids, return_index=True)
        again = np.setdiff1d(np.arange(len(self.ids)), first)
        _, second = np.unique(self.ids[again], return_index=True)
        return first[self.ids[again[np.sort(second)]]]

    def last_rows(self) -> npt.NDArray[np.int64]:
        """The last row of each key, ascending."""
        _, from_end = np.unique(self.ids[::-1], return_index=True)
        return np.sort(len(self.ids) - 1 - from_end)


def _is_ordinal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def can_match(type_: pa.DataType) -> bool:
    """Whether values of a type can be a key: all but nested ones, and those of unknown type."""
    return kind_of(type_) not in (None, "null")


def without_rows(table: pa.Table, positions: npt.NDArray[np.int64]) -> pa.Table:
    """The table less the rows at these positions, which ascend; where they are few, as slices of it."""
    if len(positions) > _FEW:
        return table.take(pa.array(np.delete(np.arange(table.num_rows), positions)))
    starts, ends = [0, *(positions + 1).tolist()], [*positions.tolist(), table.num_rows]
    return pa.concat_tables([table.slice(start, end - start) for start, end in zip(starts, ends, strict=True)])


_FEW = 64
"""Up to so many rows are cut out of a table without a copy of the others."""


def _paired(ids: KeyIds, column: pa.ChunkedArray, values: pa.Array) -> KeyIds:
    """One number for (number so far, place of the value); below zero where either is not there."""
    places = pc.index_in(_canonical(column), value_set=values, skip_nulls=False)
    places = pc.fill_null(places, -1).to_numpy(zero_copy_only=False) if places.null_count else places.to_numpy()
    places = places.astype(np.int64)
    return np.where((ids >= 0) & (places >= 0), ids * len(values) + places, -1)


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type and a form in which equal ones have the same bits."""
    if not pa.types.is_floating(column.type):
        return column
    wide = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    zero = pc.add(wide, pa.scalar(0.0, wide.type))
    return pc.if_else(pc.is_nan(zero), pa.scalar(float("nan"), wide.type), zero)
