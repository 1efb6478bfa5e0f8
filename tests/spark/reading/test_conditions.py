"""Conditions that Spark answers itself: the rows are those of our own scan."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.spark.reading.frame import read

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

SAID = [
    "n = 3", "n != 3", "n < 2.5", "n >= 300", "n <= -129 ", "127 >= n", "n IN (1, 3, 500, NULL)", "n NOT IN (1, 3)", "n IN (500)",
    "n IS NULL", "n IS NOT NULL", "n = NULL", "big > 9007199254740992", "big = 9007199254740993", "big < 99999999999999999999",
    "text = 'a''b\\c'", "text < 'b'", "text >= 'ü'", "text IN ('', 'a\nb')", "flag", "NOT flag", "flag IS NOT TRUE", "flag = false",
    "day = '2026-03-29'", "day < DATE '1970-01-01'", "day > TIMESTAMP '2026-03-28 12:00:00'", "utc >= '2026-03-29T01:00:00Z'",
    "utc < '2026-03-29T03:00:00.0000005+02:00'", "utc > DATE '2026-03-28'", "naive = TIMESTAMP '2026-03-29 02:30:00'",
    "naive <= '9999-12-31'", "price = 1.5", "price < 0.005", "price > 12345678901", "price IN (1.50, 0.001)",
]  # fmt: skip
OURS = ["f > 5", "length(text) = 1", "text LIKE 'a%'", "point.x = 1", "n % 2 = 1", "starts_with(text, 'a')"]


def made(root: Path) -> Any:
    at = [
        datetime(2026, 3, 29, 0, 59, 59, 999_999),
        datetime(2026, 3, 29, 2, 30),
        datetime(1, 1, 1),
        datetime(9999, 12, 31),
        None,
    ]
    columns = {
        "key": pa.array(range(60)),
        "n": pa.array([[-128, 1, 2, 3, 127, None][one % 6] for one in range(60)], pa.int8()),
        "big": pa.array([[2**53, 2**53 + 1, -(2**63), 2**63 - 1, None][one % 5] for one in range(60)]),
        "text": pa.array([["", "a", "a'b\\c", "a\nb", "b", "ü", None][one % 7] for one in range(60)]),
        "flag": pa.array([[True, False, None][one % 3] for one in range(60)]),
        "day": pa.array([[date(2026, 3, 29), date(1, 1, 1), date(1969, 12, 31), None][one % 4] for one in range(60)]),
        "naive": pa.array([at[one % 5] for one in range(60)], pa.timestamp("us")),
        "utc": pa.array([None if (t := at[one % 5]) is None else t.replace(tzinfo=UTC) for one in range(60)], pa.timestamp("us", "UTC")),
        "price": pa.array([[Decimal("1.50"), Decimal("0.01"), Decimal("-0.01"), None][one % 4] for one in range(60)], pa.decimal128(9, 2)),
        "f": pa.array([[float("nan"), 1.5, -0.0, None, 7.0][one % 5] for one in range(60)]),
        "point": pa.array([{"x": one % 3} for one in range(60)]),
    }  # fmt: skip
    data = pa.table(columns)
    table = gl.delta.create(root / "t", data.schema)
    table.append(data)
    return table


def keys(frame: Any) -> list[int]:
    return sorted(frame.toArrow()["key"].to_pylist())


def is_native(frame: Any) -> bool:
    return "MapInArrow" not in str(frame._jdf.queryExecution().executedPlan().toString())


def test_spark_keeps_the_rows_that_a_scan_keeps(spark: Any, tmp_path: Path) -> None:
    """Terms alone, and random ones of them under AND, OR and NOT, in a session of another zone."""
    table, drawn = made(tmp_path), random.Random(7)
    asked = [(where, True) for where in SAID] + [(where, False) for where in OURS]
    for _ in range(25):
        one, other, third = (f"({where})" for where in drawn.sample(SAID, 3))
        asked.append((f"({one} OR NOT {other}) AND (NOT ({one} AND {third}) OR {other} IS UNKNOWN)", True))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        cut = 0
        for where, native in asked:
            frame = read(spark, table, where=where, columns=["key"])
            rows = table.scan(where=where, columns=["key"]).to_arrow()["key"].to_pylist()
            assert keys(frame) == sorted(rows), where
            if 0 < len(rows) < 60:
                cut += 1
                assert is_native(frame) == native, where
        assert cut > 45
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_columns_that_are_only_asked_about_are_not_given(spark: Any, tmp_path: Path, mapping: str) -> None:
    """Nor mixed up: of renamed columns, and of partitions."""
    data = pa.table({"p": [1, 1, 2], "a": [1, 2, 3], "b": [30, 20, 10]})
    table = gl.delta.create(
        tmp_path / "t",
        data.schema,
        partition_by="p",
        properties={"delta.columnMapping.mode": mapping} if mapping == "name" else {},
    )
    table.append(data)
    if mapping == "name":
        table.alter.rename_column("a", "c")
        table.alter.rename_column("b", "a")
        table.alter.rename_column("c", "b")
    asked, given = ("b", "a") if mapping == "name" else ("a", "b")
    frame = read(spark, table, where=f"{asked} >= 2 AND p < 2", columns=[given])
    assert (frame.columns, [tuple(row) for row in frame.collect()], is_native(frame)) == ([given], [(20,)], True)
    both = read(spark, table, where=f"{asked} >= 2 OR p = 2")
    assert sorted(map(tuple, both.select("p", asked, given).collect())) == [(1, 2, 20), (2, 3, 10)]
