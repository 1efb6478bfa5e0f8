"""Rows out of data files as any writer may leave them: exactly, file by file, without those that are deleted."""

from __future__ import annotations

import datetime as dt
import struct as packed
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaLakeTable
from deltalake import QueryBuilder
from pyroaring import BitMap64

import gapless as gl
from gapless.errors import (
    AccessDenied,
    CorruptTable,
    InvalidFilter,
    InvalidOption,
    InvalidQuery,
    UnknownColumn,
    UnsupportedTable,
    VersionNotFound,
)
from gapless.model.protocols import Capabilities, PutMode
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.scan import parse_condition
from gapless.testing.store.stores import OuterStore
from support.counting_store import CountingStore
from support.delta_rows import counted, counted_table
from support.hand_made import Hand, column, commit, lay, struct, view

X = [column("x", "long")]
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """Written a second time, without gapless."""
    out = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        out += "".join(LETTERS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return out


def bitmap(*positions: int) -> bytes:
    return packed.pack("<I", 1681511377) + BitMap64(positions).serialize()


def inline(*positions: int) -> dict[str, Any]:
    data = bitmap(*positions)
    text = z85(data + bytes(-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(positions)}


NAME = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


def in_file(root: Path, *positions: int, absolute: bool = False) -> dict[str, Any]:
    """A vector in a file of its own, behind another one."""
    other, data = bitmap(1, 2, 3), bitmap(*positions)
    entries = [packed.pack(">I", len(one)) + one + packed.pack(">I", zlib.crc32(one)) for one in (other, data)]
    root.mkdir(parents=True, exist_ok=True)
    file = root / f"deletion_vector_{NAME}.bin"
    file.write_bytes(b"\1" + b"".join(entries))
    where = (
        {"storageType": "p", "pathOrInlineDv": file.as_uri()}
        if absolute
        else {"storageType": "u", "pathOrInlineDv": z85(NAME.bytes)}
    )
    return where | {"offset": 1 + len(entries[0]), "sizeInBytes": len(data), "cardinality": len(positions)}


def rows(*values: Any, type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": pa.array(values, type_ or pa.int64())})


def values(found: DeltaView, where: Any = None) -> list[Any]:
    return list(found.scan(where=where).to_arrow().column(0).to_pylist())


# -- deletion vectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["inline", "file", "absolute"])
def test_deleted_rows_are_left_out_and_not_counted(tmp_path: Path, kind: str) -> None:
    gone = (0, 3, 4, 9)
    elsewhere = tmp_path / "elsewhere ü%"
    vector = (
        inline(*gone)
        if kind == "inline"
        else in_file(tmp_path / "t", *gone)
        if kind == "file"
        else in_file(elsewhere, *gone, absolute=True)
    )
    file = Hand(path="a.parquet", rows=rows(*range(10)), vector=vector, stats={"numRecords": 10}, options={"row_group_size": 3})
    table = lay(tmp_path / "t", X, [file], features=["deletionVectors"])
    assert values(table) == [1, 2, 5, 6, 7, 8]
    assert values(table, "x between 4 and 6") == [5, 6]
    assert (table.count(), table.scan().count(), table.scan(where="x > 4").count()) == (6, 6, 4)
    (told,) = table.files()
    assert (told.rows, told.deleted_rows) == (6, 4)
    assert table.sql("select sum(x) as s from this where x < 8").to_arrow().to_pylist() == [{"s": 1 + 2 + 5 + 6 + 7}]


def test_positions_are_those_of_the_file_though_row_groups_are_skipped(tmp_path: Path) -> None:
    vector = inline(0, 5, 11)
    file = Hand(path="a.parquet", rows=rows(*range(12)), vector=vector, options={"row_group_size": 2})
    table = lay(tmp_path, X, [file], features=["deletionVectors"])
    reader = FileReader.of(open_store(tmp_path), table._state.metadata)
    (add,) = table._state.files.values()
    for where, wanted in (("x >= 9", [9, 10]), ("x in (1, 5, 6)", [1, 6])):
        predicate = table_predicate(table, where)
        found = pa.Table.from_batches(reader.batches(add, Projection(predicate=predicate, position=True)))
        assert found.column(POSITION).to_pylist() == found.column("x").to_pylist() == wanted
    everything = pa.Table.from_batches(reader.batches(add, Projection(deleted=True, position=True, columns=())))
    assert everything.column_names == [POSITION]
    assert everything.column(0).to_pylist() == list(range(12))
    chosen = pa.Table.from_batches(reader.batches(add, Projection(), only=np.array([0, 4, 11])))
    assert chosen.column("x").to_pylist() == [0, 4, 11]
    assert list(reader.batches(add, Projection(), only=np.array([], dtype=np.int64))) == []


def test_row_groups_without_a_row_that_is_asked_for_are_not_read(tmp_path: Path) -> None:
    file = Hand(path="a.parquet", rows=rows(*range(12)), options={"row_group_size": 3, "compression": "none"})
    table = lay(tmp_path, X, [file])
    chunk = pq.read_metadata(tmp_path / "a.parquet").row_group(1).column(0)
    with (tmp_path / "a.parquet").open("r+b") as damaged:
        damaged.seek(chunk.dictionary_page_offset)
        damaged.write(b"\xff" * chunk.total_compressed_size)
    reader = FileReader.of(open_store(tmp_path), table._state.metadata)
    (add,) = table._state.files.values()
    chosen = pa.Table.from_batches(reader.batches(add, Projection(position=True), only=np.array([2, 6, 8, 11])))
    assert chosen.column("x").to_pylist() == chosen.column(POSITION).to_pylist() == [2, 6, 8, 11]
    with pytest.raises(CorruptTable):
        list(reader.batches(add, Projection(), only=np.array([3])))


def table_predicate(table: DeltaView, where: str) -> Any:
    return parse_condition(where, table.schema).predicate


def test_a_vector_that_is_missing_or_altered_is_named(tmp_path: Path) -> None:
    vector = in_file(tmp_path, 1, 2)
    table = lay(tmp_path, X, [Hand(path="a.parquet", rows=rows(1, 2, 3), vector=vector)], features=["deletionVectors"])
    file = tmp_path / f"deletion_vector_{NAME}.bin"
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptTable, match="checksum"):
        values(table)
    file.unlink()
    with pytest.raises(CorruptTable, match=f"{file.name} is missing") as missing:
        values(table)
    assert missing.value.path == file.name


# -- places ----------------------------------------------------------------------------------------------------------------


def test_files_elsewhere_are_read_where_they_are(tmp_path: Path) -> None:
    outside = tmp_path / "out side %41 é"
    outside.mkdir()
    pq.write_table(rows(7), outside / "b.parquet")
    table = lay(tmp_path / "t", X, [Hand(path="a.parquet", rows=rows(1))])
    size = (outside / "b.parquet").stat().st_size
    within = (tmp_path / "t" / "c d.parquet").as_uri()
    pq.write_table(rows(9), tmp_path / "t" / "c d.parquet")
    adds = [
        {"add": {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}}
        for path in ((outside / "b.parquet").as_uri(), within)
    ]
    commit(tmp_path / "t", 1, adds)
    table = view(tmp_path / "t")
    assert values(table) == [1, 7, 9]
    (outside / "b.parquet").unlink()
    with pytest.raises(CorruptTable, match="is missing"):
        values(table)


def test_a_store_that_is_not_known_is_named(tmp_path: Path) -> None:
    table = lay(tmp_path, X, [Hand(path="a.parquet", rows=rows(1), logged="hdfs://name:9000/a.parquet")])
    assert [file.path for file in table.files()] == ["hdfs://name:9000/a.parquet"]
    with pytest.raises(UnsupportedTable, match="hdfs"):
        values(table)


def test_a_missing_file_and_a_damaged_one_are_named(tmp_path: Path) -> None:
    table = lay(
        tmp_path,
        X,
        [Hand(path="a b.parquet", logged="a%20b.parquet", rows=rows(*range(1000)), options={"write_page_checksum": True})],
    )
    file = tmp_path / "a b.parquet"
    data = bytearray(file.read_bytes())
    data[60] ^= 255
    file.write_bytes(data)
    with pytest.raises(CorruptTable, match=r"a b\.parquet") as damaged:
        values(table)
    assert damaged.value.path == "a b.parquet"
    file.unlink()
    with pytest.raises(CorruptTable, match=r"a b\.parquet is missing"):
        values(table)
    with pytest.raises(CorruptTable, match=r"a b\.parquet is missing"):
        table.sql("select * from this").to_arrow()


def test_maint_04_delta_a_version_whose_files_are_gone_says_so_before_a_row_comes(tmp_path: Path) -> None:
    stats = [{"numRecords": 1, "minValues": {"x": at}, "maxValues": {"x": at}, "nullCount": {"x": 0}} for at in range(2)]
    lagging = lay(tmp_path, X, [Hand(path=f"{at}.parquet", rows=rows(at), stats=stats[at]) for at in range(2)])
    removed = [{"remove": {"path": "1.parquet", "deletionTimestamp": 1, "dataChange": True}}]
    commit(tmp_path, 1, [{"commitInfo": {"timestamp": 1_700_000_100_000}}, *removed])
    table = view(tmp_path)
    assert values(table.at(0)) == [0, 1]
    (tmp_path / "1.parquet").unlink()
    assert values(table) == [0]
    for old in (table.at(0), DeltaView.open_at(tmp_path, 0)):
        assert [file.path for file in old.files()] == ["0.parquet", "1.parquet"]
        with pytest.raises(VersionNotFound, match="version 0 can be read no longer"):
            next(old.scan().to_batches())
        with pytest.raises(VersionNotFound, match="version 0 can be read no longer"):
            old.sql("select * from this").to_arrow()
        assert values(old, "x = 0") == [0]
    # One that does not know that it is old finds out when a file is missing.
    with pytest.raises(VersionNotFound, match="version 0 can be read no longer"):
        values(lagging)
    (tmp_path / "0.parquet").unlink()
    with pytest.raises(CorruptTable, match=r"0\.parquet is missing"):
        values(table)


# -- types -----------------------------------------------------------------------------------------------------------------


def test_type_02_delta_int96_reaches_as_far_as_microseconds_do(tmp_path: Path) -> None:
    far = [dt.datetime(1000, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), None]
    kind = pa.timestamp("us", "UTC")
    nested = pa.array([[{"t": value}] for value in far], pa.list_(pa.struct([("t", kind)])))
    file = pa.table({"x": pa.array(far, kind), "n": nested})
    columns = [
        column("x", "timestamp"),
        column("n", {"type": "array", "elementType": struct(column("t", "timestamp")), "containsNull": True}),
    ]
    table = lay(tmp_path, columns, [Hand(path="a.parquet", rows=file, options={"use_deprecated_int96_timestamps": True})])
    found = table.scan().to_arrow()
    assert found.column("x").to_pylist() == far
    assert [one[0]["t"] for one in found.column("n").to_pylist()] == far
    assert values(table, "x < timestamptz '1500-01-01T00:00:00Z'") == far[:1]


def test_type_06_delta_names_of_list_and_map_children_count_for_nothing(tmp_path: Path) -> None:
    for name in ("item", "element", "array"):
        kind = pa.list_(pa.field(name, pa.list_(pa.field(name, pa.int64()))))
        inner = {"type": "array", "elementType": "long", "containsNull": True}
        table = lay(
            tmp_path / name,
            [column("x", {"type": "array", "elementType": inner, "containsNull": True})],
            [
                Hand(
                    path="a.parquet",
                    rows=pa.table({"x": pa.array([[[1, None]], []], kind)}),
                    options={"use_compliant_nested_type": False},
                )
            ],
        )
        assert values(table) == [[[1, None]], []]


def test_type_13_delta_what_older_files_lack_is_null(tmp_path: Path) -> None:
    new, old = {"x": 1, "y": "a"}, {"x": 2}
    one = pa.struct([("x", pa.int64())])
    both = pa.struct([("x", pa.int64()), ("y", pa.string())])
    files = [
        Hand(
            path="0.parquet",
            rows=pa.table({"a": pa.array([1]), "s": pa.array([old], one), "l": pa.array([[old]], pa.list_(one))}),
        ),
        Hand(
            path="1.parquet",
            rows=pa.table(
                {"b": pa.array(["b"]), "l": pa.array([[new]], pa.list_(both)), "s": pa.array([new], both), "a": pa.array([2])}
            ),
        ),
    ]
    kind = struct(column("x", "long"), column("y", "string"))
    columns = [
        column("a", "long"),
        column("s", kind),
        column("l", {"type": "array", "elementType": kind, "containsNull": True}),
        column("b", "string"),
        column("never", "decimal(10,2)"),
        column("nothing", "void"),
    ]
    for order in (files, files[::-1]):
        table = lay(tmp_path / str(order is files), columns, order)
        wanted = [
            {"a": 1, "s": old | {"y": None}, "l": [old | {"y": None}], "b": None, "never": None, "nothing": None},
            {"a": 2, "s": new, "l": [new], "b": "b", "never": None, "nothing": None},
        ]
        assert counted_table(table.scan().to_arrow()) == counted(wanted)
        assert values(table, "b is null") == [1]
        assert values(table, "s.y is null") == [1]
        assert values(table, "never is null and a > 1") == [2]


@pytest.mark.parametrize(
    ("stored", "declared", "given", "wanted"),
    [
        (pa.int8(), "long", [-1, None], [-1, None]),
        (pa.int32(), "double", [2**31 - 1], [float(2**31 - 1)]),
        (pa.float32(), "double", [0.5], [0.5]),
        (pa.date32(), "timestamp_ntz", [dt.date(1500, 1, 1)], [dt.datetime(1500, 1, 1)]),
        (pa.decimal128(10, 2), "decimal(14,4)", [Decimal("1.25")], [Decimal("1.2500")]),
        (pa.int32(), "decimal(12,2)", [-(2**31)], [Decimal("-2147483648.00")]),
        (pa.int64(), "decimal(20,0)", [2**63 - 1], [Decimal(2**63 - 1)]),
    ],
)
def test_older_files_are_read_in_the_wider_type(
    tmp_path: Path, stored: pa.DataType, declared: str, given: list[Any], wanted: list[Any]
) -> None:
    table = lay(
        tmp_path,
        [column("x", declared)],
        [Hand(path="a.parquet", rows=rows(*given, type_=stored))],
        features=["typeWidening", "timestampNtz"],
    )
    assert values(table) == wanted
    deep = {
        "type": "map",
        "keyType": "string",
        "valueType": {"type": "array", "elementType": declared, "containsNull": True},
        "valueContainsNull": True,
    }
    nested = pa.table({"m": pa.array([[("k", given)]], pa.map_(pa.string(), pa.list_(stored)))})
    table = lay(
        tmp_path / "nested",
        [column("m", deep)],
        [Hand(path="a.parquet", rows=nested)],
        features=["typeWidening", "timestampNtz"],
    )
    assert values(table) == [[("k", wanted)]]


def test_a_value_that_does_not_fit_its_column_is_refused(tmp_path: Path) -> None:
    table = lay(tmp_path, [column("x", "integer")], [Hand(path="a.parquet", rows=rows(1, 2**40))])
    with pytest.raises(CorruptTable, match=r"a\.parquet"):
        values(table)


WALL = dt.datetime(2020, 1, 1, 1, 2, 3, 456)
NS = 1_577_840_523_000_456_000


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("timestamp", pa.array([WALL], pa.timestamp("us"))),
        ("timestamp", pa.array([NS], pa.timestamp("ns"))),
        ("timestamp_ntz", pa.array([WALL], pa.timestamp("us", "UTC"))),
        ("timestamp_ntz", pa.array([WALL.replace(tzinfo=dt.UTC)], pa.timestamp("us", "Asia/Tokyo"))),
        ({"type": "array", "elementType": "timestamp", "containsNull": True}, pa.array([[WALL]], pa.list_(pa.timestamp("us")))),
        ("binary", pa.array([b"ab"], pa.binary(2))),
    ],
)
def test_files_of_others_are_read_as_the_table_says_and_they_read_them(tmp_path: Path, declared: Any, stored: pa.Array) -> None:
    features = ["timestampNtz"] if declared == "timestamp_ntz" else []
    table = lay(tmp_path, [column("x", declared)], [Hand(path="a.parquet", rows=pa.table({"x": stored}))], features=features)
    theirs = QueryBuilder().register("t", DeltaLakeTable(str(tmp_path))).execute("select * from t").read_all()
    assert table.scan().to_arrow()["x"].to_pylist() == pa.table(theirs)["x"].to_pylist()
    if declared == "timestamp":
        assert table.scan(where="x = timestamptz '2020-01-01T01:02:03.000456Z'").count() == 1
        assert table.scan(where="x < timestamptz '2020-01-01T01:02:03.000456Z'").count() == 0


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("decimal(5,0)", pa.array([5_000_000_000], pa.int64())),
        ("string", pa.array([b"\xff"], pa.binary())),
        ("timestamp", pa.array([NS + 1], pa.timestamp("ns"))),
        ("timestamp_ntz", pa.array([2**31 - 1], pa.int32()).cast(pa.date32())),
    ],
)
def test_a_value_of_a_wider_kind_that_does_not_fit_is_refused(tmp_path: Path, declared: str, stored: pa.Array) -> None:
    features = ["timestampNtz"] if declared == "timestamp_ntz" else []
    table = lay(tmp_path, [column("x", declared)], [Hand(path="a.parquet", rows=pa.table({"x": stored}))], features=features)
    with pytest.raises(CorruptTable, match=r"'x'.*a\.parquet"):
        table.scan().to_arrow()


