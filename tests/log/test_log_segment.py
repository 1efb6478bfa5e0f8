"""What a log segment guarantees, how it is chosen from a listing, and what it prints."""

from __future__ import annotations

import dataclasses

import pytest

from gapless.errors import CorruptTable
from gapless.formats.delta.format import DELTA
from gapless.log.format import StoredCheckpoint
from gapless.log.segment import LogListing, LogSegment
from testing.toy_log import FROM_ZERO, TOY

TEN = StoredCheckpoint(10, ("log/10.checkpoint",))
THREE_PARTS = StoredCheckpoint(1000, ("log/a", "log/b", "log/c"), parts=3)


def segment(version: int, checkpoint: StoredCheckpoint | None, *commits: int, first: int = 1) -> LogSegment:
    return LogSegment(version=version, checkpoint=checkpoint, commits=commits, first=first)


# -- the guarantees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [(11, 13), (11, 12, 12, 13), (11, 13, 12, 13), (12, 11, 13)])
def test_there_is_no_gap_between_commits(commits: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"LogSegment\(version=13, .*commit \d+ follows commit \d+"):
        segment(13, TEN, *commits)


@pytest.mark.parametrize("start", [9, 10, 12])
def test_commits_begin_right_after_the_checkpoint(start: int) -> None:
    with pytest.raises(ValueError, match=f"the first commit is {start} and not 11"):
        segment(12, TEN, *range(start, 13))


@pytest.mark.parametrize(("first", "start"), [(0, 1), (1, 0), (1, 2)])
def test_without_a_checkpoint_commits_begin_with_the_tables_first(first: int, start: int) -> None:
    with pytest.raises(ValueError, match=f"the first commit is {start} and not {first}"):
        segment(3, None, *range(start, 4), first=first)


@pytest.mark.parametrize(
    "paths", [(), ("log/a",), ("log/a", "log/b"), ("log/a", "log/b", "log/b"), ("log/a", "log/b", "log/c", "log/d")]
)
def test_a_checkpoint_in_several_parts_is_whole(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="parts of the checkpoint's 3"):
        segment(1000, dataclasses.replace(THREE_PARTS, paths=paths))


@pytest.mark.parametrize(("version", "commits"), [(9, ()), (11, ()), (11, (11, 12)), (13, (11, 12)), (10, (11,))])
def test_it_ends_at_its_version(version: int, commits: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="it ends at version"):
        segment(version, TEN, *commits)


@pytest.mark.parametrize("first", [0, 1])
def test_a_segment_of_nothing_is_none(first: int) -> None:
    with pytest.raises(ValueError, match=f"it ends at version {first - 1}"):
        segment(first - 1, None, first=first)


def test_it_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        segment(10, TEN).version = 11  # type: ignore[misc]


# -- the summary -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (segment(1043, THREE_PARTS, *range(1001, 1044)), "LogSegment(version=1043, checkpoint=1000 (3 parts), commits=1001..1043)"),
        (segment(11, TEN, 11), "LogSegment(version=11, checkpoint=10, commits=11)"),
        (segment(10, TEN), "LogSegment(version=10, checkpoint=10, commits=none)"),
        (segment(2, None, 0, 1, 2, first=0), "LogSegment(version=2, checkpoint=none, commits=0..2)"),
    ],
)  # fmt: skip
def test_it_prints_a_summary(found: LogSegment, text: str) -> None:
    assert str(found) == repr(found) == text


# -- from a listing ----------------------------------------------------------------------------------------------------


def test_of_a_listing_it_takes_the_commits_past_the_checkpoint_up_to_the_version() -> None:
    names = [*map(TOY.path_of, range(1, 16)), *map(TOY.checkpoint_path, (5, 10)), "log/CURRENT", "log/other.tmp"]
    listing = LogListing.parse(TOY, reversed(names))
    assert listing.commits == tuple(range(1, 16))
    assert [checkpoint.version for checkpoint in listing.checkpoints] == [5, 10]
    assert listing.segment(TOY, 13, TEN) == segment(13, TEN, 11, 12, 13)
    assert listing.segment(TOY, 10, TEN) == segment(10, TEN)
    assert listing.segment(TOY, 3, None) == segment(3, None, 1, 2, 3)
    assert LogListing.parse(FROM_ZERO, ["log/0", "log/1"]).segment(FROM_ZERO, 1, None) == segment(1, None, 0, 1, first=0)


@pytest.mark.parametrize(
    ("commits", "checkpoint", "version", "lost"),
    [((11, 13), TEN, 13, 12), ((12, 13), TEN, 13, 11), ((11, 12), TEN, 13, 13), ((2, 3), None, 3, 1), ((), None, 2, 1)],
)
def test_of_a_listing_with_a_hole_the_first_lost_commit_is_named(
    commits: tuple[int, ...], checkpoint: StoredCheckpoint | None, version: int, lost: int
) -> None:
    with pytest.raises(CorruptTable, match=f"version {lost} is lost") as raised:
        LogListing(commits, ()).segment(TOY, version, checkpoint)
    assert raised.value.path == TOY.path_of(lost)


def test_a_checkpoint_whose_parts_are_not_all_there_is_not_listed() -> None:
    stem = f"{DELTA.folder}/{7:020d}.checkpoint"
    parts = [f"{stem}.{part:010d}.{3:010d}.parquet" for part in (1, 2, 3)]
    whole = StoredCheckpoint(7, tuple(parts), parts=3)
    assert LogListing.parse(DELTA, parts).checkpoints == (whole,)
    assert DELTA.decode_pointer(b'{"version":7,"size":1,"parts":3}') == whole
    for missing in parts:
        assert LogListing.parse(DELTA, [part for part in parts if part != missing]).checkpoints == ()


@pytest.mark.parametrize(
    ("commits", "checkpoints", "version", "kept"),
    [
        ((1, 2, 3), (2,), 1, None),  # it is there
        ((1, 3), (2,), 2, None),  # lost among others
        ((3, 4), (2,), 1, 2),
        ((3, 4), (2, 3), 1, 2),
        ((4, 5), (2,), 1, None),  # the checkpoint does not reach the commits
        ((), (4,), 1, 4),
        ((), (4,), 5, None),
    ],
)
def test_a_cleaned_log_is_whole_from_a_checkpoint_on(
    commits: tuple[int, ...], checkpoints: tuple[int, ...], version: int, kept: int | None
) -> None:
    listing = LogListing(commits, tuple(StoredCheckpoint(at, (f"log/{at}.checkpoint",)) for at in checkpoints))
    assert listing.cleaned_until(version) == kept
