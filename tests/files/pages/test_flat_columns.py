"""What a column chunk is made of: places in a dictionary bit by bit, and the few values that rows have of many that there could be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.files.pages.chunk_values import DictionaryIndices, PlainByteArrays, PlainNumbers, texts_of, width_for
from gapless.files.pages.encodings import DICTIONARY, PLAIN
from gapless.files.pages.flat_column import FlatColumn, coded_column, flat_column, form_of


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def places_in(data: bytes, count: int) -> list[int]:
    """The places that a page says, by the book: runs of one place, and groups of eight, each of so many bits."""
    width, at, found = data[0], 1, []
    while at < len(data):
        header, at = varint(data, at)
        size = -(-width // 8)
        if header & 1:
            bits = int.from_bytes(data[at : at + (header >> 1) * width], "little")
            found += [bits >> (n * width) & (1 << width) - 1 for n in range(8 * (header >> 1))]
            at += (header >> 1) * width
        else:
            found += [int.from_bytes(data[at : at + size], "little")] * (header >> 1)
            at += size
    assert at == len(data)
    assert not any(found[count:])
    return found[:count]


runs = st.lists(
    st.tuples(st.integers(0, 2**16 - 1), st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 300])), min_size=1, max_size=30
)


@given(runs, st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 70))
def test_places_are_read_as_they_were(parts: list[tuple[int, int]], width: int, cut: int) -> None:
    kind = np.uint16 if width == 16 else np.uint8
    codes = np.concatenate([np.full(count, value % (1 << width), kind) for value, count in parts])
    body = bytes(DictionaryIndices(codes, width).body(cut, len(codes)))
    assert places_in(body, max(0, len(codes) - cut)) == codes[cut:].tolist()


def test_places_take_the_bits_they_need() -> None:
    assert [width_for(count) for count in (0, 1, 2, 3, 4, 5, 16, 17, 256, 257, 65_536)] == [1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16]
    stretch = DictionaryIndices(np.zeros(20_000, np.uint8), 8)
    assert len(stretch.body(0, 20_000)) == 5
    assert stretch.nbytes == 20_000


@given(
    st.lists(st.text(max_size=5), max_size=30),
    st.integers(0, 5),
    st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]),
    st.sampled_from([1, 5]),
)
def test_texts_come_after_their_lengths(texts: list[str], cut: int, kind: pa.DataType, times: int) -> None:
    """Few of them, and many."""
    told: list[Any] = [text.encode() if "binary" in str(kind) else text for text in texts * times]
    before: Any = b"before" if "binary" in str(kind) else "before"
    made = texts_of(pa.array([before, *told, before], kind).slice(1 + cut, max(0, len(told) - cut)))
    wanted = [text.encode() for text in (texts * times)[cut:]]
    for at, text in enumerate(wanted):
        assert bytes(made.body(at, at + 1)) == len(text).to_bytes(4, "little") + text
    assert bytes(made.body(0, len(wanted))) == b"".join(len(text).to_bytes(4, "little") + text for text in wanted)


def told(column: FlatColumn | None) -> Any:
    """A column's values by its dictionary, and its bounds."""
    assert column is not None
    assert isinstance(column.values, DictionaryIndices)
    assert column.dictionary is not None
    values, count = column.dictionary
    places = places_in(bytes(column.values.body(0, column.count)), column.count)
    assert sorted(set(places)) == list(range(count)), "each of its values occurs"
    if isinstance(values, PlainNumbers):
        return [values.values[place].item() for place in places], column.ends
    assert isinstance(values, PlainByteArrays)
    items = [bytes(values.body(place, place + 1))[4:] for place in range(count)]
    return [items[place] for place in places], column.ends


TEXTS = pa.array([f"v{n:05}" for n in range(70_000)])
FORM = form_of(pa.string())
assert FORM is not None


@pytest.mark.parametrize(
    ("places", "kind"),
    [
        ([0, 0, 1], np.uint8),
        ([7], np.uint8),
        ([3, 4, 5, 5], np.uint8),
        ([9, 2, 2, 200, 9], np.uint8),
        ([300, 301, 302], np.uint16),
        ([65_535, 0], np.uint16),
        ([69_999, 69_998, 3], np.int64),
    ],
)
def test_a_dictionary_has_the_values_that_rows_have(places: list[int], kind: type) -> None:
    assert FORM is not None
    values, ends = told(coded_column(TEXTS, np.array(places, kind), FORM))
    assert values == [f"v{place:05}".encode() for place in places]
    assert ends == (min(values), max(values))


def test_a_dictionary_of_too_many_or_too_long_values_is_left_to_arrow() -> None:
    assert FORM is not None
    assert coded_column(TEXTS, np.arange(70_000), FORM) is None
    assert coded_column(TEXTS, np.arange(70_000)[np.r_[:65_537]], FORM) is None
    assert coded_column(pa.array(["x" * 2_000_000]), np.zeros(3, np.uint8), FORM) is None
    assert flat_column(pa.chunked_array([TEXTS]), FORM, DICTIONARY) is None
    assert flat_column(pa.chunked_array([TEXTS]), FORM, PLAIN) is None


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64()])
def test_numbers_of_a_small_range_have_a_dictionary_of_the_range(kind: pa.DataType) -> None:
    form = form_of(kind)
    assert form is not None
    width = kind.bit_width
    lowest = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (width - 1))
    for low in (lowest, lowest + 2**width - 12):
        numbers = [low + n % 12 for n in (0, 11, 3, 3, 7)]
        column = flat_column(pa.chunked_array([pa.array(numbers, kind)]), form, DICTIONARY)
        assert column is not None
        assert column.dictionary is not None
        assert isinstance(column.values, DictionaryIndices)
        places = places_in(bytes(column.values.body(0, 5)), 5)
        assert places == [0, 11, 3, 3, 7]
        values = column.dictionary[0]
        assert isinstance(values, PlainNumbers)
        assert values.values.tolist() == list(range(low, low + 12))


def test_numbers_far_apart_have_a_dictionary_of_those_that_occur() -> None:
    form = form_of(pa.int64())
    assert form is not None
    numbers = [2**62, -(2**62), 5, 2**62]
    values, ends = told(flat_column(pa.chunked_array([pa.array(numbers)]), form, DICTIONARY))
    assert values == numbers
    assert ends == ((-(2**62)).to_bytes(8, "little", signed=True), (2**62).to_bytes(8, "little"))
