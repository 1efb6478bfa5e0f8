"""Expiry: which versions it lets go of; cleaning the log: what it needs to be there first, and what is left."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CorruptTable, InvalidOption, StoreError, VersionNotFound
from gapless.formats.timeseries.codec.metadata import CLEANUP_FEATURE
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.tables.timeseries.verify.repair import repair_table
from gapless.tables.timeseries.verify.verify import verify_table
from gapless.testing.store.stores import DictStore
from support.clocked_table import Clocked, rows_at
from support.faulty_store import FaultyStore

DAY = timedelta(days=1)


@pytest.fixture
def world() -> Clocked:
    """Ten appends, a day between each and the next: versions 2 to 11."""
    made = Clocked(checkpoint_interval=4)
    for hour in range(10):
        made.wait(days=1)
        made.append(hour)
    return made


def log_of(world: Clocked) -> set[str]:
    return {name.removeprefix(f"{TIME_SERIES.folder}/").removesuffix(".parquet") for name in world.names(TIME_SERIES.folder)}


def commits_of(world: Clocked) -> list[int]:
    return sorted(int(name[:10]) for name in log_of(world) if name.endswith(".json"))


def checkpoints_of(world: Clocked) -> list[int]:
    return sorted(int(name[:10]) for name in log_of(world) if name.endswith(".checkpoint"))


def readable(world: Clocked) -> list[int]:
    """The versions that can be read, each with the rows that it had."""
    found = []
    table = world.open()
    for version in range(1, table.version + 1):
        try:
            view = table.at(version=version)
        except VersionNotFound:
            continue
        rows = sorted(view.scan().to_arrow().column("v").to_pylist()) if view.schema is not None else []
        assert rows == [float(hour) for hour in range(min(version - 1, 10))]
        found.append(version)
    return found


# -- which versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "kept"), [(1, [12]), (3, [10, 11, 12]), (10, list(range(3, 13)))])
def test_the_newest_stay_the_commit_that_says_so_among_them(world: Clocked, keep: int, kept: list[int]) -> None:
    report = world.table.expire(keep_versions=keep)
    assert (report.version, report.earliest, report.expired) == (12, kept[0], kept[0] - 1)
    assert readable(world) == kept
    again = world.table.expire(keep_versions=keep)
    assert (again.version, again.expired) == (12, 0), "a second time there is nothing to do"


def test_nothing_expires_where_there_are_no_more_versions_than_are_kept(world: Clocked) -> None:
    assert world.table.expire(keep_versions=11).version == 11
    assert world.table.expire(older_than=timedelta(days=30)).version == 11


@pytest.mark.parametrize(("days", "first"), [(0, 11), (0.5, 10), (1.5, 9), (5.5, 5)])
def test_versions_stay_that_were_the_newest_within_that_time(world: Clocked, days: float, first: int) -> None:
    """The append of version 11 was just now, that of version 10 a day ago: half a day ago version 10 was the newest."""
    assert world.table.expire(older_than=timedelta(days=days)).earliest == first
    assert readable(world) == [*range(first, 12), 12]
    then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=world.clock.ns // 1_000) - timedelta(days=days)
    assert world.open().at(time=then).version >= first


@pytest.mark.parametrize(("keep", "days", "first"), [(3, 5.5, 5), (9, 1.5, 4), (1, 0, 11)])
def test_with_both_a_version_stays_that_either_keeps(world: Clocked, keep: int, days: float, first: int) -> None:
    assert world.table.expire(keep_versions=keep, older_than=timedelta(days=days)).earliest == first


def test_tagged_versions_stay_and_are_told(world: Clocked) -> None:
    world.tag("first", 2)
    world.tag("late", 12)
    report = world.table.refresh().expire(keep_versions=3)
    assert (report.earliest, report.expired, report.tags) == (12, 10, ("first",))
    assert readable(world) == [2, 12, 13, 14]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "which versions are to stay"),
        ({"keep_versions": 0}, "no count of versions"),
        ({"keep_versions": True}, "no count of versions"),
        ({"keep_versions": "3"}, "no count of versions"),
        ({"older_than": timedelta(seconds=-1)}, "no age"),
        ({"older_than": 7}, "no age"),
    ],
)
def test_what_is_to_stay_has_to_be_said(world: Clocked, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        world.table.expire(**arguments)
    assert world.open().version == 11


# -- cleaning the log --------------------------------------------------------------------------------------------------


def test_the_log_then_starts_at_a_checkpoint(world: Clocked) -> None:
    world.wait(days=2)
    everything = world.hours()
    report = world.table.expire(keep_versions=3, clean_log=True)
    assert commits_of(world) == [10, 11, 12]
    assert checkpoints_of(world) == [9, 10, 12]
    assert set(report.removed) == {TIME_SERIES.path_of(v) for v in range(1, 10)} | {
        TIME_SERIES.checkpoint_path(v) for v in (4, 8)
    }
    assert CLEANUP_FEATURE in world.state.meta.reader_features
    assert world.hours() == everything
    assert readable(world) == [10, 11, 12]
    assert [entry.version for entry in world.open().history()] == [10, 11, 12]
    assert verify_table(world.store, deep=True).findings == ()
    assert world.table.expire(keep_versions=3, clean_log=True).removed == ()
    world.append(20)
    assert world.hours() == [*everything, 20.0]


def test_nothing_younger_than_the_writer_horizon_goes(world: Clocked) -> None:
    world.wait(hours=1)
    world.table.expire(keep_versions=1, clean_log=True)
    assert commits_of(world) == [11, 12], "version 10 is 25 hours old, 11 one hour"
    world.append(11, 12)
    world.table.expire(keep_versions=1, clean_log=True)
    assert commits_of(world) == [11, 12, 13, 14, 15]
    world.wait(days=3)
    world.table.expire(keep_versions=1, clean_log=True)
    assert commits_of(world) == [15]
    assert world.hours() == [float(hour) for hour in range(10)] + [11.0, 12.0]
    assert verify_table(world.store).findings == ()


def test_a_young_table_gets_no_reader_feature(world: Clocked) -> None:
    young = Clocked()
    young.append(0, 1, 2)
    report = young.table.expire(keep_versions=1, clean_log=True)
    assert (report.removed, young.state.meta.reader_features) == ((), frozenset())


def test_the_feature_is_there_before_the_first_file_goes(world: Clocked) -> None:
    """At each delete, a reader that opens the table learns that it needs to know of cleaned logs."""
    world.wait(days=2)
    features: list[bool] = []

    class Watching(DictStore):
        def delete(self, path: str) -> None:
            newest = max(v for name in self.objects if (v := TIME_SERIES.version_of(name)) is not None)
            meta = json.loads(self.get(TIME_SERIES.path_of(newest)))["actions"][0]["UpdateTableMeta"]
            features.append(meta["required_reader_features"] == [CLEANUP_FEATURE])
            super().delete(path)

    store = Watching(world.clock.now_ns)
    store.objects = world.store.objects
    world.open(store).expire(keep_versions=1, clean_log=True)
    assert features == [True] * 13


def test_tagged_versions_get_a_checkpoint_of_their_own(world: Clocked) -> None:
    world.tag("second", 2)
    world.tag("sixth", 6)
    world.wait(days=2)
    world.table.refresh().expire(keep_versions=1, clean_log=True)
    assert checkpoints_of(world) == [2, 6, 13, 14]
    assert readable(world) == [2, 6, 14]
    assert verify_table(world.store, deep=True).findings == ()
    world.tag("second", None)
    world.table.refresh().expire(keep_versions=1, clean_log=True)
    assert checkpoints_of(world) == [6, 13, 14, 16]
    assert readable(world) == [6, 16]
    assert commits_of(world) == [14, 15, 16], "those are a moment old"


@pytest.mark.parametrize("damaged", [9, 10])
def test_either_of_the_two_checkpoints_will_do(world: Clocked, damaged: int) -> None:
    world.wait(days=2)
    world.table.expire(keep_versions=3, clean_log=True)
    world.store.delete(TIME_SERIES.checkpoint_path(12))
    world.store.put(TIME_SERIES.checkpoint_path(damaged), b"torn", mode="overwrite")
    with pytest.warns(gl.errors.LogWarning):
        assert readable(world) == [10, 11, 12]
    assert {finding.code for finding in verify_table(world.store).problems} == {"checkpoint-damaged", "checkpoint-hint"}
    assert repair_table(world.env(), apply=True).ok
    assert readable(world) == [10, 11, 12]


def test_a_damaged_checkpoint_is_made_again_before_anything_goes(world: Clocked) -> None:
    world.wait(days=2)
    for version in (9, 10):
        world.store.put(TIME_SERIES.checkpoint_path(version), b"torn", mode="overwrite")
    with pytest.warns(gl.errors.LogWarning):
        world.table.expire(keep_versions=3, clean_log=True)
    assert verify_table(world.store).findings == ()
    assert readable(world) == [10, 11, 12]


def test_where_a_checkpoint_does_not_read_back_nothing_goes(world: Clocked) -> None:
    world.wait(days=2)

    class Forgetful(DictStore):
        def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
            wrong = TIME_SERIES.checkpoint_of(path) is not None
            super().put(path, bytes(data)[:-1] if wrong else data, **named)

    store = Forgetful(world.clock.now_ns)
    store.objects = world.store.objects
    before = commits_of(world)
    with pytest.warns(gl.errors.LogWarning), pytest.raises(CorruptTable, match="cannot be read back"):
        world.open(store).expire(keep_versions=3, clean_log=True)
    assert commits_of(world) == [*before, 12]


def test_a_lost_commit_in_a_cleaned_log_is_still_found_and_mended(world: Clocked) -> None:
    world.wait(days=2)
    world.tag("x", 3)
    world.table.refresh().expire(keep_versions=4, clean_log=True)
    assert commits_of(world) == [10, 11, 12, 13]
    everything = world.hours()
    world.table.refresh()
    world.append(30)
    world.table.expire(keep_versions=2)
    world.append(31)
    assert world.table.version == 16, "which has a checkpoint"
    for version in (14, 15):
        world.store.delete(TIME_SERIES.path_of(version))
    (finding,) = verify_table(world.store).problems
    assert (finding.code, finding.path) == ("commit-missing", TIME_SERIES.path_of(14))
    report = repair_table(world.env(), apply=True, accept_loss=True)
    assert report.ok, report.left
    state = world.state
    assert (state.earliest, dict(state.tags)) == (14, {"x": 3})
    assert world.hours() == [*everything, 30.0, 31.0]


def test_repair_keeps_what_vacuum_tags_and_expiry_said(world: Clocked) -> None:
    """Commits that tag, expire, remove and forget are lost; a later checkpoint tells of all of them."""
    first, second = (segment.path for segment in world.table.segments()[:2])
    removed = world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.tag("kept", world.table.version)
    world.table.refresh()
    gone = world.remove(second)
    world.wait(days=10)
    world.table.refresh().vacuum(dry_run=False)
    assert world.table.version == 16
    before = world.state
    assert (set(before.removed), before.earliest, dict(before.tags)) == ({second}, 13, {"kept": 13})
    for version in range(removed, gone + 2):
        world.store.delete(TIME_SERIES.path_of(version))
    assert repair_table(world.env(), apply=True, accept_loss=True).ok
    world.store.delete(TIME_SERIES.checkpoint_path(16))
    world.store.delete(TIME_SERIES.last_checkpoint)
    after = world.state
    assert (dict(after.removed), after.earliest, dict(after.tags)) == (dict(before.removed), 13, {"kept": 13})
    assert dict(after.live) == dict(before.live)


# -- those who had the table open --------------------------------------------------------------------------------------


def test_log_13_a_handle_from_before_reads_and_appends_after(world: Clocked) -> None:
    """It is at a version whose commit is gone: that the next commit is not there says nothing."""
    old = world.open()
    seen = old._snapshot
    for hour in (10, 11, 12):
        world.wait(days=1)
        world.append(hour)
    world.wait(days=3)
    world.table.expire(keep_versions=1, clean_log=True)
    assert commits_of(world) == [15]
    stale = world.open()
    stale._snapshot = seen
    assert stale.refresh().version == 15
    with pytest.raises(gl.errors.CoverageOverlap):
        old.append(rows_at(12))
    assert old.version == 15
    stale._snapshot = seen
    assert stale.append(rows_at(50)).version == 16
    assert commits_of(world) == [15, 16]
    assert world.hours() == [float(hour) for hour in [*range(13), 50]]


@pytest.mark.parametrize("hinted", [True, False])
def test_the_log_is_cleaned_while_someone_opens_the_table(world: Clocked, hinted: bool) -> None:
    """After it listed the log, and before it read the first commit."""
    world.wait(days=2)
    if not hinted:
        world.store.delete(TIME_SERIES.last_checkpoint)
    cleaned: list[object] = []

    class Interrupted(DictStore):
        def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            if TIME_SERIES.version_of(path) is not None and not cleaned:
                cleaned.append(world.table.expire(keep_versions=1, clean_log=True))
            return super().get(path, start, length)

    store = Interrupted()
    store.objects = world.store.objects
    assert world.open(store).version == 12
    assert cleaned
    assert commits_of(world) == [12]


def test_a_log_that_cannot_be_read_is_not_cleaned(world: Clocked) -> None:
    world.wait(days=2)
    world.store.put(TIME_SERIES.path_of(5), b"{}", mode="overwrite")
    before = commits_of(world)
    with pytest.raises(CorruptTable):
        world.table.expire(keep_versions=1, clean_log=True)
    assert commits_of(world) == before


def test_killed_at_any_delete_the_next_call_finishes(world: Clocked) -> None:
    world.wait(days=2)
    origin = dict(world.store.objects)
    for deletes in range(13):
        world.store.objects = dict(origin)

        class Dying(DictStore):
            left = deletes

            def delete(self, path: str) -> None:
                if self.left == 0:
                    raise StoreError("the process dies", path=path)
                self.left -= 1
                super().delete(path)

        store = Dying(world.clock.now_ns)
        store.objects = world.store.objects
        with pytest.raises(StoreError):
            world.open(store).expire(keep_versions=1, clean_log=True)
        assert world.hours() == [float(hour) for hour in range(10)]
        assert verify_table(world.store).problems == (), deletes
        assert readable(world) == [12]
        world.open().expire(keep_versions=1, clean_log=True)
        assert commits_of(world) == [12]
        assert checkpoints_of(world) == [11, 12]


def test_the_hint_never_names_a_checkpoint_that_goes(world: Clocked) -> None:
    world.wait(days=2)
    world.store.put(TIME_SERIES.last_checkpoint, b'{"version":4}', mode="overwrite")
    world.table.expire(keep_versions=3, clean_log=True)
    assert json.loads(world.store.get(TIME_SERIES.last_checkpoint))["version"] in checkpoints_of(world)
    assert verify_table(world.store).findings == ()


def test_what_the_log_was_cleaned_of_vacuum_still_frees(world: Clocked) -> None:
    paths = [segment.path for segment in world.table.segments()]
    world.remove(*paths[:9])
    world.wait(days=10)
    world.table.refresh().expire(keep_versions=1, clean_log=True)
    assert {entry.path for entry in world.table.vacuum(dry_run=False).deleted} == set(paths[:9])
    assert world.names("data") == {paths[9]}
    assert verify_table(world.store).findings == ()
    assert pa.table({"v": world.hours()}).num_rows == 1


@pytest.mark.parametrize("moment", range(1, 12))
def test_verify_of_a_log_that_is_being_cleaned_finds_nothing(world: Clocked, moment: int) -> None:
    """Another process cleans it further right before one of the reads of verify."""
    world.table.expire(keep_versions=6, clean_log=True)
    for hour in range(10, 16):
        world.wait(days=1)
        world.append(hour)
    passing, reads = FaultyStore(world.store), iter(range(1, 1_000))

    def clean(_path: str) -> None:
        if next(reads) == moment:
            world.open().expire(keep_versions=4, clean_log=True)

    passing.before_get = clean
    assert not [finding for finding in verify_table(passing).findings if finding.severity != "note"]
    assert commits_of(world)[0] == 16
