"""What an array's buffers hold and its type forbids: found by row at every depth, and nothing else is."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from gapless.model.valid_values import first_forbidden, forbidden_values, holds_digits, may_be_forbidden
from support.forbidden import LATIN, decimals, texts

TEXTS = [b"ok", None, "héé".encode(), LATIN, b"\xff"]
"""The first that is no UTF-8 is in row 3."""
KINDS = [pa.string(), pa.large_string(), pa.string_view()]


def row_of(array: pa.Array) -> int | None:
    found = first_forbidden(array)
    return None if found is None else found.row


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_text_that_is_not_utf8_is_found_by_row_and_bytes(kind: pa.DataType) -> None:
    array = texts(TEXTS, kind)
    found = first_forbidden(array)
    assert found is not None
    assert (found.row, found.value) == (3, LATIN)
    assert "UTF-8" in found.why
    assert [row_of(array.slice(start, length)) for start, length in ((0, 3), (1, 3), (4, 1))] == [None, 2, 0]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_text_is_found_in_every_nested_type(kind: pa.DataType) -> None:
    array = texts(TEXTS, kind)
    keys = pa.array(["a"] * 5)
    offsets = pa.array([0, 1, 3, 5], pa.int32())
    nested = {
        "list": (pa.ListArray.from_arrays(pa.array([0, 2, None, 5]), array), 1),
        "large": (pa.LargeListArray.from_arrays(pa.array([0, 2, 5]), array), 1),
        "fixed": (pa.FixedSizeListArray.from_arrays(array.slice(1), 2), 1),
        "view": (pa.ListViewArray.from_arrays(pa.array([0, 3], pa.int32()), pa.array([2, 1], pa.int32()), array), 1),
        "struct": (pa.StructArray.from_arrays([array], ["s"]), 3),
        "values of a map": (pa.MapArray.from_arrays(offsets, keys, array), 2),
        "keys of a map": (
            pa.MapArray.from_arrays(offsets, array.fill_null("") if kind != pa.string_view() else keys, array),
            2,
        ),
        "map, sliced": (pa.MapArray.from_arrays(offsets, keys, array).slice(1), 1),
        "dictionary": (pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 3, None]), array), 3),
        "list of structs": (pa.ListArray.from_arrays(pa.array([0, 2, 5]), pa.StructArray.from_arrays([array], ["s"])), 1),
    }
    assert {name: row_of(one) for name, (one, _) in nested.items()} == {name: row for name, (_, row) in nested.items()}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_no_row_has_is_not_found(kind: pa.DataType) -> None:
    array = texts(TEXTS, kind)
    hidden = [
        pa.StructArray.from_arrays([array], ["s"], mask=pa.array([False, False, False, True, True])),
        pa.ListArray.from_arrays(pa.array([0, 2, 5]), array).slice(0, 1),
        pa.ListArray.from_arrays(pa.array([0, 3, 5]), array, mask=pa.array([False, True])),
        pa.FixedSizeListArray.from_arrays(array.slice(1), 2).slice(0, 1),
        pa.MapArray.from_arrays(pa.array([0, 1, 3, 5], pa.int32()), pa.array(["a"] * 5), array).slice(0, 1),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), array),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 3]), array).slice(0, 2),
    ]
    assert [row_of(one) for one in hidden] == [None] * len(hidden)


@pytest.mark.parametrize("name", ["decimal32", "decimal64", "decimal128", "decimal256"])
def test_a_decimal_has_no_more_digits_than_its_type(name: str) -> None:
    kind = getattr(pa, name)
    for precision in (1, 4, kind(1).byte_width * 2):
        type_ = kind(precision, 0)
        most = 10**precision - 1
        assert row_of(decimals([0, most, -most, None], type_)) is None
        assert [row_of(decimals([0, most, wrong], type_)) for wrong in (most + 1, -most - 1)] == [2, 2]
    found = first_forbidden(decimals([39996], kind(4, 2)))
    assert found is not None
    assert found.value == Decimal("399.96")
    smallest = -(2 ** (8 * kind(4).byte_width - 1))
    rows = decimals([1, None, smallest], kind(4, 2))
    assert (row_of(rows), row_of(rows.slice(0, 2)), row_of(rows.slice(2))) == (2, None, 0)
    assert row_of(pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), rows)) == 1


@pytest.mark.parametrize(("precision", "value"), [(38, 2**127 - 1), (38, -(2**127)), (30, 10**30), (20, 10**20), (19, 10**19)])
def test_wide_decimals_are_looked_at_whole(precision: int, value: int) -> None:
    type_ = pa.decimal128(precision, 0)
    fine = [10**precision - 1, 1 - 10**precision, 0, None]
    assert row_of(decimals(fine, type_)) is None
    assert row_of(decimals([*fine, value], type_)) == 4


def test_below_a_null_nothing_counts() -> None:
    raw = decimals([39996, 1], pa.decimal128(4, 2))
    masked = pa.Array.from_buffers(raw.type, 2, [pa.py_buffer(b"\2"), raw.buffers()[1]])
    assert row_of(masked) is None


def test_times_of_day_and_days() -> None:
    assert row_of(pa.array([0, 86_399, 86_400], pa.int32()).view(pa.time32("s"))) == 2
    assert row_of(pa.array([0, -1], pa.int64()).view(pa.time64("ns"))) == 1
    found = first_forbidden(pa.array([86_400_000, 86_400_005], pa.int64()).view(pa.date64()))
    assert found is not None
    assert (found.row, found.value) == (1, "86400005 ms")


def test_an_index_past_the_end_of_its_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([None, 0, 3]), pa.array(["a"]), safe=False)
    found = first_forbidden(array)
    assert found is not None
    assert (found.row, found.value) == (2, 3)
    assert "1 entries" in found.why


def test_offsets_that_go_backwards() -> None:
    offsets = pa.py_buffer(np.array([0, 3, 1], np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.string()), 2, [None, offsets], children=[pa.array(["a", "b", "c"])])
    plain = [pa.Array.from_buffers(kind, 2, [None, offsets, pa.py_buffer(b"abc")]) for kind in (pa.string(), pa.binary())]
    for array in (lists, *plain):
        found = first_forbidden(array)
        assert found is not None
        assert "damaged" in found.why


def test_types_whose_every_pattern_is_a_value_are_not_looked_at() -> None:
    free = [
        pa.int64(),
        pa.float16(),
        pa.bool_(),
        pa.timestamp("ns", "UTC"),
        pa.date32(),
        pa.duration("s"),
        pa.binary(3),
        pa.null(),
    ]
    assert [type_ for type_ in free if may_be_forbidden(type_)] == []
    assert not may_be_forbidden(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float64(), 3))]))
    assert may_be_forbidden(pa.struct([("a", pa.list_(pa.int8()))]))


def test_rows_count_over_the_chunks_of_a_table() -> None:
    column = pa.chunked_array([texts(TEXTS[:3]), texts([]), texts(TEXTS)])
    table = pa.table({"n": pa.chunked_array([range(8)]), "s": column})
    assert [(name, found.row) for name, found in forbidden_values(table)] == [("s", 6)]


def test_against_arrows_own_check() -> None:
    """Of flat arrays without slots below nulls, what Arrow's full check takes is taken, and what it refuses has a row."""
    rng = random.Random(17)
    for _ in range(300):
        if rng.random() < 0.5:
            kind = pa.decimal128(rng.randint(1, 38), 0)
            spread = 10 ** (kind.precision + rng.choice([-1, 0, 0, 1]))
            values = [max(-(2**127) + 1, min(2**127 - 1, rng.randint(-spread, spread))) for _ in range(rng.randint(1, 6))]
            array = decimals(values, kind)
            expected = next((row for row, value in enumerate(values) if abs(value) >= 10**kind.precision), None)
        else:
            raw = [
                bytes(rng.choices(b"ab\xc3\xa9\xff", weights=[9, 9, 3, 3, 1], k=rng.randint(0, 4)))
                for _ in range(rng.randint(1, 6))
            ]
            array = texts(raw, rng.choice(KINDS))
            expected = next((row for row, one in enumerate(raw) if not _is_utf8(one)), None)
        assert row_of(array) == expected
        start = rng.randint(0, len(array))
        late = row_of(array.slice(start))
        assert late is None or first_forbidden(array.slice(start + late, 1)) is not None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "type_", [pa.decimal128(28, 3), pa.decimal128(29, 0), pa.decimal128(38, 5), pa.decimal256(76, 40)], ids=str
)
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_longest_number_of_a_type_has_room_in_it_and_one_more_has_not(type_: pa.DataType, sign: str) -> None:
    longest = Decimal(f"{sign}{'9' * type_.precision}E-{type_.scale}")
    assert holds_digits(longest, type_)
    assert not holds_digits(Decimal(f"{sign}1E{type_.precision - type_.scale}"), type_)
    assert first_forbidden(pa.array([longest], type_)) is None
