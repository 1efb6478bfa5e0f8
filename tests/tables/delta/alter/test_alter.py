"""`t.alter`: what a Delta table becomes, what its rows are then, and what it refuses; deltalake reads what it can of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    GaplessError,
    InvalidChange,
    InvalidOption,
    InvalidQuery,
    InvalidValue,
    NotSupported,
    SchemaMismatch,
    UnknownColumn,
)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("day", pa.string()),
        pa.field("at", pa.struct([("x", pa.int32()), ("y", pa.float32())])),
        pa.field("tags", pa.list_(pa.struct([("k", pa.string()), ("n", pa.int16())]))),
    ]
)
ROWS = [
    {"id": 1, "day": "mon", "at": {"x": 1, "y": 0.5}, "tags": [{"k": "a", "n": 1}]},
    {"id": 2, "day": "tue", "at": None, "tags": None},
]
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Two rows in two partitions, without column mapping."""
    made = gl.delta.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    made.append(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


@pytest.fixture
def mapped(table: Any) -> Any:
    """The same, with column mapping that was switched on afterwards."""
    table.alter.set_properties(MAPPED)
    return table


def rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_pylist(), key=lambda row: row.get("id") or row.get("ident") or 0)


def commit(table: Any, version: int | None = None) -> list[dict[str, Any]]:
    """The actions of a commit, by the bytes on disk."""
    number = table.version if version is None else version
    text = Path(table.url.removeprefix("file://"), "_delta_log", f"{number:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def protocol(table: Any) -> tuple[int, int, set[str]]:
    known = table.protocol
    return known.reader, known.writer, set(known.reader_features | known.writer_features)


# -- columns -----------------------------------------------------------------------------------------------------------


def test_a_new_column_is_null_for_rows_that_are_there_and_takes_values_after(table: Any) -> None:
    assert table.alter.add_column("v", pa.float64(), comment="worth", after="id") == 2
    assert table.schema.names == ["id", "v", "day", "at", "tags"]
    assert table.schema.field("v").metadata == {b"comment": b"worth"}
    table.append(pa.table({"id": pa.array([3], pa.int32()), "v": [1.5]}))
    assert [row["v"] for row in rows(table)] == [None, None, 1.5]
    theirs = deltalake.DeltaTable(table.url.removeprefix("file://"))
    assert sorted(theirs.to_pyarrow_table(columns=["id", "v"]).to_pylist(), key=lambda row: row["id"])[2] == {"id": 3, "v": 1.5}


def test_a_commit_of_columns_holds_no_file(table: Any) -> None:
    table.alter.add_column("v", "int64")
    assert [next(iter(action)) for action in commit(table)] == ["commitInfo", "metaData"]
    assert commit(table)[0]["commitInfo"]["operation"] == "ADD COLUMNS"
    assert table.history()[-1].operation == "ADD COLUMNS"


def test_nested_fields_go_by_dotted_paths(mapped: Any) -> None:
    mapped.alter.add_column("at.z", "string")
    mapped.alter.add_column("tags.element.m", "bool", after="k")
    mapped.alter.rename_column("at.x", "east")
    mapped.alter.rename_column("tags.element.k", "key")
    assert rows(mapped)[0] == {
        "id": 1,
        "day": "mon",
        "at": {"east": 1, "y": 0.5, "z": None},
        "tags": [{"key": "a", "m": None, "n": 1}],
    }
    mapped.alter.drop_column("at.y")
    mapped.alter.drop_column(("tags", "element", "n"))
    assert rows(mapped)[0] == {"id": 1, "day": "mon", "at": {"east": 1, "z": None}, "tags": [{"key": "a", "m": None}]}


def test_renamed_columns_keep_their_rows_partitions_and_filters(mapped: Any) -> None:
    mapped.alter.rename_column("id", "ident")
    mapped.alter.rename_column("day", "weekday")
    assert mapped.partition_by == ("weekday",)
    assert [(row["ident"], row["weekday"]) for row in rows(mapped)] == [(1, "mon"), (2, "tue")]
    assert mapped.scan(where="ident = 2").count() == 1
    assert len(mapped.scan(where="weekday = 'mon'").files()) == 1
    mapped.append(pa.table({"ident": pa.array([3], pa.int32()), "weekday": ["wed"]}))
    assert len(mapped.scan(where="ident > 2").files()) == 1
    assert mapped.at(1).schema.names == SCHEMA.names


def test_a_dropped_name_that_is_added_again_is_a_new_column(mapped: Any) -> None:
    mapped.alter.drop_column("at")
    mapped.alter.add_column("at", pa.struct([("x", pa.int32())]))
    assert [row["at"] for row in rows(mapped)] == [None, None]
    mapped.append(
        pa.table({"id": pa.array([3], pa.int32()), "at": [{"x": 7}]}, schema=None).cast(
            pa.schema([("id", pa.int32()), ("at", pa.struct([("x", pa.int32())]))])
        )
    )
    assert rows(mapped)[2]["at"] == {"x": 7}
    assert mapped.at(1).scan(columns=["at"]).to_pylist()[0]["at"] in ({"x": 1, "y": 0.5}, None)


def test_ids_of_columns_only_grow(mapped: Any) -> None:
    before = int(mapped.properties["delta.columnMapping.maxColumnId"])
    assert before == 8  # four columns, and four fields in them
    mapped.alter.add_column("v", "int64")
    mapped.alter.drop_column("v")
    mapped.alter.add_column("v", "int64")
    assert int(mapped.properties["delta.columnMapping.maxColumnId"]) == before + 2


@pytest.mark.parametrize(
    ("name", "wider", "value"),
    [
        ("id", pa.int64(), 1),
        ("id", pa.float64(), 1.0),
        ("id", pa.decimal128(12, 2), Decimal("1.00")),
        ("at.x", pa.int64(), {"x": 1, "y": 0.5}),
        ("tags.element.n", pa.int32(), [{"k": "a", "n": 1}]),
    ],
)
def test_a_wider_type_keeps_every_value_and_takes_larger_ones(table: Any, name: str, wider: pa.DataType, value: object) -> None:
    with pytest.raises(InvalidChange, match=r"delta\.enableTypeWidening"):
        table.alter.widen(name, wider)
    table.alter.set_properties({"delta.enableTypeWidening": True})
    table.alter.widen(name, wider)
    assert rows(table)[0][name.partition(".")[0]] == value
    assert table.alter.widen(name, wider) == table.version == 3
    assert "typeWidening" in protocol(table)[2]


def test_widening_is_recorded_where_readers_look_for_it(table: Any) -> None:
    table.alter.set_properties({"delta.enableTypeWidening": True})
    table.alter.widen("tags.element.n", pa.int32())
    table.alter.widen("id", pa.int64())
    schema = json.loads(commit(table)[-1]["metaData"]["schemaString"])
    fields = {field["name"]: field for field in schema["fields"]}
    assert fields["id"]["metadata"]["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    inner = {field["name"]: field for field in fields["tags"]["type"]["elementType"]["fields"]}
    assert inner["n"]["metadata"]["delta.typeChanges"] == [{"fromType": "short", "toType": "integer"}]


def test_a_default_holds_for_rows_to_come(table: Any) -> None:
    table.alter.add_column("state", "string")
    table.alter.set_default("state", "'new'")
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert [row["state"] for row in rows(table)] == [None, None, "new"]
    assert "allowColumnDefaults" in protocol(table)[2]
    table.alter.set_default("state", None)
    table.append(pa.table({"id": pa.array([4], pa.int32())}))
    assert rows(table)[3]["state"] is None


def test_a_default_may_be_the_time_of_the_append(table: Any) -> None:
    table.alter.add_column("seen", pa.timestamp("us", "UTC"))
    table.alter.set_default("seen", "current_timestamp")
    before = datetime.now(UTC)
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert before <= rows(table)[2]["seen"] <= datetime.now(UTC)


def test_a_comment_is_set_and_taken_away(table: Any) -> None:
    before = table.schema
    table.alter.comment_column("at.x", "east")
    assert table.schema.field("at").type.field("x").metadata == {b"comment": b"east"}
    version = table.version
    assert table.alter.comment_column("at.x", "east") == version
    table.alter.comment_column("at.x", None)
    assert table.schema.equals(before, check_metadata=True)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda t: t.alter.rename_column("id", 5), InvalidOption, "new=5 is no text"),
        (lambda t: t.alter.add_column("n", "int64", comment=5), InvalidOption, "comment=5 is no text"),
        (lambda t: t.alter.add_constraint(5, "id > 0"), InvalidOption, "name=5 is no text"),
        (lambda t: t.alter.set_default("id", 5), InvalidOption, "expression=5 is no text"),
        (lambda t: t.alter.drop_column(5), InvalidOption, "5"),
        (lambda t: t.alter.rename_column("id", "i"), InvalidChange, r"delta\.columnMapping\.mode"),
        (lambda t: t.alter.drop_column("id"), InvalidChange, r"delta\.columnMapping\.mode"),
        (lambda t: t.alter.drop_column("day"), InvalidChange, "partitioned by it"),
        (lambda t: t.alter.add_column("ID", "int64"), InvalidChange, "'id'"),
        (lambda t: t.alter.add_column("a b", "int64"), SchemaMismatch, "characters"),
        (lambda t: t.alter.add_column("n", "int64", nullable=False), InvalidChange, "no value of it"),
        (lambda t: t.alter.add_column("n", "int64", after="idd"), UnknownColumn, "'id'"),
        (lambda t: t.alter.add_column("id.n", "int64"), InvalidChange, "no name of its own"),
        (lambda t: t.alter.add_column("n", "int65"), InvalidOption, "no Arrow type"),
        (lambda t: t.alter.comment_column("idd", "x"), UnknownColumn, "'id'"),
        (lambda t: t.alter.set_default("at.x", "1"), InvalidChange, "whole column"),
        (lambda t: t.alter.set_default("id", "'one'"), SchemaMismatch, "lossless"),
        (lambda t: t.alter.set_default("id", "day"), UnknownColumn, "day"),
    ],
)
def test_a_change_that_cannot_be_leaves_the_table_as_it_was(
    table: Any, change: Callable[[Any], object], error: type[GaplessError], text: str
) -> None:
    with pytest.raises(error, match=text):
        change(table)
    assert table.version == gl.delta.open(table.url).version == 1
    assert rows(table) == ROWS


