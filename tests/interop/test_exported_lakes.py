"""Snapshots of a lake's table exported as Delta and Iceberg, read by other engines: folders, odd values and columns that came later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from interop.delta.engines import READERS, Ask, counted

START = datetime(2026, 3, 1, tzinfo=UTC)


def rows(first: int, count: int, value: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "id": n,
            "site": ("a/b", None, "", "x" * 200, "a%2Fb", "p.q", "é", "007")[n % 8],
            "v": value + n,
            "ts": START + timedelta(hours=7 * n),
            "deal": {"by": f"é{n}", "lots": [n, None]},
        }
        for n in range(first, first + count)
    ]


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> gl.lake.LakeTable:
    lake = gl.lake.init(tmp_path / "lake")
    key = ["id"] if request.param == "keyed" else []
    made = lake.create_table("t", key=key, partition_by=["site", "day(ts)"])
    lake.run("t", rows(0, 16))
    made.compact()
    for format_ in ("delta", "iceberg"):
        made.export(format_)
    lake.run("t", [row | {"note": "later"} for row in rows(4, 3, 100)])
    made.compact(incremental=not key)
    for format_ in ("delta", "iceberg"):
        assert made.export(format_).changed
    return made


@pytest.mark.parametrize("name", READERS)
def test_as_delta(engine: Ask, table: gl.lake.LakeTable, tmp_path: Path, name: str) -> None:
    told = table.to_arrow()
    found = engine(name).read(tmp_path / "lake/tables/t")
    assert counted(found, told.column_names) == counted(told)
    assert engine(name).read(tmp_path / "lake/tables/t", at=0).num_rows == 16
    picked = engine(name).read(tmp_path / "lake/tables/t", where="v >= 105")
    assert sorted(picked["id"].to_pylist()) == [5, 6]


def test_as_iceberg(engine: Ask, table: gl.lake.LakeTable, tmp_path: Path) -> None:
    told, path = table.to_arrow(), str(tmp_path / "lake/tables/t/_iceberg")
    reader = engine("duckdb-1.5.5")
    assert counted(reader.do("read_iceberg", path=path), told.column_names) == counted(told)
    assert reader.do("read_iceberg", path=path, where="site = 'a%2Fb'").num_rows == told["site"].to_pylist().count("a%2Fb")
