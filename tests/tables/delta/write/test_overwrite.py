"""Overwriting Delta tables: which rows go, which come, what the change feed tells, and what races do to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.errors import CallError, InvalidFilter, InvalidOption, InvalidQuery, InvalidValue, NotSupported, SchemaMismatch
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted
from support.delta_tables import LAYOUTS, made, racing, replayed, rows_of
from support.theirs import adds, log_lines, their_rows

ROWS = pa.table({"p": ["a", "a", "b", None], "v": [1, 2, 3, 4]})


def expected(*rows: tuple[str | None, int | None]) -> Any:
    return counted({"p": p, "v": v} for p, v in rows)


def data_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


@pytest.fixture(params=sorted(LAYOUTS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    """Partitioned by p, once for each way of writing row changes."""
    return made(tmp_path / "t", ROWS, LAYOUTS[request.param], partition_by=("p",))


def check(table: DeltaTable, *rows: tuple[str | None, int | None]) -> None:
    """The rows, here and where deltalake can read it, and as the change feed tells them."""
    assert rows_of(table) == expected(*rows)
    assert rows_of(DeltaTable.open(table.url)) == expected(*rows)
    if not table.protocol.reader_features & {"deletionVectors", "columnMapping"}:
        assert their_rows(Path(table.url)) == expected(*rows)
    if table.properties.get("delta.enableChangeDataFeed") == "true":
        assert replayed(table) == expected(*rows)


def test_all_rows_go_for_the_new_ones(table: DeltaTable) -> None:
    report = table.overwrite({"p": ["b", "c"], "v": [30, 40]})
    assert (report.rows, report.removed_rows, report.segments, report.removed_segments, report.version) == (2, 4, 2, 3, 2)
    check(table, ("b", 30), ("c", 40))
    assert rows_of(table.at(1)) == expected(("a", 1), ("a", 2), ("b", 3), (None, 4))


def test_no_rows_empty_the_table(table: DeltaTable) -> None:
    assert table.overwrite(ROWS.slice(0, 0)).removed_rows == 4
    check(table)
    assert table.overwrite(ROWS.slice(0, 0)).version == 2


def test_dynamic_partitions_replace_those_that_come(table: DeltaTable) -> None:
    report = table.overwrite({"p": ["a", None, "new"], "v": [10, 40, 50]}, partitions="dynamic")
    assert (report.rows, report.removed_rows) == (3, 3)
    check(table, ("a", 10), ("b", 3), (None, 40), ("new", 50))


def test_a_condition_on_partitions_replaces_whole_files(table: DeltaTable) -> None:
    report = table.overwrite({"p": ["a"], "v": [7]}, where="p = 'a'")
    assert (report.removed_rows, report.removed_segments) == (2, 1)
    check(table, ("a", 7), ("b", 3), (None, 4))
    kinds = {next(iter(line)) for line in log_lines(Path(table.url), 2)}
    assert "cdc" not in kinds


def test_ups_06_delta_a_condition_on_rows_leaves_the_others_and_nulls(table: DeltaTable) -> None:
    table.append({"p": ["a"], "v": [None]})
    table.overwrite({"p": ["a", "b"], "v": [1, 2]}, where="v <= 2 and v >= 1")
    check(table, ("a", 1), ("b", 2), ("b", 3), (None, 4), ("a", None))


def test_ups_07_delta_where_all_rows_of_a_file_go_the_file_goes(table: DeltaTable) -> None:
    table.overwrite({"p": ["a"], "v": [5]}, where="v > 0")
    check(table, ("a", 5))
    assert len(table.files()) == 1


def test_cdc_04_delta_the_feed_of_an_overwrite_has_deletes_and_inserts(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.table({"v": [1, 2, 3]}), {"delta.enableChangeDataFeed": "true"})
    table.overwrite({"v": [3, 4]})
    table.delete("v = 4")
    changes = table.changes(2, 3).to_arrow().select(["v", "_change_type", "_commit_version"]).to_pylist()
    told = sorted((one["_commit_version"], one["_change_type"], one["v"]) for one in changes)
    assert told == [(2, "delete", 1), (2, "delete", 2), (2, "delete", 3), (2, "insert", 3), (2, "insert", 4), (3, "delete", 4)]
    assert replayed(table) == counted([{"v": 3}])


def test_the_feed_of_a_part_of_a_file_tells_every_row_once(tmp_path: Path) -> None:
    table = made(tmp_path / "t", pa.table({"v": [1, 2, 3]}), {"delta.enableChangeDataFeed": "true"})
    table.append({"v": [10, 11]})
    table.overwrite({"v": [2, 10]}, where="v >= 2")
    told = sorted((one["_change_type"], one["v"]) for one in table.changes(3, 3).to_arrow().to_pylist())
    assert told == [("delete", 2), ("delete", 3), ("delete", 10), ("delete", 11), ("insert", 2), ("insert", 10)]
    assert replayed(table) == counted([{"v": one} for one in (1, 2, 10)])


@pytest.mark.parametrize("where", ["v <= 2", pc.field("v") <= 2])
def test_a_row_outside_of_the_part_is_refused_by_name(tmp_path: Path, where: Any) -> None:
    table = made(tmp_path / "t", ROWS)
    before = data_files(tmp_path / "t")
    with pytest.raises(InvalidValue, match=r"row 2 does not satisfy .*v <= 2") as caught:
        table.overwrite({"p": ["a", "b", None], "v": [1, 2, 3]}, where=where)
    assert (caught.value.column, caught.value.row, caught.value.value) == ("v", 2, 3)
    with pytest.raises(InvalidValue, match="row 0"):
        table.overwrite({"p": ["a"], "v": [None]}, where=where)
    assert (data_files(tmp_path / "t"), table.version) == (before, 1)


def test_any_sql_over_a_row_says_which_rows_go(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    with pytest.raises(InvalidValue, match="row 1 does not satisfy"):
        table.overwrite({"p": ["x", "x"], "v": [1, 6]}, where="v % 2 = 1 AND v < 9")
    assert table.overwrite({"p": ["x"], "v": [5]}, where="v % 2 = 1 AND v < 9").removed_rows == 2
    check(table, ("a", 2), (None, 4), ("x", 5))


def test_new_columns_may_come_with_an_overwrite(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    with pytest.raises(SchemaMismatch):
        table.overwrite({"w": [1]})
    table.overwrite({"p": ["a"], "w": [1]}, where="p = 'a'", schema_mode="merge")
    assert rows_of(table) == counted(
        [{"p": "b", "v": 3, "w": None}, {"p": None, "v": 4, "w": None}, {"p": "a", "v": None, "w": 1}]
    )
    table.overwrite({"x": ["only"]}, schema_mode="overwrite")
    assert table.schema == pa.schema([("x", pa.string())])
    assert their_rows(tmp_path / "t") == rows_of(table) == counted([{"x": "only"}])
    assert rows_of(table.at(1)) == expected(("a", 1), ("a", 2), ("b", 3), (None, 4))


def test_partition_columns_stay_where_columns_are_replaced(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS, partition_by=("p",))
    with pytest.raises(SchemaMismatch, match="partition column 'p'"):
        table.overwrite({"x": [1]}, schema_mode="overwrite")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"partitions": "static"}, InvalidOption),
        ({"partitions": "dynamic"}, InvalidOption),
        ({"partitions": "dynamic", "where": "v = 1"}, InvalidOption),
        ({"schema_mode": "overwrite", "where": "v = 1"}, InvalidOption),
        ({"schema_mode": "mergd"}, InvalidOption),
        ({"where": "v ="}, InvalidQuery),
        ({"where": "nope = 1"}, CallError),
        ({"where": 5}, InvalidFilter),
    ],
)
def test_calls_that_make_no_sense_change_nothing(tmp_path: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    table = made(tmp_path / "t", ROWS)
    before = data_files(tmp_path / "t")
    with pytest.raises(error):
        table.overwrite({"p": ["a"], "v": [1]}, **arguments)
    assert (data_files(tmp_path / "t"), table.refresh().version) == (before, 1)


def test_an_append_only_table_is_not_overwritten(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS, {"delta.appendOnly": "true"})
    before = data_files(tmp_path / "t")
    parts: list[dict[str, Any]] = [{}, {"where": "v = 1"}]
    for arguments in parts:
        with pytest.raises(NotSupported, match="append-only"):
            table.overwrite({"p": ["a"], "v": [1]}, **arguments)
    assert (data_files(tmp_path / "t"), table.refresh().version) == (before, 1)


def test_an_operation_overwrites_once(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    first = table.overwrite({"v": [1]}, operation_id=("app", 1))
    table.append({"v": [2]})
    again = table.overwrite({"v": [1]}, operation_id=("app", 1))
    assert (again.already_applied, again.version, again.removed_rows) == (True, first.version, 4)
    assert rows_of(table).total() == 2


def test_partitions_of_instants_are_one_whoever_wrote_them(tmp_path: Path) -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    table = made(tmp_path / "t", pa.table({"at": at, "v": [1]}), partition_by=("at",))
    (add,) = adds(tmp_path / "t", 1)
    log = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    other = "2026-01-01 00:00:00" if "T" in add["partitionValues"]["at"] else "2026-01-01T00:00:00.000000Z"
    log.write_text(log.read_text().replace(f'"at":"{add["partitionValues"]["at"]}"', f'"at":"{other}"'))
    table = DeltaTable.open(tmp_path / "t")
    assert table.overwrite(pa.table({"at": at, "v": [2]}), partitions="dynamic").removed_rows == 1
    assert table.scan().to_arrow().column("v").to_pylist() == [2]


# -- races -----------------------------------------------------------------------------------------------------------


def test_an_append_that_came_first_stays_beside_the_new_rows(tmp_path: Path) -> None:
    made(tmp_path / "t", ROWS)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"v": [9]}))
    assert mine.overwrite({"v": [1]}).version == 3
    assert their_rows(tmp_path / "t") == expected((None, 9), (None, 1))


def test_under_serializable_an_append_that_came_first_is_overwritten(tmp_path: Path) -> None:
    made(tmp_path / "t", ROWS, {"delta.isolationLevel": "Serializable"})
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"v": [9]}))
    read = iter([{"v": 1}])
    report = mine.overwrite(read)
    assert (report.version, report.removed_rows) == (3, 5)
    assert their_rows(tmp_path / "t") == counted([{"p": None, "v": 1}])
    assert len(data_files(tmp_path / "t")) == 3


@pytest.mark.parametrize("how", [{}, {"where": "v <= 2"}, {"partitions": "dynamic"}])
def test_overwrites_at_once_leave_the_rows_of_the_last(tmp_path: Path, how: dict[str, Any]) -> None:
    made(tmp_path / "t", ROWS, partition_by=("p",))
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.overwrite({"p": ["a"], "v": [1]}, **how))
    report = mine.overwrite(iter([{"p": "a", "v": 2}]), **how)
    assert (report.rows, report.version) == (1, 3)
    kept = {"v <= 2": [("b", 3), (None, 4)], "dynamic": [("b", 3), (None, 4)]}.get(next(iter(how.values()), ""), [])
    assert their_rows(tmp_path / "t") == expected(("a", 2), *kept)
    live = {add["path"] for version in range(4) for add in adds(tmp_path / "t", version)}
    assert len(data_files(tmp_path / "t")) == len(live)


def test_an_overwrite_that_lost_to_a_constraint_is_held_against_it(tmp_path: Path) -> None:
    made(tmp_path / "t", ROWS)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.alter.add_constraint("small", "v < 10 or v is null"))
    with pytest.raises(InvalidValue, match="'small'"):
        mine.overwrite(iter([{"v": 10}]))
    assert rows_of(DeltaTable.open(tmp_path / "t")).total() == 4
    assert len(data_files(tmp_path / "t")) == 1


KEYS = st.sampled_from(["a", "b", None])
SOME = st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=6)
STEPS = st.lists(st.tuples(st.sampled_from(["append", "all", "dynamic", "where"]), SOME), min_size=1, max_size=5)


@given(steps=STEPS, layout=st.sampled_from(sorted(LAYOUTS)))
@settings(max_examples=15)
def test_any_appends_and_overwrites_leave_what_a_list_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[tuple[str | None, int]]]], layout: str
) -> None:
    path = tmp_path_factory.mktemp("model") / "t"
    table = DeltaTable.create(path, ROWS.schema, properties=LAYOUTS[layout], partition_by="p")
    model: list[tuple[str | None, int]] = []
    for act, rows in steps:
        chosen = [row for row in rows if row[1] <= 1] if act == "where" else rows
        given_rows = pa.table(
            {"p": pa.array([p for p, _ in chosen], pa.string()), "v": pa.array([v for _, v in chosen], pa.int64())}
        )
        match act:
            case "append":
                table.append(given_rows)
            case "all":
                table.overwrite(given_rows)
                model = []
            case "dynamic":
                table.overwrite(given_rows, partitions="dynamic")
                model = [row for row in model if row[0] not in {p for p, _ in chosen}]
            case "where":
                table.overwrite(given_rows, where="v <= 1")
                model = [row for row in model if row[1] > 1]
        model += chosen
        assert rows_of(table) == expected(*model)
    check(table, *model)


def test_an_overwrite_reads_its_input_once(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"p": ["x"], "v": [1]}).to_batches()

    table.overwrite(rows(), where="v <= 1")
    assert rows_of(table) == expected(("x", 1), ("a", 2), ("b", 3), (None, 4))
