"""Columns put into an order: each value fetched for its place, or sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.numbers import arrow_of
from gapless.parquet.row_order import FEW_ROWS, Order, memory_for
from gapless.parquet.threads import side_by_side


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
