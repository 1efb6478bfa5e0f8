"""Sidecars: round trips, byte equality with an independent encoder, and damage."""

from __future__ import annotations

import random
import struct
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import decode, encode
from gapless.errors import CorruptTable
from gapless.model.index import ENTITY_TYPES, EntityType, Identity

VALUES: dict[EntityType, st.SearchStrategy[str | int | bool | date]] = {
    "utf8": st.text(st.characters(codec="utf-8"), max_size=5),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint8": st.integers(0, 2**8 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "date": st.dates(),
    "bool": st.booleans(),
}
near = st.integers(2**63 - 80_000, 2**63 + 80_000)
runs = st.tuples(near, st.integers(1, 5000), st.sampled_from([1, 1, 2, 7])).map(lambda r: range(r[0], r[0] + r[1] * r[2], r[2]))
scattered = st.sets(st.one_of(near, st.integers(0, 2**64 - 1)), max_size=20)


@st.composite
def bitmaps(draw: st.DrawFn) -> BitMap64:
    """Bitmaps with a history: their containers were not all built in one go."""
    bitmap = BitMap64(draw(scattered))
    for run in draw(st.lists(runs, max_size=3)):
        bitmap = bitmap | BitMap64(run) if draw(st.booleans()) else bitmap - BitMap64(run)
    if draw(st.booleans()):
        bitmap.run_optimize()
        bitmap -= BitMap64(draw(runs))
    bitmap.add(draw(near))
    return bitmap


@st.composite
def maps(draw: st.DrawFn) -> tuple[CoverageMap, list[EntityType]]:
    types = draw(st.lists(st.sampled_from(ENTITY_TYPES), max_size=3))
    identities: st.SearchStrategy[Identity] = st.tuples(*(VALUES[t] for t in types))
    found = draw(st.dictionaries(identities, bitmaps(), max_size=4))
    return CoverageMap(found), types


# An encoder that shares nothing with ours but the 32-bit Roaring form of its library.
def oracle_treemap(ids: BitMap64, *, optimized: bool = True) -> bytes:
    members = np.array(list(ids), dtype=np.uint64)
    highs = np.unique(members >> np.uint64(32))
    out = struct.pack("<Q", len(highs))
    for high in highs:
        lows = BitMap((members[members >> np.uint64(32) == high] & np.uint64(0xFFFFFFFF)).tolist())
        if optimized:
            lows.run_optimize()
        out += struct.pack("<I", int(high)) + lows.serialize()
    return out


def oracle_value(value: object, entity_type: EntityType) -> bytes:
    if isinstance(value, str):
        return b"\x01" + struct.pack(">Q", len(value.encode())) + value.encode()
    number = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
    if entity_type in {"int64", "uint32"}:
        return b"\x03" + struct.pack(">q", number)
    return b"\x04" + struct.pack(">Q", number) if entity_type == "uint64" else b"\x02" + struct.pack(">i", number)


def oracle(coverage: CoverageMap, types: list[EntityType]) -> bytes:
    if not types:
        return oracle_treemap(coverage.get((), BitMap64()))
    # Canonical order, said another way: strings by their bytes, numbers by value.
    ordered = sorted(coverage, key=lambda i: [v.encode() if isinstance(v, str) else v for v in i])
    out = b"TSTECOV2" + struct.pack(">I", len(ordered))
    for identity in ordered:
        nested = oracle_treemap(coverage[identity])
        out += struct.pack(">I", len(identity)) + b"".join(map(oracle_value, identity, types))
        out += struct.pack(">Q", len(nested)) + nested
    return out


@settings(max_examples=150)
@given(maps())
def test_round_trip_and_bytes_of_the_oracle(given_map: tuple[CoverageMap, list[EntityType]]) -> None:
    coverage, types = given_map
    data = encode(coverage, types)
    assert data == oracle(coverage, types)
    again = decode(data, types, path="x")
    assert again == coverage
    assert [[type(v) for v in i] for i in again] == [[type(v) for v in i] for i in coverage]
    assert encode(again, types) == data


@given(bitmaps())
def test_bitmaps_that_were_not_optimized_are_read(bitmap: BitMap64) -> None:
    # 0.9.0 does not run-optimize the form without entities.
    assert decode(oracle_treemap(bitmap, optimized=False), []) == CoverageMap({(): bitmap})


ties = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 65_000), st.integers(1, 4)), min_size=1, max_size=8)


@given(ties, st.booleans(), st.integers(0, 2**20))
def test_small_runs_leave_no_trace_of_their_history(pieces: list[tuple[int, int, int]], top: bool, low: int) -> None:
    # One run of three takes the same bytes as an array, and so do two of five.
    base = 2**64 - 4 * 65_536 if top else low * 65_536
    bitmap = BitMap64()
    for container, at, length in pieces:
        start = base + container * 65_536 + at
        run = BitMap64(range(start, start + length))
        run.run_optimize()
        bitmap = bitmap | run
    if top:
        bitmap = bitmap | BitMap64([2**64 - 3, 2**64 - 2, 2**64 - 1])
        bitmap.run_optimize()
    coverage = CoverageMap({(): bitmap})
    assert encode(coverage, []) == oracle_treemap(bitmap)
    assert decode(encode(coverage, []), []) == coverage


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, list[EntityType]]:
    coverage, types = draw(maps())
    data = bytearray(encode(coverage, types))
    dice = draw(st.randoms(use_true_random=False))
    for _ in range(draw(st.integers(1, 4))):
        _damage(data, dice)
    return bytes(data), types


def _damage(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data)) if data else 0
    match dice.randrange(5):
        case 0 if data:
            data[at] ^= 1 << dice.randrange(8)
        case 1:
            del data[at:]
        case 2:
            data += dice.randbytes(dice.randrange(1, 9))
        case 3:
            data[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", bytes(4), dice.randbytes(4)])
        case _:
            del data[at : at + dice.randrange(1, 9)]


@settings(max_examples=1000)
@given(damaged())
def test_damage_raises_one_error_or_decodes(case: tuple[bytes, list[EntityType]]) -> None:
    data, types = case
    try:
        found = decode(data, types, path="_coverage/segments/x.roar")
    except CorruptTable:
        return
    # What decodes is sound: it survives another trip.
    assert decode(encode(found, types), types) == found


@given(maps(), st.binary(min_size=1, max_size=20))
def test_trailing_bytes_and_every_truncation_raise(given_map: tuple[CoverageMap, list[EntityType]], tail: bytes) -> None:
    coverage, types = given_map
    data = encode(coverage, types)
    for bad in (data + tail, *(data[:cut] for cut in {0, 1, len(data) // 2, len(data) - 1})):
        with pytest.raises(CorruptTable):
            decode(bad, types)


@given(st.binary(max_size=80), st.lists(st.sampled_from(ENTITY_TYPES), max_size=2), st.booleans())
def test_noise_raises_one_error_or_decodes(noise: bytes, types: list[EntityType], magic: bool) -> None:
    try:
        decode(b"TSTECOV2" + noise if magic else noise, types)
    except CorruptTable:
        return
