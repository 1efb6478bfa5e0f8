"""The change feed of Delta tables: Delta's own test tables, and ours."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidOption, InvalidTime, SchemaMismatch, UnknownColumn, VersionNotFound
from gapless.formats.delta.actions import RemoveFile
from gapless.formats.delta.format import DELTA
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, numbered
from support.delta_rows import counted, counted_table
from support.delta_tables import LAYOUTS, replayed
from support.hand_made import Hand, added, column, commit, lay, struct

GOLDEN = Path(__file__).resolve().parents[5] / "shared" / "golden" / "delta"
FED = {"delta.enableChangeDataFeed": "true"}

KINDS: dict[str, dict[int, dict[str, int]]] = {
    "cdf-column-mapping-id-mode": {2: {"update_preimage": 1, "update_postimage": 1}, 3: {"insert": 1}, 4: {"delete": 1}},
    "cdf-column-mapping-name-mode": {2: {"update_preimage": 1, "update_postimage": 1}, 3: {"insert": 1}, 4: {"delete": 1}},
    "cdf-table": {
        0: {"insert": 10}, 1: {"update_preimage": 3, "update_postimage": 3}, 2: {"update_preimage": 3, "update_postimage": 3},
        3: {"delete": 1},
    },
    "cdf-table-delete-conditional-two-rows": {0: {"insert": 10}, 1: {"delete": 2}},
    "cdf-table-delete-unconditional": {0: {"insert": 10}, 1: {"delete": 10}},
    "cdf-table-non-partitioned": {
        0: {"insert": 10}, 1: {"update_preimage": 3, "update_postimage": 3}, 2: {"update_preimage": 3, "update_postimage": 3},
        3: {"delete": 1}, 4: {"insert": 2},
    },
    "cdf-table-partitioned": {0: {"insert": 6}, 1: {"delete": 1, "update_preimage": 1, "update_postimage": 1}, 2: {"delete": 3}},
    "cdf-table-simple": {0: {"insert": 10}, 1: {"delete": 10}, 2: {"insert": 5}},
    "cdf-table-update-ops": {0: {"insert": 10}, 1: {"update_pre": 5}, 2: {"update_post": 5}},
    "cdf-table-with-cdc-and-dvs": {
        0: {"insert": 1}, 1: {"insert": 4}, 2: {"delete": 1}, 4: {"insert": 1}, 5: {"delete": 2}, 7: {"insert": 1}, 8: {"insert": 1},
        9: {"update_preimage": 3, "update_postimage": 3}, 10: {"delete": 1}, 12: {"update_preimage": 1, "update_postimage": 1},
        14: {"insert": 2}, 15: {"insert": 2}, 16: {"delete": 2}, 18: {"insert": 2, "update_preimage": 1, "update_postimage": 1},
        20: {"update_preimage": 1, "update_postimage": 1}, 22: {"insert": 1, "delete": 1}, 24: {"delete": 6}, 25: {"insert": 3},
    },
}  # fmt: skip
"""What each commit did, by Delta's names: told by the operations and their metrics."""

NOT_OF_ITSELF = {"cdf-table-simple", "cdf-table-update-ops"}
"""Some of their change files were committed by hand: no data file follows them, and of the second the kinds are none of the protocol's."""
THEY_CANNOT = {name for name in KINDS if name not in ("cdf-table", "cdf-table-non-partitioned", "cdf-table-with-cdc-and-dvs")}
"""deltalake refuses column mapping, and does not decode `%25` in paths."""


def golden(name: str) -> DeltaTable:
    return DeltaTable.open(GOLDEN / name / "delta")


def kinds_of(rows: pa.Table) -> dict[int, dict[str, int]]:
    found = Counter(zip(rows.column("_commit_version").to_pylist(), rows.column("_change_type").to_pylist(), strict=True))
    versions = sorted({version for version, _ in found})
    return {version: {kind: count for (at, kind), count in found.items() if at == version} for version in versions}


def applied(rows: list[dict[str, Any]], held: Counter[str]) -> Counter[str]:
    """Rows after changes; deletes and preimages take one away."""
    found = Counter(held)
    for row in rows:
        plain = {name: value for name, value in row.items() if not name.startswith(("_change", "_commit"))}
        (key,) = counted([plain])
        found[key] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
    assert not -found, "what is taken away was there"
    return +found


