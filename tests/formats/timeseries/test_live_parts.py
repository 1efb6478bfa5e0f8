"""Live segments whose older ones lie in parts of a log checkpoint, against a plain dict: after any changes, packed and read back."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.formats.timeseries.actions import LiveSegment, TableMeta, TableState, instant_digits, segment_path
from gapless.formats.timeseries.checkpoint import checkpoint as packing
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.replay import LiveSegments
from gapless.log.format import Snapshot
from gapless.model import layered_dict
from gapless.model.index import Identity, IndexSpec, IntWidth
from gapless.model.segment import Bounds, InlineCoverage, Segment, overlapping
from gapless.runtime.environment import Environment
from gapless.testing.store.stores import DictStore

META = TableMeta(index=IndexSpec(column="i", type="int64", bucket=IntWidth(1), entity=("e",)), schema=None, created_ns=0)
IDENTITIES: list[Identity | None] = [None, ("A",), ("B",), ("C",)]


def segment(number: int) -> Segment:
    """One of a dozen: some with names of ours, some of a few instants, some with names of another writer."""
    own = segment_path(f"{number:08x}-0000-4000-8000-000000000000", 0, instant_digits((number // 3) * 10**9))
    return Segment(
        path=own if number % 4 else f"data/_managed/{number}.parquet",
        rows=number,
        size=100 + number,
        bounds=Bounds(first=number * 10, last=number * 10 + 15),
        index_type="int64",
        identity=IDENTITIES[number % 4],
        identity_types=() if number % 4 == 0 else ("utf8",),
        coverage=InlineCoverage(bytes([number])),
    )


POOL = [segment(number) for number in range(12)]
ACTS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 11)),
    st.tuples(st.just("remove"), st.integers(0, 11)),
    st.tuples(st.just("copy")),
    st.tuples(st.just("checkpoint"), st.sampled_from(["settle", "open", "neither"])),
)


class Log:
    """A store for parts and checkpoints, without commits."""

    def __init__(self) -> None:
        self.store = DictStore()
        self.env = Environment(store=self.store)

    def checkpoint(self, live: LiveSegments, version: int, then: str) -> LiveSegments:
        """What is left after a checkpoint: the same, on the new parts, or read back from the store."""
        snapshot = Snapshot(version, version, TableState(meta=META, live=live))
        packed = TIME_SERIES.pack(snapshot, f"{version:08x}", self.env.drive)
        for path, data in packed.parts:
            self.store.put(path, data)
        data = TIME_SERIES.encode_checkpoint(packed.snapshot)
        if then == "settle":
            TIME_SERIES.share_parts(snapshot, packed.snapshot)
        elif then == "open":
            opened = TIME_SERIES.decode_checkpoint(data, version, self.env.drive).state.live
            assert isinstance(opened, LiveSegments)
            return opened
        return live


def act(on: LiveSegments | dict[str, LiveSegment], what: tuple[Any, ...], version: int) -> None:
    match what:
        case ("add", number) if POOL[number].path not in on:
            on[POOL[number].path] = LiveSegment(POOL[number], version)
        case ("remove", number):
            on.pop(POOL[number].path, None)


def ask_little(live: LiveSegments, plain: dict[str, LiveSegment], asked: tuple[int, int, frozenset[Identity]]) -> None:
    """Questions that need not read everything."""
    assert len(live) == len(plain)
    held = [one.segment for one in plain.values()]
    assert live.overlapping(*asked) == overlapping(held, *asked)
    start, end, identities = asked

    def may(first: int | None, last: int | None, identity: Identity | None) -> bool:
        near = (first is None or first < end) and (last is None or last >= start)
        return near and (identity is None or identity in identities)

    found = live.candidates(may)
    assert [s for s in held if s in found] == found
    assert overlapping(found, *asked) == overlapping(held, *asked)
    for one in POOL:
        assert (one.path in live, live.get(one.path)) == (one.path in plain, plain.get(one.path))


RANGES = st.tuples(st.integers(-10, 140), st.integers(-10, 140), st.frozensets(st.sampled_from([("A",), ("B",), ("C",)])))


@given(acts=st.lists(ACTS, max_size=40), asked=RANGES, part=st.integers(1, 5), limit=st.integers(0, 4), whole=st.booleans())
def test_parts_are_a_dict_and_copies_stay_as_they_were(
    acts: list[tuple[Any, ...]], asked: tuple[int, int, frozenset[Identity]], part: int, limit: int, whole: bool
) -> None:
    asked = (min(asked[:2]), max(asked[:2]), asked[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered_dict, "MAX_CHANGES", limit)
        patch.setattr(packing, "PART_SEGMENTS", part)
        log, live, plain = Log(), LiveSegments(), dict[str, LiveSegment]()
        kept: list[tuple[LiveSegments, dict[str, LiveSegment]]] = []
        for version, what in enumerate(acts, 1):
            if what[0] == "checkpoint":
                kept.append((live, dict(plain)))
                live = LiveSegments.of(log.checkpoint(live, version, what[1]))
            elif what[0] == "copy":
                kept.append((live, dict(plain)))
                live = LiveSegments.of(live)
            else:
                act(live, what, version)
                act(plain, what, version)
            ask_little(live, plain, asked)
            if whole:
                assert list(live.items()) == list(plain.items())
        for copy, then in (*kept, (live, plain)):
            ask_little(copy, then, asked)
            assert list(copy.items()) == list(then.items())
            assert list(copy.of_versions(3, 9)) == [one for one in then.values() if 3 <= one.version <= 9]


@given(st.lists(ACTS, max_size=60), st.integers(1, 5))
def test_what_parts_hold_stays_in_bounds(acts: list[tuple[Any, ...]], part: int) -> None:
    """No two poor parts lie side by side after a checkpoint, and no loose segments lie about that would fill a part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_SEGMENTS", part)
        log, live = Log(), LiveSegments()
        for version, what in enumerate(acts, 1):
            act(live, what, version)
            if what[0] == "checkpoint":
                live = log.checkpoint(live, version, "settle")
                held = live.checkpoint_segments()
                counts = [held.count(number) for number in range(len(held.index.parts))]
                assert all(counts)
                assert not any(one * 2 < part and two * 2 < part for one, two in pairwise(counts))
                assert len(held.loose) < part


