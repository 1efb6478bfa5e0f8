"""Appending to Delta tables: which rows are there then, what the log says of them, and what is refused with nothing left."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable

from gapless.errors import CommitOutcomeUnknown, InvalidOption, InvalidValue, SchemaMismatch, StoreUnavailable, UnsupportedType
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.files import write
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted, counted_table
from support.delta_tables import racing, rows_of
from support.faulty_store import FaultyStore, PatientClock
from support.theirs import adds, log_lines, stats, their_rows

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])


def files_below(path: Path) -> set[str]:
    """Data files under a table's root."""
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


# -- rows ------------------------------------------------------------------------------------------------------------


def test_rows_of_every_type_come_back_here_and_in_deltalake(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
    columns = {
        "long": pa.array([1, None, -(2**63)], pa.int64()),
        "integer": pa.array([1, None, -(2**31)], pa.int32()),
        "short": pa.array([1, None, -(2**15)], pa.int16()),
        "byte": pa.array([1, None, -128], pa.int8()),
        "double": pa.array([1.5, None, math.nan]),
        "float": pa.array([-0.0, None, math.inf], pa.float32()),
        "decimal": pa.array([Decimal("1.23"), None, Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(10**37), None, Decimal(-(10**37))], pa.decimal128(38, 0)),
        "boolean": pa.array([True, None, False]),
        "string": pa.array(["é/ü", None, ""]),
        "binary": pa.array([b"\x00\xff", None, b""]),
        "date": pa.array([date(1, 1, 1), None, date(9999, 12, 31)]),
        "instant": pa.array([at, None, datetime(1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}]),
        "structs": pa.array([[{"x": 1}], None, [None]], pa.list_(pa.struct([("x", pa.int64())]))),
    }
    rows = pa.table(columns)
    table = DeltaTable.create(tmp_path / "t", rows.schema)
    report = table.append(rows)
    assert (report.rows, report.segments, report.version) == (3, 1, 1)
    assert counted_table(table.scan().to_arrow()) == counted_table(rows)
    assert their_rows(tmp_path / "t") == counted_table(rows)


def test_type_20_delta_columns_go_by_name_whatever_their_order_and_case(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append({"S": ["a"], "ID": [1]})
    table.append({"s": ["b"]})
    assert table.schema.names == ["id", "s"]
    assert rows_of(table) == counted([{"id": 1, "s": "a"}, {"id": None, "s": "b"}])


@pytest.mark.parametrize("kind", ["pandas", "polars", "categories", "enums", "dicts", "batches", "reader", "duckdb"])
def test_rows_come_from_whatever_holds_rows(tmp_path: Path, kind: str) -> None:
    rows = pa.table({"id": [1, 2], "s": ["a", None]})

    def given() -> object:
        match kind:
            case "pandas":
                return pd.DataFrame({"id": [1, 2], "s": ["a", None]})
            case "polars":
                return pl.from_arrow(rows)
            case "categories":
                return pl.DataFrame({"id": [1, 2], "s": pl.Series(["a", None], dtype=pl.Categorical)})
            case "enums":
                return pl.DataFrame({"id": [1, 2], "s": pl.Series(["a", None], dtype=pl.Enum(["b", "a"]))})
            case "dicts":
                return ({"id": one["id"], "s": one["s"]} for one in rows.to_pylist())
            case "batches":
                return iter(rows.to_batches(max_chunksize=1))
            case "duckdb":
                import duckdb

                return duckdb.sql("SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) v(id, s)")
        return rows.to_reader()

    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.append(given())
    assert rows_of(table) == counted_table(rows)


def test_a_relation_that_is_refused_leaves_its_connection_free(tmp_path: Path) -> None:
    import duckdb

    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    with duckdb.connect() as connection:
        with pytest.raises(SchemaMismatch):
            table.append(connection.sql("SELECT 'x' AS id"))
        assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_files_are_appended_as_they_lie(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,s\n1,x\n2,\n")
    pq.write_table(pa.table({"id": [3], "s": ["y"]}), tmp_path / "b.parquet")
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    seen: list[int] = []
    report = table.append_file([tmp_path / "a.csv", tmp_path / "b.parquet"], progress=lambda done, _all: seen.append(done))
    assert (report.rows, table.version, seen[-1]) == (3, 1, 3)
    assert their_rows(tmp_path / "t") == rows_of(table)


def test_no_rows_make_no_commit(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    inputs: list[object] = [[], SCHEMA.empty_table(), {"id": pa.array([], pa.int64())}]
    for nothing in inputs:
        assert table.append(nothing).version == 0
    assert files_below(tmp_path / "t") == set()


# -- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"nope": [1]}, "nope: not in the table"),
        ({"id": ["1"]}, "id: int64 in the table, string"),
        ({"id": [True]}, "id: int64 in the table, bool"),
        ({"id": pa.array([1.0])}, "id: int64 in the table, double"),
        ({"id": pa.array([2**64 - 1], pa.uint64())}, "id: int64 in the table, uint64"),
        ({"s": [b"x"]}, "s: string in the table, binary"),
        ({"id": [1], "ID": [2]}, "both mean the column 'id'"),
    ],
)
def test_type_11_delta_strict_mode_casts_nothing_in_silence(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    with pytest.raises(SchemaMismatch, match=message) as caught:
        table.append(data)
    assert caught.value.differences
    assert (table.version, files_below(tmp_path / "t")) == (0, set())


def test_type_10_delta_a_wider_integer_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("v", pa.int32()), ("f", pa.float32())]))
    for data in ({"v": [5]}, {"v": [2**40]}, {"f": [1.5]}):
        with pytest.raises(SchemaMismatch):
            table.append(pa.table(data))
    table.append({"v": pa.array([2**31 - 1], pa.int32()), "f": pa.array([1.5], pa.float32())})
    assert their_rows(tmp_path / "t") == counted([{"v": 2**31 - 1, "f": 1.5}])


