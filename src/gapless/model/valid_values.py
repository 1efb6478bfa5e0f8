"""Values that an array's buffers hold and its own type forbids: Arrow checks them only where it is asked to.

Decimals of more digits than their precision, text that is not UTF-8, times of day past 24 hours, `date64` within a day, indices past
the end of a dictionary, offsets that go backwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.types import bare_type, children, is_any_list

_SHOWN_BYTES = 60
_BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
"""What lies in memory as text does, and is not bound to an encoding."""
_EXACT = Context(prec=200)
_TWO_WORDS = 20
"""Decimals of fewer digits fit into one word of 8 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbiddenValue:
    """The first value of an array that its type forbids."""

    row: int
    """Counted from 0 in the array; of a nested value, the row that holds it."""
    why: str
    value: object
    """A Decimal; the bytes of a text, at most 60; a count of a unit; None where there is no telling."""
    fix: str


@lru_cache(1024)
def may_be_forbidden(type_: pa.DataType) -> bool:
    """Whether the buffers of a type can hold what the type forbids, at any depth: integers and floats cannot, nor can timestamps."""
    if isinstance(type_, pa.BaseExtensionType):
        return may_be_forbidden(type_.storage_type)
    if pa.types.is_struct(type_) or pa.types.is_fixed_size_list(type_):
        return any(may_be_forbidden(child.type) for child in children(type_))
    t = pa.types
    return not (t.is_primitive(type_) or t.is_null(type_) or t.is_fixed_size_binary(type_)) or (
        t.is_decimal(type_) or t.is_date64(type_) or t.is_time(type_)
    )


def forbidden_values(rows: pa.RecordBatch | pa.Table) -> Iterator[tuple[str, ForbiddenValue]]:
    """Of each column that holds a value which its type forbids, its name and the first such value; rows count from 0 over all chunks."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if may_be_forbidden(field.type):
            found = _first_of_chunks(column) if isinstance(column, pa.ChunkedArray) else first_forbidden(column)
            if found is not None:
                yield field.name, found


def holds_digits(value: object, type_: pa.DataType) -> bool:
    """Whether a value is a Decimal for whose digits a decimal type has room.

    >>> holds_digits(Decimal("399.96"), pa.decimal128(4, 2)), holds_digits(Decimal("39.96"), pa.decimal128(4, 2))
    (False, True)
    """
    return isinstance(value, Decimal) and value.scaleb(type_.scale, _EXACT).copy_abs() < 10**type_.precision


def _first_of_chunks(column: pa.ChunkedArray) -> ForbiddenValue | None:
    row = 0
    for chunk in column.chunks:
        if (found := first_forbidden(chunk)) is not None:
            return ForbiddenValue(row=row + found.row, why=found.why, value=found.value, fix=found.fix)
        row += len(chunk)
    return None


def first_forbidden(array: pa.Array) -> ForbiddenValue | None:
    """The first value that the array's type forbids; None where there is none. What lies below nulls does not count."""
    type_ = array.type
    if not may_be_forbidden(type_):
        return None
    if pa.types.is_struct(type_):
        if all(first_forbidden(array.field(at)) is None for at in range(type_.num_fields)):
            return None
    elif _is_ascii(array) or _is_narrow(array) or _is_sound(array):
        return None
    return _located(array)


