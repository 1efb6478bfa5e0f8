"""A Delta table that is published: after each step of a life, and after commits of other writers, every reader of Iceberg and of Hudi has its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import UnsupportedType
from gapless.tables.delta.table import DeltaTable
from interop.delta.engines import HUDI, HUDI_SPARK, Ask, counted

START = datetime(2026, 1, 5, tzinfo=UTC)
READERS = ["pyiceberg", "duckdb-1.5.5", "spark"]
DEAL = pa.struct([("by", pa.string()), ("price", pa.float64())])
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("site", pa.string()),
        ("day", pa.date32()),
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("x", pa.float64()),
        ("deal", DEAL),
    ]
)


def rows(first: int, count: int, value: int = 0) -> pa.Table:
    told = [
        {
            "ts": START + timedelta(hours=n),
            "site": ["ü/1=%", "b c", None][n % 3],
            "day": date(2026, 1, 1) + timedelta(days=n % 2),
            "n": value + n,
            "i": n,
            "x": None if n % 5 == 0 else 0.25 * n,
            "deal": {"by": f"é{n}", "price": -0.5 * n},
        }
        for n in range(first, first + count)
    ]
    return pa.Table.from_pylist(told, SCHEMA)


def read_iceberg(engine: Ask, name: str, path: Path, **named: Any) -> pa.Table:
    if name == "pyiceberg":
        table = StaticTable.from_metadata(str(path / "_iceberg"))
        return table.scan(named.get("where", "true"), snapshot_id=named.get("at")).to_arrow()
    found: pa.Table = engine(name).do("read_iceberg", path=str(path / "_iceberg"), **named)
    return found


MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": True}


def changes_of(table: DeltaTable) -> list[Callable[[], object]]:
    """Changes of every kind; types are widened where the table's properties allow it."""
    mapped = bool(table.properties.get("delta.columnMapping.mode"))
    alter = [
        lambda: table.alter.rename_column("x", "cost"),
        lambda: table.alter.rename_column("deal.by", "broker"),
        lambda: table.alter.drop_column("n"),
        lambda: table.alter.add_column("n", pa.string()),
        lambda: table.append([{"ts": START, "site": "b", "day": date(2026, 1, 1), "i": 7, "n": "new"}], schema_mode="merge"),
    ]
    return [
        lambda: table.append(rows(0, 12)),
        lambda: table.append(rows(20, 12)),
        lambda: table.update({"n": "n + 100"}, where="i >= 6 AND i < 10"),
        lambda: table.delete("i = 7 OR i = 23"),
        table.compact,
        lambda: table.alter.add_column("note", pa.string()),
        lambda: table.append(rows(50, 4).append_column("note", pa.array(["x"] * 4))),
        *([lambda: table.alter.widen("i", pa.int64())] if table.properties.get("delta.enableTypeWidening") == "true" else []),
        *(alter if mapped else []),
        lambda: table.restore(version=4),
        lambda: table.zorder(["n"]),
        lambda: table.delete("true"),
        lambda: table.append(rows(90, 2)),
        lambda: table.overwrite(rows(30, 5)),
    ]


def lived(path: Path, **named: Any) -> tuple[DeltaTable, list[tuple[int, int, Counter[str]]]]:
    """A table that has lived, and of each version its number, its snapshot, and its rows."""
    mapped = named.pop("mapped", False)
    properties = {"publish": ["iceberg"], "delta.checkpointInterval": 4, **WIDENING, **(MAPPED if mapped else {})}
    table = gl.delta.create(path, SCHEMA, properties=properties, **named)
    told: list[tuple[int, int, Counter[str]]] = []
    for change in changes_of(table):
        change()
        (publication,) = table.publications()
        assert (publication.format, publication.version, publication.behind) == ("iceberg", table.version, 0)
        assert publication.published_version is not None
        told.append((table.version, publication.published_version, counted(table.scan().to_arrow())))
    return table, told


LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["day", "site"]},
    "mapped": {"mapped": True},
    "mapped and partitioned": {"mapped": True, "partition_by": ["site"]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_reader_of_iceberg_has_the_rows_of_every_version(engine: Ask, tmp_path: Path, layout: str) -> None:
    _, told = lived(tmp_path / "t", **LAYOUTS[layout])
    for name in READERS:
        for version, snapshot, expected in told[:: 3 if name == "spark" else 1]:
            assert counted(read_iceberg(engine, name, tmp_path / "t", at=snapshot)) == expected, (name, version)
        assert counted(read_iceberg(engine, name, tmp_path / "t")) == told[-1][2], name
    assert not gl.verify(tmp_path / "t").problems


PARTITIONS: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    "int8": pa.array([-128, 127, None], pa.int8()),
    "int16": pa.array([-(2**15), 5, None], pa.int16()),
    "int32": pa.array([-(2**31), 5, None], pa.int32()),
    "int64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "decimal": pa.array([Decimal("-1.50"), Decimal("999.99"), None], pa.decimal128(5, 2)),
    "large decimal": pa.array([Decimal("-1.5"), Decimal(10) ** 20, None], pa.decimal128(30, 1)),
    "date": pa.array([date(1969, 12, 31), date(2026, 1, 5), None]),
    "timestamp": pa.array([datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), START, None], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([datetime(1960, 1, 1, 0, 0, 0, 1), START.replace(tzinfo=None), None], pa.timestamp("us")),
    "string": pa.array(["a/b=c%20 ü'", "x" * 150, None]),
}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_each_kind_of_partition_column_is_read_and_pruned_by_each_reader(engine: Ask, tmp_path: Path, kind: str) -> None:
    given = pa.table({"p": PARTITIONS[kind], "n": [1, 2, 3]})
    table = gl.delta.create(tmp_path / "t", given.schema, partition_by="p", properties={"publish": "iceberg"})
    table.append(given)
    for name in READERS:
        assert counted(read_iceberg(engine, name, tmp_path / "t")) == counted(given), name
        where = {"where": "p IS NULL"}
        assert read_iceberg(engine, name, tmp_path / "t", **where)["n"].to_pylist() == [3], name


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64(), pa.binary()])
def test_other_partition_columns_are_refused(tmp_path: Path, type_: pa.DataType) -> None:
    schema = pa.schema([("p", type_), ("n", pa.int64())])
    with pytest.raises(UnsupportedType, match="partition column 'p'"):
        gl.delta.create(tmp_path / "t", schema, partition_by="p", properties={"publish": "iceberg"})


