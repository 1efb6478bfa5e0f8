"""Log checkpoints of Delta tables that are asked for, and logs that are cleaned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidOption, LogWarning, StorageFull, StoreUnavailable, VersionNotFound
from gapless.formats.delta.format import DELTA
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, numbered
from support.faulty_store import FaultyStore

MONTH = timedelta(days=30)


def versions(table: ClockedDelta) -> list[int]:
    """Those whose commits are stored."""
    return sorted(v for name in table.names("_delta_log") if (v := DELTA.version_of(name)) is not None)


def test_a_checkpoint_serves_where_its_commits_are_gone(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(5):
        table.append(numbered(one))
    assert table.checkpoint() == 5
    assert table.checkpoint() == 5, "there already"
    for version in range(6):
        (tmp_path / "t" / DELTA.path_of(version)).unlink()
    assert DeltaTable.open(tmp_path / "t").count() == 5
    assert sorted(DeltaLakeTable(str(tmp_path / "t")).to_pyarrow_table().column("id").to_pylist()) == list(range(5))


def test_a_store_that_takes_no_checkpoint_is_told() -> None:
    table = ClockedDelta()
    store = FaultyStore(table.store)
    handle = table.open(store)

    def full(path: str) -> None:
        if "checkpoint" in path:
            raise StorageFull("no space", path=path)

    store.before_put = full
    with pytest.warns(LogWarning, match="was not written"), pytest.raises(StoreUnavailable, match="was not written"):
        handle.checkpoint()


def test_what_lies_before_the_retention_goes_and_the_rest_can_be_travelled_to() -> None:
    table = ClockedDelta()
    table.append(*range(5))
    table.wait(days=31)
    table.append(5)
    old = table.open().history()[5].time
    table.wait(days=1)
    removed = table.table.cleanup_log()
    assert removed == tuple(DELTA.path_of(version) for version in range(5))
    assert versions(table) == [5, 6], "version 5 was the newest 30 days ago"
    assert table.ids() == list(range(6))
    assert table.ids(5) == list(range(5))
    assert table.open().at(time=old + timedelta(days=1)).version == 5
    with pytest.raises(VersionNotFound, match="version 4 can be read no longer"):
        table.open().at(4)
    table.append(6)
    assert table.open().count() == 7
    assert table.table.cleanup_log() == ()


def test_nothing_goes_that_is_younger() -> None:
    table = ClockedDelta()
    table.append(*range(5))
    assert table.table.cleanup_log() == ()
    with pytest.raises(
        InvalidOption, match=r"shorter than the table's retention, which is '30 days.*delta.logRetentionDuration"
    ):
        table.table.cleanup_log(timedelta(days=1))
    assert table.table.cleanup_log(timedelta(0), enforce_retention=False) == (), "no commit younger than a day"
    table.wait(days=2)
    assert len(table.table.cleanup_log(timedelta(0), enforce_retention=False)) == 4
    assert table.ids() == list(range(5))


def test_the_tables_own_retention_counts() -> None:
    table = ClockedDelta({"delta.logRetentionDuration": "interval 2 days"})
    table.append(*range(5))
    table.wait(days=3)
    assert len(table.table.cleanup_log()) == 4


def test_deltalake_open_and_travel_in_a_cleaned_log(tmp_path: Path) -> None:
    source = ClockedDelta()
    source.append(*range(4))
    source.wait(days=31)
    source.append(4, 5)
    source.table.cleanup_log()
    for name, (data, _) in source.store.objects.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    theirs = DeltaLakeTable(str(tmp_path))
    assert sorted(theirs.to_pyarrow_table().column("id").to_pylist()) == list(range(6))
    assert sorted(DeltaLakeTable(str(tmp_path), version=5).to_pyarrow_table().column("id").to_pylist()) == list(range(5))
    assert sorted(DeltaLakeTable(str(tmp_path), version=4).to_pyarrow_table().column("id").to_pylist()) == list(range(4))


def test_a_vacuum_of_a_cleaned_log_still_knows_what_is_needed() -> None:
    table = ClockedDelta()
    table.append(*range(5))
    table.table.compact()
    table.wait(days=40)
    table.append(9)
    table.table.cleanup_log()
    report = table.table.vacuum(dry_run=False)
    assert report.files["live"] == 2
    assert report.files["expired"] + report.files.get("orphan", 0) == 5
    assert table.ids() == [*range(5), 9]


# -- checkpointProtection: what Spark's DROP FEATURE leaves -------------------------------------------------------------


def protected(before: int) -> ClockedDelta:
    """Ten versions, of which those before `before` must go together or not at all."""
    table = ClockedDelta({"delta.logRetentionDuration": "interval 1 days", "delta.feature.checkpointProtection": "supported"})
    table.append(*range(3))
    table.open().checkpoint()
    metadata = table.open()._snapshot.state.metadata
    named = {**metadata.configuration, "delta.requireCheckpointProtectionBeforeVersion": str(before)}
    table.table.refresh()
    table.commit(replace(metadata, configuration=named))
    for one in range(3, 8):
        table.wait(days=1)
        table.table.refresh().append(numbered(one))
    return table


def test_a_protected_checkpoint_stays_until_all_before_the_boundary_may_go_at_once() -> None:
    table = protected(9)
    stored = table.names("_delta_log")
    assert "_delta_log/00000000000000000003.checkpoint.parquet" in stored
    table.wait(hours=1)
    assert table.open().cleanup_log() == ()
    assert table.names("_delta_log") == stored, "neither removed nor made"
    table.table.refresh().append(numbered(8))
    table.wait(days=3)
    removed = table.open().cleanup_log()
    assert "_delta_log/00000000000000000003.checkpoint.parquet" in removed
    assert [DELTA.path_of(version) for version in range(9)] == sorted(path for path in removed if path.endswith(".json"))
    assert table.open().cleanup_log() == ()
    assert table.ids() == list(range(9))


def test_commits_go_before_the_protected_checkpoints_that_stand_for_them() -> None:
    table = protected(4)
    table.wait(days=9)
    removed = table.open().cleanup_log()
    kinds = ["checkpoint" in path for path in removed]
    assert True in kinds
    assert kinds == sorted(kinds)


def test_the_boundary_outlives_our_changes_and_is_not_for_users_to_set() -> None:
    table = protected(7)
    handle = table.open()
    handle.alter.set_properties({"delta.appendOnly": "true"})
    handle.alter.add_column("more", "string")
    handle.checkpoint()
    assert table.open().properties["delta.requireCheckpointProtectionBeforeVersion"] == "7"
    assert "checkpointProtection" in table.open().protocol.writer_features
    with pytest.raises(InvalidOption, match="set by writers alone"):
        handle.alter.set_properties({"delta.requireCheckpointProtectionBeforeVersion": "0"})
    with pytest.raises(InvalidOption, match="set by writers alone"):
        handle.alter.unset_properties(["delta.requireCheckpointProtectionBeforeVersion"])
