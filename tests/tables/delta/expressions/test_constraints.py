"""What every written row must satisfy, and what rows that lack a column get."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import InvalidValue, SchemaMismatch, UnsupportedTable
from gapless.formats.delta.actions import Metadata
from gapless.formats.delta.schema.types import StructField, StructType, encode_schema
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted
from support.delta_tables import rows_of
from support.theirs import log_lines, their_rows

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("s", pa.string())])


def data_files(path: Path) -> int:
    return len([file for file in path.rglob("*.parquet") if "_delta_log" not in file.parts])


def told_anew(path: Path, change: Callable[[StructField], StructField], **protocol: Any) -> DeltaTable:
    """The table, with what version 0 says of its columns changed, as another writer may have said it."""
    metadata: Metadata = DeltaTable.open(path)._state.metadata
    schema = StructType(fields=tuple(map(change, metadata.schema.fields)))
    lines = log_lines(path, 0)
    for line in lines:
        if "metaData" in line:
            line["metaData"]["schemaString"] = encode_schema(schema)
        if "protocol" in line and protocol:
            line["protocol"] = protocol
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return DeltaTable.open(path)


def with_metadata(name: str, **entries: Any) -> Callable[[StructField], StructField]:
    return lambda field: field.with_metadata(**entries) if field.name == name else field


def feature(name: str) -> dict[str, Any]:
    return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [name, "invariants", "appendOnly"]}


# -- constraints -----------------------------------------------------------------------------------------------------


def test_a_row_that_breaks_a_constraint_is_named_with_what_it_has(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.constraints.positive": "v > 0 AND s <> 'x'"})
    assert table.protocol.writer == 3
    table.append({"id": [1], "v": [1.0], "s": ["a"]})
    with pytest.raises(InvalidValue) as caught:
        table.append({"id": [2, 3], "v": [1.0, -1.0], "s": ["a", "b"]})
    text = str(caught.value)
    for part in ("row 1", "'positive'", "v > 0 AND s <> 'x'", "v=-1.0", "s='b'"):
        assert part in text
    assert (caught.value.row, caught.value.column, caught.value.value) == (1, "v", -1.0)
    assert (table.version, data_files(tmp_path / "t")) == (1, 1)


@pytest.mark.parametrize("bad", [{"v": [None], "s": ["a"]}, {"s": ["a"]}, {"v": [1.0], "s": ["x"]}])
def test_a_row_for_which_a_constraint_is_null_or_false_breaks_it(tmp_path: Path, bad: dict[str, Any]) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.constraints.c": "v > 0 AND s <> 'x'"})
    with pytest.raises(InvalidValue, match="'c'"):
        table.append(bad)
    assert data_files(tmp_path / "t") == 0


def test_every_kind_of_change_is_held_against_constraints(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.constraints.positive": "v > 0"})
    table.append({"id": [1, 2], "v": [1.0, 2.0]})
    changes: list[Callable[[], Any]] = [
        lambda: table.append({"v": [0.0]}),
        lambda: table.overwrite({"v": [0.0]}),
        lambda: table.overwrite({"id": [1], "v": [0.0]}, where="id = 1"),
        lambda: table.update({"v": "v - 1"}, where="id = 1"),
        lambda: (
            table.merge(pa.table({"id": [1], "v": [-1.0], "s": ["a"]}), on="t.id = s.id").when_matched_update_all().execute()
        ),
    ]
    for change in changes:
        with pytest.raises(InvalidValue, match="'positive'"):
            change()
    assert table.refresh().version == 1
    assert their_rows(tmp_path / "t") == counted([{"id": 1, "v": 1.0, "s": None}, {"id": 2, "v": 2.0, "s": None}])


def test_a_constraint_of_deltalake_holds_here_and_one_of_ours_there(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1], "v": [1.0]}))
    DeltaLakeTable(str(tmp_path / "t")).alter.add_constraint({"small": "id < 10"})
    ours = DeltaTable.open(tmp_path / "t")
    with pytest.raises(InvalidValue, match="small"):
        ours.append({"id": [10]})
    ours.alter.add_constraint("other", "v < 5")
    with pytest.raises(deltalake.exceptions.DeltaError, match="1 rows failed"):
        deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [2], "v": [6.0]}), mode="append")
    assert rows_of(ours) == counted([{"id": 1, "v": 1.0}])


@pytest.mark.parametrize(
    ("expression", "good", "bad"),
    [
        ("`a b` > 1", {"a b": [2]}, {"a b": [1]}),
        ("ts >= '2026-01-01'", {"ts": [datetime(2026, 1, 1, tzinfo=UTC)]}, {"ts": [datetime(2025, 12, 31, 23, tzinfo=UTC)]}),
        ("year(ts) = 2026", {"ts": [datetime(2026, 1, 1, tzinfo=UTC)]}, {"ts": [datetime(2025, 12, 31, 23, tzinfo=UTC)]}),
        ("st.x IS NOT NULL", {"st": [{"x": 1}]}, {"st": [{"x": None}]}),
        ("size(l) > 1", {"l": [[1, 2]]}, {"l": [[1]]}),
        (
            "d = 1.10",
            {"d": pa.array([Decimal("1.10")], pa.decimal128(5, 2))},
            {"d": pa.array([Decimal("1.11")], pa.decimal128(5, 2))},
        ),
        ("s RLIKE '^a+$' OR s IN ('b')", {"s": ["aa"]}, {"s": ["ba"]}),
        ("length(trim(s)) > 0", {"s": [" a "]}, {"s": ["  "]}),
        ("`A b` <=> NULL OR `a b` BETWEEN 1 AND 3", {"a b": [None]}, {"a b": [4]}),
        ("NOT isnan(v)", {"v": [1.0]}, {"v": [math.nan]}),
    ],
)
def test_constraints_speak_sparks_sql(tmp_path: Path, expression: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    schema = pa.schema([
        ("a b", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("st", pa.struct([("x", pa.int64())])), ("l", pa.list_(pa.int64())),
        ("d", pa.decimal128(5, 2)), ("s", pa.string()), ("v", pa.float64()),
    ])  # fmt: skip
    properties = {"delta.constraints.c": expression, "delta.columnMapping.mode": "name"}
    table = DeltaTable.create(tmp_path / "t", schema, properties=properties)
    table.append(good)
    with pytest.raises(InvalidValue):
        table.append(bad)
    assert rows_of(table).total() == 1


def test_a_constraint_that_cannot_be_computed_refuses_writes_only(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.constraints.c": "id > 0"})
    table.append({"id": [1]})
    path = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    path.write_text(path.read_text().replace('"id > 0"', '"my_udf(id) > 0"'))
    table = DeltaTable.open(tmp_path / "t")
    assert rows_of(table).total() == 1
    with pytest.raises(UnsupportedTable, match="my_udf"):
        table.append({"id": [2]})
    assert data_files(tmp_path / "t") == 1


# -- nulls and invariants ----------------------------------------------------------------------------------------------


def test_a_column_that_is_never_null_is_kept_so_at_every_depth(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.int64())])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("st", inner), ("l", pa.list_(inner))])
    table = DeltaTable.create(tmp_path / "t", schema)
    loose = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    table.append({"id": [1, 2], "st": pa.array([{"x": 1, "y": None}, None], loose), "l": [None, []]})
    bad: list[tuple[dict[str, Any], str]] = [
        ({"id": [1, None]}, "column 'id' is null in row 1"),
        ({"id": [1, 2], "st": pa.array([None, {"x": None, "y": 1}], loose)}, "row 1"),
        ({"id": [1, 2], "l": pa.array([[], [{"x": None, "y": 1}]], pa.list_(loose))}, "row 1"),
    ]
    for data, message in bad:
        with pytest.raises(InvalidValue, match=message):
            table.append(data)
    with pytest.raises(SchemaMismatch, match="may not be null"):
        table.append({"st": pa.array([None], loose)})
    assert their_rows(tmp_path / "t") == rows_of(table)


def test_an_invariant_of_a_column_holds(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    text = json.dumps({"expression": {"expression": "id > 3"}})
    table = told_anew(tmp_path / "t", with_metadata("id", **{"delta.invariants": text}))
    table.append({"id": [4]})
    for bad in ([3], [None]):
        with pytest.raises(InvalidValue, match="invariant of column 'id'"):
            table.append({"id": pa.array(bad, pa.int64())})


def test_an_invariant_that_cannot_be_read_refuses_writes(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    table = told_anew(tmp_path / "t", with_metadata("id", **{"delta.invariants": "id > 3"}))
    with pytest.raises(UnsupportedTable, match="invariant"):
        table.append({"id": [4]})


# -- generated and default columns -------------------------------------------------------------------------------------


def generated(tmp_path: Path, expression: str, type_: pa.DataType) -> DeltaTable:
    field = pa.field("g", type_, metadata={"delta.generationExpression": expression})
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), field, ("v", pa.int64())])
    return DeltaTable.create(tmp_path / "t", schema, partition_by="g")


def test_path_14_delta_a_generated_column_is_computed_and_verified(tmp_path: Path) -> None:
    table = generated(tmp_path, "CAST(ts AS DATE)", pa.date32())
    assert table.protocol.writer == 4 or "generatedColumns" in table.protocol.writer_features
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    table.append({"ts": [at, None], "v": [1, 2]})
    table.append({"ts": [at], "g": [date(2024, 5, 1)], "v": [3]})
    with pytest.raises(InvalidValue, match=r"generated column 'g', CAST\(ts AS DATE\)"):
        table.append({"ts": [at], "g": [date(2024, 5, 2)], "v": [4]})
    with pytest.raises(InvalidValue):
        table.append({"ts": [at], "g": pa.array([None], pa.date32()), "v": [4]})
    day = date(2024, 5, 1)
    assert rows_of(table) == counted([
        {"ts": at, "g": day, "v": 1}, {"ts": None, "g": None, "v": 2}, {"ts": at, "g": day, "v": 3},
    ])  # fmt: skip
    for where in (
        "ts = timestamptz '2024-05-01T10:00Z'",
        "ts >= timestamptz '2024-05-01T09:00Z'",
        "ts < timestamptz '2024-05-02T00:00Z'",
    ):
        assert table.scan(where=where).to_arrow().num_rows == 2


@pytest.mark.parametrize(
    ("expression", "type_", "value"),
    [
        ("date_format(ts, 'yyyy-MM')", pa.string(), "2024-05"),
        ("year(ts)", pa.int32(), 2024),
        ("date_trunc('HOUR', ts)", pa.timestamp("us", "UTC"), datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("v % 10", pa.int64(), 3),
        ("concat('v', CAST(v AS STRING))", pa.string(), "v13"),
        ("substring('abcdef', 2, 3)", pa.string(), "bcd"),
        ("CAST(v AS DOUBLE) / 2", pa.float64(), 6.5),
    ],
)
def test_generated_columns_speak_sparks_sql(tmp_path: Path, expression: str, type_: pa.DataType, value: Any) -> None:
    table = generated(tmp_path, expression, type_)
    table.append({"ts": [datetime(2024, 5, 1, 10, 20, tzinfo=UTC)], "v": [13]})
    assert table.scan().to_arrow().column("g").to_pylist() == [value]


def test_a_column_default_fills_what_is_missing_and_no_null_that_is_said(tmp_path: Path) -> None:
    def default(expression: str, name: str, type_: pa.DataType) -> pa.Field:
        return pa.field(name, type_, metadata={"CURRENT_DEFAULT": expression})

    fields = [
        ("id", pa.int64()), default("41 + 1", "n", pa.int32()), default("'x'", "s", pa.string()),
        default("current_timestamp()", "at", pa.timestamp("us", "UTC")), default("array(1, 2)", "l", pa.list_(pa.int32())),
    ]  # fmt: skip
    table = DeltaTable.create(tmp_path / "t", pa.schema(fields))
    assert "allowColumnDefaults" in table.protocol.writer_features
    began = datetime.now(UTC)
    table.append({"id": [1, 2]})
    table.append({"id": [3], "n": pa.array([None], pa.int32()), "s": ["y"]})
    rows = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["n"], row["s"], row["l"]) for row in rows] == [(42, "x", [1, 2]), (42, "x", [1, 2]), (None, "y", [1, 2])]
    assert rows[0]["at"] == rows[1]["at"]
    assert abs((rows[0]["at"] - began).total_seconds()) < 60


def test_a_column_that_may_not_be_null_may_be_left_out_where_it_has_a_default(tmp_path: Path) -> None:
    field = pa.field("n", pa.int64(), nullable=False, metadata={"CURRENT_DEFAULT": "7"})
    table = DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64()), field]))
    table.append({"id": [1]})
    assert rows_of(table) == counted([{"id": 1, "n": 7}])


def test_identity_columns_are_refused_by_name(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    counted_up = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    table = told_anew(tmp_path / "t", with_metadata("id", **counted_up), **feature("identityColumns"))
    with pytest.raises(UnsupportedTable, match="'id' is an identity column"):
        table.append({"v": [1.0]})
    assert data_files(tmp_path / "t") == 0


def test_the_constraint_of_a_nested_field_is_checked_in_a_mapped_table(tmp_path: Path) -> None:
    schema = pa.schema([("st", pa.struct([("x", pa.int64())]))])
    properties = {"delta.columnMapping.mode": "name", "delta.constraints.c": "st.x > 0"}
    table = DeltaTable.create(tmp_path / "t", schema, properties=properties)
    table.append({"st": [{"x": 1}]})
    with pytest.raises(InvalidValue, match=r"st\.x > 0"):
        table.append({"st": [{"x": 0}]})