def mapped(name: str, physical: str, number: int, type_: Any = "long") -> dict[str, Any]:
    return column(name, type_, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical})


def with_ids(rows: pa.Table, *ids: int) -> pa.Table:
    fields = [one.with_metadata({"PARQUET:field_id": str(number)}) for one, number in zip(rows.schema, ids, strict=True)]
    return rows.cast(pa.schema(fields))


def test_columns_are_found_by_field_id_whatever_their_names(tmp_path: Path) -> None:
    columns = [mapped("a", "p1", 1), mapped("b", "p2", 2), mapped("c", "p3", 3)]
    crossed = with_ids(pa.table({"p2": [1], "p1": [2]}), 1, 2)
    configuration = {"delta.columnMapping.mode": "id"}
    table = lay(
        tmp_path, columns, [Hand(path="a.parquet", rows=crossed)], features=["columnMapping"], configuration=configuration
    )
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "b": 2, "c": None}]
    by_name = lay(
        tmp_path / "n",
        columns,
        [Hand(path="a.parquet", rows=crossed)],
        features=["columnMapping"],
        configuration={"delta.columnMapping.mode": "name"},
    )
    assert by_name.scan().to_arrow().to_pylist() == [{"a": 2, "b": 1, "c": None}]
    bare = lay(
        tmp_path / "b",
        columns,
        [Hand(path="a.parquet", rows=pa.table({"p1": [1]}))],
        features=["columnMapping"],
        configuration=configuration,
    )
    with pytest.raises(CorruptTable, match="no field ids"):
        bare.scan().to_arrow()


