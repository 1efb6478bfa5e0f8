"""A time-series table that is published as Delta: after each step of a life every reader of Delta has its rows, of older versions too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.model.properties import CODECS
from interop.delta.engines import READERS, Ask, EngineError, counted

START = datetime(2026, 1, 5, tzinfo=UTC)
STEPS = 9


def rows(first: int, count: int, value: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "ts": START + timedelta(hours=first + n),
            "site": "ab"[n % 2],
            "n": value + n,
            "price": None if n % 5 == 0 else 0.25 * n,
            "deal": {"by": f"é{n}", "lots": [n, None]},
        }
        for n in range(count)
    ]


def lived(path: Path) -> tuple[gl.TimeSeriesTable, list[tuple[int, int, Counter[str]]]]:
    """A table that has lived, and of each version of it that is published its number, that of Delta, and the rows."""
    table = gl.create(
        path, index="ts", bucket="1h", entity=["site"], properties={"publish": ["delta"], "checkpoint_interval": 4}
    )
    told: list[tuple[int, int, Counter[str]]] = []
    changes: list[Callable[[], object]] = [
        lambda: table.append(rows(0, 12)),
        lambda: table.append(rows(20, 12)),
        lambda: table.upsert(rows(6, 10, value=100)),
        lambda: table.delete("n = 103 OR n = 4"),
        table.compact,
        lambda: table.add_column("note", pa.string()),
        lambda: table.append([row | {"note": "x"} for row in rows(50, 4)]),
        lambda: table.replace((START, START + timedelta(hours=3)), [row | {"note": None} for row in rows(0, 3, value=7)]),
        lambda: table.restore(version=5),
    ]
    assert len(changes) == STEPS
    for change in changes:
        change()
        (publication,) = table.publications()
        assert (publication.version, publication.behind) == (table.version, 0)
        assert publication.published_version is not None
        told.append((table.version, publication.published_version, counted(table.scan().to_arrow())))
    return table, told


@pytest.mark.parametrize("name", [*READERS, "spark"])
def test_every_reader_has_the_rows_of_every_version(engine: Ask, tmp_path: Path, name: str) -> None:
    _, told = lived(tmp_path / "t")
    reader = engine(name)
    for _, version, expected in told:
        found = reader.read(tmp_path / "t", at=version) if name != "duckdb-1.5.5" else None
        if found is not None:
            assert counted(found) == expected
    assert counted(reader.read(tmp_path / "t")) == told[-1][2]


@pytest.mark.parametrize("name", ["duckdb-1.5.5", "spark"])
def test_renamed_dropped_and_widened_columns_show_no_old_value(engine: Ask, tmp_path: Path, name: str) -> None:
    table, _ = lived(tmp_path / "t")
    reader = engine(name)
    for change in (
        lambda: table.rename_column("price", "cost"),
        lambda: table.rename_column("deal.by", "broker"),
        lambda: table.drop_column("n"),
        lambda: table.add_column("n", pa.string()),
        table.compact,
    ):
        change()
        assert counted(reader.read(tmp_path / "t")) == counted(table.scan().to_arrow())


def test_widened_columns_and_the_way_back(engine: Ask, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": "delta"})
    table.append(
        pa.table(
            {
                "ts": pa.array([START], pa.timestamp("us", "UTC")),
                "i": pa.array([7], pa.int16()),
                "f": pa.array([0.5], pa.float32()),
            }
        )
    )
    version = table.version
    table.widen_column("i", "int64")
    table.widen_column("f", "float64")
    table.append([{"ts": START + timedelta(hours=1), "i": 2**40, "f": 0.1}])
    spark = engine("spark")
    assert counted(spark.read(tmp_path / "t")) == counted(table.scan().to_arrow())
    table.restore(version=version)
    assert counted(spark.read(tmp_path / "t")) == counted(table.scan().to_arrow())


def test_widened_before_it_was_published_and_in_lists(engine: Ask, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    types: dict[str, Any] = {
        "i": pa.int16(),
        "f": pa.float32(),
        "l": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int16()),
    }
    values: dict[str, list[Any]] = {"i": [7, None], "f": [0.5, None], "l": [[1, None], None], "m": [[("k", 1)], None]}
    times = pa.array([START, START + timedelta(hours=1)], pa.timestamp("us", "UTC"))
    columns: dict[str, Any] = {name: pa.array(values[name], type_) for name, type_ in types.items()}
    table.append(pa.table({"ts": times, **columns}))
    table.widen_column("i", "int64")
    table.widen_column("l.element", "int64")
    table.set_properties({"publish": ["delta"]})
    spark = engine("spark")
    assert counted(spark.read(tmp_path / "t")) == counted(table.scan().to_arrow())
    table.widen_column("f", "float64")
    table.widen_column("m.value", "int32")
    table.append([{"ts": START + timedelta(hours=5), "i": 2**40, "f": 0.1, "l": [2**40], "m": {"k": 2**30}}])
    assert counted(spark.read(tmp_path / "t")) == counted(table.scan().to_arrow())


CONDITIONS: list[tuple[str, str, Any]] = [
    ("x", "=", 3.0),
    ("n", "=", 30),
    ("n", ">", 25),
    ("late", "=", 1),
    *((name, act, None) for name in ("x", "n", "late", "t") for act in ("is null", "is not null")),
]


@pytest.mark.parametrize(
    "name", [*(name for name in READERS if name.startswith("deltalake")), "duckdb-1.5.5", "polars", "spark"]
)
def test_conditions_lose_no_row_where_a_column_lacks_bounds(engine: Ask, tmp_path: Path, name: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["delta"]})
    given: list[dict[str, Any]] = [
        {"x": 1.0, "n": 10, "t": "a"},
        {"x": 3.0, "n": 30, "t": "c"},
        {"x": float("nan"), "n": 40, "t": "d" * 5000},
        {"x": None, "n": None, "t": None},
    ]
    for hour, row in enumerate(given):
        table.append([{"ts": START + timedelta(hours=hour), **row}])
    table.compact()
    table.add_column("late", "int64")
    table.append([{"ts": START + timedelta(hours=9), "x": 5.0, "n": 50, "t": "e", "late": 1}])
    rows = table.scan().to_arrow().to_pylist()
    holds: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda there, value: there == value,
        ">": lambda there, value: there is not None and there > value,
        "is null": lambda there, _: there is None,
        "is not null": lambda there, _: there is not None,
    }
    for column, act, value in CONDITIONS:
        wanted = [row for row in rows if holds[act](row[column], value)]
        where = f"{column} {act}{'' if value is None else f' {value}'}"
        assert counted(engine(name).read(tmp_path / "t", where=where)) == counted(wanted), where
        if name.startswith("deltalake"):
            found = engine(name).do("dataset", path=str(tmp_path / "t"), column=column, comparison=act, value=value)
            assert counted(found) == counted(wanted), where


KINDS: dict[str, pa.Array] = {
    "bool": pa.array([True, None]),
    "int8": pa.array([-128, 127], pa.int8()),
    "int64": pa.array([-(2**63), 2**63 - 1], pa.int64()),
    "uint8": pa.array([255, None], pa.uint8()),
    "uint16": pa.array([2**16 - 1, None], pa.uint16()),
    "uint32": pa.array([2**32 - 1, None], pa.uint32()),
    "float32": pa.array([1.5, None], pa.float32()),
    "float64": pa.array([-0.0, 1e300]),
    "decimal": pa.array([Decimal("-99.99"), None], pa.decimal128(4, 2)),
    "wide_decimal": pa.array([Decimal(10) ** 37, None], pa.decimal128(38, 0)),
    "string": pa.array(["", "ünïcode"]),
    "large_string": pa.array(["a", None], pa.large_string()),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "binary": pa.array([b"\0\xff", None]),
    "fixed": pa.array([b"abc", None], pa.binary(3)),
    "date": pa.array([-1, 20_000], pa.date32()),
    "ms": pa.array([1_767_571_200_123, None], pa.timestamp("ms", "UTC")),
    "s": pa.array([1_767_571_200, None], pa.timestamp("s", "UTC")),
    "us": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")),
    "naive": pa.array([1_767_571_200_123_456, None], pa.timestamp("us")),
    "list": pa.array([[1, None], []], pa.list_(pa.int32())),
    "struct": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
    "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
}


@pytest.mark.parametrize("name", ["deltalake-1.6.6", "duckdb-1.5.5", "spark"])
def test_every_kind_of_column_and_codec_is_read(engine: Ask, tmp_path: Path, name: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"publish": ["delta"]})
    for number, codec in enumerate(CODECS):
        table.set_properties({"codec": codec})
        times = pa.array([START + timedelta(hours=2 * number + n) for n in range(2)], pa.timestamp("us", "UTC"))
        table.append(pa.table({"ts": times, **KINDS}))
    expected = table.scan().to_arrow()
    found = engine(name).read(tmp_path / "t")
    for column in expected.column_names:
        assert counted(found, [column]) == counted(expected, [column]), column


@pytest.mark.parametrize("name", ["deltalake-1.6.6", "spark"])
def test_other_writers_are_kept_out(engine: Ask, tmp_path: Path, name: str) -> None:
    table, _ = lived(tmp_path / "t")
    writer = engine(name)
    before = sorted(path.name for path in (tmp_path / "t" / "data").iterdir())
    there = table.scan().to_arrow()
    acts: list[Callable[[], object]] = [
        lambda: writer.do("append", there, path=str(tmp_path / "t")),
        lambda: writer.do("delete", path=str(tmp_path / "t"), where="n = 1"),
        lambda: writer.do("optimize", path=str(tmp_path / "t")),
        lambda: writer.do("vacuum", path=str(tmp_path / "t"), hours=0),
    ]
    for act in acts:
        with pytest.raises(EngineError, match=r"(?i)gapless|feature"):
            act()
    assert sorted(path.name for path in (tmp_path / "t" / "data").iterdir()) == before
    assert not gl.verify(tmp_path / "t").problems
