"""The index of a sidecar: whatever is read by parts is what all of it says, and no altered byte goes unseen."""

from __future__ import annotations

import struct

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.coverage import codec as sidecar_index
from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.codec import INDEXED_BYTES, decode_index, decode_read, encode, index_sidecar, plan_reads
from gapless.errors import CorruptTable
from gapless.model.index import EntityType, Identity

SIGN = 2**63
TYPES: tuple[EntityType, ...] = ("utf8", "int32")
IDENTITIES: st.SearchStrategy[Identity] = st.tuples(st.text(st.characters(codec="utf-8"), max_size=4), st.integers(-3, 3))
BITMAPS = st.sets(st.integers(SIGN - 70_000, SIGN + 200_000), min_size=1, max_size=30).map(BitMap64)
MAPS = st.dictionaries(IDENTITIES, BITMAPS, min_size=1, max_size=12).map(CoverageMap)


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecar_index, "INDEXED_BYTES", 0)
    monkeypatch.setattr(sidecar_index, "_INDEX_SHARE", 0)


def indexed(coverage: CoverageMap) -> tuple[bytes, bytes]:
    sidecar = encode(coverage, TYPES)
    index = index_sidecar(sidecar, TYPES)
    assert index is not None
    return sidecar, index


@given(MAPS, st.data(), st.sampled_from([0, 40, 1 << 16]), st.sampled_from([1, 100, 8 << 20]))
def test_parts_are_what_the_whole_says(coverage: CoverageMap, data: st.DataObject, bridged: int, limit: int) -> None:
    sidecar, index = indexed(coverage)
    parts = decode_index(index, TYPES)
    assert list(parts) == list(coverage)
    wanted = data.draw(st.sets(st.sampled_from(list(coverage))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecar_index, "_BRIDGED_BYTES", bridged)
        patch.setattr(sidecar_index, "_READ_BYTES", limit)
        reads = plan_reads(parts, wanted)
    found: dict[Identity, BitMap64] = {}
    for read in reads:
        assert read.end - read.start <= limit or len(read.parts) == 1
        found |= decode_read(sidecar[read.start : read.end], read)
    assert CoverageMap(found) == coverage.restrict(wanted)
    starts = [bound for read in reads for bound in (read.start, read.end)]
    assert starts == sorted(starts), "no byte is read twice"


@given(MAPS)
def test_it_is_the_sidecar_with_checksums_for_bitmaps(coverage: CoverageMap) -> None:
    """Written again from the specification alone."""
    sidecar, index = indexed(coverage)
    expected = b"GLCOVIX1" + struct.pack(">I", len(coverage))
    at = 12
    for text, number in coverage:
        assert isinstance(text, str)
        head = struct.pack(">IBQ", 2, 1, len(text.encode())) + text.encode() + struct.pack(">Bi", 2, number)
        assert sidecar[at : at + len(head)] == head
        (length,) = struct.unpack_from(">Q", sidecar, at + len(head))
        at += len(head) + 8 + length
        expected += head + struct.pack(">Q", length) + xxhash.xxh3_64_digest(sidecar[at - length : at])
    assert index == expected
    assert at == len(sidecar)


@given(MAPS, st.data())
def test_an_altered_part_is_found(coverage: CoverageMap, data: st.DataObject) -> None:
    sidecar, index = indexed(coverage)
    parts = decode_index(index, TYPES)
    (read,) = plan_reads(parts, [data.draw(st.sampled_from(list(coverage)))])
    piece = bytearray(sidecar[read.start : read.end])
    piece[data.draw(st.integers(0, len(piece) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptTable, match=r"place/a\.roar"):
        decode_read(bytes(piece), read, path="place/a.roar")


@given(MAPS, st.data())
def test_a_torn_index_is_found(coverage: CoverageMap, data: st.DataObject) -> None:
    _, index = indexed(coverage)
    for wrong in (index[: data.draw(st.integers(0, len(index) - 1))], index + b"\0", b"TSTECOV2" + index[8:]):
        with pytest.raises(CorruptTable, match="an index"):
            decode_index(wrong, TYPES, path="an index")


def test_small_ones_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    scattered = BitMap64(range(SIGN, SIGN + 60_000, 7))
    assert index_sidecar(encode(CoverageMap({(f"e{i}",): scattered for i in range(10)}), ["utf8"]), ["utf8"]) is None
    large = encode(CoverageMap({(f"e{i}",): scattered for i in range(40)}), ["utf8"])
    assert len(large) > INDEXED_BYTES
    index = index_sidecar(large, ["utf8"])
    assert index is not None
    assert len(index) < 2_000
    assert index_sidecar(encode(CoverageMap({(): BitMap64(range(SIGN, SIGN + 10**7, 7))}), []), []) is None
    many = encode(CoverageMap({(i,): BitMap64([SIGN]) for i in range(20_000)}), ["int64"])
    assert len(many) > INDEXED_BYTES
    assert index_sidecar(many, ["int64"]) is None, "its index would be as large as a third of it"


@given(MAPS, st.integers(1, 8))
def test_none_is_told_by_the_number_of_identities_only_where_there_is_none(coverage: CoverageMap, share: int) -> None:
    sidecar, index = indexed(coverage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sidecar_index, "_INDEX_SHARE", share)
        found = index_sidecar(sidecar, TYPES)
    assert found == (index if len(index) * share <= len(sidecar) else None)
