"""Maps of covered buckets: how they are built and what they refuse."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from pyroaring import BitMap64

from gapless.coverage.bitmap import CoverageMap, array_of, bias, stored_ids
from gapless.model.index import Identity


def test_stored_ids_keep_the_order() -> None:
    ids = np.array([-(2**63), -1, 0, 2**63 - 1])
    assert stored_ids(ids).tolist() == [0, 2**63 - 1, 2**63, 2**64 - 1]
    assert [int(i) + bias(signed=True) for i in ids] == stored_ids(ids).tolist()
    unsigned = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert stored_ids(unsigned).tolist() == [0, 2**64 - 1]


def test_rows_in_any_order_with_repeats() -> None:
    codes = np.array([1, 0, 1, 1, 0, 2, 1])
    ids = np.array([9, 5, 9, 8, 5, 1, 9], dtype=np.uint64)
    coverage = CoverageMap.from_runs([("b",), ("a",), ("b",), ("never",)], codes, ids)
    assert coverage.identities() == (("a",), ("b",))
    assert array_of(coverage[("a",)]).tolist() == [8, 9]
    assert array_of(coverage[("b",)]).tolist() == [1, 5]
    assert coverage.cardinality() == 4


def test_many_identities() -> None:
    count = 70_000  # more than 16-bit codes
    codes = np.arange(count)[::-1].copy()
    coverage = CoverageMap.from_runs([(i,) for i in range(count)], codes, codes.astype(np.uint64))
    assert coverage.identities() == tuple((i,) for i in range(count))
    assert all(bitmap.min() == i == bitmap.max() for (i,), bitmap in coverage.items())


@pytest.mark.parametrize(("codes", "ids"), [([0, -1], [1, 2]), ([0, 1], [1, 2]), ([0], [1, 2])])
def test_codes_that_name_no_identity_are_refused(codes: list[int], ids: list[int]) -> None:
    with pytest.raises(ValueError, match="codes"):
        CoverageMap.from_runs([("a",)], np.array(codes), np.array(ids, dtype=np.uint64))


def test_identities_that_cover_nothing_are_left_out() -> None:
    coverage = CoverageMap({("a",): BitMap64(), ("b",): BitMap64([1])})
    assert coverage.identities() == (("b",),)
    assert not CoverageMap.from_runs([], np.array([], dtype=np.int64), np.array([], dtype=np.uint64))
    assert coverage.difference(coverage) == CoverageMap()


def test_canonical_order_is_by_value_and_utf8_bytes() -> None:
    one = BitMap64([1])
    texts = ["b", "\ufffd", "a", "\U00010000", "", "B", "aa"]
    found = CoverageMap({(t,): one for t in texts}).identities()
    assert [t for (t,) in found] == sorted(texts, key=str.encode)
    numbers = CoverageMap({(n, date(2024, 1, d)): one for n in (5, -7, 300) for d in (9, 1)}).identities()
    assert [(n, d.day) for n, d in numbers if isinstance(d, date)] == [(-7, 1), (-7, 9), (5, 1), (5, 9), (300, 1), (300, 9)]


def test_identities_of_mixed_kinds_have_an_order_too() -> None:
    mixed: list[Identity] = [("a", 1), (date(2024, 1, 1), 1), (2, "b"), (2, 1), ("B", 1), (True, 1)]
    found = CoverageMap({identity: BitMap64([1]) for identity in mixed}).identities()
    assert found == (("B", 1), ("a", 1), (True, 1), (2, "b"), (2, 1), (date(2024, 1, 1), 1))


@pytest.mark.parametrize("low", [0, 1, 2**63, 2**64 - 12])
@pytest.mark.parametrize("far", [False, True])
def test_pairs_as_far_apart_as_can_be(low: int, far: bool) -> None:
    """64 bits have no room for a code beside ids that lie so far apart."""
    ids = [low + at for at in (3, 1, 2, 1, 11, 3)] + ([0, 2**64 - 1] if far else [])
    codes = [2, 0, 1, 0, 1, 2, 1, 0][: len(ids)]
    coverage = CoverageMap.from_runs([("a",), ("b",), ("c",)], np.array(codes), np.array(ids, dtype=np.uint64))
    model: dict[str, set[int]] = {}
    for code, at in zip(codes, ids, strict=True):
        model.setdefault("abc"[code], set()).add(at)
    assert {name: set(array_of(bitmap).tolist()) for (name,), bitmap in coverage.items()} == model


def test_a_map_is_a_value() -> None:
    coverage = CoverageMap({(): BitMap64([1, 2])})
    assert coverage == CoverageMap({(): BitMap64([2, 1])})
    assert coverage != {(): BitMap64([1, 2])}
    assert repr(coverage) == "CoverageMap(identities=1, buckets=2)"
    with pytest.raises(TypeError):
        hash(coverage)