def test_a_value_that_its_type_does_not_hold_is_named_with_its_row(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    good = pa.array([0, 1000], pa.timestamp("ns", "UTC"))
    bad = pa.array([0, 1], pa.timestamp("ns", "UTC"))
    with pytest.raises(InvalidValue, match="row 3") as caught:
        table.append(pa.table({"ts": pa.chunked_array([good, bad])}))
    assert (caught.value.column, caught.value.row) == ("ts", 3)
    assert files_below(tmp_path / "t") == set()
    table.append({"ts": good})
    assert their_rows(tmp_path / "t").total() == 2


def test_type_12_delta_unsigned_integers_fit_where_the_type_holds_them_all(tmp_path: Path) -> None:
    schema = pa.schema([("small", pa.uint8()), ("large", pa.uint64())])
    table = DeltaTable.create(tmp_path / "t", schema)
    assert table.schema.types == [pa.int16(), pa.decimal128(20, 0)]
    table.append({"small": pa.array([255], pa.uint8()), "large": pa.array([2**64 - 1], pa.uint64())})
    assert rows_of(table) == counted([{"small": 255, "large": Decimal(2**64 - 1)}])


def test_whole_numbers_and_encoded_values_go_into_decimals_that_hold_them(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.decimal128(20, 1))])
    table = DeltaTable.create(
        tmp_path / "t", pa.schema([("d", pa.decimal128(7, 2)), ("l", pa.list_(inner)), ("b", pa.binary())])
    )
    nested = pa.array([[{"x": 7}]], pa.list_(pa.struct([("x", pa.int64())])))
    table.append({"d": pa.array([-(2**15)], pa.int16()), "l": nested, "b": pa.array([b"abcd"], pa.binary(4))})
    table.append({"d": pa.array([3], pa.int8()).dictionary_encode()})
    with pytest.raises(SchemaMismatch, match="5 digits"):
        table.append({"d": pa.array([1])})
    expected: list[dict[str, Any]] = [
        {"d": Decimal("-32768.00"), "l": [{"x": Decimal("7.0")}], "b": b"abcd"},
        {"d": Decimal("3.00"), "l": None, "b": None},
    ]
    assert rows_of(table) == their_rows(tmp_path / "t") == counted(expected)


