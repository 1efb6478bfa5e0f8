"""Lossless casts of Arrow arrays: value for value, nothing rounded, cut, wrapped or filled in, at any depth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.column_ids import AS_NAMED, Fields
from gapless.model.stats import Bound, arrow_scalar
from gapless.model.types import bare_type, children, is_any_list
from gapless.model.widening import why_not


class Misfit(Exception):
    """A value that the target type does not hold: `row` in the array that was to be converted, `why`, the value (a scalar).

    `row` is None where the types themselves do not fit.
    """

    def __init__(self, why: str, row: int | None = None, value: pa.Scalar | None = None) -> None:
        super().__init__(why)
        self.why, self.row, self.value = why, row, value


Leaf = Callable[[pa.Array, pa.DataType], pa.Array]
"""How values without children become another type; raises Misfit."""


def convert_leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Values without children as type `target`, where the types themselves say that all fit, or values of one kind that each do."""
    source = array.type
    if source == target:
        return array
    both_integers = pa.types.is_integer(source) and pa.types.is_integer(target)
    both_decimals = pa.types.is_decimal(source) and pa.types.is_decimal(target)
    reason = None if both_integers or both_decimals else why_not(source, target)
    if reason:
        raise Misfit(reason)
    return exact_cast(array, target)


def convert(array: pa.Array, target: pa.DataType, fields: Fields = AS_NAMED, leaf: Leaf = convert_leaf) -> pa.Array:
    """The same values as type `target`; raises Misfit at the first that it does not hold.

    Encodings are opened, units and widths changed, lists and maps rebuilt under the target's child names. Struct fields are
    found as `fields` says; those that the input lacks become null, or what `fields` fills in; those that the target lacks are
    left out.
    """
    array = opened(array)
    if not fields and array.type.equals(target, check_metadata=True) and not _is_strict(target):
        return array
    if pa.types.is_null(array.type) or pa.types.is_null(target):
        return _nulls(array, target)
    if pa.types.is_struct(array.type) and pa.types.is_struct(target):
        return _struct(array, target, fields, leaf)
    if is_any_list(array.type) and is_any_list(target):
        return _list(array, target, fields.below("element"), leaf)
    if pa.types.is_map(array.type) and pa.types.is_map(target):
        return _map(array, target, fields, leaf)
    return leaf(array, target)


def constant(value: Bound | None, type_: pa.DataType, rows: int) -> pa.Array:
    """An array of one value, or of nulls."""
    return pa.nulls(rows, type_) if value is None else pa.repeat(arrow_scalar(value, type_), rows)


def _is_strict(type_: pa.DataType) -> bool:
    """Whether a type says, at some depth, that a child is never null."""
    return any(not child.nullable or _is_strict(child.type) for child in children(type_))


def opened(array: pa.Array) -> pa.Array:
    """The values of an array that is encoded, or an extension of another, as they are."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            # Arrow takes nothing from views.
            array = _unviewed(array.dictionary).take(array.indices)
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _unviewed(array: pa.Array) -> pa.Array:
    wide = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(array.type)
    return array if wide is None else array.cast(wide)


def _nulls(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.null_count < len(array):
        raise Misfit(f"{array.type} is not the type null")
    return pa.nulls(len(array), target)


def exact_cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values cast to a type that Arrow casts them to; raises Misfit at the first that does not survive it."""
    found = _cast(array, target)
    if found is None:
        row = _first_failing(array, target)
        raise Misfit(f"{target} does not hold it exactly", row, array[row])
    return found


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """A checked cast; None where some value does not survive it."""
    try:
        found = pc.cast(array, target, safe=True)
        # Arrow wraps times of day without a word where their number grows.
        holds = not pa.types.is_time(target) or pc.cast(found, array.type, safe=True).equals(array)
    except pa.ArrowInvalid:
        return None
    return found if holds else None


def _first_failing(array: pa.Array, target: pa.DataType) -> int:
    """The first row that a checked cast refuses, in log2(n) casts."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        if _cast(array.slice(low, middle - low), target) is None:
            high = middle
        else:
            low = middle
    return low


def cast_leaves(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as type `target`, of whose leaves each is what Arrow's checked cast makes of it; raises Misfit.

    Lists, maps and structs are built anew. Arrow's own cast of them reads what is not there: to a fixed-size list it crashes on a list
    whose child has no buffers, as Spark sends it, and of a list view it makes a list that crashes whoever reads it (pyarrow 26.0).
    """
    array = opened(array)
    array = convert(array, _with_leaves(array.type, array.type))
    wide = _with_leaves(array.type, target)
    try:
        found = array if wide == array.type else array.cast(wide)
    except pa.ArrowInvalid as error:
        raise Misfit(str(error)) from error
    return convert(found, target)