def test_a_table_without_rows_takes_a_column_that_is_never_null(tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    table.alter.add_column("n", "int64", nullable=False)
    with pytest.raises(InvalidValue, match="'n'"):
        table.append(pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([None], pa.int64())}))


@pytest.mark.parametrize(
    "change",
    [lambda t: t.alter.rename_column("id", "i"), lambda t: t.alter.drop_column("id"), lambda t: t.alter.widen("id", "int64")],
)
def test_a_column_that_a_constraint_speaks_of_stays(mapped: Any, change: Callable[[Any], object]) -> None:
    mapped.alter.set_properties({"delta.enableTypeWidening": True})
    mapped.alter.add_constraint("positive", "ID > 0")
    with pytest.raises(InvalidChange, match="the constraint 'positive' speaks of it"):
        change(mapped)
    mapped.alter.drop_constraint("positive")
    change(mapped)


def test_a_column_whose_statistics_are_asked_for_is_not_dropped(mapped: Any) -> None:
    mapped.alter.set_properties({"delta.dataSkippingStatsColumns": "id, at.x"})
    with pytest.raises(InvalidChange, match=r"delta\.dataSkippingStatsColumns"):
        mapped.alter.drop_column("at")
    mapped.alter.unset_properties(["delta.dataSkippingStatsColumns"])
    mapped.alter.drop_column("at")


