"""Texts of `char(n)` and `varchar(n)` columns on their way into a table: one that is too long is refused, a `char` is padded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.schema.char_varchar import NO_LENGTHS, TextLength, TextLengths
from gapless.model.convert import Misfit


def sized(array: pa.Array, lengths: TextLengths) -> pa.Array:
    """Values of a column, in its type, as its declared lengths have them: a `char` that is shorter gets spaces at its end.

    Lengths count Unicode code points, as Spark's do. Raises Misfit at the first text that is longer, spaces at its end counted too: so does
    delta-spark (`CharVarcharConstraint`), and no character goes without a word.
    """
    if not lengths:
        return array
    if lengths.own is not None:
        return _sized_texts(array, lengths.own)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(array.type):
        parts = [
            _within(part, lengths.below.get(child.name, NO_LENGTHS), f"field {child.name!r}")
            for child, part in zip(array.type, array.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=mask)
    counts = _counts(array)
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    if pa.types.is_map(array.type):
        entries = _entries(array, counts)
        keys = _of_rows(entries.field(0), lengths.below.get("key", NO_LENGTHS), "its keys", counts)
        values = _of_rows(entries.field(1), lengths.below.get("value", NO_LENGTHS), "its values", counts)
        return pa.MapArray.from_arrays(ends, keys, values, type=array.type, mask=mask)
    items = _of_rows(array.flatten(), lengths.below.get("element", NO_LENGTHS), "its values", counts)
    return pa.ListArray.from_arrays(ends, items, type=array.type, mask=mask)


def _sized_texts(texts: pa.Array, size: TextLength) -> pa.Array:
    counts = pc.utf8_length(texts)
    if (pc.max(counts).as_py() or 0) > size.length:
        row = pc.index(pc.fill_null(pc.greater(counts, size.length), False), True).as_py()
        raise Misfit(f"{size} holds {size.length} characters, and it has {counts[row].as_py()}", row, texts[row])
    return pc.utf8_rpad(texts, size.length, " ") if size.kind == "char" else texts


def _within(array: pa.Array, lengths: TextLengths, where: str) -> pa.Array:
    try:
        return sized(array, lengths)
    except Misfit as misfit:
        raise Misfit(f"in {where}: {misfit.why}", misfit.row, misfit.value) from None


def _of_rows(items: pa.Array, lengths: TextLengths, where: str, counts: npt.NDArray[np.int64]) -> pa.Array:
    """What lies in lists or maps of so many items each; the row of a Misfit is the list's."""
    try:
        return _within(items, lengths, where)
    except Misfit as misfit:
        # One of a text always has its row.
        row = int(np.searchsorted(np.cumsum(counts), misfit.row or 0, side="right"))
        raise Misfit(misfit.why, row, misfit.value) from None


def _counts(array: pa.Array) -> npt.NDArray[np.int64]:
    """How many items each list or map has; null ones have none."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)


def _entries(array: pa.Array, counts: npt.NDArray[np.int64]) -> pa.Array:
    """The entries of all maps, as structs, without what lies behind null ones."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    if counts.sum() == len(entries):
        return entries
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return entries.filter(pa.array(np.repeat(valid, np.diff(offsets))))
