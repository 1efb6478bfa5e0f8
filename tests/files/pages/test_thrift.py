"""Footers come apart into plain values, and together again as they were."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.files.pages.thrift import Items, Struct, decode, encode, listed, signed, unsigned

numbers = st.integers(-(2**63), 2**63 - 1)


def item(kind: int, deeper: st.SearchStrategy[Struct]) -> st.SearchStrategy[object]:
    by_kind: dict[int, st.SearchStrategy[object]] = {
        3: st.integers(0, 255),
        4: st.integers(-(2**15), 2**15 - 1),
        5: st.integers(-(2**31), 2**31 - 1),
        6: numbers,
        7: st.binary(min_size=8, max_size=8),
        8: st.binary(max_size=300),
        12: deeper,
    }
    return by_kind[kind]


def fields(deeper: st.SearchStrategy[Struct]) -> st.SearchStrategy[Struct]:
    kinds = st.sampled_from([3, 4, 5, 6, 7, 8, 12])
    lists = kinds.flatmap(lambda kind: st.builds(Items, st.just(kind), st.lists(item(kind, deeper), max_size=20)))
    value = st.one_of(
        st.sampled_from([(1, True), (2, False)]),
        kinds.flatmap(lambda kind: st.tuples(st.just(kind), item(kind, deeper))),
        st.tuples(st.just(9), lists),
    )
    # Field numbers in any order and far apart take the long form of a header.
    return st.dictionaries(st.integers(-(2**15), 2**15 - 1), value, max_size=8)


structs = st.recursive(st.just(Struct()), fields, max_leaves=12)


@given(structs)
def test_what_is_encoded_is_decoded(struct: Struct) -> None:
    assert decode(encode(struct)) == struct


def test_a_footer_of_pyarrow_is_encoded_as_it_was() -> None:
    table = pa.table({"a": range(100), "b": [str(n) for n in range(100)], "c": [[n, None] for n in range(100)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=3, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    struct = decode(footer)
    assert (struct[3], len(struct[4][1].values)) == ((6, 100), 34)
    assert encode(struct) == footer


def test_a_type_that_footers_do_not_use_is_refused() -> None:
    with pytest.raises(ValueError, match="compact type 11"):
        decode(b"\x1b\x00\x00")


def test_a_number_of_more_bytes_than_any_has_is_refused() -> None:
    assert decode(b"\x16" + b"\x80" * 9 + b"\1\0")[1][1] == 2**62
    with pytest.raises(ValueError, match="more than ten bytes"):
        decode(b"\x16" + b"\x80" * 1_000_000)


@pytest.mark.parametrize("bits", range(65))
def test_numbers_have_seven_bits_a_byte(bits: int) -> None:
    for value in {max(1, (1 << bits) - 1), 1 << bits, (1 << bits) + 1}:
        data = unsigned(value)
        assert sum((byte & 127) << 7 * at for at, byte in enumerate(data)) == value
        assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]
        assert data[-1], "none too many"
    for value in {min((1 << bits) - 1, 2**63 - 1), max(-(1 << bits), -(2**63))}:
        assert decode(b"\x16" + signed(value) + b"\0") == {1: (6, value)}


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 127, 128, 300])
def test_a_list_of_encoded_structs_is_what_one_of_structs_is(count: int) -> None:
    structs: list[Struct] = [{1: (6, number)} for number in range(count)]
    assert b"\x19" + listed(list(map(encode, structs))) + b"\0" == encode({1: (9, Items(12, list(structs)))})
