"""Vacuum: what it takes, what it leaves and why, in which order, and against whom it gives way."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    AccessDenied,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    InvalidOption,
    StoreError,
    StoreUnavailable,
    VersionNotFound,
)
from gapless.formats.timeseries.actions import AddSegment, ForgetSegments, RemoveSegment, SetTag
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.model.protocols import ObjectInfo
from gapless.store.local.store import LocalStore
from gapless.tables.shared.vacuum import VacuumReport
from gapless.tables.timeseries.care.vacuum import vacuum_table
from gapless.testing.store.stores import DictStore
from support.clocked_table import Clocked, commit_actions, rows_at

DAY, ZERO = timedelta(days=1), timedelta(0)
UUID = "12345678-1234-4234-8234-123456789abc"
OLD = "20200101000000000"
ORPHAN = f"data/{UUID}-0_0-0-0_{OLD}.parquet"


def reasons(report: VacuumReport) -> dict[str, str]:
    return {entry.path: entry.reason for entry in report.entries}


@pytest.fixture
def world() -> Clocked:
    return Clocked()


# -- what stays and what goes ------------------------------------------------------------------------------------------


def test_all_versions_are_kept_until_they_expire(world: Clocked) -> None:
    first, second = world.append(0, 1)
    removed = world.remove(first)
    world.wait(days=100)
    report = world.table.vacuum(ZERO, dry_run=False)
    assert {e.path: (e.reason, e.version) for e in report.entries} == {first: ("retained", removed - 1), second: ("live", None)}
    assert report.version == removed, "it makes no commit where nothing goes"


def test_what_only_expired_versions_had_goes_once_it_is_old_enough(world: Clocked) -> None:
    first, second = world.append(0, 1)
    world.remove(first)
    world.table.expire(keep_versions=1)
    world.wait(days=6)
    assert reasons(world.table.vacuum()) == {first: "recent", second: "live"}
    world.wait(days=2)
    before = world.names()
    dry = world.table.vacuum()
    assert (reasons(dry), world.names(), dry.dry_run) == ({first: "expired", second: "live"}, before, True)
    report = world.table.vacuum(dry_run=False)
    assert [entry.path for entry in report.deleted] == [first]
    assert report.freed_bytes == dry.freed_bytes > 0
    assert world.names("data") == {second}
    assert world.state.removed == {}
    assert world.hours() == [1.0]
    assert world.table.vacuum(dry_run=False).version == report.version, "and then there is nothing to do"


def test_a_tag_keeps_what_its_version_had(world: Clocked) -> None:
    first, second, third = world.append(0, 1, 2)
    world.tag("january", 3)
    world.remove(first, third)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    report = world.table.vacuum(dry_run=False)
    (kept,) = (entry for entry in report.entries if entry.path == first)
    assert (kept.reason, kept.tag, kept.version) == ("tagged", "january", 3)
    assert world.names("data") == {first, second}, "version 3 had no third segment"
    world.tag("january", None)
    world.table.refresh().vacuum(dry_run=False)
    assert world.names("data") == {second}


def test_a_segment_that_is_live_again_stays(world: Clocked) -> None:
    (first,) = world.append(0)
    (segment,) = world.table.segments()
    world.remove(first)
    world.table.refresh()
    world.commit(AddSegment(segment))
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    assert reasons(world.table.vacuum(ZERO, dry_run=False)) == {first: "live"}
    assert world.hours() == [0.0]


@pytest.mark.parametrize(
    "name",
    [
        "data/.hoodie/hoodie.properties",
        f"data/.hoodie/{UUID}-0_0-0-0_{OLD}.parquet",
        f"data/part=1/{UUID}-0_0-0-0_{OLD}.parquet",
        "data/_delta_log/00000000000000000000.json",
        "data/_x",
        "data/.y",
        "data/part-00000.parquet",
        f"data/{UUID}-0_0-0-0_20201301000000000.parquet",
        f"data/{UUID.upper()}-0_0-0-0_{OLD}.parquet",
        f"data/{UUID}-0_0-0-0_{OLD}.parquet.bak",
        "data/_managed/append/x.parquet",
        f"_coverage/{UUID}.roar",
        f"_coverage/table/7-{UUID}.roar",
        f"data/child/data/{UUID}-0_0-0-0_{OLD}.parquet",
    ],
)
def test_a_name_that_is_not_ours_is_never_touched(world: Clocked, name: str) -> None:
    world.append(0)
    world.store.put(name, b"theirs")
    world.wait(days=1000)
    report = world.table.vacuum(ZERO, dry_run=False)
    assert reasons(report)[name] == "unknown"
    assert world.store.get(name) == b"theirs"


@pytest.mark.parametrize("folder", ["_delta_log", "_iceberg", "child/data", "_timeseries_log/_damaged", "t2/data"])
def test_other_folders_are_not_even_looked_at(world: Clocked, folder: str) -> None:
    world.append(0)
    name = f"{folder}/{UUID}-0_0-0-0_{OLD}.parquet"
    world.store.put(name, b"theirs")
    world.wait(days=1000)
    assert name not in reasons(world.table.vacuum(ZERO, dry_run=False))
    assert name in world.names()


def test_segments_of_another_writer_go_by_what_the_log_says(world: Clocked) -> None:
    """timeseries-table-format 0.9.0 names its files otherwise; the log knows them."""
    world.append(0)
    (ours,) = world.table.segments()
    theirs = "data/_managed/append/one.parquet"
    world.store.put(theirs, world.store.get(ours.path))
    segment = replace(ours, path=theirs)
    world.commit(AddSegment(segment))
    world.table.refresh()
    world.remove(theirs)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    assert reasons(world.table.vacuum(dry_run=False)) == {theirs: "expired", ours.path: "live"}
    assert world.names("data") == {ours.path}


# -- writers at work ---------------------------------------------------------------------------------------------------


def test_maint_08_files_of_a_write_that_has_not_committed_are_left_alone(world: Clocked) -> None:
    (live,) = world.append(0)
    instant = "20260109120000000"
    new = f"data/{UUID}-0_0-0-0_{instant}.parquet"
    sidecars = {f"_coverage/segments/{UUID}.roar", f"_coverage/segments/{UUID}.idx"}
    for path in (new, *sidecars, "data/_x", "data/.y"):
        world.store.put(path, b"being written")
    world.wait(hours=23)
    assert set(reasons(world.table.vacuum(ZERO, dry_run=False)).items()) == {
        (live, "live"),
        *((path, "in-flight") for path in (new, *sidecars)),
        ("data/_x", "unknown"),
        ("data/.y", "unknown"),
    }
    world.wait(hours=2)
    assert [e.path for e in world.table.vacuum().deleted] == [], "orphans have to be as old as `older_than` too"
    report = world.table.vacuum(DAY, dry_run=False)
    assert {entry.path for entry in report.deleted} == {new, *sidecars}
    assert world.names("data") == {live, "data/_x", "data/.y"}


def test_the_later_of_the_name_and_the_stores_time_counts(world: Clocked) -> None:
    store = world.store
    young_name = f"data/{UUID}-0_0-0-0_20260119110000000.parquet"
    store.objects[young_name] = (b"", 0)
    store.objects[ORPHAN] = (b"", world.clock.ns + 10 * 86_400_000_000_000)
    world.wait(days=10, hours=1)
    assert set(reasons(world.table.vacuum(ZERO)).values()) == {"in-flight"}
    world.wait(days=1)
    assert set(reasons(world.table.vacuum(ZERO)).values()) == {"orphan"}


def test_coverage_stays_and_goes_with_its_segment(world: Clocked) -> None:
    store = world.store
    (live,) = world.append(0)
    file_id = live.removeprefix("data/").partition("-0_")[0]
    beside = f"_coverage/segments/{file_id}.idx"
    store.objects[beside] = (b"", 0)
    store.objects[f"_coverage/segments/{UUID}.roar"] = (b"", 0)
    store.objects[ORPHAN.replace(OLD, "20260109120000000")] = (b"", 0)
    world.wait(hours=2)
    found = reasons(world.table.vacuum(ZERO, dry_run=False))
    assert (found[beside], found[f"_coverage/segments/{UUID}.roar"]) == ("live", "in-flight")


class SlowStore(DictStore):
    """A day and an hour go by once a segment is stored; then `meanwhile` happens, given its path."""

    def __init__(self, world: Clocked, meanwhile: Callable[[str], object]) -> None:
        super().__init__(world.clock.now_ns)
        self.objects, self._world, self._meanwhile = world.store.objects, world, meanwhile

    def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
        super().put(path, data, **named)
        if path.startswith("data/"):
            self._world.wait(hours=25)
            self._meanwhile(path)


def test_maint_08_an_append_slower_than_the_horizon_finds_out_before_it_commits(world: Clocked) -> None:
    world.append(0)
    deleted: list[str] = []

    def vacuum(_path: str) -> None:
        deleted.extend(entry.path for entry in world.open().vacuum(ZERO, dry_run=False).deleted)

    with pytest.raises(CommitConflict, match="is gone"):
        world.open(SlowStore(world, vacuum)).append(rows_at(1))
    assert len(deleted) == 1
    assert world.hours() == [0.0]
    assert [entry.operation for entry in world.open().history()][-1] == "vacuum"


def test_maint_08_an_append_that_must_read_its_lost_files_again_says_that_they_are_gone(world: Clocked) -> None:
    world.append(0)

    def overtake(_path: str) -> None:
        other = world.open()
        other.append(rows_at(1))
        other.vacuum(ZERO, dry_run=False)

    with pytest.raises(CommitConflict, match="is gone"):
        world.open(SlowStore(world, overtake)).append(rows_at(1, 2), on_overlap="skip")
    assert world.hours() == [0.0, 1.0]


class SlowReads(DictStore):
    """Once, before a segment is read, two days go by and `meanwhile` happens."""

    def __init__(self, world: Clocked, meanwhile: Callable[[], object]) -> None:
        super().__init__(world.clock.now_ns)
        self.objects, self._world, self._meanwhile = world.store.objects, world, [meanwhile]

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if path.startswith("data/") and self._meanwhile:
            self._world.wait(days=2)
            self._meanwhile.pop()()
        return super().get(path, start, length)


def test_maint_04_a_correction_whose_segments_are_compacted_and_vacuumed_as_it_reads_is_made_again(world: Clocked) -> None:
    old = world.append(0, 1)

    def meanwhile() -> None:
        other = world.open()
        other.compact()
        other.expire(keep_versions=1)
        other.vacuum(ZERO, dry_run=False)

    changed = rows_at(1).set_column(1, "v", pa.array([7.0]))
    report = world.open(SlowReads(world, meanwhile)).upsert(changed)
    assert not world.names("data") & set(old), "what it was about to read is gone"
    assert report.updated_rows == 1
    assert world.hours() == [0.0, 7.0]


class SlowHeads(DictStore):
    """Once so many segments were seen to be there, `meanwhile` happens."""

    def __init__(self, world: Clocked, after: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(world.clock.now_ns)
        self.objects, self._left, self._meanwhile = world.store.objects, after, meanwhile

    def head(self, path: str) -> ObjectInfo:
        info = super().head(path)
        if path.startswith("data/"):
            self._left -= 1
            if not self._left:
                self._meanwhile()
        return info


def test_maint_04_a_restore_whose_version_expires_as_it_looks_says_that_it_expired(world: Clocked) -> None:
    old = world.append(0, 1)
    restored = world.table.version
    world.wait(days=2)

    def meanwhile() -> None:
        other = world.open()
        other.expire(keep_versions=1)
        other.vacuum(ZERO, dry_run=False)

    world.table.compact()
    held = world.open(SlowHeads(world, len(old), meanwhile))
    with pytest.raises(VersionNotFound, match=f"version {restored} can be read no longer"):
        held.restore(restored)
    assert world.hours() == [0.0, 1.0]


def test_an_append_whose_files_vacuum_gave_up_loses_to_it_though_they_are_still_there(world: Clocked) -> None:
    """Between the commit of a vacuum and its deletes the files are there: that they are proves nothing."""
    world.append(0)

    def give_up(path: str) -> None:
        world.commit(ForgetSegments((path,)), table=world.open())

    with pytest.raises(CommitConflict, match="vacuum had given up"):
        world.open(SlowStore(world, give_up)).append(rows_at(1))
    assert world.hours() == [0.0]


def test_vacuum_gives_way_to_an_append_that_commits_as_it_plans(world: Clocked) -> None:
    """A writer that took longer than the horizon commits just before vacuum does."""
    world.append(0)
    writer = world.open()
    (segment,) = writer.segments()
    late = replace(segment, path=ORPHAN)
    world.store.put(ORPHAN, world.store.get(segment.path))
    world.wait(days=3)

    class Racing(DictStore):
        """Lets the writer commit before vacuum's own commit lands."""

        def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
            if TIME_SERIES.version_of(path) and json.loads(bytes(data))["operation"] == "vacuum" and not raced:
                raced.append(world.commit(AddSegment(late), table=writer))
            world.store.put(path, data, **named)

    raced: list[int] = []
    store = Racing()
    store.objects = world.store.objects
    report = world.open(store).vacuum(ZERO, dry_run=False)
    assert raced
    assert reasons(report) == {segment.path: "live", ORPHAN: "live"}
    assert ORPHAN in world.names()


