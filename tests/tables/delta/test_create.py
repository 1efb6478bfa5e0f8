"""Making and opening Delta tables: what the log then says, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaLakeTable

import gapless as gl
from gapless.errors import (
    InvalidOption,
    InvalidQuery,
    LogWarning,
    NotSupported,
    SchemaMismatch,
    StoreUnavailable,
    TableExists,
    TableNotFound,
    UnknownColumn,
    UnsupportedTable,
    UnsupportedType,
)
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import create_table
from gapless.tables.delta.table import DeltaTable
from support.delta_tables import FirstStore
from support.faulty_store import FaultyStore, PatientClock
from support.theirs import log_lines, their_rows

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("v", pa.float64())])


def test_a_new_table_is_version_0_with_the_lowest_protocol(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, partition_by="day", name="prices", description="of shares")
    assert (table.version, table.partition_by, table.schema) == (0, ("day",), SCHEMA)
    assert (table.protocol.reader, table.protocol.writer) == (1, 2)
    info, protocol, metadata = log_lines(tmp_path / "t", 0)
    assert info["commitInfo"]["operation"] == "CREATE TABLE"
    assert protocol["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert metadata["metaData"]["partitionColumns"] == ["day"]
    theirs = DeltaLakeTable(str(tmp_path / "t"))
    assert (theirs.version(), theirs.metadata().name, theirs.metadata().description) == (0, "prices", "of shares")
    assert theirs.to_pyarrow_table().num_rows == 0


def test_properties_raise_the_protocol_as_far_as_needed(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": True, "owner": "me"})
    assert table.properties == {"delta.enableDeletionVectors": "true", "owner": "me"}
    assert table.protocol.reader_features == {"deletionVectors"}
    mapped = DeltaTable.create(tmp_path / "m", SCHEMA, properties={"delta.columnMapping.mode": "name"})
    assert mapped.protocol.reader_features == {"columnMapping"}
    assert mapped.properties["delta.columnMapping.maxColumnId"] == "3"
    physical = {field.physical_name for field in mapped._state.metadata.schema.fields}
    assert len(physical) == 3
    assert physical.isdisjoint(SCHEMA.names)


def test_a_table_without_columns_takes_those_of_its_first_input(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t")
    assert table.schema == pa.schema([])
    assert table.append({"x": [1, 2], "s": ["a", None]}).rows == 2
    assert table.schema == pa.schema([("x", pa.int64()), ("s", pa.string())])
    assert their_rows(tmp_path / "t").total() == 2


def test_what_is_left_of_a_log_is_neither_opened_nor_written_over(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version": 7, "size": 1}')
    with pytest.raises(TableExists, match="objects in its log"):
        DeltaTable.create(tmp_path, SCHEMA)
    with pytest.warns(LogWarning, match="is missing"), pytest.raises(TableNotFound, match="delete what is left of it"):
        DeltaTable.open(tmp_path)


def test_a_table_is_not_made_twice_nor_over_another_kind(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    with pytest.raises(TableExists, match=r"gl\.delta\.open"):
        DeltaTable.create(tmp_path / "t", SCHEMA)
    gl.create(tmp_path / "series", index="ts", bucket="1h")
    with pytest.raises(TableExists):
        DeltaTable.create(tmp_path / "series", SCHEMA)


def test_what_is_no_delta_table_is_not_found_and_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="no Delta table"):
        DeltaTable.open(tmp_path / "nothing")
    gl.create(tmp_path / "series", index="ts", bucket="1h")
    with pytest.raises(TableNotFound, match=r"gl\.open\(path\)"):
        DeltaTable.open(tmp_path / "series")


def test_beside_a_time_series_table_the_delta_log_is_read_only(tmp_path: Path) -> None:
    gl.create(tmp_path / "t", index="ts", bucket="1h")
    DeltaTable.create(tmp_path / "d", SCHEMA).append({"id": [1]})
    shutil.copytree(tmp_path / "d", tmp_path / "t", dirs_exist_ok=True)
    table = DeltaTable.open(tmp_path / "t")
    assert table.scan().to_arrow().num_rows == 1
    changes: list[Any] = [
        lambda: table.append({"id": [2]}),
        lambda: table.overwrite({"id": [2]}),
        lambda: table.delete("true"),
        lambda: table.update({"v": "1"}, where="true"),
    ]
    for change in changes:
        with pytest.raises(UnsupportedTable, match="time-series table lies there"):
            change()
    assert not (tmp_path / "t" / "_delta_log" / f"{2:020}.json").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"partition_by": ["nope"]}, UnknownColumn, "nope"),
        ({"partition_by": ["id", "id"]}, InvalidOption, "twice"),
        ({"partition_by": ["id", "day", "v"]}, InvalidOption, "no column left"),
        ({"schema": pa.schema([("s", pa.struct([("x", pa.int8())])), ("v", pa.int8())]), "partition_by": "s"}, InvalidOption, "single values"),
        ({"properties": {"delta.apendOnly": True}}, InvalidOption, "appendOnly"),
        ({"properties": {"delta.checkpointInterval": "often"}}, InvalidOption, "checkpointInterval"),
        ({"properties": {"delta.enableRowTracking": True}}, NotSupported, "enableRowTracking"),
        ({"properties": {"delta.constraints.c": "nope > 1"}}, UnknownColumn, "nope"),
        ({"properties": {"delta.constraints.c": "sum(v) > 1"}}, InvalidQuery, "aggregate"),
        ({"schema": pa.schema([("t", pa.time64("us"))])}, UnsupportedType, "'t'"),
        ({"schema": pa.schema([("a", pa.int8()), ("A", pa.int8())])}, UnsupportedType, "by case"),
        ({"schema": pa.schema([("a b", pa.int8())])}, SchemaMismatch, "columnMapping"),
    ],
)  # fmt: skip
def test_what_no_table_can_be_is_refused_and_nothing_is_left(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"schema": SCHEMA, **arguments}
    with pytest.raises(error, match=message):
        DeltaTable.create(tmp_path / "t", **given)
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.parametrize("given", [{"name": 5}, {"description": ["x"]}, {"partition_by": [5]}])
def test_what_the_log_keeps_as_a_text_must_be_one(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="is no text"):
        DeltaTable.create(tmp_path / "t", SCHEMA, **given)
    assert not (tmp_path / "t").exists()


def test_odd_names_are_columns_once_names_are_mapped(tmp_path: Path) -> None:
    names = ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st", "a,b;{}()=\t\n"]
    rows = pa.table({name: [1, None] for name in names})
    table = DeltaTable.create(tmp_path / "t", rows.schema, properties={"delta.columnMapping.mode": "name"}, partition_by="a b")
    table.append(rows)
    assert table.scan().to_arrow().sort_by("1st").to_pylist() == rows.sort_by("1st").to_pylist()
    assert table.scan(where='"x`y" = 1', columns=['a"b']).to_arrow().to_pylist() == [{'a"b': 1}]


def test_a_handle_says_what_it_is(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    assert repr(table) == f"DeltaTable({table.url!r}, version=0, files=0)"
    other = DeltaTable.open(tmp_path / "t")
    table.append({"id": [1]})
    assert (other.version, other.refresh().version) == (0, 1)


def test_two_that_make_a_table_at_once_make_one(tmp_path: Path) -> None:
    place = tmp_path / "t"
    env = Environment(store=FirstStore(str(place), lambda: DeltaTable.create(place, SCHEMA)))
    with pytest.raises(TableExists):
        create_table(env, str(place), pa.schema([("other", pa.int64())]))
    assert DeltaTable.open(place).schema == SCHEMA
    assert len(list((place / "_delta_log").glob("*.json"))) == 1


def test_a_new_table_whose_reply_was_lost_is_there_once(tmp_path: Path) -> None:
    store = FaultyStore(open_store(tmp_path / "t"))

    def no_answer(path: str) -> None:
        if path.endswith(".json"):
            raise StoreUnavailable("no answer", path=path)

    store.after_put = no_answer
    assert create_table(Environment(store=store, clock=PatientClock()), "t", SCHEMA).version == 0
    assert DeltaTable.open(tmp_path / "t").schema == SCHEMA


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_a_table_with_a_change_feed_has_no_columns_of_that_feed(tmp_path: Path, name: str) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(SchemaMismatch, match="change feed"):
        gl.delta.create(tmp_path / "none", pa.schema([(name, pa.string())]), properties=feed)
    table = gl.delta.create(tmp_path / "t", pa.schema([("v", pa.int64())]), properties=feed)
    with pytest.raises(SchemaMismatch, match="change feed"):
        table.append({"v": [1], name: ["x"]}, schema_mode="merge")
    with pytest.raises(SchemaMismatch, match="change feed"):
        table.overwrite({name: ["x"]}, schema_mode="overwrite")
    assert table.refresh().version == 0
    gl.delta.create(tmp_path / "without", pa.schema([(name, pa.string())]))
