"""Bringing earlier versions of Delta tables back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidOption, InvalidTime, NotSupported, VersionNotFound
from gapless.formats.delta.actions import DomainMetadata
from gapless.model.instant import NS_PER
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, at, numbered
from support.delta_rows import counted_table
from support.delta_tables import LAYOUTS, racing, replayed


def test_the_rows_of_an_earlier_version_come_back_and_no_file_is_written() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    table.table.delete("id = 1")
    table.append(3)
    before = table.data_files()
    report = table.table.restore(2)
    assert table.ids() == [1, 2]
    assert (report.version, report.restored) == (5, 2)
    assert (report.added_segments, report.removed_segments, report.added_rows, report.removed_rows) == (1, 1, 1, 1)
    assert table.data_files() == before
    assert table.table.version == 5, "the handle moved on"
    table.table.restore(4)
    assert table.ids() == [2, 3]
    table.table.restore(0)
    assert table.ids() == []


def test_a_table_that_is_so_already_makes_no_commit() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    assert table.table.restore(2).version == 2
    table.table.restore(1)
    assert table.table.restore(1).version == 3


def test_a_version_is_named_by_number_or_time() -> None:
    table = ClockedDelta()
    table.append(1, 2, 3)
    time = table.table.history()[2].time
    assert table.table.restore(time=time).restored == 2
    with pytest.raises(VersionNotFound, match="versions 0 to 4"):
        table.table.restore(9)
    with pytest.raises(InvalidTime):
        table.table.restore(time=at(NS_PER["s"]))
    with pytest.raises(InvalidOption):
        table.table.restore()


def test_columns_and_properties_come_back_and_the_protocol_stays() -> None:
    table = ClockedDelta()
    table.append(1)
    table.table.alter.set_properties({"delta.enableDeletionVectors": "true", "mine": "1"})
    table.table.alter.add_column("more", pa.int64())
    table.table.append(pa.table({"id": [2], "v": ["x"], "more": [5]}))
    protocol = table.table.protocol
    table.table.restore(1)
    found = table.open()
    assert found.schema == SCHEMA
    assert found.properties == {}
    assert found.protocol == protocol, "other versions still need it"
    assert table.ids() == [1]
    table.table.restore(found.version - 1)
    assert table.open().scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": "v1", "more": None},
        {"id": 2, "v": "x", "more": 5},
    ]
    assert table.open().properties["mine"] == "1"


def test_renamed_and_dropped_columns_come_back_and_no_column_id_is_given_twice() -> None:
    table = ClockedDelta({"delta.columnMapping.mode": "name"})
    table.append(1)
    table.table.alter.rename_column("v", "w")
    table.table.alter.add_column("more", pa.int64())
    table.table.restore(1)
    found = table.open()
    assert found.scan().to_arrow().to_pylist() == [{"id": 1, "v": "v1"}]
    assert found.properties["delta.columnMapping.maxColumnId"] == "3"
    table.table.alter.add_column("another", pa.int64())
    fields = table.state.metadata.schema.fields
    assert [one.field_id for one in fields] == [1, 2, 4]


def test_in_commit_timestamps_stay_on() -> None:
    table = ClockedDelta()
    table.append(1)
    table.table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    table.append(2)
    table.table.restore(1)
    found = table.open()
    assert found.properties["delta.enableInCommitTimestamps"] == "true"
    assert found.properties["delta.inCommitTimestampEnablementVersion"] == "2"
    times = [entry.time for entry in found.history()]
    assert [found.at(time=time).version for time in times] == list(range(5))
    assert table.ids() == [1]


def test_domains_come_back_and_go() -> None:
    table = ClockedDelta({"delta.feature.domainMetadata": "supported"})
    table.commit(DomainMetadata(domain="a", configuration="1"))
    table.commit(DomainMetadata(domain="a", configuration="2"), DomainMetadata(domain="b", configuration="3"))
    table.table.restore(1)
    assert {name: one.configuration for name, one in table.state.domains.items()} == {"a": "1"}
    table.table.restore(2)
    assert {name: one.configuration for name, one in table.state.domains.items()} == {"a": "2", "b": "3"}


def test_a_missing_file_is_refused_before_anything_is_committed() -> None:
    table = ClockedDelta()
    (gone,) = table.append(1)
    table.table.delete("id = 1")
    table.append(2)
    table.store.delete(gone)
    with pytest.raises(VersionNotFound, match=rf"version 1 cannot be restored: its file {gone} is gone.*nothing was changed"):
        table.table.restore(1)
    assert table.open().version == 3
    assert table.ids() == [2]


def test_a_missing_deletion_vector_is_refused() -> None:
    table = ClockedDelta({"delta.enableDeletionVectors": "true"})
    table.table.append(numbered(*range(20_000)))
    table.table.delete("v like '%3' or v like '%7_'")
    (vector,) = (name for name in table.data_files() if name.endswith(".bin"))
    table.table.restore(1)
    table.store.delete(vector)
    with pytest.raises(VersionNotFound, match=rf"its file {vector} is gone.*restored is 3.*Restore version 3"):
        table.table.restore(2)


def test_a_restore_past_a_vacuum_names_the_earliest_version_that_can_be_restored() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    table.table.delete("id = 1")
    table.wait(days=10)
    table.append(3)
    table.table.delete("id = 2")
    table.table.vacuum(dry_run=False)
    newest = table.open().version
    for lost in (1, 2):
        with pytest.raises(VersionNotFound, match=r"the earliest version that can be restored is 3; .*Restore version 3 or a"):
            table.open().restore(lost)
    assert table.open().version == newest
    table.open().restore(3)
    assert table.ids() == [2]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_were_changed_come_back_in_every_layout(layout: str) -> None:
    table = ClockedDelta(LAYOUTS[layout])
    table.table.append(numbered(*range(100)))
    versions = [table.table.version]
    table.table.delete("id < 10")
    versions.append(table.table.version)
    table.table.update({"v": "'new'"}, where="id >= 90")
    versions.append(table.table.version)
    table.table.compact()
    versions.append(table.table.version)
    rows = {version: counted_table(table.open().at(version).scan().to_arrow()) for version in versions}
    for version in (*versions, versions[0], versions[2], versions[1]):
        table.table.restore(version)
        assert counted_table(table.open().scan().to_arrow()) == rows[version]
        assert table.open().count() == rows[version].total()


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "feed" in name])
def test_the_change_feed_follows_a_restore(layout: str) -> None:
    table = ClockedDelta(LAYOUTS[layout])
    table.table.append(numbered(*range(50)))
    table.table.delete("id < 10")
    table.table.delete("id >= 40")
    table.table.restore(2)
    table.table.restore(1)
    table.table.restore(3)
    assert replayed(table.open()).total() == 30


def test_an_append_only_table_takes_no_rows_back() -> None:
    table = ClockedDelta({"delta.appendOnly": "true"})
    table.append(1, 2)
    with pytest.raises(NotSupported, match="append-only, and RESTORE would take rows away"):
        table.table.restore(1)
    assert table.table.restore(2).version == 2


def test_what_is_committed_meanwhile_is_taken_back_too(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(3):
        table.append(numbered(one))
    report = racing(tmp_path / "t", lambda: table.append(numbered(99))).restore(1)
    assert report.removed_segments == 3, "that of the append among them"
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [0]


def test_rows_of_files_without_statistics_are_counted_in_their_footers(tmp_path: Path) -> None:
    table = ClockedDelta()
    (path,) = table.append(1)
    file = next(iter(table.state.files.values()))
    table.table.delete("true")
    table.commit(type(file)(path=file.path, size=file.size, modified_ms=0))
    assert table.table.restore(2).removed_rows == 1
    assert path == file.path


def test_deltalake_read_what_was_restored(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(3):
        table.append(numbered(one))
    table.delete("id = 1")
    table.restore(2)
    theirs = DeltaLakeTable(str(tmp_path / "t"))
    assert sorted(theirs.to_pyarrow_table().column("id").to_pylist()) == [0, 1]
    entry = theirs.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]["version"]) == ("RESTORE", "2")
    assert entry["operationMetrics"]["numRestoredFiles"] == "1"
    theirs.restore(4)
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [0, 2]
