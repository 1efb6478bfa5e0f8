"""Sorted runs: rows in the order of entity and index, gathered in bounded memory, merged, with the coverage they bring.

Runs bound the memory of an append; each becomes one segment. Where buckets follow each other, coverage takes no step for every bucket.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap, StoredIds, array_of, stored_ids
from gapless.coverage.bucket import Grid, Ids
from gapless.files.sort.identity_codes import Identified, identified, looked_up
from gapless.files.sort.order import (
    FEW_ROWS,
    DictionaryEncoded,
    Order,
    Ordered,
    can_scatter,
    order_of,
    put_in_order,
    raw_values,
)
from gapless.model.index import Identity, IndexSpec
from gapless.model.instant import NS_PER
from gapless.model.stats import arrow_of, cuts, numbers_of
from gapless.runtime.concurrency import side_by_side

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sorted rows with their keys as parallel arrays."""

    rows: Ordered
    """The rows in the stored schema, sorted by entity columns, then index, stably."""
    identities: Sequence[Identity]
    """The distinct identities, in order."""
    codes: Array
    """For each row, the position of its identity in `identities`; never decreasing."""
    values: Array
    """For each row, its index value, in the column's unit."""
    ids_of: Callable[[Array], Ids]
    """The ids of the buckets of index values; raises as `Grid.ids`."""
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
            self._coverage.append(coverage_of(self.identities, self.codes, self.values, self.ids_of))
        return self._coverage[0]

    @property
    def buckets(self) -> StoredIds:
        """For each row, the stored id of its bucket."""
        return stored_ids(self.ids_of(self.values))

    def edge_key(self, row: int) -> tuple[Identity, int]:
        """What the row at a position (-1 for the last) is sorted by: its identity, and its index value in the column's unit."""
        return self.identities[int(self.codes[row])], int(self.values[row])

    def count_before(self, key: tuple[Identity, int], *, equal: bool) -> int:
        """How many rows come before a key, as `edge_key` gives them; with `equal` those that have it too."""
        identity, value = key
        place = bisect_left(self.identities, identity)
        start, end = np.searchsorted(self.codes, [place, place + 1])
        if place == len(self.identities) or self.identities[place] != identity:
            return int(start)
        values = self.values[start:end]
        return int(start + np.searchsorted(values, values.dtype.type(value), side="right" if equal else "left"))

    def without(self, covered: CoverageMap) -> Run:
        """The run less the rows whose (identity, bucket) is covered."""
        inside = self.positions(covered)
        return self.take(np.delete(np.arange(len(self.codes)), inside)) if len(inside) else self

    def positions(self, covered: CoverageMap) -> Array:
        """The positions, ascending, of the rows whose (identity, bucket) is covered."""
        edges, buckets = np.searchsorted(self.codes, np.arange(len(self.identities) + 1)), self.buckets
        found = [np.zeros(0, dtype=np.int64)]
        for position, identity in enumerate(self.identities):
            if (bitmap := covered.get(identity)) is not None:
                start, end = edges[position : position + 2]
                ids = buckets[start:end]  # ascending, as the rows are
                low, high = np.searchsorted(ids, bitmap.min(), "left"), np.searchsorted(ids, bitmap.max(), "right")
                found.append(start + low + np.flatnonzero(np.isin(ids[low:high], array_of(bitmap))))
        return np.concatenate(found)

    def take(self, positions: Array) -> Run:
        """The run of the rows at these positions, which ascend."""
        table = self.table.take(arrow_of(positions))
        return replace(self, rows=Ordered(table), codes=self.codes[positions], values=self.values[positions])

    def with_rows(self, rows: Ordered | pa.Table) -> Run:
        """The run of other values in the same places: those of the keys do not change."""
        return replace(self, rows=rows if isinstance(rows, Ordered) else Ordered(rows))

    def part(self, start: int, end: int) -> Run:
        """The run of the rows at the positions `[start, end)`; copies nothing."""
        rows = Ordered(self.table.slice(start, end - start))
        return replace(self, rows=rows, codes=self.codes[start:end], values=self.values[start:end])


def sort_run(table: pa.Table, index: IndexSpec, grid: Grid) -> Run:
    """Sort rows (in the stored schema, keys without nulls) by entity and index, equal keys in arrival order."""
    known = identified(table, index.entity)
    values, count = index_values(table.column(index.column)), len(known.identities)
    scatter = table.num_rows >= _SCATTERED_ROWS and sum(map(can_scatter, table.columns)) >= _WORTH_PLACES
    order = order_of(known.codes, values, count, scatter=scatter)
    codes = known.codes if order is None else order.codes
    spelled = _spelled(known, codes, index.entity)
    rows = Ordered(table, spelled)
    if order is not None:
        rows = _in_order(table, order, spelled)
        values = index_values(rows.source.column(index.column))
    ids_of = partial(grid.ids, unit_ns=unit_ns(table.schema.field(index.column).type))
    return Run(rows=rows, identities=known.identities, codes=codes, values=values, ids_of=ids_of)


