"""Deleting rows of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gapless.errors import CallError, CorruptTable, InvalidOption, InvalidQuery, InvalidValue, NotSupported, UnknownColumn
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write import changed_files
from support.delta_rows import counted_table
from support.delta_tables import LAYOUTS, WAYS, made, ordered, replayed, rows_of

NAN = float("nan")
ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "day": ["a"] * 5 + ["b"] * 5, "v": [1.5, None, NAN, -0.0, 0.0] * 2})


@pytest.mark.parametrize(("properties", "partition_by"), list(WAYS.values()), ids=list(WAYS))
@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("id = 3", {3}),
        ("id < 5", {0, 1, 2, 3, 4}),
        ("day = 'b'", {5, 6, 7, 8, 9}),
        ("v > 1", {0, 2, 5, 7}),  # NaN is above every number
        ("v = 0", {3, 4, 8, 9}),  # -0.0 is 0.0
        ("v IS NULL", {1, 6}),
        ("NOT (v = 0)", {0, 2, 5, 7}),  # null stays
        ("true", set(range(10))),
        ("id > 100", set()),
        ("id % 3 = 0", {0, 3, 6, 9}),  # no scan knows %
        ("id % 3 = 0 AND day = 'b'", {6, 9}),
        ("CASE WHEN v IS NULL THEN NULL ELSE id > 6 END", {7, 8, 9}),
    ],
)
def test_rows_go_for_which_the_condition_is_true(
    tmp_path: Path, properties: Mapping[str, str], partition_by: tuple[str, ...], where: str, gone: set[int]
) -> None:
    table = made(tmp_path, ROWS, properties, partition_by)
    report = table.delete(where)
    assert report.removed_rows == len(gone)
    assert (report.version, table.version) == ((2, 2) if gone else (1, 1))
    kept = ROWS.filter(pa.array([at not in gone for at in range(10)]))
    assert rows_of(table) == counted_table(kept)
    assert table.count() == kept.num_rows
    assert rows_of(DeltaTable.open(tmp_path)) == counted_table(kept)
    assert rows_of(table.at(1)) == counted_table(ROWS)


@pytest.mark.parametrize("partition_by", [(), ("day",)], ids=["whole", "by day"])
@pytest.mark.parametrize("where", ["id = 3", "day = 'b'", "true"])
def test_the_feed_tells_of_what_went(tmp_path: Path, partition_by: tuple[str, ...], where: str) -> None:
    for layout in ("copies and feed", "vectors and feed"):
        table = made(tmp_path / layout, ROWS, LAYOUTS[layout], partition_by)
        table.delete(where)
        table.delete("id = 8 OR v IS NULL")
        assert replayed(table) == rows_of(table)


def test_files_that_go_whole_are_not_read(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, partition_by=("day",))
    table.append(ROWS.slice(0, 2))
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    report = table.delete("day = 'a'")
    assert (report.removed_rows, report.removed_segments) == (7, 2)
    assert table.delete("id >= 5").removed_rows == 5
    assert table.count() == 0


def test_a_deletion_vector_leaves_the_file_where_it_is(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, LAYOUTS["vectors"])
    (before,) = table.files()
    assert table.delete("id = 3").segments == 0
    assert table.delete("id = 4").removed_rows == 1
    (after,) = table.files()
    assert (after.path, after.rows, after.deleted_rows) == (before.path, 8, 2)
    stats = json.loads(after.action.stats or "")
    assert stats["tightBounds"] is False
    assert stats["numRecords"] == 10
    assert table.delete("id = 3").removed_rows == 0, "a row goes once"
    assert table.delete("id >= 0").removed_rows == 8
    assert table.files() == []


def test_a_file_all_of_whose_rows_a_vector_would_take_goes(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, LAYOUTS["vectors"])
    for number in range(10):
        assert table.delete(f"id = {number} AND v IS DISTINCT FROM 77").removed_rows == 1
    assert table.files() == []
    assert table.count() == 0


def test_rows_keep_their_order_in_files(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([5, 3, 9, 1, 7], pa.int64())})
    table = made(tmp_path, rows)
    table.delete("id = 9")
    assert table.scan().to_arrow().column("id").to_pylist() == [5, 3, 1, 7]


def test_an_arrow_expression_is_a_condition_too(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    assert table.delete(pc.field("id") == 3).removed_rows == 1
    assert table.delete(pc.field("v") > 1).removed_rows == 2, "Arrow compares NaN with nothing"


def test_without_a_condition_it_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    with pytest.raises(InvalidOption, match="every row"):
        table.delete()
    with pytest.raises(UnknownColumn):
        table.delete("nope = 1")
    with pytest.raises(InvalidQuery, match="neither true nor false"):
        table.delete("id + 1")
    with pytest.raises(InvalidValue, match="cannot be computed for row"):
        table.delete("cast(day as int) = 1")
    for wrong in ("id =", "id % 3 = 0 AND", "sum(id) > 3", "id + 1"):
        with pytest.raises(CallError):
            table.delete(wrong)
    assert rows_of(table) == counted_table(ROWS)
    assert table.refresh().version == 1


def test_an_append_only_table_refuses(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, {"delta.appendOnly": "true"})
    changes: list[Callable[[], object]] = [
        lambda: table.delete("id = 1"),
        lambda: table.update({"v": "1"}),
        lambda: table.dedup("day"),
        lambda: table.merge(ROWS, "t.id = s.id").when_matched_delete().execute(),
    ]
    for change in changes:
        with pytest.raises(NotSupported, match="append-only"):
            change()
    assert table.refresh().version == 1


def test_an_operation_is_applied_once(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    first = table.delete("id < 3", operation_id="clean-2026")
    table.append(ROWS.slice(0, 3))
    again = DeltaTable.open(tmp_path).delete("id < 3", operation_id="clean-2026")
    assert (first.removed_rows, first.already_applied) == (3, False)
    assert (again.removed_rows, again.already_applied, again.version) == (3, True, first.version)
    assert table.delete("id = 12345", operation_id=("app", 4)).already_applied is False
    assert table.delete("true", operation_id=("app", 3)).already_applied is True
    assert table.refresh().count() == 10


def test_ups_06_delta_a_filter_keeps_rows_where_it_is_null(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([1, 2, None], pa.int64())})
    for number, where in enumerate(("x = 2", "x >= 2", "NOT (x = 1)")):
        table = made(tmp_path / str(number), rows)
        table.delete(where)
        assert table.scan().to_arrow().column("x").to_pylist() == [1, None]


def test_ups_07_delta_a_file_without_rows_is_dropped(tmp_path: Path) -> None:
    for layout in ("copies", "vectors"):
        table = made(tmp_path / layout, pa.table({"x": pa.array([1, 2], pa.int64())}), LAYOUTS[layout])
        table.delete("x > 0 AND x < 3 AND x IS NOT NULL")
        assert table.files() == []
        assert table.scan().to_arrow().num_rows == 0
        assert table.scan().to_arrow().schema == table.schema


def test_partition_values_that_need_escaping_are_removed_under_their_own_path(tmp_path: Path) -> None:
    values = ["é/ü", "100 %", "a=b", " x ", "a:b?", "%2F", None]
    rows = pa.table({"id": pa.array(range(14), pa.int64()), "day": values * 2})
    table = made(tmp_path, rows, partition_by=("day",))
    assert table.delete("id < 7").removed_rows == 7
    commit = [json.loads(line) for line in (tmp_path / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    first = [json.loads(line) for line in (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()]
    assert {one["remove"]["path"] for one in commit if "remove" in one} == {one["add"]["path"] for one in first if "add" in one}
    assert [row["id"] for row in ordered(table)] == list(range(7, 14))


def rewritten(path: Path, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of a commit on disk, as another writer might have written them."""
    log = path / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def test_a_property_without_its_feature_asks_for_nothing(tmp_path: Path) -> None:
    made(tmp_path, ROWS)
    asked = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    rewritten(tmp_path, 0, lambda action: action["metaData"]["configuration"].update(asked) if "metaData" in action else None)
    table = DeltaTable.open(tmp_path)
    assert table.delete("id = 3").segments == 1
    assert not (tmp_path / "_change_data").exists()
    assert [file.deleted_rows for file in table.files()] == [0]
    assert counted_table(deltalake.DeltaTable(tmp_path).to_pyarrow_table()) == rows_of(table)


