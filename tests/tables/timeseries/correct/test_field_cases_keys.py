"""Cases from the field in which a key must be met exactly."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl

LAST = datetime(2023, 3, 29, 23, 59, 59, 807_126, UTC)


@pytest.mark.parametrize("checkpoint_interval", [0, 1])
def test_stat_01_an_upsert_meets_the_last_microsecond(tmp_path: Path, checkpoint_interval: int) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1d", properties={"checkpoint_interval": checkpoint_interval})
    table.append({"ts": [LAST], "v": [1]})
    assert gl.open(table.url).upsert({"ts": [LAST], "v": [2]}).updated_rows == 1
    assert gl.open(table.url).scan().to_arrow().to_pylist() == [{"ts": LAST, "v": 2}]


def test_stat_04_signed_zeros_are_one_key(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    for number, zero in enumerate((-0.0, 0.0)):
        table.append({"n": [number], "x": [zero], "v": [number]})
    report = table.upsert({"n": [7], "x": [-0.0], "v": [7]}, key="x")
    assert (report.updated_rows, report.removed_rows) == (1, 2)
    assert table.scan(columns=["n", "v"]).to_arrow().to_pylist() == [{"n": 7, "v": 7}]


def test_type_20_an_upsert_matches_columns_by_name(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "a": ["a"]})
    table.add_column("b", pa.string())
    table.upsert({"b": ["B"], "n": [1], "a": ["A"]})
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "a": "A", "b": "B"}]
    assert table.schema is not None
    assert table.schema.names == ["n", "a", "b"]
