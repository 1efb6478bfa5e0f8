"""Vacuum of Delta tables: what goes, what stays, and what the log says of it."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import CommitConflict, CorruptTable, InvalidOption, StoreUnavailable, UnsupportedTable, VersionNotFound
from gapless.formats.delta.actions import AddFile, Protocol
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, numbered
from support.delta_tables import LAYOUTS
from support.faulty_store import FaultyStore

WEEK = timedelta(days=7)


def compacted(days: float = 0, **made: object) -> ClockedDelta:
    """Three files, and the one that took their place, some days ago."""
    table = ClockedDelta(**made)  # type: ignore[arg-type]
    table.append(1, 2, 3)
    table.table.compact()
    table.wait(days=days)
    return table


def test_what_only_older_versions_need_goes_after_a_week() -> None:
    table = compacted(days=6.9)
    assert table.table.vacuum().deleted == ()
    table.wait(days=0.2)
    before = table.data_files()
    plan = table.table.vacuum()
    assert plan.dry_run
    assert (len(plan.deleted), plan.files, table.data_files()) == (3, {"expired": 3, "live": 1}, before)
    done = table.table.vacuum(dry_run=False)
    assert [entry.path for entry in done.deleted] == [entry.path for entry in plan.deleted]
    assert before - table.data_files() == {entry.path for entry in plan.deleted}
    assert table.ids() == [1, 2, 3]


def test_the_log_tells_of_a_vacuum_before_and_after() -> None:
    table = compacted(days=8)
    done = table.table.vacuum(WEEK, dry_run=False)
    start, end = table.open().history(2)
    assert (start.version, start.operation, end.version, end.operation) == (5, "VACUUM START", 6, "VACUUM END")
    assert start.parameters == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": "604800000",
        "specifiedRetentionMillis": "604800000",
    }
    assert start.metrics == {"numFilesToDelete": 3, "sizeOfDataToDelete": done.freed_bytes}
    assert (end.parameters, end.metrics) == ({"status": "COMPLETED"}, {"numDeletedFiles": 3})
    assert done.version == table.open().version == 6
    assert table.table.vacuum(dry_run=False).version == 6, "nothing to do, and no commit"


def test_a_shorter_retention_is_refused_without_the_flag() -> None:
    table = compacted(days=2)
    with pytest.raises(InvalidOption, match=r"shorter than the table's retention, which is '7 days.*enforce_retention=False"):
        table.table.vacuum(timedelta(days=1), dry_run=False)
    assert len(table.table.vacuum(timedelta(days=1), enforce_retention=False).deleted) == 3
    table.table.alter.set_properties({"delta.deletedFileRetentionDuration": "interval 1 day"})
    assert len(table.table.vacuum().deleted) == 3
    for wrong in ("7d", 7, timedelta(days=-1)):
        with pytest.raises(InvalidOption, match="is no age"):
            table.table.vacuum(wrong)  # type: ignore[arg-type]


def test_maint_04_delta_an_older_version_says_that_it_is_gone_before_a_scan_starts() -> None:
    table = compacted(days=8, properties={"delta.enableChangeDataFeed": "true"})
    table.append(4)
    table.table.vacuum(dry_run=False)
    for version in (1, 2, 3):
        with pytest.raises(
            VersionNotFound, match=rf"version {version} can be read no longer.*the earliest version that is whole is 4"
        ):
            table.open().at(version).scan().to_arrow()
    assert table.ids(4) == [1, 2, 3]
    with pytest.raises(VersionNotFound, match=r"what version 3 changed can be told no longer.*from version 4 on"):
        next(table.open().changes(0).to_batches())
    assert table.open().changes(4).to_arrow().column("id").to_pylist() == [4]


def test_maint_08_delta_a_writer_that_has_not_committed_keeps_its_files() -> None:
    """A writer stops between its files and its commit; the vacuum of another, with no retention at all, leaves them."""
    table = ClockedDelta()
    store = FaultyStore(table.store)
    slow = table.open(store)

    def vacuum(path: str) -> None:
        if path.endswith(".json"):
            store.before_put = lambda _path: None
            table.open().vacuum(timedelta(0), dry_run=False, enforce_retention=False)

    store.before_put = vacuum
    slow.append(numbered(1))
    assert table.ids() == [1]


def test_maint_08_delta_a_writer_that_took_days_fails_where_its_files_are_gone() -> None:
    table = ClockedDelta()
    store = FaultyStore(table.store)
    slow = table.open(store)

    def vacuum(path: str) -> None:
        if path.endswith(".parquet"):
            store.after_put = lambda _path: None
            table.wait(days=9)
            assert [entry.reason for entry in table.open().vacuum(dry_run=False).deleted] == ["orphan"]

    store.after_put = vacuum
    with pytest.raises(CommitConflict, match=r"is gone.*nothing was committed"):
        slow.append(numbered(1))
    assert table.ids() == []
    slow.append(numbered(1))
    assert table.ids() == [1]


def test_what_a_change_removed_that_took_days_stays_from_its_commit_on() -> None:
    """The log says of a removed file when its change began; a reader may have opened the version before just now."""
    table = ClockedDelta()
    table.table.append(numbered(1, 2, 3))
    store = FaultyStore(table.store)
    slow, reader = table.open(store), table.open()

    def sleep(_path: str) -> None:
        store.before_put = lambda _path: None
        table.wait(days=8)

    store.before_put = sleep
    slow.delete("id = 2")
    assert table.open().vacuum(dry_run=False).deleted == ()
    assert sorted(reader.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    table.wait(days=8)
    assert [entry.reason for entry in table.open().vacuum(dry_run=False).deleted] == ["expired"]


def test_maint_08_delta_unknown_and_hidden_files_stay(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append(numbered(1))
    theirs = [
        "_x",
        ".y",
        "notes.txt",
        "_sub/a.parquet",
        "data/b.parquet",
        "inner/_delta_log/0.json",
        "inner/part-0.parquet",
        "_delta_log/z",
    ]
    for name in theirs:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_text("mine")
        os.utime(tmp_path / "t" / name, (1, 1))
    report = table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert report.files == {"live": 1, "unknown": len(theirs) - 1}, "the log is not looked at"
    assert all((tmp_path / "t" / name).exists() for name in theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_every_kind_go_once_nothing_needs_them(layout: str) -> None:
    table = ClockedDelta(LAYOUTS[layout] | {"delta.deletedFileRetentionDuration": "interval 1 day"}, partition_by=["day"], schema=SCHEMA.append(pa.field("day", pa.string())))  # fmt: skip
    table.table.append(numbered(*range(2_000), schema=table.schema))
    table.table.delete("v like '%3'")
    table.table.update({"v": "'new'"}, where="v like '%4'")
    table.table.compact()
    rows = table.ids()
    table.wait(days=2)
    table.table.vacuum(dry_run=False)
    live = {file.path for file in table.open().files()}
    assert table.data_files() == live, "change files, deletion vectors and replaced files are gone"
    assert table.ids() == rows


def test_a_deletion_vector_in_use_stays(tmp_path: Path) -> None:
    table = ClockedDelta({"delta.enableDeletionVectors": "true"})
    table.table.append(numbered(*range(20_000)))
    table.table.delete("v like '%3' or v like '%7_'")
    vectors = {name for name in table.data_files() if name.endswith(".bin")}
    assert vectors, "it is too large for the log"
    table.wait(days=30)
    table.table.vacuum(dry_run=False)
    assert vectors <= table.data_files()
    assert len(table.ids()) == sum(one % 10 != 3 and not (one >= 10 and one // 10 % 10 == 7) for one in range(20_000))


def test_a_file_that_becomes_live_again_while_the_vacuum_begins_stays() -> None:
    table = compacted(days=8)
    store = FaultyStore(table.store)
    cleaner = table.open(store)

    def restore(path: str) -> None:
        if path.endswith(".json"):
            store.before_put = lambda _path: None
            table.open().restore(3)

    store.before_put = restore
    report = cleaner.vacuum(dry_run=False)
    assert table.ids() == [1, 2, 3]
    assert report.files == {"live": 3, "retained": 1}
    assert report.deleted == ()


def test_a_failed_delete_is_told_and_the_next_vacuum_takes_the_rest() -> None:
    table = compacted(days=8)
    store = FaultyStore(table.store)
    cleaner = table.open(store)
    doomed = [entry.path for entry in cleaner.vacuum().deleted]

    def fail(path: str) -> None:
        if path == doomed[1]:
            raise StoreUnavailable("no answer", path=path)

    store.before_delete = fail
    with pytest.raises(StoreUnavailable) as caught:
        cleaner.vacuum(dry_run=False)
    assert "1 of 3 files could not be deleted" in caught.value.__notes__[0]
    assert table.open().history(1)[0].parameters == {"status": "FAILED"}
    store.before_delete = lambda _path: None
    assert [entry.path for entry in table.open().vacuum(dry_run=False).deleted] == [doomed[1]]


def test_maint_06_delta_a_damaged_log_deletes_nothing() -> None:
    table = compacted(days=8)
    before = table.data_files()
    table.store.put("_delta_log/00000000000000000002.json", b"{", mode="overwrite")
    with pytest.raises(CorruptTable):
        table.table.vacuum(dry_run=False)
    assert table.data_files() == before


def test_a_table_with_an_unknown_writer_feature_is_not_vacuumed() -> None:
    """`vacuumProtocolCheck`: what other writers keep beside the rows is not known."""
    table = compacted(days=8)
    features = frozenset({"appendOnly", "invariants", "someNewFeature"})
    table.commit(Protocol(reader=1, writer=7, writer_features=features))
    for dry_run in (True, False):
        with pytest.raises(UnsupportedTable, match="someNewFeature"):
            table.open().vacuum(dry_run=dry_run)


def test_a_table_with_the_vacuum_protocol_check_is_vacuumed() -> None:
    table = compacted(days=8, properties={"delta.feature.vacuumProtocolCheck": "supported"})
    assert len(table.table.vacuum(dry_run=False).deleted) == 3


def test_files_elsewhere_are_never_touched(tmp_path: Path) -> None:
    there = tmp_path / "elsewhere" / "part-00000-0a6be498-12f4-474d-a087-593efa1f8c4d.parquet"
    other = DeltaTable.create(tmp_path / "elsewhere", SCHEMA)
    other.append(numbered(1))
    source = next((tmp_path / "elsewhere").glob("*.parquet"))
    source.rename(there)
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append(numbered(2))
    add = AddFile(path=there.as_uri(), size=there.stat().st_size, modified_ms=0)
    from_elsewhere = ClockedDelta()
    from_elsewhere.table = table
    from_elsewhere.commit(add)
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [1, 2]
    table.delete("id = 1")
    report = table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    assert there.exists()
    assert all(entry.reason == "live" for entry in report.entries)


def test_deltalake_reads_what_is_left(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA.append(pa.field("day", pa.string())), partition_by=["day"])
    for one in range(4):
        table.append(numbered(one, one + 10, schema=table.schema))
    table.compact()
    table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    theirs = DeltaLakeTable(str(tmp_path / "t"))
    assert sorted(theirs.to_pyarrow_table().column("id").to_pylist()) == sorted([*range(4), *range(10, 14)])
    assert theirs.history(1)[0]["operation"] == "VACUUM END"


def test_a_killed_vacuum_keeps_restores_away_for_a_day() -> None:
    """Its files may go at any moment, as far as anyone can tell; after a day it is dead."""
    table = compacted(days=8)
    store = FaultyStore(table.store)
    cleaner = table.open(store)

    def die(_path: str) -> None:
        raise SystemExit

    store.before_delete = die
    with pytest.raises(SystemExit):
        cleaner.vacuum(dry_run=False)
    with pytest.raises(CommitConflict, match="a vacuum is at work"):
        table.open().restore(3)
    assert table.open().restore(0).removed_segments == 1, "what brings no file back may be"
    table.wait(days=1.1)
    assert table.open().restore(3).added_segments == 3


@pytest.mark.parametrize("narrow_first", [False, True])
def test_the_end_of_one_vacuum_says_nothing_of_another_at_work(narrow_first: bool) -> None:
    """That of the shorter retention dies with its files listed, inside or around that of the longer one, which is done."""
    table = compacted(days=9)
    table.append(4)
    table.table.delete("id = 4")
    table.wait(days=2)
    wide, narrow = FaultyStore(table.store), FaultyStore(table.store)

    def vacuum_wide() -> None:
        assert len(table.open(wide).vacuum(timedelta(days=7), dry_run=False).deleted) == 3

    def die(_path: str) -> None:
        if narrow_first:
            vacuum_wide()
        raise SystemExit

    def vacuum_narrow(_path: str) -> None:
        wide.before_delete = lambda _path: None
        with pytest.raises(SystemExit):
            table.open(narrow).vacuum(timedelta(days=1), dry_run=False, enforce_retention=False)

    narrow.before_delete = die
    if narrow_first:
        vacuum_narrow("")
    else:
        wide.before_delete = vacuum_narrow
        vacuum_wide()
    with pytest.raises(CommitConflict, match="a vacuum is at work"):
        table.open().restore(5)


def test_a_vacuum_that_slept_for_a_day_leaves_what_was_restored_meanwhile() -> None:
    """As a laptop does, between two deletes; after a day a restore takes the vacuum for dead."""
    table = ClockedDelta()
    for one in (1, 2, 3):
        table.table.overwrite(numbered(one))
    versions = {file.path: version for version in (1, 2) for file in table.table.at(version=version).files()}
    table.wait(days=8)
    store = FaultyStore(table.store)
    restored: list[int] = []

    def sleep(path: str) -> None:
        store.before_delete = lambda _path: None
        table.wait(days=1.1)
        (other,) = (version for file, version in versions.items() if file != path)
        table.open().restore(other)
        restored.append(other)

    store.before_delete = sleep
    report = table.open(store).vacuum(dry_run=False)
    assert table.ids() == restored
    assert {entry.path for entry in report.deleted} == {path for path, version in versions.items() if version not in restored}
    ends = [(one.operation, one.parameters.get("status")) for one in table.open().history(5)]
    assert ends == [
        ("VACUUM START", None),
        ("RESTORE", None),
        ("VACUUM END", "FAILED"),
        ("VACUUM START", None),
        ("VACUUM END", "COMPLETED"),
    ]