# -- Delta's own tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_a_golden_table_tells_its_changes(name: str, shared: Path) -> None:
    assert shared.is_dir()
    table, first = golden(name), min(KINDS[name])
    rows = table.changes(first).to_arrow()
    assert rows.schema.names == [*table.schema.names, "_change_type", "_commit_version", "_commit_timestamp"]
    assert kinds_of(rows) == KINDS[name]
    times = {entry.version: entry.time for entry in table.history()}
    for version, time in zip(
        rows.column("_commit_version").to_pylist(), rows.column("_commit_timestamp").to_pylist(), strict=True
    ):
        assert time == times[version]


@pytest.mark.parametrize("name", [name for name in KINDS if name not in NOT_OF_ITSELF])
def test_a_golden_tables_changes_lead_from_version_to_version(name: str, shared: Path) -> None:
    assert shared.is_dir()
    table, first = golden(name), min(KINDS[name])
    held = counted_table(table.at(first - 1).scan().to_arrow()) if first else Counter[str]()
    for version in range(first, table.version + 1):
        held = applied(table.changes(version, version).to_arrow().to_pylist(), held)
        assert held == counted_table(table.at(version).scan().to_arrow()), version


@pytest.mark.parametrize("name", [name for name in KINDS if name not in THEY_CANNOT])
def test_deltalake_tells_the_same_of_a_golden_table(name: str, shared: Path) -> None:
    assert shared.is_dir()
    theirs = pa.table(DeltaLakeTable(str(GOLDEN / name / "delta")).load_cdf(starting_version=min(KINDS[name])).read_all())
    ours = golden(name).changes(min(KINDS[name])).to_arrow()
    assert plain(ours) == plain(theirs)


def plain(rows: pa.Table) -> Counter[str]:
    return counted_table(rows.drop_columns(["_commit_timestamp"]))


@pytest.mark.parametrize("name", ["deltalog-getChanges", "dv-with-columnmapping", "cdf-column-mapping-id-mode"])
def test_versions_without_the_feed_are_refused(name: str, shared: Path) -> None:
    assert shared.is_dir()
    with pytest.raises(VersionNotFound, match=r"what version 0 changed was not recorded.*delta.enableChangeDataFeed"):
        golden(name).changes(0)


# -- ours --------------------------------------------------------------------------------------------------------------


def fed(**properties: str) -> ClockedDelta:
    return ClockedDelta(FED | properties)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "feed" in name])
@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_the_feed_replays_the_table_at_every_version(layout: str, partition_by: tuple[str, ...]) -> None:
    table = ClockedDelta(LAYOUTS[layout], partition_by=partition_by, schema=SCHEMA.append(pa.field("day", pa.string()))).table
    table.append(numbered(*range(20), schema=table.schema))
    table.delete("id < 3")
    table.update({"v": "'new'"}, where="id between 5 and 8")
    table.compact()
    table.update({"day": "'d9'"}, where="id = 11")
    table.append(numbered(20, 21, schema=table.schema))
    table.delete("day = 'd9'")
    table.zorder("id")
    table.overwrite(numbered(1, 2, schema=table.schema))
    assert replayed(table).total() == 2


def test_cdc_02_delta_an_update_that_changes_nothing_tells_nothing() -> None:
    table = fed().table
    table.append(pa.table({"id": [1, 2, 3], "v": ["a", None, "b"]}, SCHEMA))
    version = table.version
    table.update({"v": "v"}, where="id <= 3")
    assert table.version == version
    assert table.changes(version + 1).to_arrow().num_rows == 0


def test_cdc_04_delta_an_overwrite_tells_what_it_took_away() -> None:
    table = fed().table
    table.append(numbered(1, 2, 3))
    table.overwrite(numbered(3, 4))
    table.delete("id = 4")
    held: Counter[str] = Counter()
    for version in range(1, 4):
        held = applied(table.changes(version, version).to_arrow().to_pylist(), held)
        assert held == counted_table(table.at(version).scan().to_arrow())
    changes = table.changes(2, 2).to_arrow().to_pylist()
    assert {(row["id"], row["_change_type"]) for row in changes} >= {(1, "delete"), (2, "delete"), (4, "insert")}
    assert [(row["id"], row["_change_type"]) for row in table.changes(3).to_arrow().to_pylist()] == [(4, "delete")]


def test_compaction_changes_nothing() -> None:
    table = fed(**{"delta.enableDeletionVectors": "true"})
    table.append(1, 2, 3)
    table.table.delete("id = 2")
    table.table.compact()
    assert table.table.changes(table.table.version).to_arrow().num_rows == 0