def test_vacuum_gives_way_to_a_tag_that_lands_first(world: Clocked) -> None:
    first, second = world.append(0, 1)
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    tagger = world.open()

    class Racing(DictStore):
        def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
            if TIME_SERIES.version_of(path) and not raced:
                raced.append(1)
                world.commit(SetTag("late", 3), table=tagger)
            world.store.put(path, data, **named)

    raced: list[int] = []
    store = Racing()
    store.objects = world.store.objects
    assert reasons(world.open(store).vacuum(dry_run=False)) == {first: "tagged", second: "live"}
    assert world.names("data") == {first, second}


def test_maint_15_a_replayed_commit_of_deleted_files_fails_cleanly(world: Clocked) -> None:
    """A prepared append whose files an abort deleted, sent again later."""
    world.append(0)
    (segment,) = world.table.segments()
    prepared = replace(segment, path=ORPHAN)
    with pytest.raises(CommitConflict, match="is gone"):
        world.commit(AddSegment(prepared))
    assert world.hours() == [0.0]
    assert world.open().version == world.table.version


# -- failing -----------------------------------------------------------------------------------------------------------


class FailingStore(DictStore):
    """Raises at one call, counted from 1."""

    def __init__(self, inner: DictStore, at: int, error: type[StoreError] = StoreUnavailable) -> None:
        super().__init__(inner._now_ns)
        self.objects, self.at, self.calls, self.error = inner.objects, at, 0, error

    def _tick(self, path: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error("no", path=path)

    def get(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self._tick(path)
        return super().get(path, start, length)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        self._tick(prefix)
        return super().list(prefix, after)


def test_maint_06_where_the_log_cannot_be_read_nothing_is_deleted(world: Clocked) -> None:
    first, second = world.append(0, 1)
    world.tag("kept", 2)
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    for at in range(1, 40):
        store = FailingStore(world.store, 10_000, AccessDenied)
        table = world.open(store)
        store.calls, store.at = 0, at
        try:
            table.vacuum(ZERO, dry_run=False)
        except StoreError:
            assert world.names("data") == {first, second}
        else:
            assert at > store.calls, "an error was swallowed"
            break
    else:
        pytest.fail("it never ends")
    assert at > 5
    assert world.names("data") == {first, second}
    assert world.open().tags == {"kept": 2}


def test_maint_06_a_damaged_log_stops_it(world: Clocked) -> None:
    first, _ = world.append(0, 1)
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    table, before = world.open(), world.names("data")
    path = TIME_SERIES.path_of(3)
    data = world.store.get(path)
    world.store.put(path, data[:-30], mode="overwrite")
    with pytest.raises(CorruptTable):
        table.vacuum(ZERO, dry_run=False)
    assert world.names("data") == before
    world.store.put(path, data, mode="overwrite")
    assert [e.path for e in table.vacuum(ZERO, dry_run=False).deleted] == [first]


def test_where_the_outcome_of_its_commit_is_unknown_nothing_is_deleted(world: Clocked) -> None:
    first, second = world.append(0, 1)
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)

    class Silent(DictStore):
        def put(self, path: str, data: bytes | memoryview, **named: Any) -> None:
            if TIME_SERIES.version_of(path):
                raise StoreUnavailable("silence", path=path)
            super().put(path, data, **named)

    store = Silent()
    store.objects = world.store.objects
    with pytest.raises(CommitOutcomeUnknown):
        world.open(store).vacuum(ZERO, dry_run=False)
    assert world.names("data") == {first, second}


def test_it_deletes_all_it_can_and_says_what_it_could_not(world: Clocked) -> None:
    paths = world.append(0, 1, 2)
    world.remove(*paths)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)

    class Stubborn(DictStore):
        def delete(self, path: str) -> None:
            if path == sorted(paths)[1]:
                raise AccessDenied("no", path=path)
            super().delete(path)

    store = Stubborn()
    store.objects = world.store.objects
    with pytest.raises(AccessDenied) as raised:
        world.open(store).vacuum(ZERO, dry_run=False)
    assert raised.value.__notes__ == ["1 of 3 files could not be deleted; the next vacuum takes them"]
    assert world.names("data") == {sorted(paths)[1]}
    assert [e.reason for e in world.open().vacuum(ZERO, dry_run=False).deleted] == ["orphan"]
    assert world.names("data") == set()