def test_every_identity_comes_back_as_it_was() -> None:
    """Types that protocol 7 widens too."""
    kinds: list[tuple[Any, Any]] = [
        ("x", "utf8"),
        (1, "int8"),
        (True, "bool"),
        (date(2024, 2, 29), "date"),
        (2**64 - 1, "uint64"),
    ]
    made = [
        replace(POOL[1], path=f"data/{n}", identity=(value,), identity_types=(kind,)) for n, (value, kind) in enumerate(kinds)
    ]
    log = Log()
    live = LiveSegments.of({one.path: LiveSegment(one, 1) for one in made})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_SEGMENTS", 1)
        opened = log.checkpoint(live, 1, "open")
    for one in made:
        assert one.identity is not None
        found = LiveSegments.of(opened).overlapping(0, 1_000, frozenset([one.identity]))
        assert one in found
        assert {s.identity for s in found} == {one.identity}
    assert [entry.segment for entry in opened.values()] == made


def test_a_name_of_the_year_9999_opens_and_is_found() -> None:
    """Nanoseconds in 64 bits end in 2262; a clock, or whoever named the file, need not know."""
    made = [
        replace(POOL[1], path=segment_path(f"{n:08x}-0000-4000-8000-000000000000", 0, digits), identity=("A",))
        for n, digits in enumerate(("00010101000000000", "20260101000000000", "99991231235959999"))
    ]
    log = Log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_SEGMENTS", 1)
        opened = log.checkpoint(LiveSegments.of({one.path: LiveSegment(one, n) for n, one in enumerate(made, 1)}), 3, "open")
    assert all(one.path in opened for one in made)
    assert [number for one in made for number in opened.base.index.holding(one.path)] == [0, 1, 2]


class Counted(frozenset[int]):
    """Ordinals that count how often they are copied."""

    copies: ClassVar[int] = 0

    def __or__(self, other: AbstractSet[Any]) -> Counted:
        Counted.copies += 1
        return Counted({*self, *other})


def test_what_one_commit_removes_of_a_part_is_noted_at_once() -> None:
    """A copy for each segment would take minutes where a compaction takes all that one commit of 100,000 segments added."""
    log = Log()
    live = LiveSegments.of({one.path: LiveSegment(one, 1) for one in POOL})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_SEGMENTS", 1)
        held = log.checkpoint(live, 1, "open").base
    assert len(held.index.parts) == 1
    counted, Counted.copies = replace(held, gone={0: Counted()}), 0
    left = counted.changed({}, {one.path for one in POOL[1:]})
    assert (list(left), Counted.copies) == ([POOL[0].path], 1)


def test_a_part_larger_than_most_is_rewritten_too_once_most_of_it_is_gone() -> None:
    """One commit's segments are not divided: such a part may still hold as many as others do."""
    log = Log()
    live = LiveSegments.of({one.path: LiveSegment(one, 1) for one in POOL})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_SEGMENTS", 4)
        live = log.checkpoint(live, 1, "settle")
        for one in POOL[5:]:
            del live[one.path]
        live = log.checkpoint(live, 2, "settle")
    assert [part.ref.segments for part in live.checkpoint_segments().index.parts] == [5]
    assert not live.checkpoint_segments().gone
