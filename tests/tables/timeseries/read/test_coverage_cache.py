"""What the cache answers about some identities, however the coverage is stored and whatever it knows already: what all of it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from gapless.coverage import codec as sidecar_index
from gapless.coverage.bitmap import SIGN, CoverageMap, canonical_key
from gapless.coverage.bucket import grid_of
from gapless.coverage.codec import encode, index_sidecar
from gapless.model.index import EntityType, Identity, IntWidth
from gapless.model.segment import Bounds, CoverageRef, InlineCoverage, Segment, SidecarCoverage, checksum
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.testing.store.stores import DictStore

TYPES: tuple[EntityType, ...] = ("utf8", "int64")
IDENTITIES: list[Identity] = [(text, number) for text in ("", "a", "b") for number in (-1, 7, 8)]
BITMAPS = st.sets(st.integers(0, 300), min_size=1, max_size=20).map(lambda ids: BitMap64(SIGN + i for i in ids))
ALONE = st.dictionaries(st.sampled_from(IDENTITIES), BITMAPS, min_size=1, max_size=1)
MANY = st.fixed_dictionaries(dict.fromkeys(IDENTITIES[::2], BITMAPS), optional=dict.fromkeys(IDENTITIES[1::2], BITMAPS))
MAPS = st.one_of(ALONE, MANY, MANY).map(CoverageMap)
WANTED = st.frozensets(st.sampled_from([*IDENTITIES, ("never", 0)]), max_size=4)
FORMS = st.sampled_from(["indexed", "inline", "sidecar"])
GRID = grid_of(IntWidth(1))


@dataclass(frozen=True)
class Stored:
    """A segment of the store, and what it covers."""

    segment: Segment
    coverage: CoverageMap


def store_of(maps: list[tuple[CoverageMap, str]]) -> tuple[DictStore, list[Stored]]:
    store = DictStore()
    made = [Stored(_segment(store, number, coverage, form), coverage) for number, (coverage, form) in enumerate(maps)]
    return store, made


def _segment(store: DictStore, number: int, coverage: CoverageMap, form: str) -> Segment:
    names = coverage.identities()
    return Segment(
        path=f"data/{number}",
        rows=1,
        size=1,
        bounds=Bounds(first=0, last=300),
        identity=names[0] if len(names) == 1 else None,
        identity_types=TYPES if len(names) == 1 else (),
        coverage=_ref(store, number, encode(coverage, TYPES), form),
    )


def _ref(store: DictStore, number: int, data: bytes, form: str) -> CoverageRef:
    if form == "inline":
        return InlineCoverage(data)
    index = index_sidecar(data, TYPES) if form == "indexed" else None
    ref = SidecarCoverage(f"c/{number}.roar", checksum(data), None if index is None else checksum(index))
    store.put(ref.path, data)
    if index is not None:
        store.put(ref.index_path, index)
    return ref


ASKS = st.one_of(
    WANTED.map(lambda wanted: ("these", wanted)),
    st.sampled_from(["", "a"]).map(lambda text: ("like", text)),
    st.just(("all", None)),
    st.just(("identities", None)),
    st.integers(0, 3).map(lambda place: ("remember", place)),
)


@given(
    maps=st.lists(st.tuples(MAPS, FORMS), min_size=1, max_size=4),
    asks=st.lists(st.tuples(ASKS, st.sets(st.integers(0, 3), min_size=1)), min_size=1, max_size=8),
    bridged=st.sampled_from([0, 1 << 16]),
)
def test_some_identities_are_what_all_of_it_says(
    maps: list[tuple[CoverageMap, str]], asks: list[tuple[tuple[str, object], set[int]]], bridged: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("INDEXED_BYTES", 0), ("_INDEX_SHARE", 0), ("_BRIDGED_BYTES", bridged)):
            patch.setattr(sidecar_index, name, value)
        store, stored = store_of(maps)
        cache = CoverageCache(store, GRID)
        for (what, which), places in asks:
            some = [stored[place] for place in sorted(places) if place < len(stored)]
            segments, whole = [one.segment for one in some], CoverageMap.union_of(one.coverage for one in some)
            match what, which:
                case "these", frozenset(wanted):
                    assert cache.union(segments, TYPES, wanted) == whole.restrict(wanted)
                    assert [cache.of(one.segment, TYPES, wanted) for one in some] == [
                        one.coverage.restrict(wanted) for one in some
                    ]
                case "like", str(text):
                    like = _like(text)
                    assert cache.union(segments, TYPES, like) == whole.restrict(like)
                case "all", _:
                    assert cache.union(segments, TYPES) == whole
                case "identities", _:
                    assert cache.identities(segments, TYPES) == sorted(whole, key=canonical_key)
                case "remember", int(place) if place < len(stored):
                    cache.remember(stored[place].segment, stored[place].coverage)


def test_a_known_segment_of_one_identity_is_found_again() -> None:
    """It has no entry among the holders, which are for segments of several."""
    alone = CoverageMap({IDENTITIES[0]: BitMap64([SIGN + 5])})
    store, ((stored),) = store_of([(alone, "inline")])
    cache = CoverageCache(store, GRID)
    for _ in range(2):
        assert cache.union([stored.segment], TYPES, frozenset(alone)) == alone


def _like(text: str) -> Callable[[Identity], bool]:
    return lambda identity: identity[0] == text