def test_many_are_deleted_side_by_side_where_each_is_a_request(world: Clocked) -> None:
    (live,) = world.append(0)
    orphans = {ORPHAN.replace("123456789abc", f"{number:012x}") for number in range(200)}
    world.store.objects.update(dict.fromkeys(orphans, (b"torn", 0)))
    world.wait(days=10)
    report = world.table.vacuum(dry_run=False)
    assert ({entry.path for entry in report.deleted}, world.names("data")) == (orphans, {live})
    last = world.open().history()[-1]
    assert (last.operation, dict(last.parameters)) == ("vacuum", {"older_than_s": 604_800.0, "segments": 200})


@pytest.mark.parametrize("wrong", [timedelta(seconds=-1), 7, None])
def test_an_age_is_a_timedelta_that_is_not_negative(world: Clocked, wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="is no age"):
        world.table.vacuum(wrong)


# -- places ------------------------------------------------------------------------------------------------------------


def a_table_with_refuse(path: Path) -> tuple[gl.TimeSeriesTable, str, str]:
    """A table on disk with a live segment, and one that only expired versions had."""
    table = gl.create(path, index="ts", bucket="1h")
    table.append(rows_at(0))
    table.append(rows_at(1))
    first, second = (segment.path for segment in table.segments())
    commit_actions(table, RemoveSegment(first))
    table.refresh().expire(keep_versions=1)
    return table, first, second


