"""What a compaction may follow."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.formats.timeseries.actions import Action, AddSegment, Commit, RemoveSegment, TableMeta, UpdateTableMeta
from gapless.formats.timeseries.conflict.maintenance import METADATA, CompactChecker
from gapless.formats.timeseries.conflict.rows import SEGMENTS
from gapless.log.format import Compatible, Conflicting
from gapless.model.index import FixedWidth, IndexSpec
from gapless.model.segment import Bounds, Segment

META = TableMeta(index=IndexSpec(column="ts", type="timestamp", bucket=FixedWidth(1)), schema=None, created_ns=0)
TERMS = CompactChecker(removed=frozenset({"data/a", "data/b"}))


def segment(path: str, *, data_change: bool = True) -> Segment:
    return Segment(path=path, rows=1, size=1, bounds=Bounds(first=0, last=0), coverage=None, data_change=data_change)


def commit(*actions: Action) -> Commit:
    return Commit(id="x", operation="x", actions=actions)


def verdict(theirs: Commit, mine: Commit | None = None) -> Any:
    conversation = TERMS.check_conflict(mine or MINE, 5, theirs)
    with pytest.raises(StopIteration) as end:
        next(conversation)
    return end.value.value


MINE = commit(RemoveSegment("data/a"), RemoveSegment("data/b"), AddSegment(segment("data/c", data_change=False)))


@pytest.mark.parametrize(
    "theirs",
    [
        commit(AddSegment(segment("data/d"))),
        commit(UpdateTableMeta(META), AddSegment(segment("data/d"))),
        commit(RemoveSegment("data/z"), AddSegment(segment("data/d"))),
        commit(RemoveSegment("data/z"), AddSegment(segment("data/d", data_change=False))),
        commit(RemoveSegment("data/z")),
        commit(UpdateTableMeta(META)),
        commit(),
    ],
)
def test_it_stands_beside_what_leaves_its_segments_alone(theirs: Commit) -> None:
    assert verdict(theirs) == Compatible(MINE)


@pytest.mark.parametrize(
    "theirs",
    [
        commit(RemoveSegment("data/b")),
        commit(RemoveSegment("data/b"), AddSegment(segment("data/d"))),
        commit(RemoveSegment("data/b"), AddSegment(segment("data/d", data_change=False))),
        commit(UpdateTableMeta(META), RemoveSegment("data/b")),
    ],
)
def test_maint_09_it_gives_way_to_what_removed_a_segment_of_its_own(theirs: Commit) -> None:
    assert verdict(theirs) == Conflicting(SEGMENTS, "data/b")


def test_it_never_puts_older_metadata_over_newer() -> None:
    claiming = commit(UpdateTableMeta(META), *MINE.actions)
    assert verdict(commit(UpdateTableMeta(META)), claiming) == Conflicting(METADATA)
    assert verdict(commit(AddSegment(segment("data/d"))), claiming) == Compatible(claiming)