def test_rows_that_vectors_took_are_told_without_change_files() -> None:
    """A writer may leave change files out; then the vectors tell it, here one that grows and one that a restore takes back."""
    table = ClockedDelta({"delta.enableDeletionVectors": "true"})
    table.table.append(numbered(*range(10)))
    table.table.alter.set_properties(FED)
    table.table.delete("id = 3")
    with_vector = next(iter(table.state.files.values()))
    table.table.delete("id = 7")
    table.table.restore(3)
    assert [(row["id"], row["_change_type"]) for row in table.table.changes(5, 5).to_arrow().to_pylist()] == [(7, "insert")]
    # The same file told anew, word for word, brings no row.
    version = table.commit(with_vector)
    assert table.open().changes(version).to_arrow().num_rows == 0
    assert replayed_from(table.open(), 3) == counted_table(table.open().scan().to_arrow())


def replayed_from(table: DeltaTable, first: int) -> Counter[str]:
    held = counted_table(table.at(first - 1).scan().to_arrow())
    for version in range(first, table.version + 1):
        held = applied(table.changes(version, version).to_arrow().to_pylist(), held)
        assert held == counted_table(table.at(version).scan().to_arrow()), version
    return held


def test_a_removal_that_says_little_is_told_all_the_same() -> None:
    """Of another writer: without partition values, size and statistics."""
    table = ClockedDelta(FED, partition_by=["day"], schema=SCHEMA.append(pa.field("day", pa.string())))
    table.append(1, 2)
    live = next(iter(table.state.files.values()))
    removed = RemoveFile(path=live.path, deleted_ms=1)
    version = table.commit(removed)
    (row,) = table.open().changes(version).to_arrow().to_pylist()
    assert (row["id"], row["day"], row["_change_type"]) == (1, "d1", "delete")


def test_a_range_is_named_by_versions() -> None:
    table = fed()
    table.append(*range(5))
    view = table.open()
    assert view.changes(2, 4).to_arrow().column("id").to_pylist() == [1, 2, 3]
    assert view.changes(4).to_arrow().column("id").to_pylist() == [3, 4]
    assert view.at(3).changes(2).to_arrow().column("id").to_pylist() == [1, 2], "to the version that the handle sees"
    assert view.changes(6).to_arrow().num_rows == 0, "a reader that has seen all"
    for first, last in ((7, None), (0, 6), (-1, None)):
        with pytest.raises(VersionNotFound, match="versions 0 to 5"):
            view.changes(first, last)
    with pytest.raises(InvalidOption, match="begin after version 2"):
        view.changes(4, 2)
    for wrong in (1.0, "1", True):
        with pytest.raises(InvalidOption, match="from_version"):
            view.changes(wrong)  # type: ignore[arg-type]


def test_a_range_is_named_by_times() -> None:
    table = fed()
    table.append(*range(5))
    view = table.open()
    times = [entry.time for entry in view.history()]
    ms = timedelta(milliseconds=1)
    assert view.changes(from_time=times[2], to_time=times[4]).to_arrow().column("id").to_pylist() == [1, 2, 3]
    assert view.changes(from_time=times[2] + ms, to_time=times[4] - ms).to_arrow().column("id").to_pylist() == [2]
    assert view.changes(from_time=times[0] - timedelta(days=9)).to_arrow().num_rows == 5
    assert view.changes(3, to_time=datetime(9000, 1, 1, tzinfo=UTC)).to_arrow().column("id").to_pylist() == [2, 3, 4]
    assert view.changes(from_time=times[5] + ms).to_arrow().num_rows == 0
    with pytest.raises(InvalidTime, match="before the table's first commit"):
        view.changes(0, to_time=times[0] - ms)
    with pytest.raises(InvalidTime, match="from_time"):
        view.changes(from_time="2026-01-09T12:00:00")
    for given in ({}, {"from_version": 1, "from_time": times[0]}, {"from_version": 1, "to_version": 2, "to_time": times[3]}):
        with pytest.raises(InvalidOption, match=r"no beginning|two beginnings|two ends"):
            view.changes(**given)  # type: ignore[arg-type]


def test_columns_are_chosen_and_stand_in_their_order() -> None:
    table = fed()
    table.append(1)
    names = ["v", "_change_type", "_commit_version", "_commit_timestamp"]
    assert table.open().changes(1, columns=["v"]).to_arrow().schema.names == names
    assert table.open().changes(1, columns=["v", "id"]).to_arrow().schema.names == ["v", "id", *names[1:]]
    with pytest.raises(UnknownColumn):
        table.open().changes(1, columns=["w"])
    with pytest.raises(InvalidOption, match="list of different names"):
        table.open().changes(1, columns=["v", "v"])