@pytest.mark.parametrize("form", ["{}", "{}/", "{}//", "{}/.", "{}/../t", "file://{}", "file://{}/", "//{}"])
def test_maint_07_however_the_place_is_spelled_no_live_file_goes(tmp_path: Path, form: str) -> None:
    _, first, second = a_table_with_refuse(tmp_path / "t")
    table = gl.open(form.format(tmp_path / "t"))
    assert reasons(table.vacuum(ZERO, dry_run=False)) == {first: "expired", second: "live"}
    assert [path.name for path in (tmp_path / "t" / "data").iterdir()] == [second.removeprefix("data/")]


def test_neighbours_keep_their_files(tmp_path: Path) -> None:
    table, first, _ = a_table_with_refuse(tmp_path / "t")
    others = {tmp_path / "t2", tmp_path / "t" / "child", tmp_path / "t" / "data" / "child"}
    kept = {}
    for other in others:
        neighbour, gone, _ = a_table_with_refuse(other)
        kept[other] = {info.path for info in neighbour._env.store.list("data")}
        assert gone in kept[other]
    assert [entry.path for entry in table.vacuum(ZERO, dry_run=False).deleted] == [first]
    for other in others:
        assert {info.path for info in gl.open(other)._env.store.list("data")} >= kept[other]
        assert gl.verify(other).ok