def test_type_12_delta_merging_widens_to_a_type_that_holds_both(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("v", pa.int8())]), properties={"delta.enableTypeWidening": True})
    table.append({"v": pa.array([-1], pa.int8())})
    table.append({"v": pa.array([200], pa.uint8())}, schema_mode="merge")
    assert table.schema.field("v").type == pa.int16()
    table.append({"v": pa.array([2**64 - 1], pa.uint64())}, schema_mode="merge")
    assert table.schema.field("v").type == pa.decimal128(20, 0)
    with pytest.raises(SchemaMismatch):
        table.append({"v": pa.array([1.5])}, schema_mode="merge")
    assert rows_of(table) == counted([{"v": Decimal(one)} for one in (-1, 200, 2**64 - 1)])


def test_type_10_delta_merging_widens_only_where_the_table_allows_it(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("v", pa.int32())]))
    with pytest.raises(SchemaMismatch):
        table.append({"v": pa.array([1])}, schema_mode="merge")


def test_merging_widens_no_column_that_sql_of_the_table_speaks_of(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": True, "delta.constraints.small": "v < 9"}
    table = DeltaTable.create(tmp_path / "t", pa.schema([("v", pa.int32()), ("w", pa.int32())]), properties=properties)
    with pytest.raises(SchemaMismatch, match="v: int32 in the table"):
        table.append({"v": pa.array([1]), "w": [1]}, schema_mode="merge")
    table.append({"v": [1], "w": pa.array([1])}, schema_mode="merge")
    assert table.schema.types == [pa.int32(), pa.int64()]


def test_type_07_delta_a_batch_of_nulls_takes_the_columns_type(tmp_path: Path) -> None:
    schema = pa.schema([("v", pa.int64()), ("s", pa.string()), ("st", pa.struct([("x", pa.int64())]))])
    table = DeltaTable.create(tmp_path / "t", schema)
    table.append({"v": [1], "s": ["a"], "st": [{"x": 1}]})
    table.append({"v": [None], "s": [None], "st": [None]})
    table.append({"v": [3], "s": [None], "st": [{"x": None}]})
    assert table.schema == schema
    assert their_rows(tmp_path / "t") == rows_of(table) == counted(
        [
            {"v": 1, "s": "a", "st": {"x": 1}},
            {"v": None, "s": None, "st": None},
            {"v": 3, "s": None, "st": {"x": None}},
        ]
    )  # fmt: skip


def test_type_07_delta_a_column_of_nulls_takes_the_type_of_its_first_value(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t")
    table.append({"id": [1, 2], "v": [None, None]})
    table.append({"id": [3], "v": [2**53 + 1]})
    assert table.schema.field("v").type == pa.int64()
    assert rows_of(table) == counted([{"id": 1, "v": None}, {"id": 2, "v": None}, {"id": 3, "v": 2**53 + 1}])
    assert their_rows(tmp_path / "t") == rows_of(table)


def test_type_06_delta_names_of_list_children_do_not_count(tmp_path: Path) -> None:
    item = pa.struct([pa.field("x", pa.list_(pa.field("item", pa.int64())))])
    table = DeltaTable.create(tmp_path / "t", pa.schema([("l", pa.list_(pa.field("item", item)))]))
    other = pa.struct([pa.field("x", pa.list_(pa.field("element", pa.int64())))])
    table.append({"l": pa.array([[{"x": [1]}]], pa.list_(pa.field("item", item)))})
    table.append({"l": pa.array([[{"x": [2]}]], pa.list_(pa.field("element", other)))}, schema_mode="merge")
    assert rows_of(table) == counted([{"l": [{"x": [1]}]}, {"l": [{"x": [2]}]}])


def test_an_input_that_fails_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, partition_by="s")

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "s": ["a"]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.append(rows())
    assert (files_below(tmp_path / "t"), DeltaTable.open(tmp_path / "t").version) == (set(), 0)


# -- new columns -----------------------------------------------------------------------------------------------------


def test_type_13_delta_merging_adds_columns_and_fields_last_and_null_before(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())]))]))
    table.append({"a": [1], "s": [{"x": 1}]})
    nested = pa.array([{"y": "n", "x": 2}])
    table.append({"b": [2.5], "a": [2], "s": nested, "l": [[{"z": 1}]]}, schema_mode="merge")
    table.append({"l": [[{"w": 2}]]}, schema_mode="merge")
    assert table.schema.names == ["a", "s", "b", "l"]
    assert table.schema.field("s").type.names == ["x", "y"]
    expected: list[dict[str, Any]] = [
        {"a": 1, "s": {"x": 1, "y": None}, "b": None, "l": None},
        {"a": 2, "s": {"x": 2, "y": "n"}, "b": 2.5, "l": [{"z": 1, "w": None}]},
        {"a": None, "s": None, "b": None, "l": [{"z": None, "w": 2}]},
    ]
    assert rows_of(table) == counted(expected)
    assert their_rows(tmp_path / "t") == counted(expected)