def shredded(typed: pa.DataType, *rows: dict[str, Any] | None) -> pa.Table:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", typed)])
    return pa.table({"n": range(len(rows)), "x": pa.array(rows, kind)})


@pytest.mark.parametrize("features", [["variantType"], ["variantType", "variantShredding"]], ids=["type", "shredding"])
def test_a_shredded_variant_is_put_together(tmp_path: Path, features: list[str]) -> None:
    empty = b"\1\0\0"
    file = shredded(
        pa.int64(),
        {"metadata": empty, "value": None, "typed_value": 1},
        None,
        {"metadata": empty, "value": b"\x09ab", "typed_value": None},
    )
    table = lay(tmp_path, [column("n", "long"), column("x", "variant")], [Hand(path="a.parquet", rows=file)], features=features)
    assert [row["x"] for row in table.scan().to_pylist()] == [1, None, "ab"]
    assert table.scan(where="n > 0", columns=["x"]).to_pylist() == [{"x": None}, {"x": "ab"}]
    assert [one.name for one in table.scan().to_arrow().schema.field("x").type] == ["metadata", "value"]


def test_a_shredded_variant_that_cannot_be_put_together_is_told(tmp_path: Path) -> None:
    cases: list[tuple[pa.DataType, dict[str, Any], type[Exception], str]] = [
        (
            pa.duration("s"),
            {"metadata": b"\1\0\0", "value": None, "typed_value": 1},
            UnsupportedTable,
            "a.parquet holds parts of variants",
        ),
        (
            pa.int64(),
            {"metadata": b"\1\0\0", "value": b"\x0c\x05", "typed_value": 1},
            CorruptTable,
            "'x' of data file a.parquet",
        ),
    ]
    for number, (typed, one, error, says) in enumerate(cases):
        file = shredded(typed, one)
        columns = [column("n", "long"), column("x", "variant")]
        table = lay(tmp_path / str(number), columns, [Hand(path="a.parquet", rows=file)], features=["variantType"])
        assert table.scan(columns=["n"]).to_arrow().num_rows == 1
        with pytest.raises(error, match=says):
            table.scan().to_arrow()