# -- properties --------------------------------------------------------------------------------------------------------


def test_a_property_brings_the_protocol_that_it_needs(table: Any) -> None:
    assert protocol(table)[:2] == (1, 2)
    table.alter.set_properties({"delta.enableChangeDataFeed": True, "delta.logRetentionDuration": timedelta(days=3)})
    assert table.properties == {"delta.enableChangeDataFeed": "true", "delta.logRetentionDuration": "interval 3 days"}
    assert "changeDataFeed" in protocol(table)[2] or protocol(table)[1] >= 4
    table.alter.set_properties({"delta.enableDeletionVectors": "true"})
    reader, writer, features = protocol(table)
    assert (reader, writer) == (3, 7)
    assert features >= {"deletionVectors", "changeDataFeed", "appendOnly", "invariants"}
    assert table.alter.set_properties({"delta.enableDeletionVectors": True}) == table.version == 3


def test_the_protocol_stays_where_a_property_goes(table: Any) -> None:
    table.alter.set_properties({"delta.enableDeletionVectors": True, "owner": "desk 7"})
    before = table.protocol
    table.alter.unset_properties(["delta.enableDeletionVectors", "owner"])
    assert table.properties == {}
    assert table.protocol == before


def test_a_feature_and_versions_may_be_asked_for(table: Any) -> None:
    table.alter.set_properties({"delta.feature.domainMetadata": "supported"})
    assert "domainMetadata" in protocol(table)[2]
    assert table.properties == {}