def _is_sound(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    # Arrow takes the smallest number of a width for its own negative, and so for one without digits.
    return not _holds_decimals(array.type) or (pa.types.is_decimal(array.type) and not _has_smallest(array))


@lru_cache(1024)
def _holds_decimals(type_: pa.DataType) -> bool:
    bare = bare_type(type_)
    return bool(pa.types.is_decimal(bare)) or any(_holds_decimals(child.type) for child in children(bare))


def _high_words(array: pa.Array) -> npt.NDArray[Any]:
    """The most significant 8 bytes (of decimal32: 4) of each decimal, those of nulls too; signed."""
    words = array.type.byte_width // 8 or 1
    kind = np.int32 if array.type.byte_width == 4 else np.int64
    flat = np.frombuffer(array.buffers()[1], kind, len(array) * words, array.offset * array.type.byte_width)
    return flat.reshape(-1, words)[:, -1]


def _has_smallest(array: pa.Array) -> bool:
    if not len(array) or array.null_count == len(array):
        return False
    high = _high_words(array)
    smallest = np.iinfo(high.dtype).min
    if high.min() > smallest:
        return False
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((high == smallest) & valid)
    width = array.type.byte_width
    raw, start = array.buffers()[1].to_pybytes(), array.offset * width
    wanted = (1 << (8 * width - 1)).to_bytes(width, "little")
    return any(raw[start + row * width : start + (row + 1) * width] == wanted for row in rows.tolist())


def _is_narrow(array: pa.Array) -> bool:
    """Whether words of 8 bytes show that all decimals have room, told faster than by a look at each; of short ones where none is negative."""
    if not pa.types.is_decimal128(array.type) or not len(array) or not _is_sound_outside(array):
        return False
    most = 10**array.type.precision - 1
    high = _high_words(array)
    if array.type.precision >= _TWO_WORDS:
        return bool(high.max() < most >> 64 and high.min() > -(most >> 64))
    words = np.frombuffer(array.buffers()[1], np.uint64, 2 * len(array), 16 * array.offset)
    return bool(words[1::2].max() == 0 and words[::2].max() <= most)


def _is_ascii(array: pa.Array) -> bool:
    """Whether it is text of nothing but ASCII, in sound buffers: told three times as fast as by a look at each text."""
    wide = pa.types.is_large_string(array.type)
    if not (wide or pa.types.is_string(array.type)):
        return False
    _, places, data = array.buffers()
    if places is None or data is None:
        return False
    width = 8 if wide else 4
    offsets: npt.NDArray[Any] = np.frombuffer(places, np.int64 if wide else np.int32, len(array) + 1, array.offset * width)
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= data.size or bool((offsets[1:] < offsets[:-1]).any()):
        return False
    return first == last or int(np.frombuffer(data, np.uint8, last - first, first).max()) < 128


def _located(array: pa.Array) -> ForbiddenValue | None:
    """The first value that the type forbids, looked for level by level; None where it lies in no row, as below a null."""
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return first_forbidden(array.storage)
    if pa.types.is_struct(type_):
        return _first_of_fields(array)
    if pa.types.is_dictionary(type_):
        return _of_dictionary(array)
    if pa.types.is_run_end_encoded(type_):
        return first_forbidden(pc.run_end_decode(array)) if _is_sound_outside(array) else _damaged(array)
    if is_any_list(type_) or pa.types.is_map(type_):
        return _of_lists(array)
    return _of_leaf(array)


def _first_of_fields(array: pa.Array) -> ForbiddenValue | None:
    found = [
        ForbiddenValue(row=one.row, why=f"in field {field.name!r}: {one.why}", value=one.value, fix=one.fix)
        for field, child in zip(array.type, array.flatten(), strict=True)
        if (one := first_forbidden(child)) is not None
    ]
    return min(found, key=lambda one: one.row, default=None)


def _is_sound_outside(array: pa.Array) -> bool:
    """Whether the ends and sizes of its buffers are."""
    try:
        array.validate()
    except pa.ArrowInvalid:
        return False
    return True


def _of_dictionary(array: pa.DictionaryArray) -> ForbiddenValue | None:
    count = len(array.dictionary)
    valid = array.indices.drop_null().to_numpy(zero_copy_only=False)
    beyond = (valid < 0) | (valid >= count)
    if beyond.any():
        place = int(np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))[beyond.argmax()])
        named = valid[beyond.argmax()]
        why = f"its dictionary has {count} entries, and it names entry {named} (from 0)"
        return ForbiddenValue(row=place, why=why, value=int(named), fix="Encode the column anew: dictionary_encode()")
    entry = _located(array.dictionary)
    if entry is None:
        return None
    wide = {pa.string_view(): pa.large_binary(), pa.binary_view(): pa.large_binary()}.get(array.type.value_type)
    if wide is not None or not _is_sound_outside(array.dictionary):
        used = pc.index(array.indices, entry.row).as_py()
        return None if used < 0 else ForbiddenValue(row=used, why=entry.why, value=entry.value, fix=entry.fix)
    return first_forbidden(array.dictionary.take(array.indices))


def _of_lists(array: pa.Array) -> ForbiddenValue | None:
    if not _has_sound_offsets(array):
        return _damaged(array)
    is_map = pa.types.is_map(array.type)
    counts = _counts(array)
    entries = _map_entries(array, counts) if is_map else array.flatten()
    parts = [("its keys", entries.field(0)), ("its values", entries.field(1))] if is_map else [("its values", entries)]
    found = [
        ForbiddenValue(row=_row_of(one.row, counts), why=f"in {where}: {one.why}", value=one.value, fix=one.fix)
        for where, items in parts
        if (one := first_forbidden(items)) is not None
    ]
    return min(found, key=lambda one: one.row, default=None)