# -- asking ----------------------------------------------------------------------------------------------------------------


def small(root: Path) -> DeltaView:
    files = [
        Hand(path=f"{at}.parquet", rows=pa.table({"id": [at, at + 10], "Name": [f"n{at}", None]}), values={"k": str(at)})
        for at in range(3)
    ]
    return lay(root, [column("id", "long"), column("k", "integer"), column("Name", "string")], files, partition_by=["k"])


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    table = small(tmp_path)
    assert table.scan().to_arrow().column_names == ["id", "k", "Name"]
    assert table.scan(columns=["Name", "id"]).to_arrow().column_names == ["Name", "id"]
    assert table.scan(columns=["k"], where="name = 'n1'").to_arrow().to_pylist() == [{"k": 1}]
    assert table.scan(columns=[], where="id > 9").count() == 3
    assert table.scan(where=(pc.field("k") > 0) & pc.field("Name").is_valid(), columns=["id"]).to_arrow().to_pylist() == [
        {"id": 1},
        {"id": 2},
    ]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    table = small(tmp_path)
    with pytest.raises(UnknownColumn, match="Name"):
        table.scan(columns=["Nam"])
    with pytest.raises(UnknownColumn):
        table.scan(where="ids > 1")
    with pytest.raises(InvalidOption, match="different names"):
        table.scan(columns=["id", "id"])
    with pytest.raises(InvalidOption, match="different names"):
        table.scan(columns="id")
    with pytest.raises(InvalidFilter, match="neither"):
        table.scan(where=3)
    with pytest.raises(InvalidFilter):
        table.scan(where=pc.field("nowhere") > 1).to_arrow()