def test_versions_of_the_protocol_may_be_asked_for(table: Any) -> None:
    table.alter.set_properties({"delta.minReaderVersion": 2, "delta.minWriterVersion": 5, **MAPPED})
    assert protocol(table)[:2] == (2, 5)
    assert rows(table) == ROWS


def test_column_mapping_keeps_the_files_that_are_there(mapped: Any) -> None:
    assert rows(mapped) == ROWS
    schema = json.loads(next(a["metaData"] for a in commit(mapped) if "metaData" in a)["schemaString"])
    names = {f["name"]: f["metadata"]["delta.columnMapping.physicalName"] for f in schema["fields"]}
    assert names == {name: name for name in SCHEMA.names}
    assert mapped.alter.set_properties(MAPPED) == mapped.version == 2


def test_in_commit_timestamps_say_since_when(table: Any) -> None:
    version = table.alter.set_properties({"delta.enableInCommitTimestamps": True})
    info = commit(table)[0]["commitInfo"]
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == str(version)
    assert table.properties["delta.inCommitTimestampEnablementTimestamp"] == str(info["inCommitTimestamp"])
    assert gl.delta.open(table.url).properties == table.properties
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert commit(table)[0]["commitInfo"]["inCommitTimestamp"] > info["inCommitTimestamp"]
    table.alter.set_properties({"delta.enableInCommitTimestamps": False})
    assert set(table.properties) == {"delta.enableInCommitTimestamps"}
    assert "inCommitTimestamp" not in commit(table)[0]["commitInfo"]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"delta.appendOnyl": "true"}, InvalidOption, r"delta\.appendOnly"),
        ({"delta.appendOnly": "yes"}, InvalidOption, "true nor false"),
        ({"delta.columnMapping.mode": "id"}, InvalidOption, "cannot change"),
        ({"delta.columnMapping.maxColumnId": 7}, InvalidOption, "writers alone"),
        ({"delta.constraints.x": "id > 0"}, InvalidOption, "add_constraint"),
        ({"delta.enableRowTracking": True}, NotSupported, "would not keep"),
        ({"delta.feature.catalogManaged": "supported"}, NotSupported, "catalogManaged"),
    ],
)
def test_a_property_that_cannot_be_is_refused(
    table: Any, given: dict[str, object], error: type[GaplessError], text: str
) -> None:
    with pytest.raises(error, match=text):
        table.alter.set_properties(given)
    assert table.properties == {}
    assert table.version == 1


def test_what_is_not_set_cannot_be_taken_away(mapped: Any) -> None:
    mapped.alter.add_constraint("c", "id > 0")
    for name, text in (
        ("delta.appendOnly", "not set"),
        ("delta.columnMapping.mode", "cannot change"),
        ("delta.constraints.c", "drop_constraint"),
        ("ower", "not set"),
    ):
        with pytest.raises(InvalidOption, match=text):
            mapped.alter.unset_properties([name])


def test_a_column_of_the_change_feed_is_no_column_of_a_table_with_one(table: Any) -> None:
    table.alter.set_properties({"delta.enableChangeDataFeed": True})
    with pytest.raises(InvalidChange, match="change feed"):
        table.alter.add_column("_commit_version", "int64")


# -- constraints -------------------------------------------------------------------------------------------------------


def test_a_constraint_is_kept_by_every_append_from_then_on(table: Any) -> None:
    table.alter.add_constraint("positive", "id > 0 and coalesce(at.x, 1) < 10")
    with pytest.raises(InvalidValue, match=r"positive.*id=-1"):
        table.append(pa.table({"id": pa.array([3, -1], pa.int32())}))
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    table.alter.drop_constraint("POSITIVE")
    table.append(pa.table({"id": pa.array([-1], pa.int32())}))
    assert table.properties == {}


