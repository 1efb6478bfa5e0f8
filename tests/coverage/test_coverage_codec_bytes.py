"""Sidecars as 0.9.0 writes them, and what a damaged one is told."""

from __future__ import annotations

import struct
from datetime import date

import pytest
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import decode, encode
from gapless.errors import CorruptTable
from gapless.model.index import EntityType, Identity

SIGN = 2**63
ONE = CoverageMap({("A",): BitMap64([SIGN + 472_224, SIGN + 472_225])})
# Written by timeseries-table-format 0.9.0: entity "A", hours 472224 and 472225.
FROM_0_9_0 = bytes.fromhex(
    "54535445434f563200000001000000010100000000000000014100000000000000200100000000000000000000803a300000010000000700010010000000a034a134"
)


def test_a_sidecar_of_0_9_0() -> None:
    assert decode(FROM_0_9_0, ["utf8"]) == ONE
    assert encode(ONE, ["utf8"]) == FROM_0_9_0


def test_empty_coverage() -> None:
    assert encode(CoverageMap(), []) == bytes(8)
    assert decode(bytes(8), []) == CoverageMap()
    assert encode(CoverageMap(), ["utf8", "int8"]) == b"TSTECOV2" + bytes(4)
    assert decode(b"TSTECOV2" + bytes(4), ["utf8"]) == CoverageMap()


def test_two_million_seconds_are_small() -> None:
    assert len(encode(CoverageMap({(): BitMap64(range(SIGN, SIGN + 2_000_000))}), [])) < 500


@pytest.mark.parametrize(
    ("entity_type", "value", "packed"),
    [
        ("int8", -128, b"\x02" + struct.pack(">i", -128)),
        ("uint16", 65_535, b"\x02" + struct.pack(">i", 65_535)),
        ("date", date(1969, 12, 31), b"\x02" + struct.pack(">i", -1)),
        ("date", date.max, b"\x02" + struct.pack(">i", 2_932_896)),
        ("bool", True, b"\x02" + struct.pack(">i", 1)),
        ("int64", -(2**63), b"\x03" + struct.pack(">q", -(2**63))),
        ("uint32", 2**32 - 1, b"\x03" + struct.pack(">q", 2**32 - 1)),
        ("uint64", 2**64 - 1, b"\x04" + struct.pack(">Q", 2**64 - 1)),
        ("utf8", "é", b"\x01" + struct.pack(">Q", 2) + "é".encode()),
    ],
)
def test_one_value_of_each_tag(entity_type: EntityType, value: str | int | date, packed: bytes) -> None:
    identity: Identity = (value,)
    coverage = CoverageMap({identity: BitMap64([1])})
    data = encode(coverage, [entity_type])
    assert data[16 : 16 + len(packed)] == packed
    ((found,),) = decode(data, [entity_type]).identities()
    assert (found, type(found)) == (value, type(value))


def swap(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


INT = encode(CoverageMap({(5,): BitMap64([1])}), ["int32"])


@pytest.mark.parametrize(
    ("data", "types", "why"),
    [
        (swap(FROM_0_9_0, 0, b"X"), ["utf8"], "does not start"),
        (swap(FROM_0_9_0, 8, b"\xff\xff\xff\xff"), ["utf8"], "too early"),
        (FROM_0_9_0, ["utf8", "utf8"], "1 values for 2"),
        (FROM_0_9_0, ["int32"], "tag 1"),
        (swap(FROM_0_9_0, 17, b"\xff" * 8), ["utf8"], "too early"),
        (swap(FROM_0_9_0, 25, b"\xff"), ["utf8"], "utf-8"),
        (FROM_0_9_0[:11] + b"\2" + FROM_0_9_0[12:] + FROM_0_9_0[12:], ["utf8"], "occurs twice"),
        (FROM_0_9_0 + b"\0", ["utf8"], "1 bytes follow"),
        (swap(INT, 17, struct.pack(">i", 200)), ["int8"], "200 is no int8"),
        (swap(INT, 17, struct.pack(">i", 2)), ["bool"], "2 is no bool"),
        (swap(INT, 17, struct.pack(">i", 2**31 - 1)), ["date"], "no date"),
        (b"", [], "cut off"),
        (b"\xff" * 8, [], "deserialize"),
        (bytes(9), [], "mean nothing"),
        (FROM_0_9_0, [], "deserialize"),
    ],
)
def test_damage_says_where(data: bytes, types: list[EntityType], why: str) -> None:
    with pytest.raises(CorruptTable, match=why) as caught:
        decode(data, types, path="_coverage/x.roar")
    assert caught.value.path == "_coverage/x.roar"


def test_a_view_of_bytes_is_read() -> None:
    assert decode(memoryview(FROM_0_9_0), ["utf8"]) == ONE
