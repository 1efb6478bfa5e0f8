"""Whether values are the same to the last bit: zeros have two signs there, and a NaN is itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.types import is_any_list

_WHOLE = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def same_bits(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables of one schema hold the same rows in the same order."""
    columns = zip(left.columns, right.columns, strict=True)
    return left.num_rows == right.num_rows and all(
        _same(one.combine_chunks(), other.combine_chunks()) for one, other in columns
    )


def _bits(values: pa.Array) -> pa.Array:
    """Values without children so that only those of the same bits are equal."""
    whole = _WHOLE.get(values.type)
    return values if whole is None else values.view(whole)


def _same(left: pa.Array, right: pa.Array) -> bool:
    """Of two arrays of one type."""
    if pa.types.is_struct(left.type):
        children = zip(left.flatten(), right.flatten(), strict=True)
        return left.is_valid().equals(right.is_valid()) and all(_same(one, other) for one, other in children)
    if is_any_list(left.type):
        return _lengths(left).equals(_lengths(right)) and _same(left.flatten(), right.flatten())
    if pa.types.is_map(left.type):
        entries = pa.list_(pa.struct([left.type.key_field, left.type.item_field]))
        return _same(left.cast(entries), right.cast(entries))
    return bool(_bits(left).equals(_bits(right)))


def _lengths(lists: pa.Array) -> pa.Array:
    return pc.list_value_length(lists)
