"""A run: rows in memory, in the order of entity and index, with the coverage they bring.

Runs bound the memory of an append; each becomes one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import CoverageMap, StoredIds, array_of, stored_ids
from gapless.coverage.bucket import Grid
from gapless.model.index import Identity, IndexSpec
from gapless.model.instant import NS_PER
from gapless.parquet.ordered import Ordered, Spelled, in_one_chunk

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sorted rows with their keys as parallel arrays."""

    rows: Ordered
    """The rows in the stored schema, sorted by entity columns, then index, stably."""
    identities: Sequence[Identity]
    """The distinct identities, in order."""
    codes: Array
    """For each row, the position of its identity in `identities`; never decreasing."""
    buckets: StoredIds
    """For each row, the stored id of its bucket."""
    _tables: list[pa.Table] = field(default_factory=list, init=False, repr=False, compare=False)
    _coverage: list[CoverageMap] = field(default_factory=list, init=False, repr=False, compare=False)
    """Both as they were made when they were first asked for."""

    @property
    def table(self) -> pa.Table:
        """The rows as a table."""
        if not self._tables:
            self._tables.append(self.rows.table())
        return self._tables[0]

    @property
    def coverage(self) -> CoverageMap:
        """The (identity, bucket) pairs that hold at least one row."""
        if not self._coverage:
            self._coverage.append(CoverageMap.from_runs(self.identities, self.codes, self.buckets))
        return self._coverage[0]

    def edge_key(self, index: IndexSpec, row: int) -> tuple[Identity, int]:
        """What the row at a position (-1 for the last) is sorted by: its identity, and its index value in the column's unit."""
        return self.identities[int(self.codes[row])], as_int(
            self.rows.at(np.array([row % self.rows.count])).column(index.column)[0]
        )

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
        return Run(
            rows=Ordered(table), identities=self.identities, codes=self.codes[positions], buckets=self.buckets[positions]
        )

    def with_rows(self, rows: Ordered | pa.Table) -> Run:
        """The run of other values in the same places: those of the keys do not change."""
        return replace(self, rows=rows if isinstance(rows, Ordered) else Ordered(rows))

    def part(self, start: int, end: int) -> Run:
        """The run of the rows at the positions `[start, end)`; copies nothing."""
        rows = Ordered(self.table.slice(start, end - start))
        return Run(rows=rows, identities=self.identities, codes=self.codes[start:end], buckets=self.buckets[start:end])


def sort_run(table: pa.Table, index: IndexSpec, grid: Grid) -> Run:
    """Sort rows (in the stored schema, keys without nulls) by entity and index, equal keys in arrival order."""
    codes, identities = _identity_codes(table, index.entity)
    values = index_values(table.column(index.column))
    order = _sort_order(codes, values)
    rows = Ordered(table)
    if order is not None:
        codes = np.repeat(np.arange(len(identities), dtype=codes.dtype), np.bincount(codes, minlength=len(identities)))
        values = values[order]
        made = {index.column: pa.array(values).view(table.schema.field(index.column).type)}
        rows = Ordered(in_one_chunk(table), order, made, _spelled(table, index.entity, identities, codes))
    ids = grid.ids(values, unit_ns(table.schema.field(index.column).type))
    return Run(rows=rows, identities=identities, codes=codes, buckets=stored_ids(ids))


def _spelled(table: pa.Table, entity: tuple[str, ...], identities: Sequence[Identity], codes: Array) -> dict[str, Spelled]:
    """A single entity column by its sorted codes: what is gathered then is a few values, and not the text of each row."""
    if len(entity) != 1 or len(identities) > len(codes) // _MANY:
        return {}
    values = pa.array([value for (value,) in identities], table.schema.field(entity[0]).type)
    return {entity[0]: Spelled(values, codes)}


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
        pairs_of = codes.astype(np.int64) * max(len(values), 1) + ranks
        present, codes = _dense(pairs_of, len(identities) * len(values))
        pairs = (divmod(int(code), max(len(values), 1)) for code in present)
        identities = [(*identities[left], values[right]) for left, right in pairs]
    return codes.astype(_narrow(len(identities)), copy=False), identities


def _dense(numbers: Array, end: int) -> tuple[Array, Array]:
    """The distinct numbers, ascending, all in `[0, end)`, and the place of each number among them."""
    if end > len(numbers):
        return np.unique(numbers, return_inverse=True)
    seen = np.bincount(numbers, minlength=end) > 0
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[numbers]


_SAMPLE = 1_000
"""Rows by which a column is judged to lie in stretches of one value, as sorted rows do."""

_MANY = 16
"""Rows an identity from which on its rows' texts are spelled out anew rather than gathered."""


def _column_codes(column: pa.ChunkedArray) -> tuple[Array, list[Any]]:
    """Each row's value as a rank among the column's sorted distinct values."""
    if not len(column):
        return np.zeros(0, dtype=np.int64), []
    if len(column) > 10 * _SAMPLE and len(pc.run_end_encode(column.slice(0, _SAMPLE).combine_chunks()).values) <= _SAMPLE // 50:
        return _stretch_codes(column)
    return _ranks(column)


def _ranks(column: pa.ChunkedArray) -> tuple[Array, list[Any]]:
    """The same, looking at every row."""
    encoded = pc.dictionary_encode(column).combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) and encoded.num_chunks else encoded
    values = encoded.dictionary.to_pylist()
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = np.empty(len(values), dtype=_narrow(len(values)))
    rank[order] = np.arange(len(values))
    return rank[encoded.indices.to_numpy(zero_copy_only=False)], [values[i] for i in order]


def _stretch_codes(column: pa.ChunkedArray) -> tuple[Array, list[Any]]:
    """The same, looking at each stretch of one value once."""
    runs = [pc.run_end_encode(chunk) for chunk in column.chunks if len(chunk)]
    codes, values = _ranks(pa.chunked_array([run.values for run in runs]))
    lengths = np.concatenate([np.diff(run.run_ends.to_numpy(), prepend=0) for run in runs])
    return np.repeat(codes, lengths), values


def _narrow(count: int) -> type[np.integer[Any]]:
    """The smallest type of so many codes: numpy sorts integers of up to 16 bits by radix, a byte a turn."""
    return np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.int64


def _sort_order(codes: Array, values: Array) -> Array | None:
    """A stable permutation that sorts by code, then value; None where the rows are in that order."""
    rising = values[1:] >= values[:-1]
    if bool(np.all(rising)):
        return None if bool(np.all(codes[1:] >= codes[:-1])) else np.argsort(codes, kind="stable")
    if bool(np.all((codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & rising))):
        return None
    by_value = np.argsort(values, kind="stable")
    return by_value[np.argsort(codes[by_value], kind="stable")]
