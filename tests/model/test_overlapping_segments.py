"""Which segments a range may meet: the index and the live segments of a table answer as a look at each segment does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.formats.timeseries.actions import LiveSegment, TableMeta, TableState
from gapless.formats.timeseries.replay import LiveSegments, overlapping_segments
from gapless.model import layered_dict
from gapless.model.index import Identity, IndexSpec, IntWidth
from gapless.model.instant import days_from_civil
from gapless.model.segment import Bounds, Segment, SegmentIndex, overlapping

NS_PER_DAY = 86_400 * 10**9
YEAR_1, YEAR_9999 = days_from_civil(1, 1, 1) * NS_PER_DAY, (days_from_civil(9999, 12, 31) + 1) * NS_PER_DAY - 1
CORNERS = [0, -1, 1, 63, 64, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, YEAR_1, YEAR_9999, 2**69, -(2**69), 2**80, -(2**80)]
VALUES = st.one_of(
    st.integers(-200, 200),
    st.integers(YEAR_1, YEAR_9999),
    st.integers(0, 2**64 - 1),
    st.builds(lambda corner, step: corner + step, st.sampled_from(CORNERS), st.integers(-70, 70)),
)
IDENTITIES: st.SearchStrategy[Identity] = st.sampled_from([("A",), ("B",), (1,), (True,), ()])
WANTED = st.frozensets(IDENTITIES)
INDEX = IndexSpec(column="i", type="int64", bucket=IntWidth(1), entity=("e",))


@st.composite
def segments(draw: st.DrawFn, least: int = 0) -> list[Segment]:
    count = draw(st.integers(least, 12))
    found = []
    for number in range(count):
        first, last = sorted((draw(VALUES), draw(VALUES)))
        bounds = Bounds(first=first, last=draw(st.sampled_from([first, last])))
        identity = draw(st.none() | IDENTITIES)
        found.append(Segment(path=f"s{number}", rows=1, size=1, bounds=bounds, identity=identity, coverage=None))
    return found


def one(first: int, last: int, identity: Identity | None = None) -> Segment:
    return Segment(path="one", rows=1, size=1, bounds=Bounds(first=first, last=last), identity=identity, coverage=None)


@given(segments(), segments(), VALUES, VALUES, WANTED)
@example([one(2**64 - 1, 2**64 - 1)], [], 2**64 - 1, 2**64, frozenset())
@example([one(YEAR_9999, YEAR_9999)], [one(YEAR_1, YEAR_1)], YEAR_1, YEAR_9999 + 1, frozenset())
@example([one(2**80, 2**81)], [], 2**79, 2**80, frozenset())
@example([one(64, 64)], [], 65, 66, frozenset())
def test_the_index_answers_as_each_segment_does(
    first: list[Segment], more: list[Segment], start: int, end: int, wanted: frozenset[Identity]
) -> None:
    assert SegmentIndex(first).overlapping(start, end, wanted) == overlapping(first, start, end, wanted)
    both = SegmentIndex(first).extended(more)
    assert both.segments == (*first, *more)
    assert both.overlapping(start, end, wanted) == overlapping([*first, *more], start, end, wanted)


@given(
    segments(1), st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=30), VALUES, VALUES, WANTED, st.integers(0, 3)
)
def test_live_segments_answer_as_each_of_them_does(
    pool: list[Segment],
    acts: list[tuple[bool, int]],
    start: int,
    end: int,
    wanted: frozenset[Identity],
    limit: int,
) -> None:
    """However they came: added, removed and added again, asked at each version, with old versions kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layered_dict, "MAX_CHANGES", limit)
        versions: list[tuple[LiveSegments, list[Segment]]] = [(LiveSegments(), [])]
        for version, (add, place) in enumerate(acts):
            before, held = versions[-1]
            live, segment = LiveSegments.of(before), pool[place % len(pool)]
            held = [s for s in held if s.path != segment.path]
            live.pop(segment.path, None)
            if add:
                live[segment.path] = LiveSegment(segment, version)
                held = [*held, segment]
            assert live.overlapping(start, end, wanted) == overlapping(held, start, end, wanted)
            versions.append((live, held))
        for live, held in versions:
            assert live.overlapping(start, end, wanted) == overlapping(held, start, end, wanted)
            plain = TableState(meta=TableMeta(index=INDEX, schema=None, created_ns=0), live=dict(live))
            assert overlapping_segments(plain, start, end, wanted) == overlapping(held, start, end, wanted)


def test_bounds_past_64_bits_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days of the years 2300 to 2400 in nanoseconds: of a thousand segments the exact rule looks at the few that may meet."""
    start = days_from_civil(2300, 1, 1)
    many = SegmentIndex(one((start + day) * NS_PER_DAY, (start + day + 1) * NS_PER_DAY - 1) for day in range(1_000))
    looked: list[Segment] = []

    def watched(near: Iterable[Segment], start: int, end: int, identities: frozenset[Identity]) -> list[Segment]:
        looked.extend(near)
        return overlapping(looked, start, end, identities)

    monkeypatch.setattr("gapless.model.segment.overlapping", watched)
    assert len(many.overlapping((start + 500) * NS_PER_DAY, (start + 501) * NS_PER_DAY, frozenset())) == 1
    assert len(looked) <= 3


def test_of_a_segment_that_was_set_again_only_the_new_one_counts() -> None:
    live = LiveSegments.of({"one": LiveSegment(one(0, 9), 1)})
    live["one"] = LiveSegment(one(100, 109), 2)
    assert live.overlapping(0, 10, frozenset()) == []
    assert live.overlapping(100, 110, frozenset()) == [one(100, 109)]


def test_an_index_is_made_once_and_then_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand commits, a question after each: no segment is indexed twice."""
    indexed: list[int] = []
    honest = SegmentIndex.extended
    monkeypatch.setattr(SegmentIndex, "__init__", _counting(SegmentIndex.__init__, indexed))
    monkeypatch.setattr(SegmentIndex, "extended", lambda self, more: honest(self, _counted(more, indexed)))
    live = LiveSegments()
    for number in range(1_000):
        live = LiveSegments.of(live)
        live[f"s{number}"] = LiveSegment(
            Segment(path=f"s{number}", rows=1, size=1, bounds=Bounds(first=number, last=number), coverage=None), number
        )
        assert [s.path for s in live.overlapping(number, number + 1, frozenset())] == [f"s{number}"]
    assert sum(indexed) <= 1_000


def _counting(honest, indexed: list[int]):  # type: ignore[no-untyped-def]
    def init(self: SegmentIndex, segments=()) -> None:  # type: ignore[no-untyped-def]
        honest(self, _counted(segments, indexed))

    return init


def _counted(segments, indexed: list[int]):  # type: ignore[no-untyped-def]
    given_ones = tuple(segments)
    indexed.append(len(given_ones))
    return given_ones


def test_few_segments_are_looked_at_one_by_one() -> None:
    """The index finds the others; a copy carries few along that it does not have."""
    live, held, most = LiveSegments(), list[Segment](), 0
    for number in range(300):
        segment = replace(one(number, number, ("A",)), path=f"s{number}")
        live = LiveSegments.of(live)
        live[segment.path] = LiveSegment(segment, number)
        held.append(segment)
        assert live.overlapping(number - 5, number + 1, frozenset({("A",)})) == held[-6:]
        most = max(most, len(live.compacted().new))
    assert live.overlapping(0, 300, frozenset({("A",)})) == held
    assert 8 <= most <= 64