def test_what_delta_spark_and_deltalake_commit_is_published_next(engine: Ask, tmp_path: Path) -> None:
    place, path = tmp_path / "t", str(tmp_path / "t")
    plain = pa.schema([("id", pa.int64()), ("site", pa.string()), ("x", pa.float64())])

    def some(first: int, count: int) -> pa.Table:
        return pa.table({"id": range(first, first + count), "site": ["a", "b"] * (count // 2), "x": [0.5] * count}, plain)

    table = gl.delta.create(place, plain, partition_by="site", properties={"publish": ["iceberg"]})
    table.append(some(0, 10))
    spark, rs = engine("spark"), engine("deltalake-1.6.6")
    steps: list[Callable[[], object]] = [
        lambda: spark.do("append", some(10, 4), path=path),
        lambda: rs.do("append", some(20, 4), path=path),
        lambda: spark.do("delete", path=path, where="id = 3"),
        lambda: rs.do("update", path=path, values={"x": "9.0"}, where="id = 21"),
        lambda: spark.do("merge", some(8, 4), path=path, on="t.id = s.id"),
        lambda: spark.do("optimize", path=path),
        lambda: rs.do("optimize", path=path),
        lambda: rs.do("restore", path=path, at=3),
        lambda: spark.do("restore", path=path, at=5),
    ]
    for step in steps:
        before = table.refresh().version
        step()
        (behind,) = table.publications()
        assert behind.behind == table.version - before
        (publication,) = table.publish()
        assert (publication.version, publication.behind) == (table.version, 0)
        for name in READERS:
            assert counted(read_iceberg(engine, name, place)) == counted(table.scan().to_arrow()), name
    told = [
        one.summary["gapless.version"] for one in StaticTable.from_metadata(str(place / "_iceberg")).snapshots() if one.summary
    ]
    assert told == [str(version) for version in range(table.version + 1)]
    assert gl.verify(place).ok


def test_timestamps_of_96_bits_are_refused_until_they_are_written_anew(engine: Ask, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = gl.delta.create(tmp_path / "t", schema, properties={"publish": ["iceberg"]})
    table.append({"id": [1], "at": [START]})
    engine("spark").do("append", pa.table({"id": [2], "at": [START]}, schema), path=str(tmp_path / "t"))
    with pytest.raises(UnsupportedType, match="'at'"):
        table.publish()
    told = table.append({"id": [3], "at": [START]}).published["iceberg"]
    assert "UnsupportedType" in told
    table.alter.set_properties({"publish": ["iceberg"]}, rewrite=True)
    assert table.publish()[0].behind == 0
    for name in READERS:
        assert counted(read_iceberg(engine, name, tmp_path / "t")) == counted(table.scan().to_arrow()), name


def test_readers_of_hudi_have_the_rows_after_each_step_and_of_older_instants(engine: Ask, tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = gl.delta.create(place, SCHEMA, properties={"publish": ["hudi"], "delta.checkpointInterval": 4})
    told: list[tuple[str, int]] = []
    for step, change in enumerate(changes_of(table)):
        change()
        (publication,) = table.publications()
        assert (publication.version, publication.behind) == (table.version, 0)
        told.append((str(publication.published_version), table.version))
        expected = counted(table.scan().to_arrow())
        for name in (HUDI, HUDI_SPARK):
            assert counted(engine(name).read(place / "_hudi")) == expected, (name, step)
    for at, version in told[:4]:
        then = table.at(version=version).scan().to_arrow()
        for name in (HUDI, HUDI_SPARK):
            found = engine(name).read(place / "_hudi", at=at)
            assert counted(found, then.column_names) == counted(then), (name, at)
    engine("deltalake-1.6.6").do("append", rows(60, 3), path=str(place))
    assert table.publish()[0].behind == 0
    table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    table.append(rows(70, 2))
    for name in (HUDI, HUDI_SPARK):
        assert counted(engine(name).read(place / "_hudi")) == counted(table.scan().to_arrow()), name
        # Readers of Delta find the same files.
    assert counted(engine("deltalake-1.6.6").read(place)) == counted(table.scan().to_arrow())
    assert gl.verify(place).ok
