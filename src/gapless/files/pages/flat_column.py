"""Arrow columns without nesting as the values, null counts and bounds of a Parquet column chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.pages.chunk_values import (
    Array,
    DeltaBinaryPacked,
    DictionaryIndices,
    PlainBooleans,
    PlainByteArrays,
    PlainNumbers,
    Valid,
    Values,
    rises_evenly,
    texts_of,
    width_for,
)
from gapless.files.pages.encodings import DELTA, DICTIONARY, MOST_PLACES, PLAIN
from gapless.model.stats import arrow_of, distinct, numbers_of

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY = 0, 1, 2, 4, 5, 6
"""Physical types, as parquet.thrift numbers them."""

OURS = frozenset({PLAIN, DICTIONARY, DELTA})
"""Encodings that columns may have which are made here."""

Ends = tuple[bytes, bytes]
"""The smallest and the largest value, as statistics have them."""

_DICTIONARY_BYTES = 1 << 20
"""Bytes of a dictionary, about: what Arrow's writer makes at most."""
_ALWAYS_COUNTED = 16
"""A range of whole numbers that is worth a dictionary of all, whether they occur or not,"""
_COUNTED_ROWS = 4
"""or where there are so many rows for each: then it takes no more bytes than the places."""
_FEW = 8_192
"""Texts of which no more are written plain; Arrow's own writer is faster for others."""
_LONGEST_END = 4_096
"""Bytes of a text up to which it is a bound."""


@dataclass(frozen=True, slots=True)
class Form:
    """How values of a type lie in memory and in files."""

    kind: int
    """The physical type."""
    signed: bool = True
    """Whether values are ordered as signed numbers: Parquet's first statistics knew no other order."""
    here: np.dtype[Any] | None = None
    """Numbers as Arrow holds them; None for texts and truth values."""
    there: np.dtype[Any] | None = None
    """Numbers as files hold them."""


def _whole(short: str) -> Form:
    here = np.dtype(f"<{short}")
    kind = INT64 if here.itemsize == 8 else INT32
    return Form(kind, here.kind == "i", here, here if here.itemsize >= 4 else np.dtype("<i4"))


_FORMS: Mapping[pa.DataType, Form] = {
    **{
        pa.type_for_alias(f"{long}int{bits}"): _whole(f"{long or 'i'}{bits // 8}")
        for long in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **dict.fromkeys((pa.date32(), pa.time32("ms")), _whole("i4")),
    # Files have no seconds: times in these are multiplied.
    **dict.fromkeys((pa.time64("us"), pa.time64("ns")), _whole("i8")),
    pa.float32(): Form(FLOAT, True, np.dtype("<f4"), np.dtype("<f4")),
    pa.float64(): Form(DOUBLE, True, np.dtype("<f8"), np.dtype("<f8")),
    pa.bool_(): Form(BOOLEAN),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.binary(), pa.large_binary()), Form(BYTE_ARRAY, signed=False)),
}