def _in_order(table: pa.Table, order: Order, spelled: dict[str, DictionaryEncoded]) -> Ordered:
    """The rows in this order; the text of columns that are spelled is left where it lies, unless there is little of it."""
    loose = frozenset(spelled) if table.num_rows > FEW_ROWS else frozenset()
    return Ordered(put_in_order(table, order, loose), spelled, loose)


_SCATTERED_ROWS = 1 << 18
"""From so many rows on a column is larger than a processor's cache."""

_WORTH_PLACES = 3
"""So many columns make up for finding the place of each row."""

_MANY = 16
"""Rows a value from which on an entity column is spelled by its values."""


def _spelled(known: Identified, codes: Array, entity: tuple[str, ...]) -> dict[str, DictionaryEncoded]:
    """Entity columns by the sorted codes of identities: what is gathered then is a few values, and not the text of each row."""
    few = [(name, one) for name, one in zip(entity, known.components, strict=True) if len(one.values) * _MANY <= len(codes)]
    return {
        name: DictionaryEncoded(one.values, codes if len(entity) == 1 else looked_up(one.ranks, codes)) for name, one in few
    }


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
    return raw_values(flat).view(np.int64) if pa.types.is_timestamp(flat.type) else numbers_of(flat)


def gather_runs(
    batches: Iterable[pa.RecordBatch], stored: pa.Schema, index: IndexSpec, grid: Grid, limit: int
) -> Iterator[Run]:
    """Runs of up to `limit` bytes of Arrow memory each, or of one batch that has more, from batches of the stored schema; none without rows.

    Equal keys of one run stay in the order in which they came. What a run was made of is let go before the run is given out.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if held:
            # To measure a batch takes longer than to sort a small one, and one alone need not be.
            size, held_bytes = batch.nbytes, held_bytes or held[0].nbytes
            if held_bytes + size > limit and any(one.num_rows for one in held):
                run = sort_run(pa.Table.from_batches(held, stored), index, grid)
                held, held_bytes = [], 0
                yield run
                del run
            else:
                held_bytes += size
        held.append(batch)
    if any(batch.num_rows for batch in held):
        run = sort_run(pa.Table.from_batches(held, stored), index, grid)
        held = []
        yield run


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """A batch in slices of one length and about `limit` bytes at most, so that one huge batch costs no huge copies."""
    # No column holds more than all buffers do, whose size is known at once.
    if batch.get_total_buffer_size() * batch.num_columns <= limit:
        yield batch
        return
    rows = max(1, -(-batch.num_rows // max(1, -(-batch.nbytes // limit))))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def merge_runs(stretches: Iterable[pa.Table], arrivals: Run, index: IndexSpec, grid: Grid) -> Iterator[Run]:
    """The rows of `stretches`, which are sorted by entity and index one after the other, and those of `arrivals`, in one order.

    All have one schema. A run for each stretch that has rows, and one for what comes after the last of them. Where keys are equal,
    arrivals come last.
    """
    taken, end = 0, arrivals.table.num_rows
    for rows in stretches:
        if not rows.num_rows:
            continue
        last = _key([rows.column(name) for name in index.keys], rows.num_rows - 1)
        upto = arrivals.count_before((last[:-1], last[-1]), equal=False) if taken < end else end
        due = arrivals.table.slice(taken, upto - taken)
        yield sort_run(_joined_tables(rows, due, index), index, grid)
        taken = upto
    if taken < end:
        yield arrivals.part(taken, end)


_FEW = 64
"""Up to so many rows are put in their places one by one, without moving the others."""


def _joined_tables(rows: pa.Table, due: pa.Table, index: IndexSpec) -> pa.Table:
    """Both, sorted where `due` are few; else one after the other."""
    if not due.num_rows or due.num_rows > _FEW:
        return pa.concat_tables([rows, due]) if due.num_rows else rows
    keys = [rows.column(name) for name in index.keys]
    pieces, at = [], 0
    for number in range(due.num_rows):
        row = due.slice(number, 1)
        wanted = _key([row.column(name) for name in index.keys], 0)
        place = bisect_right(range(rows.num_rows), wanted, lo=at, key=lambda position: _key(keys, position))
        pieces += [rows.slice(at, place - at), row]
        at = place
    # Each kernel that follows would pay for the pieces.
    return pa.concat_tables([*pieces, rows.slice(at)]).combine_chunks()


def _key(columns: list[pa.ChunkedArray], position: int) -> tuple[Any, ...]:
    """What a row is sorted by."""
    *entity, index = columns
    return (*(column[position].as_py() for column in entity), as_int(index[position]))
