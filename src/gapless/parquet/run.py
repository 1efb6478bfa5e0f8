"""A run: rows in memory, sorted by entity and index, with the coverage they bring.

Runs bound the memory of an append; each becomes one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import CoverageMap, StoredIds, array_of, stored_ids
from gapless.coverage.bucket import Grid
from gapless.model.index import Identity, IndexSpec
from gapless.model.instant import NS_PER

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sorted rows with their keys as parallel arrays."""

    table: pa.Table
    """The rows in the stored schema, sorted by entity columns, then index, stably."""
    identities: Sequence[Identity]
    """The distinct identities, in order."""
    codes: Array
    """For each row, the position of its identity in `identities`; never decreasing."""
    buckets: StoredIds
    """For each row, the stored id of its bucket."""

    @property
    def coverage(self) -> CoverageMap:
        """The (identity, bucket) pairs that hold at least one row."""
        return CoverageMap.from_runs(self.identities, self.codes, self.buckets)

    def edge_key(self, index: IndexSpec, row: int) -> tuple[Identity, int]:
        """What the row at a position (-1 for the last) is sorted by: its identity, and its index value in the column's unit."""
        return self.identities[int(self.codes[row])], as_int(self.table.column(index.column)[row % self.table.num_rows])

    def without(self, covered: CoverageMap) -> Run:
        """The run less the rows whose (identity, bucket) is covered."""
        inside = self.positions(covered)
        return self.take(np.delete(np.arange(len(self.codes)), inside)) if len(inside) else self

    def positions(self, covered: CoverageMap) -> Array:
        """The positions, ascending, of the rows whose (identity, bucket) is covered."""
        edges = np.searchsorted(self.codes, np.arange(len(self.identities) + 1))
        found = [np.zeros(0, dtype=np.int64)]
        for position, identity in enumerate(self.identities):
            if (bitmap := covered.get(identity)) is not None:
                start, end = edges[position : position + 2]
                ids = self.buckets[start:end]  # ascending, as the rows are
                low, high = np.searchsorted(ids, bitmap.min(), "left"), np.searchsorted(ids, bitmap.max(), "right")
                found.append(start + low + np.flatnonzero(np.isin(ids[low:high], array_of(bitmap))))
        return np.concatenate(found)

    def take(self, positions: Array) -> Run:
        """The run of the rows at these positions, which ascend."""
        table = self.table.take(pa.array(positions))
        return Run(table=table, identities=self.identities, codes=self.codes[positions], buckets=self.buckets[positions])

    def part(self, start: int, end: int) -> Run:
        """The run of the rows at the positions `[start, end)`; copies nothing."""
        table = self.table.slice(start, end - start)
        return Run(table=table, identities=self.identities, codes=self.codes[start:end], buckets=self.buckets[start:end])


def sort_run(table: pa.Table, index: IndexSpec, grid: Grid) -> Run:
    """Sort rows (in the stored schema, keys without nulls) by entity and index, equal keys in arrival order."""
    codes, identities = _identity_codes(table, index.entity)
    values = index_values(table.column(index.column))
    order = _sort_order(codes, values)
    if order is not None:
        table, codes, values = table.take(pa.array(order)), codes[order], values[order]
    ids = grid.ids(values, unit_ns(table.schema.field(index.column).type))
    return Run(table=table, identities=identities, codes=codes, buckets=stored_ids(ids))


def as_int(scalar: Any) -> int:
    """A value of an index column as an integer, in the column's unit."""
    return int(scalar.value if pa.types.is_timestamp(scalar.type) else scalar.as_py())


def unit_ns(kind: pa.DataType) -> int:
    """Nanoseconds per step of an index column's integers; 1 for an integer index."""
    return NS_PER[kind.unit] if pa.types.is_timestamp(kind) else 1


def index_values(column: pa.ChunkedArray) -> Array:
    """An index column without nulls as integers, in its unit."""
    flat = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    flat = flat.combine_chunks() if isinstance(flat, pa.ChunkedArray) else flat
    if pa.types.is_timestamp(flat.type):
        flat = flat.view(pa.int64())
    values: Array = flat.to_numpy(zero_copy_only=False)
    return values


def _identity_codes(table: pa.Table, entity: tuple[str, ...]) -> tuple[Array, list[Identity]]:
    """Each row's identity as a position in the sorted list of distinct identities."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    identities: list[Identity] = [()]
    for name in entity:
        ranks, values = _column_codes(table.column(name))
        if name == entity[0]:
            codes, identities = ranks, [(value,) for value in values]
            continue
        present, codes = np.unique(codes * max(len(values), 1) + ranks, return_inverse=True)
        pairs = (divmod(int(code), max(len(values), 1)) for code in present)
        identities = [(*identities[left], values[right]) for left, right in pairs]
    return _narrow(codes, len(identities)), identities


_SAMPLE = 1_000
"""Rows by which a column is judged to lie in stretches of one value, as sorted rows do."""


def _column_codes(column: pa.ChunkedArray) -> tuple[Array, list[Any]]:
    """Each row's value as a rank among the column's sorted distinct values."""
    if not len(column):
        return np.zeros(0, dtype=np.int64), []
    if len(column) > 10 * _SAMPLE and len(pc.run_end_encode(column.slice(0, _SAMPLE).combine_chunks()).values) <= _SAMPLE // 50:
        return _stretch_codes(column)
    encoded = pc.dictionary_encode(column).combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) and encoded.num_chunks else encoded
    values = encoded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)], [values[i] for i in order]


def _stretch_codes(column: pa.ChunkedArray) -> tuple[Array, list[Any]]:
    """The same, looking at each stretch of one value once."""
    runs = [pc.run_end_encode(chunk) for chunk in column.chunks if len(chunk)]
    codes, values = _column_codes(pa.chunked_array([run.values for run in runs]))
    lengths = np.concatenate([np.diff(run.run_ends.to_numpy(), prepend=0) for run in runs])
    return np.repeat(codes, lengths), values


def _narrow(codes: Array, count: int) -> Array:
    """Codes in the smallest type: numpy sorts 16-bit integers by radix."""
    return codes.astype(np.uint16 if count <= 2**16 else np.int64)


def _sort_order(codes: Array, values: Array) -> Array | None:
    """A stable permutation that sorts by code, then value; None where the rows are in that order."""
    same, rising = codes[1:] == codes[:-1], values[1:] >= values[:-1]
    if bool(np.all((codes[1:] > codes[:-1]) | (same & rising))):
        return None
    if bool(np.all(rising)):
        return np.argsort(codes, kind="stable")
    by_value = np.argsort(values, kind="stable")
    return by_value[np.argsort(codes[by_value], kind="stable")]