def test_renamed_and_added_columns_are_shown_as_in_the_last_version() -> None:
    table = ClockedDelta(FED | {"delta.columnMapping.mode": "name"})
    table.append(1)
    table.table.update({"v": "'w'"}, where="id = 1")
    table.table.alter.rename_column("v", "text")
    table.table.alter.add_column("more", pa.int64())
    table.table.append(pa.table({"id": [2], "text": ["x"], "more": [5]}))
    rows = table.open().changes(1).to_arrow().drop_columns(["_commit_timestamp"]).to_pylist()
    assert rows == [
        {"id": 1, "text": "v1", "more": None, "_change_type": "insert", "_commit_version": 1},
        {"id": 1, "text": "v1", "more": None, "_change_type": "update_preimage", "_commit_version": 2},
        {"id": 1, "text": "w", "more": None, "_change_type": "update_postimage", "_commit_version": 2},
        {"id": 2, "text": "x", "more": 5, "_change_type": "insert", "_commit_version": 5},
    ]
    assert table.open().changes(1, 2).schema.names[:2] == ["id", "v"], "each range has the columns of its end"


def test_a_widened_column_is_shown_wide_and_a_narrowed_one_is_refused() -> None:
    schema = pa.schema([("id", pa.int32())])
    table = ClockedDelta(FED | {"delta.enableTypeWidening": "true"}, schema=schema).table
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.alter.widen("id", pa.int64())
    table.append(pa.table({"id": [2**40]}))
    assert table.changes(1).to_arrow().column("id").to_pylist() == [1, 2**40]
    table.restore(1)
    with pytest.raises(SchemaMismatch, match="column 'id' was long and is integer"):
        table.changes(1)
    assert table.changes(1, 3).to_arrow().num_rows == 2


def test_a_feed_that_was_off_for_a_while_is_told_where_it_was_on() -> None:
    table = fed()
    table.append(1)
    table.table.alter.set_properties({"delta.enableChangeDataFeed": "false"})
    table.append(2)
    table.table.alter.set_properties(FED)
    table.append(3)
    view = table.open()
    assert view.changes(1, 1).to_arrow().num_rows == 1
    assert view.changes(4).to_arrow().column("id").to_pylist() == [3]
    for first, last, refused in ((1, 5, 2), (3, 5, 3), (2, 2, 2)):
        with pytest.raises(VersionNotFound, match=f"what version {refused} changed was not recorded"):
            view.changes(first, last)


def test_maint_04_delta_a_change_file_that_is_gone_is_named_before_the_first_row() -> None:
    table = fed()
    table.append(1, 2, 3)
    table.table.update({"v": "'new'"}, where="id = 2")
    (gone,) = (name for name in table.data_files() if name.startswith("_change_data/"))
    table.store.delete(gone)
    rows = table.open().changes(1)
    with pytest.raises(
        VersionNotFound, match=rf"what version 4 changed can be told no longer: its file {gone} is gone.*from version 5 on"
    ):
        next(rows.to_batches())
    assert table.open().changes(1, 3).to_arrow().num_rows == 3


def test_a_cleaned_log_tells_what_is_left() -> None:
    table = fed(**{"delta.checkpointInterval": "4"})
    table.append(*range(7))
    for version in range(4):
        table.store.delete(DELTA.path_of(version))
    view = table.open()
    with pytest.raises(VersionNotFound, match=r"what version 2 changed can be told no longer"):
        view.changes(2)
    assert view.changes(5).to_arrow().column("id").to_pylist() == [4, 5, 6]
    assert view.changes(4).to_arrow().column("id").to_pylist() == [3, 4, 5, 6], (
        "its commit is there, what was before is not needed"
    )


def test_a_time_from_which_cleaned_versions_may_have_come_is_refused() -> None:
    table = fed(**{"delta.checkpointInterval": "4"})
    table.append(*range(7))
    times = [entry.time for entry in table.open().history()]
    for version in range(4):
        table.store.delete(DELTA.path_of(version))
    view, ms = table.open(), timedelta(milliseconds=1)
    assert view.changes(from_time=times[4]).to_arrow().column("id").to_pylist() == [3, 4, 5, 6]
    assert view.changes(from_time=times[6], to_time=times[6]).to_arrow().column("id").to_pylist() == [5]
    for early in (times[4] - ms, times[3], times[0] - ms):
        with pytest.raises(VersionNotFound, match=r"cleaned of versions before 4, .*\. Ask from .* or from version 4 on"):
            view.changes(from_time=early)
        with pytest.raises(VersionNotFound, match=r"can be read no longer.* Pass to_time="):
            view.changes(4, to_time=early)