def test_a_vector_comes_with_the_number_of_rows_even_where_there_were_no_statistics(tmp_path: Path) -> None:
    made(tmp_path, ROWS, LAYOUTS["vectors"])
    rewritten(tmp_path, 1, lambda action: action.get("add", {}).pop("stats", None))
    table = DeltaTable.open(tmp_path)
    assert table.delete("id = 3").removed_rows == 1
    (file,) = table.files()
    assert json.loads(file.action.stats or "") == {"numRecords": 10, "tightBounds": False}
    assert table.delete("true").removed_rows == 9


def test_a_file_does_not_go_because_its_statistics_say_too_few_rows(tmp_path: Path) -> None:
    made(tmp_path, ROWS, LAYOUTS["vectors"])

    def shrink(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["stats"] = '{"numRecords":2}'

    rewritten(tmp_path, 1, shrink)
    table = DeltaTable.open(tmp_path)
    table.delete("id < 2 AND v IS DISTINCT FROM 77")
    assert table.scan().to_arrow().column("id").to_pylist() == list(range(2, 10))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("properties", "partition_by"), list(WAYS.values()), ids=list(WAYS))
def test_rows_that_are_read_ahead_are_the_same(
    tmp_path: Path,
    properties: Mapping[str, str],
    partition_by: tuple[str, ...],
    ahead: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changed_files, "WORTH_THREADS_BYTES", 0 if ahead else 1 << 40)
    table = made(tmp_path, ROWS, properties, partition_by)
    for start in range(10, 60, 10):
        table.append(ROWS.set_column(0, "id", pa.array(range(start, start + 10), pa.int64())))
    report = table.delete("id % 5 = 0 AND id != 20")
    assert (report.removed_rows, report.updated_rows) == (11, 0)
    kept = [at for at in range(60) if at % 5 or at == 20]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == kept
    assert table.update({"v": "id"}, where="id % 7 = 0").updated_rows == len([at for at in kept if at % 7 == 0])
    assert [row["v"] for row in ordered(table) if row["id"] % 7 == 0] == [at for at in kept if at % 7 == 0]


def test_a_change_that_fails_while_it_reads_ahead_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "WORTH_THREADS_BYTES", 0)
    table = made(tmp_path, ROWS)
    for _ in range(4):
        table.append(ROWS)
    lost = tmp_path / table.files()[3].path
    lost.unlink()
    there = {path.name for path in tmp_path.rglob("*.parquet")}
    with pytest.raises(CorruptTable, match=lost.name):
        table.delete("id % 3 = 0")
    assert {path.name for path in tmp_path.rglob("*.parquet")} == there
    assert table.version == 5
