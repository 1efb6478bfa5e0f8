"""Updating rows of a Delta table."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.errors import GaplessError, InvalidOption, InvalidQuery, InvalidValue, SchemaMismatch, UnknownColumn
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted, counted_table
from support.delta_tables import LAYOUTS, WAYS, made, ordered, replayed, rows_of

NAN = float("nan")
ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "day": ["a"] * 5 + ["b"] * 5, "v": [1.5, None, NAN, -0.0, 0.0] * 2})


@pytest.fixture(params=list(LAYOUTS.values()), ids=list(LAYOUTS))
def properties(request: pytest.FixtureRequest) -> Mapping[str, str]:
    found: Mapping[str, str] = request.param
    return found


def expected(changes: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [row | changes.get(row["id"], {}) for row in ROWS.to_pylist()]


@pytest.mark.parametrize(("properties", "partition_by"), list(WAYS.values()), ids=list(WAYS))
@pytest.mark.parametrize(
    ("values", "where", "changes"),
    [
        ({"v": "v + 1"}, "id = 0", {0: {"v": 2.5}}),
        ({"v": "v + 1"}, None, {i: {"v": v} for i, v in ((0, 2.5), (3, 1.0), (4, 1.0), (5, 2.5), (8, 1.0), (9, 1.0))}),
        ({"v": 7.25}, "v IS NULL", {1: {"v": 7.25}, 6: {"v": 7.25}}),
        ({"v": None}, "id = 4", {4: {"v": None}}),
        ({"v": "-v"}, "id = 3", {3: {"v": 0.0}}),
        ({"day": "'c'"}, "id IN (4, 5)", {4: {"day": "c"}, 5: {"day": "c"}}),
        ({"day": "upper(day)", "v": pa.scalar(2, pa.int32())}, "id = 9", {9: {"day": "B", "v": 2.0}}),
        ({"id": "id + 100"}, "day = 'b'", {i: {"id": i + 100} for i in range(5, 10)}),
        ({"ID": "v", "v": "id"}, "id = 3", {3: {"id": 0, "v": 3.0}}),
        ({"v": "1"}, "v > 100", {}),
        ({"v": "v", "day": "day"}, None, {}),
    ],
)
def test_rows_take_new_values(
    tmp_path: Path,
    properties: Mapping[str, str],
    partition_by: tuple[str, ...],
    values: Mapping[str, object],
    where: str | None,
    changes: Mapping[int, Mapping[str, Any]],
) -> None:
    if where == "v > 100":
        where = "v > 100 AND NOT isnan(v)"
    table = made(tmp_path, ROWS, properties, partition_by)
    report = table.update(values, where=where)
    assert (report.updated_rows, report.rows, report.removed_rows) == (len(changes),) * 3
    assert table.version == report.version == (2 if changes else 1)
    assert rows_of(table) == counted(expected(changes))
    assert rows_of(DeltaTable.open(tmp_path)) == counted(expected(changes))
    if "delta.enableChangeDataFeed" in properties:
        assert replayed(table) == rows_of(table)


def test_cdc_02_delta_an_update_that_changes_nothing_tells_nothing(tmp_path: Path) -> None:
    for layout in ("copies and feed", "vectors and feed"):
        table = made(tmp_path / layout, ROWS, LAYOUTS[layout])
        assert table.update({"v": "coalesce(NULL, v)"}).updated_rows == 0
        assert table.refresh().version == 1
        report = table.update({"v": "CASE WHEN id = 2 THEN 5 ELSE v END"})
        assert report.updated_rows == 1, "null stays null, NaN stays NaN"
        told = table.changes(2, 2).to_arrow().select(["id", "v", "_change_type"]).to_pylist()
        assert sorted((row["_change_type"], row["id"], repr(row["v"])) for row in told) == [
            ("update_postimage", 2, "5.0"),
            ("update_preimage", 2, "nan"),
        ]


def test_files_without_a_changed_row_stay(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS.slice(0, 5))
    table.append(ROWS.slice(5))
    before = {file.path for file in table.files()}
    report = table.update({"day": "'a'"})
    assert (report.updated_rows, report.removed_segments) == (5, 1)
    assert len(before & {file.path for file in table.files()}) == 1


def test_a_new_partition_value_moves_the_row(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, LAYOUTS["copies and feed"], ("day",))
    table.update({"day": "'é/ü %='"}, where="id = 0")
    assert {file.partition_values["day"] for file in table.scan(where="id = 0").files()} >= {"é/ü %="}
    assert table.scan(where="day = 'é/ü %='").to_arrow().column("id").to_pylist() == [0]
    assert replayed(table) == rows_of(table)


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "whole": pa.array([9007199254740993, None], pa.int64()),
        "money": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(22, 2)),
        "at": pa.array([dt.datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "wall": pa.array([dt.datetime(1, 1, 1), None], pa.timestamp("us")),
        "on": pa.array([dt.date(9999, 12, 31), None], pa.date32()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "flag": pa.array([True, None], pa.bool_()),
        "tags": pa.array([["x", None], None], pa.list_(pa.string())),
        "where": pa.array(
            [{"x": 1, "at": {"y": "deep"}}, None], pa.struct([("x", pa.int32()), ("at", pa.struct([("y", pa.string())]))])
        ),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def test_other_columns_come_through_to_the_bit(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = made(tmp_path, TYPED, properties)
    table.update({"id": "id + 10"})
    wanted = [row | {"id": row["id"] + 10} for row in TYPED.to_pylist()]
    assert rows_of(table) == counted(wanted)
    assert table.scan().to_arrow().schema.field("money").type == pa.decimal128(22, 2)


def test_exact_values_are_computed_exactly(tmp_path: Path) -> None:
    table = made(tmp_path, TYPED)
    table.update(
        {"whole": "whole + 2", "money": "money + 0.01", "at": "at + INTERVAL 1 DAY", "raw": b"new", "flag": False},
        where="id = 1",
    )
    (row,) = table.scan(where="id = 1").to_pylist()
    assert row["whole"] == 9007199254740995
    assert row["money"] == Decimal("12345678901234567890.13")
    assert row["at"] == dt.datetime(2026, 1, 6, 12, 0, 0, 123456, tzinfo=dt.UTC)
    assert (row["raw"], row["flag"]) == (b"new", False)


def test_a_field_of_a_struct_is_named_by_a_dotted_path(tmp_path: Path, properties: Mapping[str, str]) -> None:
    table = made(tmp_path, TYPED, properties)
    table.update({"where.at.y": "'new'", "where.x": '"where".x + 1'})
    found = {row["id"]: row["where"] for row in table.scan().to_pylist()}
    assert found[1] == {"x": 2, "at": {"y": "new"}}
    assert found[2] == {"x": None, "at": {"y": "new"}}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({}, InvalidOption),
        ({"nope": "1"}, UnknownColumn),
        ({"v": "nope + 1"}, UnknownColumn),
        ({"v": "v +"}, InvalidQuery),
        ({"v": "sum(v)"}, InvalidQuery),
        ({"v": "random()"}, InvalidQuery),
        ({"id": "1.5"}, InvalidValue),
        ({"id": "'x'"}, GaplessError),
        ({"id": 1.5}, InvalidValue),
        ({"id": dt.datetime(2026, 1, 1)}, SchemaMismatch),
        ({"v": "1", "V": "2"}, InvalidOption),
        ({3: "1"}, InvalidOption),
        ({"v": object()}, InvalidOption),
    ],
)
def test_bad_values_are_refused_and_change_nothing(
    tmp_path: Path, values: Mapping[str, object], error: type[Exception]
) -> None:
    table = made(tmp_path, ROWS)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(error):
        table.update(values)
    assert table.refresh().version == 1
    assert rows_of(table) == counted_table(ROWS)
    assert sorted(tmp_path.rglob("*")) == files, "nothing is left behind"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"v": "'x'"}, "does not fit column 'v'"),
        ({"id": "1", "v": "'x'"}, "does not fit column 'v'"),
        ({"nope": "1"}, "values='nope' names a column 'nope'"),
        ({"v": "v + ="}, "Something is missing"),
        ({"v": "v + 1) 2"}, "Unexpected token"),
        ({"v": "'x"}, "cannot be parsed"),
    ],
)
def test_errors_name_what_was_given(tmp_path: Path, values: Mapping[str, object], said: str) -> None:
    with pytest.raises(GaplessError, match=re.escape(said)) as caught:
        made(tmp_path, ROWS).update(values)
    assert "sqlglot" not in str(caught.value)


def test_columns_with_odd_names_take_values(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([{"b": 1}], pa.struct({"b": pa.int64()})), "a.b": [2], 'a"': ["x"]})
    table = made(tmp_path, rows, {"delta.columnMapping.mode": "name"})
    table.update({"a": "{'b': 5}", "A.b": '"a.b" + 1', 'a"': "'y'"})
    assert rows_of(table) == counted_table(pa.table({"a": [{"b": 5}], "a.b": [3], 'a"': ["y"]}))


def test_a_number_in_sql_is_no_column_of_that_name(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"v": [1], "2024": [7], "null": ["n"], "s": ["x"], "b": [False], "true": [False]}))
    table.update({"v": "2024", "s": "null", "b": "true"})
    assert ordered(table, "v") == [{"v": 2024, "2024": 7, "null": "n", "s": None, "b": True, "true": False}]
    table.update({"v": '"2024"', "s": '"null"'})
    assert ordered(table, "v") == [{"v": 7, "2024": 7, "null": "n", "s": "n", "b": True, "true": False}]


@pytest.mark.parametrize("sql", ["sum(id)", "nope + 1", "id +", "length(id)"])
def test_wrong_sql_is_refused_where_no_row_is_meant_too(tmp_path: Path, sql: str) -> None:
    table = made(tmp_path, ROWS)
    with pytest.raises((InvalidQuery, UnknownColumn)):
        table.update({"v": sql}, where="id = -1")


def test_a_map_is_given_as_a_dict_or_its_pairs(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1], "m": pa.array([None], pa.map_(pa.string(), pa.float64()))}))
    for value in ({"k": 1.5}, [("k", 2.5)], {}, None):
        table.update({"m": value})
        assert ordered(table)[0]["m"] == (list(value.items()) if isinstance(value, dict) else value)
    with pytest.raises(InvalidOption, match="cannot be given"):
        table.update({"m": {"k": "x"}})


def test_a_row_that_divides_by_zero_is_named(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 2], "v": [1, 0]}))
    with pytest.raises(InvalidValue, match=r"row 1: .*It has id=2, v=0"):
        table.update({"id": "id // v"})


def test_a_struct_with_a_field_that_the_column_lacks_is_refused(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    table = made(
        tmp_path, pa.table({"id": [1], "st": pa.array([{"a": 1, "b": "x"}], kind), "l": pa.array([[]], pa.list_(kind))})
    )
    for values in ({"st": "{'a': 2, 'c': 'y'}"}, {"l": "[{'A': 2}]"}, {"st": {"a": 2, "c": "y"}}):
        with pytest.raises(SchemaMismatch, match="the column has no field"):
            table.update(values)
    table.update({"st": "{'b': 'y'}"})
    assert ordered(table)[0]["st"] == {"a": None, "b": "y"}


@pytest.mark.parametrize("values", ["v = 1", [("v", "1")], None])
def test_values_are_a_mapping(tmp_path: Path, values: Any) -> None:
    with pytest.raises(InvalidOption, match="mapping"):
        made(tmp_path, ROWS).update(values)


def test_constraints_hold_of_changed_rows(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS, {"delta.constraints.small": "id < 100"})
    with pytest.raises(InvalidValue, match="small"):
        table.update({"id": "id + 95"})
    assert table.update({"id": "id + 90"}).updated_rows == 10
    assert [row["id"] for row in ordered(table)] == list(range(90, 100))


def test_generated_columns_follow(tmp_path: Path) -> None:
    field = pa.field("double", pa.int64(), metadata={b"delta.generationExpression": b"id * 2"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    table = DeltaTable.create(tmp_path, schema)
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    table.update({"id": "id + 1"}, where="id = 2")
    assert ordered(table) == [{"id": 1, "double": 2}, {"id": 3, "double": 6}]