def test_a_handle_that_lags_tells_no_changes_of_later_times() -> None:
    table = fed()
    table.append(*range(3))
    view = table.open()
    assert view.at(2).changes(from_time=view.history()[3].time).to_arrow().num_rows == 0
    with pytest.raises(InvalidOption, match="begin after version 1"):
        view.changes(from_time=view.history()[3].time, to_version=1)


def test_a_table_with_such_a_column_of_its_own_is_not_fed(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("_commit_version", pa.int64())])
    table = DeltaTable.create(tmp_path / "t", schema)
    table.append(pa.table({"id": [1], "_commit_version": [1]}, schema))
    with pytest.raises((InvalidOption, VersionNotFound)):
        table.changes(0)


def test_deltalake_tells_the_same_of_ours(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties=FED)
    table.append(numbered(*range(10)))
    table.delete("id < 3")
    table.update({"v": "'new'"}, where="id = 5")
    table.compact()
    table.append(numbered(50))
    theirs = pa.table(DeltaLakeTable(str(tmp_path / "t")).load_cdf(starting_version=0).read_all())
    assert plain(table.changes(0).to_arrow()) == plain(theirs)


def test_change_files_hold_their_kind_under_its_own_name_in_id_mode(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties=FED | {"delta.columnMapping.mode": "id"})
    table.append(numbered(1, 2))
    table.update({"v": "'new'"}, where="id = 2")
    (file,) = (tmp_path / "t" / "_change_data").rglob("*.parquet")
    assert "_change_type" in pq.read_schema(file).names
    assert kinds_of(table.changes(2).to_arrow()) == {2: {"update_preimage": 1, "update_postimage": 1}}


def test_rows_of_files_that_were_partitioned_otherwise_keep_their_values(tmp_path: Path) -> None:
    columns = [column("x", "long"), column("p", "string")]
    lay(tmp_path, columns, [Hand(path="a.parquet", rows=pa.table({"x": [1], "p": ["a"]}))], configuration=FED)

    def replace(version: int, old: dict[str, Any], new: Hand, parts: list[str]) -> None:
        body = {"format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(struct(*columns))}
        metadata = {"id": "hand", **body, "partitionColumns": parts, "configuration": FED}
        removed = {"deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True, "size": 1, **old}
        said = {"commitInfo": {"timestamp": 1_700_000_000_000 + version}}
        commit(tmp_path, version, [said, {"metaData": metadata}, {"remove": removed}, {"add": added(tmp_path, new)}])

    by_p = Hand(path="b.parquet", rows=pa.table({"x": [2]}), values={"p": "b"})
    replace(1, {"path": "a.parquet", "partitionValues": {}}, by_p, ["p"])
    replace(
        2,
        {"path": "b.parquet", "partitionValues": {"p": "b"}},
        Hand(path="c.parquet", rows=pa.table({"x": [3], "p": ["c"]})),
        [],
    )
    for first, last in ((0, 2), (0, 1), (1, 1), (2, 2)):
        told = DeltaTable.open(tmp_path).changes(first, last).to_arrow().to_pylist()
        assert all(row["p"] == "abc"[row["x"] - 1] for row in told)
        assert len(told) == {(0, 2): 5, (0, 1): 3, (1, 1): 2, (2, 2): 2}[first, last]


def test_a_removal_of_a_partition_that_nobody_tells_any_more_is_refused() -> None:
    """Without partition values its rows would come with nulls."""
    table = ClockedDelta(FED | {"delta.checkpointInterval": "3"}, ["day"], SCHEMA.append(pa.field("day", pa.string())))
    table.append(1, 2, 3)
    gone = next(iter(table.state.files.values()))
    version = table.commit(RemoveFile(path=gone.path, deleted_ms=1))
    assert table.open().changes(version).to_arrow().column("day").to_pylist() == ["d1"]
    table.table.checkpoint()
    for older in range(version):
        table.store.delete(DELTA.path_of(older))
    for name in table.names("_delta_log/"):
        if name.endswith(".parquet") and f"{version:020}" not in name:
            table.store.delete(name)
    with pytest.raises(VersionNotFound, match="of a partition that is not known"):
        table.open().changes(version)