def test_anything_that_takes_an_arrow_stream_takes_the_rows(tmp_path: Path) -> None:
    rows_ = small(tmp_path).scan(where="id < 3")
    wanted = counted([{"id": at, "k": at, "Name": f"n{at}"} for at in range(3)])
    assert counted_table(pa.table(rows_)) == wanted
    assert counted(pl.DataFrame(rows_).to_dicts()) == wanted
    assert counted(rows_.to_pandas().to_dict("records")) == wanted
    relation = duckdb.sql("select * from rows_")
    assert relation is not None
    assert counted_table(relation.to_arrow_table()) == wanted
    assert counted(rows_.to_pylist()) == wanted


def test_sql_pushes_its_filter_and_columns_into_the_scan(tmp_path: Path) -> None:
    table = small(tmp_path)
    (tmp_path / "2.parquet").unlink()
    assert table.sql("select name from this where k < ?", [2]).to_arrow().to_pylist() == [
        {"Name": "n0"},
        {"Name": None},
        {"Name": "n1"},
        {"Name": None},
    ]
    assert table.sql(f'select count(*) as n from "{tmp_path.name}" where k = 0').to_arrow().to_pylist() == [{"n": 2}]


# -- stores ----------------------------------------------------------------------------------------------------------------


class FarStore(CountingStore):
    """A disk that says that it is far away."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(put_if_absent=True, durable=True, survives_fork=True, concurrent=True)

    def local_path(self, path: str) -> None:
        return None


def through(store: OuterStore) -> DeltaView:
    env = Environment(store=store)
    return DeltaView(env, "t", open_table(env, store.url))


def test_of_a_far_store_only_the_columns_and_files_that_are_asked_for_are_fetched(tmp_path: Path) -> None:
    wide = pa.table({"x": list(range(50_000)), "y": [str(at) * 5 for at in range(50_000)]})
    stats = [{"numRecords": 50_000, "minValues": {"x": 0}, "maxValues": {"x": 49_999}, "nullCount": {"x": 0}}] * 3
    files = [
        Hand(path=f"{at}.parquet", rows=wide, stats=one, options={"row_group_size": 5_000}) for at, one in enumerate(stats)
    ]
    lay(tmp_path, [column("x", "long"), column("y", "string")], files)
    store = FarStore(str(tmp_path))
    table = through(store)
    store.forget()
    assert table.scan(where="x between 7 and 9", columns=["x"]).to_arrow().column("x").to_pylist() == [7, 8, 9] * 3
    size = (tmp_path / "0.parquet").stat().st_size
    assert all(0 < store.bytes_read[f"{at}.parquet"] < size / 5 for at in range(3))
    assert counted_table(table.scan().to_arrow()) == counted_table(view(tmp_path).scan().to_arrow())
    store.forget()
    assert table.scan(where="x < 0").count() == 0
    assert table.count() == 150_000
    assert not store.bytes_read


def test_a_small_file_is_one_request(tmp_path: Path) -> None:
    small(tmp_path)
    store = FarStore(str(tmp_path))
    table = through(store)
    store.forget()
    assert table.scan(where="id > 9").to_arrow().num_rows == 3
    assert [store.reads[f"{at}.parquet"] for at in range(3)] == [1, 1, 1]


class ReadOnly(OuterStore):
    """No one may write here."""

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        raise AccessDenied(f"{path} may not be written", path=path)


def test_path_15_delta_reading_writes_nothing(tmp_path: Path) -> None:
    small(tmp_path)
    table = through(ReadOnly(open_store(tmp_path)))
    before = sorted(path for path in tmp_path.rglob("*"))
    assert table.scan().to_arrow().num_rows == table.at(0).count() == 6
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_batches_come_file_by_file(tmp_path: Path) -> None:
    table = small(tmp_path)
    (tmp_path / "2.parquet").unlink()
    batches = table.scan().to_batches()
    assert [next(batches).num_rows, next(batches).num_rows] == [2, 2]
    with pytest.raises(CorruptTable, match=r"2\.parquet"):
        next(batches)


@pytest.mark.parametrize("vector", [None, (5, 1_234, 40_000)])
def test_near_rows_are_found_within_large_row_groups(tmp_path: Path, vector: tuple[int, ...] | None) -> None:
    count = 60_000
    held = [None if at % 1_000 == 7 else at for at in range(count)]
    file = pa.table(
        {
            "p1": pa.array(held, pa.int32()),
            "p2": [f"t{at * 7919 % count}" for at in range(count)],
            "p3": pa.array(range(count), pa.int32()),
        }
    )
    columns = [mapped("a", "p1", 1, "long"), mapped("b", "p2", 2, "string"), mapped("c", "p3", 3, "double")]
    table = lay(
        tmp_path,
        columns,
        [
            Hand(
                path="a.parquet",
                rows=file,
                vector=None if vector is None else inline(*vector),
                options={"row_group_size": 30_000},
            )
        ],
        features=["columnMapping", "deletionVectors", "typeWidening"],
        configuration={"delta.columnMapping.mode": "name"},
    )
    gone = set(vector or ())
    rows_ = [
        {"a": a, "b": b, "c": float(c)}
        for at, (a, b, c) in enumerate(zip(*file.to_pydict().values(), strict=True))
        if at not in gone
    ]
    asked: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        ("a between 1230 and 1240", lambda row: row["a"] is not None and 1230 <= row["a"] <= 1240),
        ("b = 't5' and a >= 0", lambda row: row["b"] == "t5" and row["a"] is not None),
        ("a is null and c < 9000", lambda row: row["a"] is None and row["c"] < 9000),
        ("a = -1", lambda _row: False),
    ]
    for where, keeps in asked:
        wanted = [row for row in rows_ if keeps(row)]
        assert counted_table(table.scan(where=where).to_arrow()) == counted(wanted)
        assert table.scan(where=where).count() == len(wanted)


@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        ("id % 3 = 1", lambda row: row["id"] % 3 == 1),
        ("id % 3 = 1 and k > 0", lambda row: row["id"] % 3 == 1 and row["k"] > 0),
        ("upper(name) || 'x' = 'N1x' or id + k > 12", lambda row: row["Name"] == "n1" or row["id"] + row["k"] > 12),
        (
            "case when k = 1 then id < 5 else name is null end",
            lambda row: row["id"] < 5 if row["k"] == 1 else row["Name"] is None,
        ),
    ],
)
def test_any_condition_over_a_row_filters(tmp_path: Path, where: str, keeps: Callable[[dict[str, Any]], bool]) -> None:
    table = small(tmp_path)
    wanted = [row for row in table.scan().to_pylist() if keeps(row)]
    assert wanted
    rows_ = table.scan(where=where, columns=["Name", "id"])
    assert counted_table(rows_.to_arrow()) == counted([{"Name": row["Name"], "id": row["id"]} for row in wanted])
    assert rows_.count() == len(wanted)
    assert rows_.schema.names == ["Name", "id"]


def test_of_any_condition_the_parts_that_statistics_know_skip_files(tmp_path: Path) -> None:
    table = small(tmp_path)
    assert [file.path for file in table.scan(where="id % 2 = 0 and k = 2").files()] == ["2.parquet"]
    with pytest.raises(InvalidQuery):
        table.scan(where="sum(id) > 3")
    with pytest.raises(InvalidQuery):
        table.scan(where="id + 1").to_arrow()


@pytest.mark.parametrize("key", ["org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96", "org.apache.spark.version"])
def test_type_21_delta_dates_of_the_old_calendar_are_refused_and_not_shifted(tmp_path: Path, key: str) -> None:
    def laid(name: str, value: dt.datetime) -> DeltaView:
        times = pa.array([[{"t": value}]], pa.list_(pa.struct([("t", pa.timestamp("us", "UTC"))])))
        file = pa.table({"n": times, "x": [1]}).replace_schema_metadata({key: "2.4.5" if key.endswith("version") else ""})
        columns = [column("n", {"type": "array", "elementType": struct(column("t", "timestamp")), "containsNull": True}), *X]
        return lay(tmp_path / name, columns, [Hand(path="a.parquet", rows=file)])

    reform = dt.datetime(1582, 10, 15, tzinfo=dt.UTC)
    assert values(laid("after", reform)) == [[{"t": reform}]]
    table = laid("before", reform - dt.timedelta(microseconds=1))
    with pytest.raises(UnsupportedTable, match="old calendar"):
        table.scan().to_arrow()
    assert table.scan(columns=["x"]).to_arrow().column("x").to_pylist() == [1]


def test_type_21_delta_dates_before_the_reform_are_those_that_were_written(tmp_path: Path) -> None:
    days = [dt.date(1001, 1, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1000, 2, 28)]
    table = lay(tmp_path, [column("x", "date")], [Hand(path="a.parquet", rows=rows(*days, type_=pa.date32()))])
    found = table.scan().to_arrow().column("x")
    assert found.to_pylist() == days
    assert found[0].value == -353_920


TYPED = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


@pytest.mark.parametrize(
    "literal",
    [
        "timestamp '2026-01-06 00:00:00'", "timestamp '2026-01-06T00:00:00Z'", "timestamp '2026-01-06 02:00:00+02:00'",
        "timestamptz '2026-01-06 00:00:00+00'", "date '2026-01-06'", "timestamp '2026-01-05 00:00:00' + interval '1 day'",
        "timestamp '2026-02-06 00:00:00' - interval 1 month",
    ],
)  # fmt: skip
def test_typed_literals_select_files_and_rows_of_a_utc_column(tmp_path: Path, literal: str) -> None:
    table = gl.delta.create(tmp_path / "t", TYPED)
    for day in range(4, 9):
        table.append(
            {"at": [dt.datetime(2026, 1, day, tzinfo=dt.UTC), dt.datetime(2026, 1, day, 12, tzinfo=dt.UTC)], "n": [day, day]}
        )
    where = f"at >= {literal}"
    assert sorted(table.scan(where=where).to_arrow().column("n").to_pylist()) == [6, 6, 7, 7, 8, 8]
    assert len(table.scan(where=where).files()) == (5 if "month" in literal else 3)
    assert table.update({"n": "n + 10"}, where=f"at < {literal}").updated_rows == 4
    assert table.delete(where).removed_rows == 6
    assert table.count() == 4
