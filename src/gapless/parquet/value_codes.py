"""Rows as whole numbers: two rows have one number exactly where they hold the same values, bit for bit.

So nulls equal nulls, a NaN equals a NaN of the same bits, -0.0 is not 0.0, and nested values count by all they hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