def test_nothing_goes_that_a_symbolic_link_leads_to(tmp_path: Path) -> None:
    table, first, second = a_table_with_refuse(tmp_path / "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    old = outside / ORPHAN.removeprefix("data/")
    for target in (tmp_path / "t" / "data", outside):
        (target / ORPHAN.removeprefix("data/")).write_bytes(b"")
        os.utime(target / ORPHAN.removeprefix("data/"), (0, 0))
    (tmp_path / "t" / "data" / "linked").symlink_to(outside)
    (tmp_path / "t" / "_coverage").mkdir(exist_ok=True)
    (tmp_path / "t" / "_coverage" / "segments").symlink_to(outside)
    deleted = table.vacuum(ZERO, dry_run=False).deleted
    assert {entry.path for entry in deleted} == {first, ORPHAN}
    assert old.exists()

    (tmp_path / "t" / "data").rename(tmp_path / "moved")
    (tmp_path / "t" / "data").symlink_to(tmp_path / "moved")
    table = gl.open(tmp_path / "t")
    commit_actions(table, RemoveSegment(second))
    table.refresh().expire(keep_versions=1)
    report = table.vacuum(ZERO, dry_run=False)
    assert reasons(report) == {second: "unknown"}, "the data folder itself is a link: its owner has to look"
    assert (tmp_path / "moved" / second.removeprefix("data/")).exists()
    assert second in table.refresh()._snapshot.state.removed, "and it is not forgotten either"


def test_temporary_files_of_a_writer_that_died_go(tmp_path: Path) -> None:
    table, *_ = a_table_with_refuse(tmp_path / "t")
    table.vacuum(ZERO, dry_run=False)
    left = ["data/.0123456789abcdef.tmp", "_timeseries_log/.0123456789abcdef.tmp", f"_staged/probe-{'0' * 32}"]
    for path in [*left, "data/.mine.tmp", "_staged/mine"]:
        (tmp_path / "t" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / path).write_bytes(b"torn")
    young = table.vacuum(ZERO, dry_run=False)
    assert {reasons(young)[path] for path in left} == {"in-flight"}
    for path in [*left, "data/.mine.tmp", "_staged/mine"]:
        os.utime(tmp_path / "t" / path, (0, 0))
    report = table.vacuum(ZERO, dry_run=False)
    assert {entry.path for entry in report.deleted} == set(left)
    assert {reasons(report)[path] for path in ("data/.mine.tmp", "_staged/mine")} == {"unknown"}
    assert report.version == young.version, "no version ever named them"
    assert not [path for path in left if (tmp_path / "t" / path).exists()]


def test_maint_04_what_vacuum_took_is_refused_before_it_is_read(world: Clocked) -> None:
    first, _ = world.append(0, 1)
    version = world.table.version
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    assert [entry.path for entry in world.table.vacuum(ZERO, dry_run=False).deleted] == [first]
    with pytest.raises(VersionNotFound, match=f"begins with version {world.state.earliest}"):
        world.open().at(version=version)


def test_maint_04_a_handle_from_before_is_told_that_its_version_expired(world: Clocked) -> None:
    first, second = world.append(0, 1)
    lagging, pinned = world.open(), world.open().at(2)
    started = pinned.scan()
    world.remove(first)
    world.table.refresh().expire(keep_versions=1)
    world.wait(days=10)
    assert [entry.path for entry in world.table.vacuum(ZERO, dry_run=False).deleted] == [first]
    reads: list[Callable[[], gl.Rows]] = [lagging.scan, lambda: started, lambda: pinned.sql("select sum(v) from this")]
    for read in reads:
        with pytest.raises(VersionNotFound, match=f"begins with version {world.state.earliest}"):
            read().to_arrow()
    assert world.hours(lagging.refresh()) == [1.0]
    world.store.delete(second)
    with pytest.raises(CorruptTable, match="is missing"):
        lagging.scan().to_arrow()


def test_a_local_store_shows_its_unfinished_writes_apart(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("a", ".0.tmp", ".b"):
        (tmp_path / "data" / name).write_bytes(b"x")
    store = LocalStore(tmp_path)
    assert [info.path for info in store.list()] == ["data/.b", "data/a"]
    assert [(info.path, info.size) for info in store.unfinished("data")] == [("data/.0.tmp", 1)]


def test_a_table_that_vanished_is_told(world: Clocked) -> None:
    world.store.objects.clear()
    with pytest.raises(gl.errors.TableNotFound, match="any more"):
        vacuum_table(world.table._committer, older_than=ZERO)
