"""Compaction of Delta tables: the same rows in fewer files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidFilter, InvalidOption, InvalidQuery, StorageFull, UnknownColumn, UnsupportedTable
from gapless.formats.delta.actions import Protocol
from gapless.model.protocols import ObjectInfo
from gapless.tables.delta.care import compact as compact_module
from gapless.tables.delta.care.compact_plan import DeltaBin
from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, ClockedDelta, numbered
from support.delta_rows import counted_table
from support.delta_tables import LAYOUTS, racing, replayed, rows_of
from support.faulty_store import FaultyStore

WITH_DAY = SCHEMA.append(pa.field("day", pa.string()))


def small(
    path: Path, *, files: int = 6, partition_by: tuple[str, ...] = (), properties: Mapping[str, str] | None = None
) -> DeltaTable:
    table = DeltaTable.create(path, WITH_DAY, partition_by=partition_by, properties=properties or {})
    for one in range(files):
        table.append(numbered(*range(one * 10, one * 10 + 10), schema=WITH_DAY))
    return table


def test_small_files_become_one_and_the_rows_keep_their_order(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    before = table.scan().to_arrow()
    report = table.compact()
    assert (report.version, report.bins, report.segments_before, report.segments_after, report.rows) == (7, 1, 6, 1, 60)
    assert report.bytes_after < report.bytes_before
    assert report.given_up == ()
    assert table.scan().to_arrow().equals(before)
    assert table.at(6).scan().to_arrow().equals(before)
    (file,) = table.files()
    assert (file.rows, file.stats["id"].min, file.stats["id"].max) == (60, 0, 59)


@pytest.mark.parametrize("way", ["copies", "vectors", "mapped"])
@pytest.mark.parametrize("where", [None, "id < 35", "day = 'x'"], ids=["all", "some", "none"])
def test_a_plan_is_what_a_compaction_does(tmp_path: Path, way: str, where: str | None) -> None:
    table = small(tmp_path / "t", properties=LAYOUTS[way], partition_by=("day",))
    table.delete("id in (3, 27)")
    before = {file.path: file for file in table.files()}
    version, names = table.version, sorted(path.name for path in (tmp_path / "t").rglob("*"))
    plan = table.plan_compaction(where=where)
    assert sorted(path.name for path in (tmp_path / "t").rglob("*")) == names, "a plan changes nothing"
    assert table.refresh().version == version
    report = table.compact(where=where)
    gone = {*before} - {file.path for file in table.files()}
    assert gone == {path for one in plan.bins for path in one.paths}
    assert {*plan.left} == {*before} - gone
    rows = sum(one.rows or 0 for one in plan.bins)
    assert (report.bins, report.segments_before, report.bytes_before, report.rows) == (
        len(plan.bins),
        plan.files,
        plan.size,
        rows,
    )
    assert table.plan_compaction(where=where).bins == ()


def test_a_plan_takes_no_other_arguments_than_a_compaction(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    with pytest.raises(InvalidOption, match="target_size=0"):
        table.plan_compaction(target_size=0)
    with pytest.raises(UnknownColumn):
        table.plan_compaction(where="nope = 1")
    assert [len(one.files) for one in table.plan_compaction(target_size=1 << 40).bins] == [6]
    assert table.plan_compaction(target_size=1).bins == ()


def test_the_log_says_that_no_row_changed(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    table.compact(where="id < 35")
    lines = (tmp_path / "t" / "_delta_log" / "00000000000000000007.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    assert {action[kind]["dataChange"] for action in actions for kind in ("add", "remove") if kind in action} == {False}
    info = actions[0]["commitInfo"]
    assert (info["operation"], info["isBlindAppend"], info["readVersion"]) == ("OPTIMIZE", False, 6)
    assert json.loads(info["operationParameters"]["predicate"]) == ["id < 35"]
    assert (info["operationMetrics"]["numRemovedFiles"], info["operationMetrics"]["numAddedFiles"]) == ("4", "1")


def test_maint_12_delta_a_second_and_a_third_run_change_nothing(tmp_path: Path) -> None:
    """Files of 0.6 and 3 times the target, and 500 of one row."""
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    numbers = np.random.default_rng(1)

    def rows(count: int) -> pa.Table:
        return pa.table(
            {"id": numbers.integers(0, 2**62, count), "v": [f"{one}" for one in numbers.integers(0, 2**62, count)]}, SCHEMA
        )

    table.append(rows(3_000))
    target = int(table.files()[0].size / 0.6)
    for _ in range(9):
        table.append(rows(3_000))
    table.append(rows(15_000))
    table.alter.set_properties({"delta.checkpointInterval": "100000"})
    for _ in range(40):
        table.append(rows(1))
    before, held = rows_of(table), len(table.files())
    report = table.compact(target_size=target)
    assert report.segments_before == 40, "the one-row files, and no other"
    assert len(table.files()) == held - 40 + report.segments_after
    assert rows_of(table) == before
    for _ in range(2):
        again = table.compact(target_size=target)
        assert (again.bins, again.version) == (0, report.version)


@pytest.mark.parametrize("partition_by", [(), ("day",)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_keeps_its_rows(layout: str, partition_by: tuple[str, ...], tmp_path: Path) -> None:
    table = small(tmp_path / "t", partition_by=partition_by, properties=LAYOUTS[layout])
    table.delete("id < 25 and v like '%3'")
    table.update({"v": "'new'"}, where="v like '%4'")
    before = rows_of(table)
    table.compact()
    assert rows_of(table) == before == rows_of(DeltaTable.open(tmp_path / "t"))
    assert len(table.files()) == (2 if partition_by else 1)
    assert sum(file.deleted_rows for file in table.files()) == 0, "deleted rows are gone for good"
    assert table.count() == before.total()
    if layout in ("copies", "copies and feed"):
        assert counted_table(DeltaLakeTable(str(tmp_path / "t")).to_pyarrow_table()) == before
    if "feed" in layout:
        assert replayed(table) == before


def test_a_file_all_of_whose_rows_are_deleted_makes_none(tmp_path: Path) -> None:
    table = small(tmp_path / "t", files=1, properties=LAYOUTS["vectors"])
    table.delete("id < 9")
    report = table.compact()
    assert (report.segments_before, report.segments_after, report.rows) == (1, 1, 1)


def test_maint_13_delta_rows_from_before_a_column_are_null_in_it(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(10):
        table.append(numbered(one))
    table.alter.add_column("more", pa.int64())
    for one in range(10, 20):
        table.append(pa.table({"id": [one], "v": ["x"], "more": [one]}))
    table.checkpoint()
    for version in range(15):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    found = DeltaTable.open(tmp_path / "t")
    assert found.compact().segments_before == 20
    rows = found.scan().to_arrow().sort_by("id")
    assert rows.column("more").to_pylist() == [None] * 10 + list(range(10, 20))
    (file,) = found.files()
    assert file.stats["more"].nulls == 10


@pytest.mark.parametrize("act", ["compact", "zorder", "overwrite", "delete", "update"])
def test_maint_09_delta_a_stale_compaction_brings_no_row_back(act: str, tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    acts: dict[str, Callable[[], object]] = {
        "compact": table.compact,
        "zorder": lambda: table.zorder("id"),
        "overwrite": lambda: table.overwrite(numbered(7, schema=WITH_DAY)),
        "delete": lambda: table.delete("id = 2"),
        "update": lambda: table.update({"v": "'new'"}, where="id = 2"),
    }
    report = racing(tmp_path / "t", acts[act]).compact()
    rows = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    if act == "overwrite":
        assert [row["id"] for row in rows] == [7]
    else:
        expected = [one for one in range(60) if not (act == "delete" and one == 2)]
        assert [row["id"] for row in rows] == expected
    if act == "update":
        assert rows[2]["v"] == "new"
    assert all(one.overtaken for one in report.given_up)
    assert report.given_up, "it is said that files were taken away"
    stored = {path.name for path in (tmp_path / "t").glob("*.parquet")}
    named = {file.path for version in range(table.version + 1) for file in table.at(version).files()}
    assert stored == named, "no file of a lost try is left"


def test_a_bin_that_was_not_touched_stands_without_being_written_again(tmp_path: Path) -> None:
    table = small(tmp_path / "t", partition_by=("day",))
    store = FaultyStore(table._env.store)
    other = racing(tmp_path / "t", lambda: table.delete("id = 2"))
    store.inner = other._env.store
    object.__setattr__(other._env, "store", store)
    report = other.compact()
    assert sum(path.startswith("day=d1/") for path in store.puts) == 1, "its file was written once"
    assert len(report.given_up) == 1
    assert report.bins == 2, "what was left of the other was compacted after all"
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == [one for one in range(60) if one != 2]
    assert len(table.files()) == 3, "that of the delete waits for the next run"


def test_rows_that_are_appended_meanwhile_stay_and_wait_for_the_next_run(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    report = racing(tmp_path / "t", lambda: table.append(numbered(99, schema=WITH_DAY))).compact()
    assert (report.segments_before, report.given_up) == (6, ())
    assert len(table.refresh().files()) == 2
    assert table.compact().segments_before == 2
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [*range(60), 99]


def test_a_column_that_is_added_meanwhile_is_in_the_files_that_are_written(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    report = racing(tmp_path / "t", lambda: table.alter.add_column("more", pa.int64())).compact()
    assert (report.bins, report.segments_before) == (1, 6)
    assert table.refresh().scan().to_arrow().column("more").null_count == 60


def test_only_files_that_may_hold_such_rows_are_compacted(tmp_path: Path) -> None:
    table = small(tmp_path / "t", partition_by=("day",))
    assert table.compact(where="day = 'd1'").segments_before == 6
    assert table.compact(where="id < 35").segments_before == 4
    with pytest.raises(UnknownColumn):
        table.compact(where="nothing = 1")
    with pytest.raises((InvalidFilter, InvalidQuery)):
        table.compact(where="day ==== 1")
    assert table.compact(where="id % 2 = 0 and id > 1000").bins == 0


@pytest.mark.parametrize("size", [0, -1, True, "1 MB", 1.5])
def test_a_size_is_a_number_of_bytes(size: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="target_size"):
        small(tmp_path / "t", files=1).compact(target_size=size)  # type: ignore[arg-type]


def test_the_tables_own_target_size_counts(tmp_path: Path) -> None:
    table = small(tmp_path / "t", properties={"delta.targetFileSize": "1kb"})
    assert table.compact().bins == 0, "of that size every file is large"
    assert table.compact(target_size=1 << 20).segments_after == 1


def test_a_damaged_file_is_left_and_said(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    damaged = table.files()[2].path
    (tmp_path / "t" / damaged).write_bytes(b"PAR1 nothing PAR1")
    report = table.compact()
    assert [(one.paths, one.overtaken) for one in report.given_up] == [((damaged,), False)]
    assert (report.segments_before, len(table.files())) == (5, 2)


def test_a_file_with_other_rows_than_the_log_says_is_left_and_said(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    short = table.files()[2].path
    rows = pq.read_table(tmp_path / "t" / short)
    pq.write_table(rows.slice(0, 5), tmp_path / "t" / short)
    report = table.compact()
    assert report.given_up[0].paths == (short,)
    assert "gave 5 rows, and the log says 10" in report.given_up[0].why or "cannot be laid out" in report.given_up[0].why


def test_a_full_disk_leaves_the_table_and_no_file(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    store = FaultyStore(table._env.store)
    object.__setattr__(table._env, "store", store)
    before = {path.name for path in (tmp_path / "t").glob("*.parquet")}

    def full(path: str) -> None:
        if path.endswith(".json"):
            raise StorageFull("no space", path=path)

    store.before_put = full
    with pytest.raises(StorageFull):
        table.compact()
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == before
    assert table.refresh().version == 6


def test_a_table_that_may_not_be_written_is_not_compacted() -> None:
    table = ClockedDelta()
    table.append(1, 2)
    table.commit(Protocol(reader=1, writer=7, writer_features=frozenset({"appendOnly", "invariants", "icebergWriterCompatV9"})))
    with pytest.raises(UnsupportedTable, match="icebergWriterCompatV9"):
        table.open().compact()


def test_an_append_only_table_is_compacted() -> None:
    table = ClockedDelta({"delta.appendOnly": "true"})
    table.append(1, 2, 3)
    assert table.table.compact().segments_after == 1
    assert table.ids() == [1, 2, 3]


def test_deltalake_goes_on_where_we_compacted(tmp_path: Path) -> None:
    table = small(tmp_path / "t", partition_by=("day",))
    table.compact()
    theirs = DeltaLakeTable(str(tmp_path / "t"))
    theirs.delete("id < 20")
    table.refresh()
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(20, 60))
    assert theirs.optimize.compact()["numFilesRemoved"] == 0


def test_maint_16_delta_much_text_is_compacted_in_bounded_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheap variant: no batch is larger than what a scan reads at once, though the files together are."""
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for one in range(5):
        table.append(pa.table({"id": range(one * 200, one * 200 + 200), "v": [f"{one:09}" * 4_000] * 200}))
    seen: list[int] = []
    read = compact_module.BinWriter._read

    def watched(self: compact_module.BinWriter, one: DeltaBin, columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
        for batch in read(self, one, columns):
            seen.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(compact_module.BinWriter, "_read", watched)
    table.compact()
    assert max(seen) <= 33 << 20 < sum(seen)
    found = table.scan().to_arrow()
    assert found.column("id").to_pylist() == list(range(1_000))
    assert pc.value_counts(pc.utf8_length(found.column("v"))).to_pylist() == [{"values": 36_000, "counts": 1_000}]


def test_a_listing_is_not_needed(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    store = FaultyStore(table._env.store)
    object.__setattr__(table._env, "store", store)

    def listed(prefix: str = "", after: str = "") -> list[ObjectInfo]:
        raise AssertionError(prefix)

    store.list = listed  # type: ignore[method-assign,assignment]
    table.compact()
