"""Plain copies in the formats of others are read by their own engines, and written on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from interop.delta.engines import HUDI, HUDI_SPARK, Ask, counted

START = datetime(2026, 1, 5, tzinfo=UTC)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "ts": pa.array([START + timedelta(minutes=number) for number in numbers], pa.timestamp("us", "UTC")),
            "site": [("north", "söuth")[number % 2] for number in numbers],
            "x": pa.array([None if number % 7 == 0 else 0.5 + number for number in numbers], pa.float64()),
            "deal": [{"by": f"é{number}", "lots": [number, None]} for number in numbers],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> gl.TimeSeriesTable:
    made = gl.create(tmp_path / "t", index="ts", bucket="1m", entity="site")
    made.append(rows(0, 200))
    made.append(rows(200, 50))
    made.delete("x > 20 and x < 30")
    return made


def same(found: Any, table: gl.TimeSeriesTable) -> None:
    mine = table.scan().to_arrow()
    assert counted(found.select(mine.column_names).cast(mine.schema)) == counted(mine)


def test_an_iceberg_table(engine: Ask, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    assert table.export(tmp_path / "copy", "iceberg").rows == table.scan().count()
    path = str(tmp_path / "copy")
    for name in ("duckdb-1.5.5", "spark"):
        same(engine(name).do("read_iceberg", path=path), table)
        assert engine(name).do("read_iceberg", path=path, where="x > 240").num_rows == 9
    # It is Spark's from here on.
    engine("spark").do("append_iceberg", rows(500, 3), path=path)
    assert engine("spark").do("read_iceberg", path=path).num_rows == table.scan().count() + 3
    assert engine("duckdb-1.5.5").do("read_iceberg", path=path).num_rows == table.scan().count() + 3


@pytest.mark.parametrize("name", [HUDI, HUDI_SPARK])
def test_a_hudi_table(engine: Ask, table: gl.TimeSeriesTable, tmp_path: Path, name: str) -> None:
    assert table.export(tmp_path / "copy", "hudi").rows == table.scan().count()
    same(engine(name).do("read", path=str(tmp_path / "copy" / "data")), table)