def test_a_merged_column_raises_the_protocol_and_gets_its_own_id(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties={"delta.columnMapping.mode": "id"})
    table.append({"id": [1], "wall": pa.array([0], pa.timestamp("us"))}, schema_mode="merge")
    assert "timestampNtz" in table.protocol.reader_features
    assert table.properties["delta.columnMapping.maxColumnId"] == "3"
    field = table._state.metadata.schema.field("wall")
    assert field is not None
    assert (field.field_id, field.physical_name[:4]) == (3, "col-")
    (file,) = files_below(tmp_path / "t")
    stored = pq.read_schema(tmp_path / "t" / file)
    assert {one.metadata[b"PARQUET:field_id"] for one in stored} == {b"1", b"2", b"3"}
    assert rows_of(table) == counted([{"id": 1, "s": None, "wall": datetime(1970, 1, 1)}])  # a wall time


def test_a_column_that_another_handle_added_is_known_without_a_refresh(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    DeltaTable.open(tmp_path / "t").append({"id": [1], "neu": [1]}, schema_mode="merge")
    assert table.version == 0
    table.append({"id": [2], "neu": [2]})
    assert their_rows(tmp_path / "t") == counted([{"id": 1, "s": None, "neu": 1}, {"id": 2, "s": None, "neu": 2}])


def test_an_unknown_schema_mode_is_refused(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    for mode in ("merged", "overwrite"):
        with pytest.raises(InvalidOption, match="merge"):
            table.append({"id": [1]}, schema_mode=mode)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(UnsupportedType, match="'t'"):
        table.append({"t": pa.array([1], pa.time64("us"))}, schema_mode="merge")


# -- partitions ------------------------------------------------------------------------------------------------------

ODD = [None, "null", "None", "NULL", "__HIVE_DEFAULT_PARTITION__", " ", "é/ü", "%", "a=b", "a b", "x'\"", "😈", "<http://x>", "CON", "a.",
       "..", ".", "\\", "_x", "a:b", "x" * 300, "%20", "a#b?c", "\n"]  # fmt: skip


def test_path_06_path_13_delta_odd_partition_values_stay_apart(tmp_path: Path) -> None:
    rows = pa.table({"p": ODD, "v": list(range(len(ODD)))})
    table = DeltaTable.create(tmp_path / "t", rows.schema, partition_by="p")
    assert table.append(rows).segments == len(ODD)
    assert rows_of(table) == counted_table(rows)
    assert their_rows(tmp_path / "t") == counted_table(rows)
    assert all(file.isascii() for file in files_below(tmp_path / "t"))
    for add in adds(tmp_path / "t", 1):
        assert add["path"].isascii()


def test_path_06_delta_an_empty_text_is_no_partition_value(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by="p")
    with pytest.raises(InvalidValue, match="row 2") as caught:
        table.append({"p": ["a", None, ""], "v": [1, 2, 3]})
    assert (caught.value.column, files_below(tmp_path / "t")) == ("p", set())


def test_path_08_delta_partition_values_of_every_type(tmp_path: Path) -> None:
    at = datetime(2026, 3, 29, 23, 59, 59, 807126, tzinfo=UTC)
    columns = {
        "day": pa.array([6, 10, None], pa.int32()),
        "code": pa.array(["007", "00", "7"]),
        "date": pa.array([date(1001, 1, 1), None, date(9999, 12, 31)]),
        "instant": pa.array([at, None, datetime(1850, 1, 1, 1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "flag": pa.array([True, None, False]),
        "amount": pa.array([Decimal("1.50"), None, Decimal("0.01")], pa.decimal128(10, 2)),
        "x": pa.array([1.5, None, -1e300]),
        "v": pa.array([1, 2, 3]),
    }
    rows = pa.table(columns)
    table = DeltaTable.create(tmp_path / "t", rows.schema, partition_by=[name for name in columns if name != "v"])
    table.append(rows)
    assert rows_of(table) == counted_table(rows)
    assert their_rows(tmp_path / "t") == counted_table(rows)
    assert table.scan(where="day < 9 and code = '007'").to_arrow().column("v").to_pylist() == [1]


def test_path_08_delta_a_negative_decimal_names_its_partition(tmp_path: Path) -> None:
    # deltalake 1.6.6 reads it as '0.-1', and fails.
    rows = pa.table({"p": pa.array([Decimal("-0.01"), Decimal("-1.50")], pa.decimal128(10, 2)), "v": [1, 2]})
    table = DeltaTable.create(tmp_path / "t", rows.schema, partition_by="p")
    table.append(rows)
    assert rows_of(table) == counted_table(rows)
    assert {add["partitionValues"]["p"] for add in adds(tmp_path / "t", 1)} == {"-0.01", "-1.50"}


def test_rows_of_a_partition_keep_their_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = pa.table({"p": rng.integers(0, 5, 10_000), "q": rng.choice(["a", "b"], 10_000), "v": np.arange(10_000)})
    table = DeltaTable.create(tmp_path / "t", rows.schema, partition_by=["p", "q"])
    table.append(rows.to_batches(max_chunksize=777))
    assert table.scan().to_arrow().num_rows == 10_000
    for file in files_below(tmp_path / "t"):
        values = pq.ParquetFile(tmp_path / "t" / file).read().column("v").to_numpy()
        assert (np.diff(values) > 0).all()


def test_batches_that_differ_in_what_may_be_null_make_one_file(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("st", inner)])
    loose = pa.schema([("id", pa.int64()), ("st", pa.struct([("x", pa.int64())]))])
    table = DeltaTable.create(tmp_path / "t", strict)
    rows = [{"id": 1, "st": {"x": 1}}, {"id": 2, "st": None}]
    attempt = StagedWrite.begin(table._env)
    batches = [pa.RecordBatch.from_pylist(rows, schema) for schema in (strict, loose)]
    (file,) = write.write_rows(attempt, write.Target.of(table._state), batches)
    stored = pq.ParquetFile(tmp_path / "t" / file.path)
    assert stored.read().to_pylist() == rows * 2
    assert not stored.schema_arrow.field("id").nullable


def test_many_partitions_do_not_hold_everything_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "HELD_BYTES", 8 << 10)
    rng = np.random.default_rng(5)
    rows = pa.table({"p": rng.integers(0, 20, 5_000), "v": np.arange(5_000)})
    table = DeltaTable.create(tmp_path / "t", rows.schema, partition_by="p")
    held: list[int] = []
    make_room = write.DataFiles._make_room

    def watched(self: Any) -> None:
        make_room(self)
        held.append(self.held_bytes)

    monkeypatch.setattr(write.DataFiles, "_make_room", watched)
    report = table.append(rows.to_batches(max_chunksize=250))
    assert report.segments > 20
    assert held
    assert max(held) <= 4 << 10
    assert rows_of(table) == counted_table(rows)


# -- what the log says -------------------------------------------------------------------------------------------------


def test_the_log_says_each_files_size_and_what_the_append_was(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, partition_by="s")
    table.append({"id": [1, 2, 3], "s": ["a", "b", "a"]})
    for add in adds(tmp_path / "t", 1):
        assert add["size"] == (tmp_path / "t" / add["path"]).stat().st_size
        assert add["dataChange"]
    info = log_lines(tmp_path / "t", 1)[0]["commitInfo"]
    assert (info["operation"], info["isBlindAppend"], info["readVersion"]) == ("WRITE", True, 0)
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": '["s"]'}
    assert info["operationMetrics"] == {"numFiles": "2", "numOutputRows": "3"}


def test_stat_02_stat_03_stat_04_delta_statistics_of_floats(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", pa.schema([("x", pa.float64()), ("s", pa.string())]))
    files: list[list[float | None]] = [[0.0, 9.0], [100.0, 109.0], [300.0, math.nan], [math.inf, 1.0], [-0.0], [None, None]]
    for number, values in enumerate(files):
        table.append(pa.table({"x": pa.array(values, pa.float64()), "s": [chr(97 + number)] * len(values)}))
    nan = stats(tmp_path / "t", 3)
    assert "maxValues" not in nan
    assert nan["gapless.maxValues"] == {"s": "c"}
    assert stats(tmp_path / "t", 6) == {
        "numRecords": 2, "minValues": {"s": "f"}, "maxValues": {"s": "f"}, "nullCount": {"x": 2, "s": 0}, "nanCount": {"x": 0},
    }  # fmt: skip
    counts = {
        "x >= 300": 3,
        "x > 250": 3,
        "x = 300": 1,
        "x > 1e308": 2,
        "isnan(x)": 1,
        "x = 0.0": 2,
        "x < 0": 0,
        "s like 'c%'": 2,
    }
    assert {where: table.scan(where=where).to_arrow().num_rows for where in counts} == counts


def test_stat_01_delta_the_last_microseconds_are_found(tmp_path: Path) -> None:
    at = datetime(2023, 3, 29, 23, 59, 59, 807126, tzinfo=UTC)
    table = DeltaTable.create(tmp_path / "t", pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    table.append({"ts": [at]})
    for where in ("ts = timestamptz '2023-03-29T23:59:59.807126Z'", "ts >= timestamptz '2023-03-29T23:59:59.807100Z'"):
        assert table.scan(where=where).to_arrow().num_rows == 1
    found = (
        DeltaLakeTable(str(tmp_path / "t"))
        .to_pyarrow_dataset()
        .to_table(filter=pc.field("ts") == pa.scalar(at, pa.timestamp("us", "UTC")))
    )
    assert found.num_rows == 1


def test_statistics_are_of_the_columns_that_the_table_names(tmp_path: Path) -> None:
    nested = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("z", pa.int64())])
    row = {"a": [1], "s": [{"x": 1, "y": 2}], "z": [3]}
    few = DeltaTable.create(tmp_path / "few", nested, properties={"delta.dataSkippingNumIndexedCols": 2})
    few.append(row)
    assert stats(tmp_path / "few", 1)["minValues"] == {"a": 1, "s": {"x": 1}}
    named = DeltaTable.create(tmp_path / "named", nested, properties={"delta.dataSkippingStatsColumns": "z,s.y"})
    named.append(row)
    assert stats(tmp_path / "named", 1)["nullCount"] == {"s": {"y": 0}, "z": 0}


def test_long_texts_are_cut_in_statistics_and_found_all_the_same(tmp_path: Path) -> None:
    texts = ["a" * 5_000, "é" * 33, "\U0010ffff" * 40]
    table = DeltaTable.create(tmp_path / "t", pa.schema([("s", pa.string())]))
    for text in texts:
        table.append({"s": [text]})
    found = stats(tmp_path / "t", 1)
    assert len(found["minValues"]["s"]) <= 32
    assert len(found["maxValues"]["s"]) <= 34
    for text in texts:
        assert table.scan(where=f"s = '{text}'").to_arrow().num_rows == 1
    # Where the largest text has no bound above it, deltalake 1.6.6 takes the absent bound for null, and finds nothing.
    theirs = DeltaLakeTable(str(tmp_path / "t")).to_pyarrow_dataset()
    assert [theirs.to_table(filter=pc.field("s") == text).num_rows for text in texts[:2]] == [1, 1]


def test_files_have_the_size_and_the_codec_that_the_table_asks_for(tmp_path: Path) -> None:
    wanted = {"delta.targetFileSize": "10kb", "delta.parquet.compression.codec": "snappy"}
    rows = pa.table({"v": np.random.default_rng(1).normal(size=5_000)})
    table = DeltaTable.create(tmp_path / "t", rows.schema, properties=wanted)
    assert 2 <= table.append(rows).segments <= 5
    for file in files_below(tmp_path / "t"):
        assert ".snappy." in file
        assert pq.read_metadata(tmp_path / "t" / file).row_group(0).column(0).compression == "SNAPPY"
    assert their_rows(tmp_path / "t") == counted_table(rows)


# -- again, and at once ------------------------------------------------------------------------------------------------


def test_eo_02_delta_an_operation_is_applied_once(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    first = table.append({"id": [30]}, operation_id=("app", 30))

    def unread() -> Iterator[dict[str, int]]:
        raise AssertionError("an operation that was applied is not read")
        yield {}

    other = DeltaTable.open(tmp_path / "t")
    again = other.append(pa.RecordBatchReader.from_batches(SCHEMA, unread()), operation_id=("app", 30))
    assert (again.already_applied, again.rows, again.version) == (True, first.rows, first.version)
    assert table.append({"id": [10]}, operation_id=("app", 10)).already_applied
    assert not table.append({"id": [31]}, operation_id=("app", 31)).already_applied
    assert not table.append({"id": [10]}, operation_id=("other", 10)).already_applied
    assert not table.append({"id": [7]}, operation_id="backfill").already_applied
    assert table.append({"id": [7]}, operation_id="backfill").already_applied
    assert rows_of(table) == counted([{"id": one, "s": None} for one in (30, 31, 10, 7)])
    assert DeltaLakeTable(str(tmp_path / "t")).transaction_version("app") == 31


def test_an_operation_is_remembered_even_where_it_brought_nothing(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    assert table.append(SCHEMA.empty_table(), operation_id="nothing").version == 1
    assert table.append({"id": [1]}, operation_id="nothing").already_applied


def test_an_append_steps_over_others(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"id": [1]}))
    before = files_below(tmp_path / "t")
    assert mine.append({"id": [2]}).version == 2
    assert len(files_below(tmp_path / "t")) == len(before) + 2
    assert their_rows(tmp_path / "t").total() == 2


def test_an_append_that_lost_to_the_same_operation_gives_its_report(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"id": [1, 2]}, operation_id=("app", 5)))
    report = mine.append({"id": [9]}, operation_id=("app", 5))
    assert (report.already_applied, report.rows, report.version) == (True, 2, 1)
    assert their_rows(tmp_path / "t") == counted([{"id": 1, "s": None}, {"id": 2, "s": None}])
    assert len(files_below(tmp_path / "t")) == 1


def test_an_append_that_lost_to_an_earlier_sequence_lands(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"id": [1]}, operation_id=("app", 5)))
    report = mine.append({"id": [2]}, operation_id=("app", 6))
    assert (report.already_applied, report.version) == (False, 2)
    assert their_rows(tmp_path / "t").total() == 2
    assert len(files_below(tmp_path / "t")) == 2