def test_rows_that_are_there_are_checked_before_a_constraint_holds(table: Any) -> None:
    with pytest.raises(InvalidValue, match=r"'few', id < 2.*id=2"):
        table.alter.add_constraint("few", "id < 2")
    with pytest.raises(InvalidValue, match="'there'"):
        table.alter.add_constraint("there", "at.x > 0")  # null is not true
    assert table.version == 1


def test_a_constraint_says_what_it_says_in_the_sql_of_spark(tmp_path: Path) -> None:
    schema = pa.schema([("unit price", pa.float64())])
    table = gl.delta.create(tmp_path / "t", schema, properties=MAPPED)
    table.alter.add_constraint("paid", '"unit price" > 0')
    assert table.properties["delta.constraints.paid"] == "`unit price` > 0"
    with pytest.raises(InvalidValue, match="paid"):
        table.append(pa.table({"unit price": [0.0]}))


@pytest.mark.parametrize(
    ("name", "expression", "error"),
    [
        ("c", "id >", InvalidQuery),
        ("c", "id + 1", InvalidQuery),
        ("c", "sum(id) > 0", InvalidQuery),
        ("c", "idd > 0", UnknownColumn),
        ("", "id > 0", InvalidOption),
    ],
)
def test_what_is_no_constraint_is_refused(table: Any, name: str, expression: str, error: type[GaplessError]) -> None:
    with pytest.raises(error):
        table.alter.add_constraint(name, expression)
    assert table.version == 1


def test_a_constraint_has_a_name_of_its_own(table: Any) -> None:
    version = table.alter.add_constraint("c", "id > 0")
    assert table.alter.add_constraint("c", "id > 0") == version
    with pytest.raises(InvalidOption, match="already"):
        table.alter.add_constraint("C", "id > 1")
    with pytest.raises(InvalidOption, match="no constraint 'd'"):
        table.alter.drop_constraint("d")


# -- beside others -----------------------------------------------------------------------------------------------------


def test_an_append_that_came_first_is_checked_by_a_new_constraint(table: Any) -> None:
    other = gl.delta.open(table.url)
    other.append(pa.table({"id": pa.array([-5], pa.int32())}))
    with pytest.raises(InvalidValue, match="-5"):
        table.alter.add_constraint("positive", "id > 0")


def test_changes_of_two_writers_are_both_there(table: Any) -> None:
    other = gl.delta.open(table.url)
    table.alter.add_column("a", "int64")
    assert other.alter.add_column("b", "int64") == 3
    assert other.schema.names == [*SCHEMA.names, "a", "b"]
    with pytest.raises(InvalidChange, match="'a'"):
        other.alter.add_column("A", "int64")


def test_an_append_of_old_columns_stands_beside_a_new_one(table: Any) -> None:
    other = gl.delta.open(table.url)
    table.alter.add_column("a", "int64")
    other.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert [row["a"] for row in rows(other)] == [None, None, None]


def test_a_column_that_was_renamed_meanwhile_is_not_lost_in_an_append(mapped: Any) -> None:
    other = gl.delta.open(mapped.url)
    mapped.alter.rename_column("id", "ident")
    other.append(pa.table({"id": pa.array([3], pa.int32())}))
    assert 3 in [row["ident"] for row in rows(other.refresh())]


@pytest.fixture
def raced(table: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has another writer append one row just after the next change has looked at the newest version."""

    def race(number: int) -> None:
        def check() -> None:
            monkeypatch.undo()
            gl.delta.open(table.url).append(pa.table({"id": pa.array([number], pa.int32())}))

        monkeypatch.setattr(table, "_check_writable", check)

    return race


def test_the_version_of_enablement_is_that_of_the_commit_after_a_race(table: Any, raced: Callable[[int], None]) -> None:
    raced(3)
    assert table.alter.set_properties({"delta.enableInCommitTimestamps": True}) == 3
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == "3"
    assert len(rows(table)) == 3


def test_a_row_that_slipped_in_is_checked_by_the_constraint(table: Any, raced: Callable[[int], None]) -> None:
    raced(-3)
    with pytest.raises(InvalidValue, match="-3"):
        table.alter.add_constraint("positive", "id > 0")
    raced(3)
    assert table.alter.add_constraint("not_four", "id <> 4") == 4


def test_a_change_of_columns_stands_after_an_append(table: Any, raced: Callable[[int], None]) -> None:
    raced(3)
    assert table.alter.add_column("v", "int64") == 3
    assert [row["v"] for row in rows(table)] == [None, None, None]
