"""Values of every type, in data and in partitions, as other readers see them, and find them by our statistics."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from interop.delta.engines import READERS, Ask, EngineError, counted

FIELDS = [
    ("b", pa.bool_()),
    ("i8", pa.int8()),
    ("i16", pa.int16()),
    ("i32", pa.int32()),
    ("i64", pa.int64()),
    ("f", pa.float32()),
    ("d", pa.float64()),
    ("dec", pa.decimal128(38, 10)),
    ("s", pa.string()),
    ("bin", pa.binary()),
    ("day", pa.date32()),
    ("ts", pa.timestamp("us", "UTC")),
    ("tn", pa.timestamp("us")),
]
SCHEMA = pa.schema([("id", pa.int64()), *FIELDS])
NAMES = [name for name, _ in FIELDS]
COLUMNS: list[list[Any]] = [
    [True, False, False],
    [-128, 127, 0],
    [1, -1, 0],
    [2, -2, 0],
    [2**63 - 1, -(2**63), 0],
    [1.5, math.nan, 1e10],
    [math.inf, math.nan, 1e-300],
    [Decimal("1.0000000001"), Decimal("-12345678901234567890.5000000000"), Decimal("0.0000000001")],
    ["é/ü %=:~'\"\\", "💡", " "],
    [b"abc", "é".encode(), b"\x01\x02"],
    [dt.date(1, 1, 1), dt.date(2026, 1, 1), dt.date(1582, 10, 4)],
    [
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC),
        dt.datetime(1850, 1, 1, 0, 0, 0, 1, dt.UTC),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    ],
    [dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1, 1, 2, 3, 4), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)],
]
ROWS = pa.Table.from_pylist(
    [
        *({"id": number, **dict(zip(NAMES, values, strict=True))} for number, values in enumerate(zip(*COLUMNS, strict=True))),
        {"id": 3, **dict.fromkeys(NAMES)},
    ],
    SCHEMA,
)
CANNOT = {("polars", "bin"): "it has no partition columns of bytes"}
WHERE = {
    "b = true": 1,
    "i8 = -128": 1,
    "i64 = 9223372036854775807": 1,
    "f > 1.25 and f < 2": 1,
    "d = 1e-300": 1,
    "d > 1e308": 2,  # infinity, and NaN, which these readers put above all numbers
    "dec = 1.0000000001": 1,
    "s = ' '": 1,
    "day = DATE '1582-10-04'": 1,
    "tn = TIMESTAMP '1969-12-31 23:59:59.999999'": 1,
    "ts = TIMESTAMPTZ '1850-01-01 00:00:00.000001+00'": 1,
    "s is null": 1,
}
SPARKS = {"tn = TIMESTAMP '": "tn = TIMESTAMP_NTZ '", "TIMESTAMPTZ": "TIMESTAMP"}
"""The same in Spark's SQL."""


class Shelf:
    """Tables by the column they are partitioned by, None for one that is not and has a row a file; made when first asked for."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._made: dict[str | None, Path] = {}

    def path(self, by: str | None) -> str:
        if by not in self._made:
            self._made[by] = self._factory.mktemp(f"by_{by}") / "table"
            table = gl.delta.create(self._made[by], SCHEMA, partition_by=[by] if by else [])
            for part in [ROWS] if by else [ROWS.slice(at, 1) for at in range(len(ROWS))]:
                table.append(part)
        return str(self._made[by])


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("by", [None, *NAMES])
def test_others_read_every_type(by: str | None, reader: str, shelf: Shelf, engine: Ask) -> None:
    if (reader, by) in CANNOT:
        with pytest.raises(EngineError):
            engine(reader).read(shelf.path(by))
        return
    assert counted(engine(reader).read(shelf.path(by)), SCHEMA.names) == counted(ROWS)


@pytest.mark.parametrize("reader", ["deltalake-1.6.6", "deltalake-1.3.3", "duckdb-1.5.5"])
@pytest.mark.parametrize("where", WHERE)
def test_others_find_each_value_by_our_statistics(where: str, reader: str, shelf: Shelf, engine: Ask) -> None:
    assert engine(reader).read(shelf.path(None), where=where).num_rows == WHERE[where]


@pytest.mark.long
def test_spark_reads_and_finds_every_type(shelf: Shelf, engine: Ask) -> None:
    spark = engine("spark")
    for by in (None, "f", "dec", "s", "bin", "day", "ts", "tn"):
        assert counted(spark.read(shelf.path(by)), SCHEMA.names) == counted(ROWS), by
    for where, count in WHERE.items():
        text = where
        for ours, theirs in SPARKS.items():
            text = text.replace(ours, theirs)
        assert spark.read(shelf.path(None), where=text).num_rows == count, text


@pytest.mark.long
def test_spark_reads_variants_that_we_wrote(tmp_path: Path, engine: Ask) -> None:
    """Those of a table of Spark's, appended to a table of ours and then changed there."""
    fixture = Path(__file__).resolve().parents[2] / "fixtures" / "delta" / "spark_variant"
    rows = gl.delta.open(fixture / "table").scan().to_arrow()
    table = gl.delta.create(tmp_path / "t", rows.schema, properties={"delta.enableChangeDataFeed": True})
    table.append(rows)
    table.delete("id = 3")
    told = {row["id"]: row["v"] for row in json.loads((fixture / "expected.json").read_text())["rows"]}
    found = engine("spark").do("query", text=f"select id, to_json(v) v from delta.`{tmp_path}/t`")
    assert {row["id"]: row["v"] for row in found.to_pylist()} == {key: told[key] for key in (1, 2, 4)}