def test_an_append_that_lost_to_a_new_constraint_is_held_against_it(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    other = DeltaTable.open(tmp_path / "t")
    good = racing(tmp_path / "t", lambda: other.alter.add_constraint("positive", "id > 0"))
    assert good.append({"id": [1]}).version == 2
    bad = racing(tmp_path / "t", lambda: other.alter.add_constraint("small", "id < 10"))
    with pytest.raises(InvalidValue, match="'small'"):
        bad.append({"id": [11]})
    assert their_rows(tmp_path / "t").total() == 1
    assert len(files_below(tmp_path / "t")) == 1


def test_an_append_that_lost_to_a_new_column_with_it_takes_it(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    other = DeltaTable.open(tmp_path / "t")
    mine = racing(tmp_path / "t", lambda: other.append({"neu": [1]}, schema_mode="merge"))
    mine.append({"id": [1], "neu": [2]}, schema_mode="merge")
    assert mine.schema.names == ["id", "s", "neu"]
    assert their_rows(tmp_path / "t") == counted([{"id": None, "s": None, "neu": 1}, {"id": 1, "s": None, "neu": 2}])


def test_threads_append_through_one_handle(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    errors: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            for number in range(10):
                table.append({"id": [100 * writer + number]})
        except BaseException as error:  # noqa: BLE001  # shown below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert table.refresh().version == 40
    assert rows_of(table) == counted([{"id": 100 * writer + number, "s": None} for writer in range(4) for number in range(10)])


# -- stores that fail --------------------------------------------------------------------------------------------------


def faulty(path: Path, deadline_s: float = 60.0) -> tuple[FaultyStore, DeltaTable]:
    """A table through a store that fails as told."""
    store = FaultyStore(open_store(path))
    env = Environment(store=store, clock=PatientClock(), deadline_s=deadline_s)
    return store, DeltaTable(env, path, open_table(env, str(path)))


def no_answer(path: str) -> None:
    if path.endswith(".json"):
        raise StoreUnavailable("no answer", path=path)


def test_a_commit_whose_reply_was_lost_is_there_once(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    store, table = faulty(tmp_path / "t")
    store.after_put = no_answer
    assert table.append({"id": [1]}).version == 1
    store.after_put = lambda _path: None
    assert table.append({"id": [2]}).version == 2
    assert their_rows(tmp_path / "t").total() == 2


def test_where_no_one_can_say_nothing_is_deleted(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    store, table = faulty(tmp_path / "t", deadline_s=0.2)
    store.before_put = no_answer
    with pytest.raises(CommitOutcomeUnknown):
        table.append({"id": [1]})
    assert len(files_below(tmp_path / "t")) == 1


def test_a_data_file_that_cannot_be_stored_leaves_none(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA, partition_by="s")
    store, table = faulty(tmp_path / "t")
    left = iter([True, False])

    def fails(path: str) -> None:
        if path.endswith(".parquet") and not next(left):
            raise StoreUnavailable("no answer", path=path)

    store.before_put = fails
    with pytest.raises(StoreUnavailable):
        table.append({"id": [1, 2], "s": ["a", "b"]})
    assert files_below(tmp_path / "t") == set()


def test_a_bucket_takes_the_same_writes(s3_options: tuple[str, dict[str, str]]) -> None:
    place, options = s3_options
    table = DeltaTable.create(f"{place}/t", SCHEMA, partition_by="s", storage_options=options)
    table.append({"id": [1, 2, 3], "s": ["é/ü", "a=b %", None]})
    table.overwrite({"id": [4], "s": ["a=b %"]}, partitions="dynamic")
    table.overwrite({"id": [5], "s": [None]}, where="id in (3, 5)")
    table.append({"id": [6]}, operation_id="once")
    assert table.append({"id": [6]}, operation_id="once").already_applied
    again = DeltaTable.open(f"{place}/t", storage_options=options)
    assert rows_of(again) == counted(
        [{"id": 1, "s": "é/ü"}, {"id": 4, "s": "a=b %"}, {"id": 5, "s": None}, {"id": 6, "s": None}]
    )
