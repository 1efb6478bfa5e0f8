"""Shredded variants in structs, lists and maps, put together where they are. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.variant.shredded import METADATA, VALUE, is_shredded, put_together
from gapless.model.column_ids import Fields
from gapless.model.convert import ends_of, map_entries, null_mask
from gapless.model.types import children, is_any_list

_WHOLE = {METADATA, VALUE}


def holds_shredded(type_: pa.DataType) -> bool:
    """Whether a type of a file has a struct with a `typed_value` in it, as shredded variants are, at any depth."""
    return is_shredded(type_) or any(holds_shredded(one.type) for one in children(type_))


def whole_variants(array: pa.Array, declared: pa.DataType, fields: Fields, path: str) -> pa.Array:
    """An array of a file in which variants are `metadata` and `value` alone, wherever the declared type has one; `fields` are those of structs in
    it. Raises as `put_together`.
    """
    if not holds_shredded(array.type):
        return array
    if pa.types.is_struct(array.type) and pa.types.is_struct(declared):
        if {one.name for one in declared} == _WHOLE and is_shredded(array.type):
            return put_together(array, path)
        return _struct(array, declared, fields, path)
    if pa.types.is_map(array.type) and pa.types.is_map(declared):
        counts, entries = map_entries(array)
        keys = whole_variants(entries.field(0), declared.key_type, fields.below("key"), path)
        items = whole_variants(entries.field(1), declared.item_type, fields.below("value"), path)
        return pa.MapArray.from_arrays(ends_of(counts).cast(pa.int32()), keys, items, mask=null_mask(array))
    if is_any_list(array.type) and is_any_list(declared):
        counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        items = whole_variants(array.flatten(), declared.value_type, fields.below("element"), path)
        large = pa.types.is_large_list(array.type)
        kind, width = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
        type_ = (pa.large_list if large else pa.list_)(array.type.value_field.with_type(items.type))
        return kind.from_arrays(ends_of(counts).cast(width), items, type=type_, mask=null_mask(array))
    return array


def _struct(array: pa.StructArray, declared: pa.DataType, fields: Fields, path: str) -> pa.StructArray:
    wanted = {fields.names.get((one.name,), one.name): one for one in declared}
    arrays, found = [], []
    for field, one in zip(array.type, array.flatten(), strict=True):
        meant = wanted.get(field.name)
        made = one if meant is None else whole_variants(one, meant.type, fields.below(meant.name), path)
        arrays.append(made)
        # What was put together may be null below a null parent, whatever the file's columns say.
        found.append(field.with_type(made.type) if made is one else pa.field(field.name, made.type))
    return pa.StructArray.from_arrays(arrays, fields=found, mask=null_mask(array))
