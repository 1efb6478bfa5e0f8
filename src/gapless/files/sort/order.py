"""Stable sort order of rows by identity and index value, and columns put into it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.stats import arrow_of, cuts, numbers_of
from gapless.runtime.concurrency import side_by_side

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


def put_in_order(table: pa.Table, order: Order, but: AbstractSet[str]) -> pa.Table:
    """The rows in this order, on all cores; columns that `but` names may stay as they lie."""
    if table.num_rows <= FEW_ROWS:
        return table.take(arrow_of(order.rows))
    names = [name for name in table.column_names if name not in but]
    acts = [partial(_placed, table.column(name), order) for name in names]
    made = dict(zip(names, side_by_side(acts, table.nbytes), strict=True))
    columns = [made.get(name, table.column(name)) for name in table.column_names]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _placed(column: pa.ChunkedArray, order: Order) -> pa.Array | pa.ChunkedArray:
    if order.places is not None and can_scatter(column):
        return _scattered(column, order.places)
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return pc.take(whole, arrow_of(order.rows), boundscheck=False)


def can_scatter(column: pa.ChunkedArray) -> bool:
    """Whether the values of a column, each by itself, can be sent to other places: such as have 1, 2, 4 or 8 bytes, none of them null."""
    return is_fixed(column.type) and not column.null_count


def is_fixed(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers of 1, 2, 4 or 8 bytes in memory, as `raw_values` gives them."""
    return kind.id in _WIDTHS


_WIDTHS: Mapping[int, npt.DTypeLike] = {
    kind.id: np.dtype(f"u{kind.bit_width // 8}")
    for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(),
        pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.duration("us"),
        pa.decimal32(9), pa.decimal64(18),
    )
}  # fmt: skip
"""By type, by whichever numbers its bits are moved."""


def raw_values(array: pa.Array) -> npt.NDArray[Any]:
    """The bits of an array of such a type as whole numbers; those of nulls are any."""
    kind = np.dtype(_WIDTHS[array.type.id])
    data = array.buffers()[1]
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize) if len(array) else np.zeros(0, kind)


def _scattered(column: pa.ChunkedArray, places: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """A column with each value at its place."""
    made = memory_for(len(column), _WIDTHS[column.type.id])
    row = 0
    for chunk in column.chunks:
        made[places[row : row + len(chunk)]] = raw_values(chunk)
        row += len(chunk)
    return pa.Array.from_buffers(column.type, len(column), [None, pa.py_buffer(made)])


@dataclass(frozen=True, slots=True)
class DictionaryEncoded:
    """A column said otherwise: for each row, in order, the place of its value in `values`."""

    values: pa.Array
    """Distinct and ascending."""
    places: Positions

    @property
    def ends(self) -> pa.ChunkedArray:
        """The smallest and the largest value that a row has, of rows of which there is one."""
        return pa.chunked_array([self.values.slice(int(end), 1) for end in (self.places.min(), self.places.max())])

    def column(self, rows: slice | Positions) -> pa.ChunkedArray:
        """The values of these rows."""
        return pa.chunked_array([self.values.take(arrow_of(self.places[rows]))])


@dataclass(frozen=True, slots=True)
class Ordered:
    """The rows of `source`, in its order."""

    source: pa.Table
    spelled: Mapping[str, DictionaryEncoded] = field(default_factory=dict)
    """Columns that are known by places in few values too."""
    loose: frozenset[str] = frozenset()
    """Those of them whose values lie in another order in `source`, where they were left."""

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.source.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """That of the rows."""
        return self.source.schema

    def column(self, name: str, start: int = 0, end: int | None = None) -> pa.ChunkedArray:
        """The values of the rows `[start, end)`."""
        if name in self.loose:
            return self.spelled[name].column(slice(start, end))
        column = self.source.column(name)
        if not start and (end is None or end >= self.count):
            return column
        return column.slice(start, None if end is None else end - start)

    def columns(self, names: list[str], start: int, end: int) -> pa.Table:
        """These columns of the rows `[start, end)`."""
        schema = pa.schema([self.schema.field(name) for name in names], self.schema.metadata)
        return pa.Table.from_arrays([self.column(name, start, end) for name in names], schema=schema)

    def at(self, positions: Positions) -> pa.Table:
        """The rows at some positions."""
        found = self.source.take(arrow_of(positions))
        return self._with({name: self.spelled[name].column(positions) for name in self.loose}, found)

    def table(self) -> pa.Table:
        """All rows."""
        names = list(self.loose)
        made = side_by_side([partial(self.column, name) for name in names], self.source.nbytes) if names else []
        return self._with(dict(zip(names, made, strict=True)), self.source)

    def _with(self, made: Mapping[str, pa.ChunkedArray], table: pa.Table) -> pa.Table:
        if not made:
            return table
        columns = [made.get(name, table.column(name)) for name in self.schema.names]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def with_schema(self, schema: pa.Schema) -> Ordered:
        """The same columns under a schema of the same types."""
        return replace(self, source=pa.Table.from_arrays(self.source.columns, schema=schema))
