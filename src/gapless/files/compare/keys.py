"""Rows matched by key and numbered by value: equal rows have equal numbers.

So nulls equal nulls, a NaN equals a NaN of the same bits, -0.0 is not 0.0, and nested values count by all they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.sort.run import index_values
from gapless.predicate.coerce import kind_of

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
            pairs, ids = np.unique(_key_pairs(ids, rows.column(name), values), return_inverse=True)
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
            wanted = _key_pairs(ids, column if len(left) == len(column) else column.take(pa.array(left)), values)
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


def _key_pairs(ids: KeyIds, column: pa.ChunkedArray, values: pa.Array) -> KeyIds:
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


Codes = npt.NDArray[np.int64]


def row_codes(columns: Iterable[pa.Array | pa.ChunkedArray], rows: int) -> Codes:
    """One number a row over all columns, each of which holds that many rows; numbers are dense from 0, in no order."""
    codes = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = _paired(codes, value_codes(_one_chunk(column)))
    return codes


def same_rows(left: pa.Table, right: pa.Table) -> npt.NDArray[np.bool_]:
    """Where two tables of one schema and length hold the same row at the same place: what equal `row_codes` say, for less work."""
    same = np.ones(left.num_rows, dtype=bool)
    for one, other in zip(left.columns, right.columns, strict=True):
        if not one.equals(other) or _has_two_zeros(one.type):
            same &= _same_values(_one_chunk(one), _one_chunk(other))
    return same


def _same_values(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    if pa.types.is_nested(left.type) or isinstance(left.type, pa.BaseExtensionType):
        codes = value_codes(pa.concat_arrays([left, right]))
        same: npt.NDArray[np.bool_] = codes[: len(left)] == codes[len(left) :]
        return same
    if pa.types.is_floating(left.type):
        left, right = (one.view(_BITS[one.type.bit_width]) for one in (left, right))
    both_null = pc.and_(left.is_null(), right.is_null())
    equal: npt.NDArray[np.bool_] = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null).to_numpy(zero_copy_only=False)
    return equal


def _has_two_zeros(kind: pa.DataType) -> bool:
    """Whether values of a type may be equal to Arrow and not have the same bits."""
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType))


def value_codes(array: pa.Array) -> Codes:
    """One number a value, dense from 0, in no order."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return value_codes(array.storage)
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_floating(kind):
        return _leaf_codes(array.view(_BITS[kind.bit_width]))
    if pa.types.is_struct(kind):
        return row_codes((array.is_valid(), *array.flatten()), len(array))
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        return _list_codes(array, pairs, _offsets(array))
    if pa.types.is_fixed_size_list(kind):
        return _fixed_codes(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(array, array.values, _offsets(array))
    return _leaf_codes(array)


_BITS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def _leaf_codes(array: pa.Array) -> Codes:
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return _numbers(encoded.indices)


def _offsets(array: pa.Array) -> Codes:
    """Where each list begins in the values, and where the last one ends."""
    return _numbers(array.offsets)


def _list_codes(array: pa.Array, values: pa.Array, offsets: Codes) -> Codes:
    """Lists by the texts that the numbers of their values make."""
    values = values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    data = value_codes(values)
    # A null list may have values behind it, which do not count.
    starts = (offsets - offsets[0]) * data.itemsize
    buffers = [None, pa.py_buffer(np.ascontiguousarray(starts)), pa.py_buffer(np.ascontiguousarray(data))]
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return _leaf_codes(pc.if_else(array.is_valid(), texts, None))


def _fixed_codes(array: pa.Array) -> Codes:
    """Lists of one length, which lie one after another, nulls among them."""
    size = array.type.list_size
    offsets = np.arange(len(array) + 1, dtype=np.int64) * size
    values = array.values.slice(array.offset * size, len(array) * size)
    return _list_codes(array, values, offsets)


def _paired(left: Codes, right: Codes) -> Codes:
    """One number for each pair of numbers."""
    if not len(left):
        return left
    # Both are dense, so that the product stays below the square of the number of rows.
    return _leaf_codes(pa.array(left * (int(right.max()) + 1) + right))


def _numbers(array: pa.Array) -> Codes:
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64)


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
