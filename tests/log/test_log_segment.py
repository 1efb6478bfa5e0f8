"""What a log segment guarantees, how it is chosen from a listing, and what it prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable
from gapless.formats.delta.format import DELTA
from gapless.log.format import StoredCheckpoint
from gapless.log.segment import LogListing, LogSegment
from gapless.log.snapshot import load
from gapless.model.protocols import ObjectInfo
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.testing.store.stores import OuterStore
from testing.toy_log import TOY

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


def test_a_listing_has_commits_and_whole_checkpoints_in_order() -> None:
    names = [*map(TOY.path_of, range(1, 16)), *map(TOY.checkpoint_path, (5, 10)), "log/CURRENT", "log/other.tmp"]
    listing = LogListing.parse(TOY, reversed(names))
    assert listing.commits == tuple(range(1, 16))
    assert [checkpoint.version for checkpoint in listing.checkpoints] == [5, 10]


class _ListingWithout(OuterStore):
    """A store whose listings lack one object, as those of a folder may beside a writer."""

    missing = ""

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return (info for info in self.inner.list(prefix, after) if info.path != self.missing)


def _delta_of_versions(folder: Path, newest: int) -> gl.delta.DeltaTable:
    table = gl.delta.create(folder, pa.schema([("n", pa.int64())]))
    for number in range(newest):
        table.append([{"n": number}])
    return table


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("at", [None, 5])
def test_a_commit_that_a_listing_lacks_is_read_all_the_same(tmp_path: Path, number: int, at: int | None) -> None:
    _delta_of_versions(tmp_path / "t", 5)
    store = _ListingWithout(open_store(tmp_path / "t"))
    store.missing = DELTA.path_of(number)
    snapshot = Environment(store=store).drive(load(DELTA, at))
    assert snapshot is not None
    assert (snapshot.version, len(snapshot.state.files)) == (5, 5)


def test_a_commit_that_is_not_there_is_lost(tmp_path: Path) -> None:
    _delta_of_versions(tmp_path / "t", 5)
    (tmp_path / "t" / DELTA.path_of(3)).unlink()
    with pytest.raises(CorruptTable, match="version 3 is lost") as raised:
        Environment(store=open_store(tmp_path / "t")).drive(load(DELTA))
    assert raised.value.path == DELTA.path_of(3)


def test_the_newest_version_may_be_told_by_a_checkpoint_alone(tmp_path: Path) -> None:
    table = _delta_of_versions(tmp_path / "t", 5)
    table.checkpoint()
    stale = (tmp_path / "t" / DELTA.last_checkpoint).read_bytes()
    for number in range(5, 10):
        table.append([{"n": number}])
    table.checkpoint()
    (tmp_path / "t" / DELTA.last_checkpoint).write_bytes(stale)
    for number in (*range(8), 10):
        (tmp_path / "t" / DELTA.path_of(number)).unlink()
    snapshot = Environment(store=open_store(tmp_path / "t")).drive(load(DELTA))
    assert snapshot is not None
    assert (snapshot.version, len(snapshot.state.files)) == (10, 10)


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