def _with_leaves(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The source's lists (plain ones for all kinds), maps and structs, with the target's leaves as far as it has the same parts."""
    source = bare_type(source)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        wanted = {child.name: child.type for child in target}
        return pa.struct(
            [pa.field(child.name, _with_leaves(child.type, wanted.get(child.name, child.type))) for child in source]
        )
    if is_any_list(source) and is_any_list(target):
        kind = pa.large_list if pa.types.is_large_list(source) or pa.types.is_large_list_view(source) else pa.list_
        return kind(_with_leaves(source.value_type, target.value_type))
    if pa.types.is_map(source) and pa.types.is_map(target):
        return pa.map_(_with_leaves(source.key_type, target.key_type), _with_leaves(source.item_type, target.item_type))
    return source if source.num_fields else bare_type(target)


def null_mask(array: pa.Array) -> pa.Array | None:
    """Where an array is null; None where it is nowhere."""
    return array.is_null() if array.null_count else None


def _struct(array: pa.Array, target: pa.DataType, fields: Fields, leaf: Leaf) -> pa.Array:
    found = dict(zip((child.name for child in array.type), array.flatten(), strict=True))
    arrays = []
    for child in target:
        at = (child.name,)
        given = found.get(fields.names.get(at, child.name))
        try:
            if given is None:
                arrays.append(constant(fields.fills.get(at), child.type, len(array)))
            else:
                arrays.append(convert(given, child.type, fields.below(child.name), leaf))
        except Misfit as misfit:
            raise Misfit(f"in field {child.name!r}: {misfit.why}", misfit.row, misfit.value) from None
        if not child.nullable:
            _refuse_nulls(arrays[-1], array, f"field {child.name!r} may not be null")
            arrays[-1] = _filled(arrays[-1])
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=null_mask(array))


def _refuse_nulls(child: pa.Array, parent: pa.Array, why: str) -> None:
    if child.null_count:
        row = pc.index(pc.and_(child.is_null(), parent.is_valid()), True).as_py()
        if row >= 0:
            raise Misfit(why, row)


def _filled(child: pa.Array) -> pa.Array:
    """A never-null child with something in the slots below null parents, which Parquet's writer would take for nulls."""
    if not child.null_count:
        return child
    valid = child.is_valid().to_numpy(zero_copy_only=False)
    positions = np.where(valid, np.arange(len(child)), len(child))
    return pa.concat_arrays([child, _filler(child.type)]).take(pa.array(positions))


def _filler(type_: pa.DataType) -> pa.Array:
    """One value of a type that is not null, at no depth that may not be."""
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_filler(child.type) for child in type_], fields=list(type_))
    if pa.types.is_fixed_size_list(type_):
        return pa.FixedSizeListArray.from_arrays(pa.concat_arrays([_filler(type_.value_type)] * type_.list_size), type=type_)
    if is_any_list(type_) or pa.types.is_map(type_):
        return pa.array([[]], type_)
    return pa.Array.from_buffers(type_, 1, [None, *pa.nulls(1, type_).buffers()[1:]])


def _list(array: pa.Array, target: pa.DataType, fields: Fields, leaf: Leaf) -> pa.Array:
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = _items(array.flatten(), target.value_field, counts, "its values", partial(_convert_items, fields=fields, leaf=leaf))
    if pa.types.is_fixed_size_list(target):
        return _fixed_size(array, items, counts, target)
    kind, width = (pa.LargeListArray, pa.int64()) if pa.types.is_large_list(target) else (pa.ListArray, pa.int32())
    return kind.from_arrays(ends_of(counts).cast(width), items, type=target, mask=null_mask(array))


def ends_of(counts: npt.NDArray[np.int64]) -> pa.Array:
    """Where lists of so many values begin, and where the last one ends."""
    return pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int64())


def _items(
    items: pa.Array,
    field: pa.Field,
    counts: npt.NDArray[np.int64],
    where: str,
    convert_all: Callable[[pa.Array, pa.Field], pa.Array],
) -> pa.Array:
    """The values of all lists, converted; a Misfit's row is the list's."""
    try:
        return convert_all(items, field)
    except Misfit as misfit:
        row = misfit.row if misfit.row is None else int(np.searchsorted(np.cumsum(counts), misfit.row, side="right"))
        raise Misfit(f"in {where}: {misfit.why}", row, misfit.value) from None


def _convert_items(items: pa.Array, field: pa.Field, fields: Fields, leaf: Leaf) -> pa.Array:
    found = convert(items, field.type, fields, leaf)
    if not field.nullable and found.null_count:
        raise Misfit("they may not be null", pc.index(found.is_null(), True).as_py())
    return found


def _fixed_size(array: pa.Array, items: pa.Array, counts: npt.NDArray[np.int64], target: pa.DataType) -> pa.Array:
    size = target.list_size
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(valid & (counts != size))
    if wrong.size:
        raise Misfit(f"the list has {counts[wrong[0]]} values, not {size}", int(wrong[0]))
    if not valid.all():
        starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
        positions = (starts[:, None] + np.arange(size)).ravel()
        items = items.take(pa.array(positions, pa.int64(), mask=np.repeat(~valid, size)))
        items = items if target.value_field.nullable else _filled(items)
    return pa.FixedSizeListArray.from_arrays(items, type=target, mask=null_mask(array))


def map_entries(array: pa.MapArray) -> tuple[npt.NDArray[np.int64], pa.StructArray]:
    """How many entries each map has, and all of them, keys before values."""
    # Through no cast to a list of structs: that takes empty slots below null structs for nulls.
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    counts = np.where(valid, np.diff(offsets), 0)
    entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    if counts.sum() < len(entries):
        entries = entries.filter(pa.array(np.repeat(valid, np.diff(offsets))))
    return counts, entries


def _map(array: pa.Array, target: pa.DataType, fields: Fields, leaf: Leaf) -> pa.Array:
    counts, entries = map_entries(array)
    keys = _items(
        entries.field(0), target.key_field, counts, "its keys", partial(_convert_items, fields=fields.below("key"), leaf=leaf)
    )
    items = _items(
        entries.field(1),
        target.item_field,
        counts,
        "its values",
        partial(_convert_items, fields=fields.below("value"), leaf=leaf),
    )
    return pa.MapArray.from_arrays(ends_of(counts).cast(pa.int32()), keys, items, type=target, mask=null_mask(array))
