"""Deletion vectors as bytes and texts: PROTOCOL.md's own examples, files of Spark, and every damage a reader must see."""

from __future__ import annotations

import struct
import zlib
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import DeletionVector
from gapless.formats.delta.deletion_vector import (
    Positions,
    check_format,
    decode_bitmap,
    decode_entry,
    decode_z85,
    encode_bitmap,
    encode_file,
    encode_z85,
    inline_positions,
    inline_vector,
    vector_path,
)

UUID_TEXT = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"


def positions(*values: int) -> Positions:
    return np.array(values, dtype=np.int64)


def inline(text: str, size: int, cardinality: int) -> DeletionVector:
    return DeletionVector(storage="i", path_or_inline=text, size=size, cardinality=cardinality)


def test_the_protocols_inline_example() -> None:
    found = inline("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 44, 6)
    assert inline_positions(found).tolist() == [3, 4, 7, 11, 18, 29]
    assert inline_vector(positions(3, 4, 7, 11, 18, 29)) == found
    # As PROTOCOL.md prints it, it has another magic number than the one it asks for.
    with pytest.raises(CorruptTable, match="begins with 6439d3d0"):
        inline_positions(inline("wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6))


def test_the_protocols_path_example() -> None:
    told = DeletionVector(storage="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size=40, cardinality=6)
    assert vector_path(told) == f"ab/deletion_vector_{UUID_TEXT}.bin"
    assert encode_z85(UUID(UUID_TEXT).bytes) == "^-aqEH.-t@S}K{vb[*k^"
    absolute = DeletionVector(storage="p", path_or_inline="s3://t/deletion_vector_x.bin", offset=4, size=40, cardinality=6)
    assert vector_path(absolute) == "s3://t/deletion_vector_x.bin"


@given(st.lists(st.one_of(st.integers(0, 100), st.integers(0, 2**63 - 1), st.integers(2**32 - 3, 2**32 + 3))))
def test_any_positions_round_trip(values: list[int]) -> None:
    wanted = sorted(set(values))
    assert decode_bitmap(encode_bitmap(positions(*values)), "x").tolist() == wanted
    assert inline_positions(inline_vector(positions(*wanted))).tolist() == wanted


@given(st.binary(max_size=40))
def test_z85_round_trips_but_for_what_it_fills_up(data: bytes) -> None:
    assert decode_z85(encode_z85(data), "x") == data + bytes(-len(data) % 4)


def test_the_bitmap_is_the_standard_one_behind_a_magic_number() -> None:
    data = encode_bitmap(positions(1, 5_000_000_000))
    assert struct.unpack("<I", data[:4]) == (1681511377,)
    assert list(BitMap64.deserialize(data[4:])) == [1, 5_000_000_000]


def test_a_file_holds_several_each_with_its_checksum() -> None:
    bitmaps = [encode_bitmap(positions(1, 2)), encode_bitmap(positions(7))]
    data, told = encode_file(bitmaps, UUID_TEXT, [2, 1])
    check_format(data[:1], "x")
    assert [vector.offset for vector in told] == [1, 1 + 8 + len(bitmaps[0])]
    assert {vector_path(vector) for vector in told} == {f"deletion_vector_{UUID_TEXT}.bin"}
    for vector, bitmap, wanted in zip(told, bitmaps, ([1, 2], [7]), strict=True):
        assert vector.offset is not None
        entry = data[vector.offset : vector.offset + vector.size + 8]
        assert entry == struct.pack(">I", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        assert decode_entry(entry, vector, "x").tolist() == wanted


def entry_of(vector: DeletionVector, data: bytes, flipped: int) -> bytes:
    assert vector.offset is not None
    entry = bytearray(data[vector.offset : vector.offset + vector.size + 8])
    entry[flipped] ^= 1
    return bytes(entry)


@pytest.mark.parametrize("flipped", [3, 4, 10, -1])
def test_an_altered_entry_is_seen(flipped: int) -> None:
    data, (vector,) = encode_file([encode_bitmap(positions(1, 2))], UUID_TEXT, [2])
    with pytest.raises(CorruptTable, match="the vectors"):
        decode_entry(entry_of(vector, data, flipped), vector, "the vectors")


def test_what_is_no_vector_is_refused() -> None:
    good = encode_bitmap(positions(1, 2))
    with pytest.raises(CorruptTable, match="begins with"):
        decode_bitmap(b"\0\0\0\0" + good[4:], "x")
    for size in (4, 6, len(good) - 3):
        with pytest.raises(CorruptTable):
            decode_bitmap(good[:size], "x")
    with pytest.raises(CorruptTable, match="holds 2 rows and not 3"):
        inline_positions(inline(encode_z85(good), len(good), 3))
    with pytest.raises(CorruptTable, match="bytes and not 8"):
        inline_positions(inline(encode_z85(good), 8, 2))
    with pytest.raises(CorruptTable, match="no Z85"):
        decode_z85("abc", "x")
    with pytest.raises(CorruptTable, match="no Z85"):
        decode_z85("ab~de", "x")
    with pytest.raises(CorruptTable, match="32 bits"):
        decode_z85("#####", "x")
    with pytest.raises(CorruptTable, match="format"):
        check_format(b"\2", "x")
    with pytest.raises(CorruptTable, match="storage is 'q'"):
        vector_path(DeletionVector(storage="q", path_or_inline="", size=1, cardinality=1))


def test_a_position_beyond_any_file_is_refused() -> None:
    data = encode_bitmap(positions(1))[:4] + BitMap64([2**63]).serialize()
    with pytest.raises(CorruptTable, match="larger than any file"):
        decode_bitmap(data, "x")