def form_of(kind: pa.DataType) -> Form | None:
    """How files of ours hold a type; None where Arrow's writer must make them."""
    # Their zones and units are many.
    if pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.unit != "s"):
        kind = pa.int64()
    return _FORMS.get(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatColumn:
    """The rows of one column chunk."""

    count: int
    """Rows, nulls among them."""
    valid: Valid | None
    """Which rows have a value; None where all do."""
    values: Values
    """Those that are not null."""
    ends: Ends | None
    """None where no value has an order."""
    nans: int = 0
    """Values that are no numbers."""
    dictionary: tuple[Values, int] | None = None
    """What `values` are places in: plain values, and how many."""

    @property
    def nulls(self) -> int:
        """Rows without a value."""
        return 0 if self.valid is None else self.count - int(np.count_nonzero(self.valid))


def flat_column(column: pa.ChunkedArray, form: Form, encoding: str) -> FlatColumn | None:
    """A column of a type of this form in an encoding of `OURS`; None where Arrow's writer makes it better."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return None  # more texts than one array holds
    valid = _valid(array) if array.null_count else None
    if form.kind == BYTE_ARRAY:
        return _text_column(array, valid, encoding)
    if form.kind == BOOLEAN:
        truths = _bits(array.buffers()[1], array.offset, len(array))
        truths = truths if valid is None else truths[valid]
        return FlatColumn(count=len(array), valid=valid, values=PlainBooleans(truths), ends=_number_ends(truths)[0])
    numbers = _numbers(array, form)
    numbers = numbers if valid is None else numbers[valid]
    return _number_column(len(array), valid, numbers, encoding)


def coded_column(values: pa.Array, places: Array, form: Form) -> FlatColumn | None:
    """A column without nulls of a type of this form that holds for each row the value at its place in `values`, which are texts or numbers,
    distinct and ascending.
    """
    edges = (places[1:] != places[:-1]).nonzero()[0]
    used = distinct(np.concatenate((places[edges], places[-1:])))
    first, last = int(used[0]), int(used[-1])
    if len(used) == last - first + 1:
        places, values = places - used[0] if first else places, values.slice(first, len(used))
    elif len(used) <= MOST_PLACES:
        fresh = np.zeros(last + 1, dtype=np.uint16)
        fresh[used] = np.arange(len(used), dtype=np.uint16)
        places, values = fresh[places], values.take(arrow_of(used))
    else:
        return None
    return _with_dictionary(len(places), None, places, values, form, ascending=True)


def _text_column(array: pa.Array, valid: Valid | None, encoding: str) -> FlatColumn | None:
    texts = array if valid is None else array.drop_null()
    if encoding == DICTIONARY:
        coded = texts.dictionary_encode()
        return _with_dictionary(len(array), valid, numbers_of(coded.indices), coded.dictionary, _FORMS[array.type])
    if encoding != PLAIN or len(array) > _FEW:
        return None
    return FlatColumn(count=len(array), valid=valid, values=texts_of(texts), ends=_text_ends(texts))


def _number_column(count: int, valid: Valid | None, numbers: Array, encoding: str) -> FlatColumn | None:
    if encoding == DELTA and (numbers.itemsize != 8 or not rises_evenly(numbers)):
        return None
    ends, nans = _number_ends(numbers)
    if encoding == DICTIONARY:
        codes, values = _counted(numbers, ends) or _distinct(numbers)
        if (found := _coded(count, valid, codes, PlainNumbers(values), ends)) is not None:
            return replace(found, nans=nans)
    plain = DeltaBinaryPacked(numbers) if encoding == DELTA else PlainNumbers(numbers)
    return FlatColumn(count=count, valid=valid, values=plain, ends=ends, nans=nans)


def _counted(numbers: Array, ends: Ends | None) -> tuple[Array, Array] | None:
    """Places in a dictionary of all whole numbers from the smallest to the largest, where those are few: they need not be looked for."""
    if ends is None or numbers.dtype.kind == "f":
        return None
    low, high = (int(np.frombuffer(end, numbers.dtype)[0]) for end in ends)
    if high - low >= max(_ALWAYS_COUNTED, min(MOST_PLACES, len(numbers) // _COUNTED_ROWS)):
        return None
    kind = np.uint8 if high - low < 1 << 8 else np.uint16
    places = np.subtract(numbers, low, dtype=numbers.dtype).astype(kind)
    return places, np.arange(high - low + 1, dtype=numbers.dtype) + numbers.dtype.type(low)


def _distinct(numbers: Array) -> tuple[Array, Array]:
    """Places in a dictionary of all different numbers."""
    # By their bits: zeros and NaN have several.
    coded = arrow_of(numbers.view(f"<i{numbers.itemsize}")).dictionary_encode()
    return numbers_of(coded.indices), numbers_of(coded.dictionary).view(numbers.dtype)


def _with_dictionary(
    count: int, valid: Valid | None, codes: Array, values: pa.Array, form: Form, *, ascending: bool = False
) -> FlatColumn | None:
    if values.nbytes > _DICTIONARY_BYTES or len(values) > MOST_PLACES or form.kind == BOOLEAN:
        return None
    if form.kind == BYTE_ARRAY:
        texts = texts_of(values)
        return _coded(count, valid, codes, texts, _outermost(texts) if ascending else _text_ends(values))
    numbers = _numbers(values, form)
    return _coded(count, valid, codes, PlainNumbers(numbers), _number_ends(numbers)[0])


def _coded(
    count: int, valid: Valid | None, codes: Array, values: PlainNumbers | PlainByteArrays, ends: Ends | None
) -> FlatColumn | None:
    entries = len(values.values) if isinstance(values, PlainNumbers) else len(values.starts) - 1
    if entries > MOST_PLACES:
        return None
    width = width_for(entries)
    places = DictionaryIndices(codes.astype(np.uint16 if width == 16 else np.uint8, copy=False), width)
    return FlatColumn(count=count, valid=valid, values=places, ends=ends, dictionary=(values, entries))


def _numbers(array: pa.Array, form: Form) -> Array:
    assert form.here is not None
    assert form.there is not None
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.zeros(len(array), dtype=form.there)
    values = np.frombuffer(data, form.here, len(array), array.offset * form.here.itemsize)
    return values.astype(form.there, copy=False)


def _valid(array: pa.Array) -> Valid:
    bits = array.buffers()[0]
    return np.zeros(len(array), dtype=np.bool_) if bits is None else _bits(bits, array.offset, len(array))


def _bits(data: pa.Buffer | None, offset: int, count: int) -> Valid:
    """Bits of a bitmap as truth values."""
    if data is None or not count:
        return np.zeros(count, dtype=np.bool_)
    first = offset // 8
    some = np.frombuffer(data, np.uint8, (offset + count + 7) // 8 - first, first)
    return np.unpackbits(some, count=offset % 8 + count, bitorder="little")[offset % 8 :].view(np.bool_)


def _number_ends(values: Array) -> tuple[Ends | None, int]:
    """Of all but NaN, with zeros of the sign that makes them outermost; and how many NaN there are."""
    if not len(values):
        return None, 0
    low = values.min()
    if values.dtype.kind != "f":
        return (low.tobytes(), values.max().tobytes()), 0
    if np.isnan(low):
        numbers = values[~np.isnan(values)]
        return _number_ends(numbers)[0], len(values) - len(numbers)
    zero = low.dtype.type(0)
    return ((low or -zero).tobytes(), (values.max() or zero).tobytes()), 0


def _text_ends(values: pa.Array) -> Ends | None:
    if not len(values):
        return None
    found = pc.min_max(values)
    low, high = (found[end].as_buffer().to_pybytes() for end in ("min", "max"))
    return (low, high) if max(len(low), len(high)) <= _LONGEST_END else None


def _outermost(texts: PlainByteArrays) -> Ends | None:
    """The same of texts that ascend, of which there is one at least."""
    low, high = (bytes(texts.body(at, at + 1))[4:] for at in (0, len(texts.starts) - 2))
    return (low, high) if max(len(low), len(high)) <= _LONGEST_END else None