def _counts(array: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_map(array.type):
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(array.offsets.to_numpy()), 0).astype(np.int64)
    counts: npt.NDArray[np.int64] = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64)


def _row_of(item: int, counts: npt.NDArray[np.int64]) -> int:
    return int(np.searchsorted(np.cumsum(counts), item, side="right"))


def _map_entries(array: pa.MapArray, counts: npt.NDArray[np.int64]) -> pa.StructArray:
    offsets = array.offsets.to_numpy()
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    entries = entries if len(entries) == offsets[-1] - offsets[0] else entries.slice(offsets[0], offsets[-1] - offsets[0])
    if counts.sum() == len(entries):
        return entries
    return entries.filter(pa.array(np.repeat(counts > 0, np.diff(offsets))))


def _has_sound_offsets(array: pa.Array) -> bool:
    """Whether its offsets and sizes can be followed, whatever its values are."""
    if pa.types.is_fixed_size_list(array.type):
        return _is_sound_outside(array)
    if not _is_sound_outside(array):
        return False
    if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        starts, sizes = array.offsets.to_numpy().astype(np.int64), array.sizes.to_numpy().astype(np.int64)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        fits = (starts >= 0) & (sizes >= 0) & (starts + sizes <= len(array.values))
        return bool((fits | ~valid).all())
    return bool((np.diff(array.offsets.to_numpy()) >= 0).all())


def _damaged(array: pa.Array) -> ForbiddenValue:
    try:
        array.validate(full=True)
        said = "they cannot be followed"
    except pa.ArrowInvalid as error:
        said = str(error)
    fix = "Make the array anew; whoever made it wrote its buffers wrongly"
    return ForbiddenValue(row=0, why=f"the buffers of its {array.type} are damaged: {said}", value=None, fix=fix)


def _of_leaf(array: pa.Array) -> ForbiddenValue | None:
    raw = _BYTES_OF.get(array.type)
    if not (_is_sound_outside(array) if raw is None else _is_sound(array.view(raw))):
        return _damaged(array)
    row = _first_unsound(array)
    type_, one = array.type, array.slice(row, 1)
    if pa.types.is_decimal(type_):
        return _of_decimal(one, row)
    if pa.types.is_time(type_):
        value = _counted(one)
        why = f"a time of day lies between 0 and 24 hours, and this is {value} {type_.unit}"
        return ForbiddenValue(row=row, why=why, value=f"{value} {type_.unit}", fix="Cast it to a duration, or mend the value")
    if pa.types.is_date64(type_):
        value = _counted(one)
        why = f"a date64 is a whole number of days in ms, and this is {value % 86_400_000:,} ms past one"
        return ForbiddenValue(row=row, why=why, value=f"{value} ms", fix='Cast it to pa.timestamp("ms"), or to a date')
    if raw is not None:
        return _of_text(array, row)
    return _damaged(array)


def _first_unsound(array: pa.Array) -> int:
    """The first row that Arrow's full check refuses, in log2(n) checks."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_sound(array.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _counted(one: pa.Array) -> int:
    wide = pa.int32() if one.type.bit_width == 32 else pa.int64()
    return int(one.view(wide)[0].as_py())


def _of_decimal(one: pa.Array, row: int) -> ForbiddenValue:
    type_, value = one.type, one[0].as_py()
    digits = len(value.as_tuple().digits)
    why = f"it has {digits} digits, and {type_} has room for {type_.precision}"
    fix = "Give the column a decimal with room for it; in DuckDB, cast HUGEINT and UHUGEINT to VARCHAR or to DECIMAL"
    return ForbiddenValue(row=row, why=why, value=value, fix=fix)


def _of_text(array: pa.Array, row: int) -> ForbiddenValue:
    value: Any = array.view(_BYTES_OF[array.type])[row].as_py()
    fix = "Decode its bytes by their real encoding (such as latin-1), or keep the column as binary: column.cast(pa.binary())"
    return ForbiddenValue(row=row, why="its bytes are not UTF-8", value=value[:_SHOWN_BYTES], fix=fix)
