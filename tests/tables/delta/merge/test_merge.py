"""Merging rows into a Delta table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest

from gapless.errors import (
    CorruptTable,
    DuplicateKey,
    InvalidOption,
    InvalidQuery,
    InvalidValue,
    SchemaMismatch,
    UnknownColumn,
    UnreadableInput,
)
from gapless.tables.delta.merge.merge import Merge
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted, counted_table
from support.delta_tables import LAYOUTS, WAYS, made, ordered, replayed, rows_of

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "day": ["a", "a", "b", None], "v": [1.0, 2.0, 3.0, None]})
SOURCE = pa.table({"id": pa.array([2, 4, 9], pa.int64()), "day": ["z", "a", "b"], "v": [20.0, 40.0, 90.0]})
OLD, NEW = {row["id"]: row for row in ROWS.to_pylist()}, {row["id"]: row for row in SOURCE.to_pylist()}

Described = Callable[[Merge], Merge]


@pytest.fixture(params=list(LAYOUTS.values()), ids=list(LAYOUTS))
def properties(request: pytest.FixtureRequest) -> Mapping[str, str]:
    found: Mapping[str, str] = request.param
    return found


def upsert(merge: Merge) -> Merge:
    return merge.when_matched_update_all().when_not_matched_insert_all()


CASES: dict[str, tuple[Described, dict[int, dict[str, Any] | None], tuple[int, int, int]]] = {
    # what is described, rows by id as they become (None: gone), (inserted, updated, deleted)
    "upsert": (upsert, {2: NEW[2], 4: NEW[4], 9: NEW[9]}, (1, 2, 0)),
    "insert only": (lambda m: m.when_not_matched_insert_all(), {9: NEW[9]}, (1, 0, 0)),
    "insert where": (lambda m: m.when_not_matched_insert_all(where="s.v < 90"), {}, (0, 0, 0)),
    "insert values": (
        lambda m: m.when_not_matched_insert({"id": "s.id * 10", "v": 5}),
        {90: {"id": 90, "day": None, "v": 5.0}},
        (1, 0, 0),
    ),
    "first clause that holds": (
        lambda m: (
            m.when_matched_delete(where="t.day IS NULL")
            .when_matched_update({"v": "t.v + s.v", "day": "s.day"}, where="s.v < 30")
            .when_matched_update({"v": -1})
        ),
        {2: {"id": 2, "day": "z", "v": 22.0}, 4: None},
        (0, 1, 1),
    ),
    "names without alias": (
        lambda m: m.when_matched_update({"t.v": 's."v" * 2', "day": "'x'"}),
        {2: {**OLD[2], "day": "x", "v": 40.0}, 4: {**OLD[4], "day": "x", "v": 80.0}},
        (0, 2, 0),
    ),
    "a null condition takes nothing": (lambda m: m.when_matched_delete(where="t.v > 0"), {2: None}, (0, 0, 1)),
    "rows without source": (
        lambda m: m.when_not_matched_by_source_update({"v": "t.v * 100"}, where="id = 1").when_not_matched_by_source_delete(),
        {1: {**OLD[1], "v": 100.0}, 3: None},
        (0, 1, 1),
    ),
    "all of it": (
        lambda m: upsert(m).when_not_matched_by_source_delete(),
        {1: None, 3: None, 2: NEW[2], 4: NEW[4], 9: NEW[9]},
        (1, 2, 2),
    ),
    "updates that change nothing": (lambda m: m.when_matched_update({"v": "t.v", "day": "t.day"}), {}, (0, 0, 0)),
    "matched alone": (lambda m: m.when_matched_delete(), {2: None, 4: None}, (0, 0, 2)),
}


@pytest.mark.parametrize(("properties", "partition_by"), list(WAYS.values()), ids=list(WAYS))
@pytest.mark.parametrize(("describe", "changes", "counts"), CASES.values(), ids=CASES.keys())
def test_clauses_decide_about_rows(
    tmp_path: Path,
    properties: Mapping[str, str],
    partition_by: tuple[str, ...],
    describe: Described,
    changes: Mapping[int, dict[str, Any] | None],
    counts: tuple[int, int, int],
) -> None:
    table = made(tmp_path, ROWS, properties, partition_by)
    report = describe(table.merge(SOURCE, "t.id = s.id")).execute()
    assert (report.inserted_rows, report.updated_rows, report.deleted_rows) == counts
    assert table.version == report.version == (2 if any(counts) else 1)
    wanted = [row for row in ({**OLD, **changes}).values() if row is not None]
    assert rows_of(table) == rows_of(DeltaTable.open(tmp_path)) == counted(wanted)
    if "delta.enableChangeDataFeed" in properties:
        assert replayed(table) == rows_of(table)


def test_any_condition_joins(tmp_path: Path) -> None:
    for on, ids in (
        ("t.id = s.id AND t.day = s.day", set[int]()),
        ("id = s.id OR t.v = 1", None),
        ("t.id + 1 = s.id", {1, 3}),
        ("t.id = s.id AND t.v > 0", {2}),
        ("t.id = s.id AND t.v BETWEEN 0 AND 10 AND s.v < 30", {2}),
        ("t.id = s.id AND s.v > 30", {4}),
        ("t.id >= s.id AND s.id = 2", {2, 3, 4}),
        ("s.id = 2", {1, 2, 3, 4}),
        ("false", set[int]()),
    ):
        table = made(tmp_path / str(abs(hash(on))), ROWS)
        merge = table.merge(SOURCE, on).when_matched_delete()
        if ids is None:
            with pytest.raises(InvalidQuery, match="which may be"):
                merge.execute()
            continue
        merge.execute()
        assert {row["id"] for row in ordered(table)} == {1, 2, 3, 4} - ids, on


def test_aliases_are_chosen(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    merge = table.merge(SOURCE, "Target.id = u.id", source_alias="u", target_alias="target")
    assert merge.when_matched_update({"target.v": "u.v + target.id"}).execute().updated_rows == 2
    assert [row["v"] for row in ordered(table)] == [1.0, 22.0, 3.0, 44.0]
    odd = table.merge({"id": [9]}, '"the t".id = "s.1".id', source_alias="s.1", target_alias="the t")
    assert odd.when_matched_update_all().when_not_matched_insert_all().execute().inserted_rows == 1
    with pytest.raises(InvalidOption, match="both sides"):
        table.merge(SOURCE, "x.id = x.id", source_alias="x", target_alias="X")


def test_a_source_is_what_append_takes_and_is_read_once(tmp_path: Path) -> None:
    for number, source in enumerate(
        (
            SOURCE.to_pylist(),
            SOURCE.to_pydict(),
            SOURCE.to_reader(),
            pl.from_arrow(SOURCE),
            SOURCE.to_pandas(),
            iter(SOURCE.to_batches()),
        )
    ):
        table = made(tmp_path / str(number), ROWS)
        upsert(table.merge(source, "t.id = s.id")).execute()
        assert rows_of(table) == counted([OLD[1], NEW[2], OLD[3], NEW[4], NEW[9]])
    with pytest.raises(UnreadableInput):
        table.merge("rows.parquet", "t.id = s.id")


def test_ups_03_delta_two_source_rows_for_one_row_are_an_error_that_names_the_key(tmp_path: Path) -> None:
    twice = pa.table({"id": pa.array([1, 1, 2], pa.int64()), "v": [7.0, 8.0, 9.0]})
    same = pa.table({"id": pa.array([1, 1], pa.int64()), "v": [7.0, 7.0]})
    table = made(tmp_path, ROWS)
    files = sorted(tmp_path.rglob("*"))
    for source in (twice, same):
        with pytest.raises(DuplicateKey) as refused:
            table.merge(source, "t.id = s.id").when_matched_update_all().execute()
        assert (refused.value.columns, refused.value.keys) == (("id",), ((1,),))
    assert sorted(tmp_path.rglob("*")) == files
    assert rows_of(table) == counted_table(ROWS)
    # Where only one of them acts, or all delete, nothing is left to chance.
    assert table.merge(twice, "t.id = s.id").when_matched_update_all(where="s.v <> 8").execute().updated_rows == 2
    assert table.merge(twice, "t.id = s.id").when_matched_delete().execute().deleted_rows == 2


def test_ups_01_delta_null_keys_match_only_where_it_is_asked(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": pa.array([1, None], pa.int64()), "v": [1.0, 2.0]}))
    source = pa.table({"id": pa.array([None], pa.int64()), "v": [5.0]})
    assert upsert(table.merge(source, "t.id IS NOT DISTINCT FROM s.id")).execute().updated_rows == 1
    assert table.merge(source, "t.id = s.id").when_matched_delete().execute().deleted_rows == 0
    assert sorted(row["v"] for row in table.scan().to_arrow().to_pylist()) == [1.0, 5.0]


def test_ups_05_delta_a_row_that_moves_to_another_partition_leaves_none_behind(
    tmp_path: Path, properties: Mapping[str, str]
) -> None:
    table = made(tmp_path, pa.table({"k": ["a", "b"], "day": [1, 1]}), properties, ("day",))
    upsert(table.merge(pa.table({"k": ["a"], "day": [2]}), "t.k = s.k")).execute()
    assert rows_of(table) == counted([{"k": "a", "day": 2}, {"k": "b", "day": 1}])


def test_ups_08_delta_all_rows_of_a_key_are_updated(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 1, 1, 2], "v": [1, 2, 3, 4]}))
    assert upsert(table.merge(pa.table({"id": [1], "v": [9]}), "t.id = s.id")).execute().updated_rows == 3
    assert sorted((row["id"], row["v"]) for row in ordered(table)) == [(1, 9), (1, 9), (1, 9), (2, 4)]


def test_keys_equal_as_sql_has_it(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"x": [float("nan"), 0.0, 1.0], "n": [1, 2, 3]}))
    source = pa.table({"x": [float("nan"), -0.0], "n": [10, 20]})
    assert table.merge(source, "t.x = s.x").when_matched_update({"n": "s.n"}).execute().updated_rows == 2
    assert sorted(row["n"] for row in table.scan().to_arrow().to_pylist()) == [3, 10, 20]


def test_keys_of_other_types_match_by_value(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": pa.array([1, 2**53 + 1], pa.int64())}))
    assert table.merge({"id": pa.array([1], pa.int8())}, "t.id = s.id").when_matched_delete().execute().deleted_rows == 1
    assert table.merge({"id": pa.array([2.0**53])}, "t.id = s.id").when_not_matched_insert(
        {"id": 7}
    ).execute().inserted_rows in (0, 1)


def test_only_files_that_may_match_are_opened(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": pa.array(range(100), pa.int64()), "v": [0] * 100}))
    table.append(pa.table({"id": pa.array(range(100, 200), pa.int64()), "v": [0] * 100}))
    far, near = table.files()
    (tmp_path / far.path).unlink()
    report = upsert(table.merge({"id": [150, 160], "v": [1, 2]}, "t.id = s.id")).execute()
    assert (report.updated_rows, report.removed_segments) == (2, 1)
    assert near.path not in {file.path for file in table.files()}
    assert far.path in {file.path for file in table.files()}


def test_a_file_whose_rows_stay_what_they_are_stays(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 2], "v": [1, 2]}))
    table.append(pa.table({"id": [3, 4], "v": [3, 4]}))
    first, second = table.files()
    report = upsert(table.merge({"id": [1, 3], "v": [1, 30]}, "t.id = s.id")).execute()
    assert (report.updated_rows, report.removed_segments) == (1, 1)
    assert first.path in {file.path for file in table.files()}
    assert second.path not in {file.path for file in table.files()}


def test_columns_of_the_source_that_are_used_nowhere_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    wide = SOURCE.append_column("op", pa.array(["u", "d", "i"])).append_column("extra", pa.array([1, 2, 3]))
    with pytest.raises(SchemaMismatch, match="extra"):
        upsert(table.merge(wide, "t.id = s.id AND s.op <> 'x'")).execute()
    merge = table.merge(wide.drop_columns(["extra"]), "t.id = s.id")
    report = merge.when_matched_delete(where="s.op = 'd'").when_matched_update_all().when_not_matched_insert_all().execute()
    assert (report.inserted_rows, report.updated_rows, report.deleted_rows) == (1, 1, 1)
    assert "op" not in table.schema.names


def test_new_columns_are_added_where_that_is_asked(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = made(tmp_path, ROWS, properties)
    wide = SOURCE.append_column("note", pa.array(["x", None, "z"]))
    upsert(table.merge(wide, "t.id = s.id", schema_mode="merge")).execute()
    assert table.schema.names == ["id", "day", "v", "note"]
    wanted = [
        {**OLD[1], "note": None},
        {**NEW[2], "note": "x"},
        {**OLD[3], "note": None},
        {**NEW[4], "note": None},
        {**NEW[9], "note": "z"},
    ]
    assert rows_of(table) == rows_of(DeltaTable.open(tmp_path)) == counted(wanted)
    with pytest.raises(InvalidOption, match="schema_mode"):
        table.merge(wide, "t.id = s.id", schema_mode="overwrite")


@pytest.mark.parametrize(
    ("describe", "on", "error"),
    [
        (lambda m: m, "t.id = s.id", InvalidOption),
        (upsert, "t.id = ", InvalidQuery),
        (upsert, "t.id = s.nope", UnknownColumn),
        (upsert, "id = s.id", InvalidQuery),
        (upsert, "count(t.id) = s.id", InvalidQuery),
        (upsert, "t.id", InvalidQuery),
        (upsert, "'t.id = s.id'", InvalidQuery),
        (upsert, "s.id = unnest([t.id, 1])", InvalidQuery),
        (lambda m: m.when_matched_update("v = 1"), "t.id = s.id", InvalidOption),
        (lambda m: m.when_matched_update({"nope": "1"}), "t.id = s.id", UnknownColumn),
        (lambda m: m.when_matched_update({"id": "s.v + 0.5"}), "t.id = s.id", InvalidValue),
        (lambda m: m.when_matched_update({"v": "v"}), "t.id = s.id", InvalidQuery),
        (lambda m: m.when_not_matched_insert({"v": "t.v"}), "t.id = s.id", InvalidQuery),
        (lambda m: m.when_not_matched_by_source_update({"v": "s.v"}), "t.id = s.id", InvalidQuery),
        (lambda m: m.when_matched_delete().when_matched_update_all(), "t.id = s.id", InvalidOption),
        (lambda m: m.when_matched_delete(where="t.v"), "t.id = s.id", InvalidQuery),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, describe: Described, on: str, error: type[Exception]) -> None:
    table = made(tmp_path, ROWS)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(error):
        describe(table.merge(SOURCE, on)).execute()
    assert sorted(tmp_path.rglob("*")) == files
    assert table.refresh().version == 1


def test_constraints_hold_of_merged_rows(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, {"delta.constraints.small": "v IS NULL OR v < 50"})
    described: list[Described] = [
        lambda m: m.when_not_matched_insert_all(),
        lambda m: m.when_matched_update({"v": "s.v + 40"}),
    ]
    for describe in described:
        with pytest.raises(InvalidValue, match="small"):
            describe(table.merge(SOURCE, "t.id = s.id")).execute()
    assert rows_of(table) == counted_table(ROWS)


def test_nested_columns_are_taken_as_they_are(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.list_(pa.struct([("b", pa.int32())]))), ("m", pa.map_(pa.string(), pa.float64()))])
    rows = pa.table({"id": [1, 2], "s": pa.array([{"a": [{"b": 1}, None], "m": [("k", 0.5)]}, None], kind)})
    news = pa.table({"id": [2, 3], "s": pa.array([{"a": [], "m": None}, {"a": None, "m": [("n", None)]}], kind)})
    table = made(tmp_path, rows)
    upsert(table.merge(news, "t.id = s.id")).execute()
    assert rows_of(table) == counted([*rows.slice(0, 1).to_pylist(), *news.to_pylist()])
    report = table.merge(news, "t.id = s.id").when_matched_update({"s.m": "s.s.m"}, where="len(s.s.a) = 0").execute()
    assert report.updated_rows == 0


def test_a_field_that_the_tables_struct_lacks_is_not_left_out_in_silence(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1], "st": [{"a": 1}]}))
    source = pa.table({"id": [1, 2], "st": [{"A": 2, "b": 3}] * 2})
    with pytest.raises(SchemaMismatch, match="the column has no field 'A'"):
        upsert(table.merge(source, "t.id = s.id")).execute()
    assert ordered(table) == [{"id": 1, "st": {"a": 1}}]


def test_merging_into_an_empty_table_inserts(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, ROWS.schema)
    report = upsert(table.merge(SOURCE, "t.id = s.id")).execute()
    assert (report.inserted_rows, report.version) == (3, 1)
    assert rows_of(table) == counted_table(SOURCE)
    assert upsert(table.merge(SOURCE.slice(0, 0), "t.id = s.id")).execute().version == 1


def test_an_operation_is_applied_once(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    first = upsert(table.merge(SOURCE, "t.id = s.id")).execute(operation_id=("feed", 7))
    again = upsert(DeltaTable.open(tmp_path).merge(SOURCE, "t.id = s.id")).execute(operation_id=("feed", 7))
    assert (again.already_applied, again.version) == (True, first.version)
    assert (again.inserted_rows, again.updated_rows) == (first.inserted_rows, first.updated_rows) == (1, 2)


def test_columns_that_are_never_null_stay_so(tmp_path: Path) -> None:
    """The rows of files, changed rows and new rows come under one schema."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string()), pa.field("v", pa.float64())])
    for layout in LAYOUTS:
        table = DeltaTable.create(tmp_path / layout, schema, properties=LAYOUTS[layout])
        table.append(ROWS)
        table.update({"v": "v + 1"}, where="id = 1")
        upsert(table.merge(SOURCE, "t.id = s.id")).when_not_matched_by_source_delete(where="t.id = 3").execute()
        assert rows_of(table) == counted([{**OLD[1], "v": 2.0}, NEW[2], NEW[4], NEW[9]])
        assert not table.schema.field("id").nullable
        with pytest.raises(InvalidValue, match="id"):
            table.update({"id": "NULL"})


def test_a_store_that_fails_is_told_as_such(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS)
    (tmp_path / table.files()[0].path).unlink()
    with pytest.raises(CorruptTable, match="missing"):
        upsert(table.merge(SOURCE, "t.id = s.id")).execute()
    with pytest.raises(CorruptTable, match="missing"):
        table.dedup("id")


@pytest.mark.parametrize("layout", ["copies and feed", "vectors and feed"])
def test_the_feed_is_the_same_in_deltalake(tmp_path: Path, layout: str) -> None:
    table = made(tmp_path, ROWS, LAYOUTS[layout], ("day",))
    table.update({"v": "v + 1"}, where="id <= 3")
    upsert(table.merge(SOURCE, "t.id = s.id")).when_not_matched_by_source_delete(where="t.id = 1").execute()
    table.delete("day = 'b'")
    theirs = pa.table(deltalake.DeltaTable(tmp_path).load_cdf(starting_version=1))
    names = [*ROWS.schema.names, "_change_type", "_commit_version"]
    assert counted_table(table.changes(1).to_arrow().select(names)) == counted_table(theirs.select(names))
    assert theirs.num_rows == 4 + 6 + 6 + 2
