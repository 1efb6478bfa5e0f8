"""`gapless append --adopt`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.tables.timeseries.table import TimeSeriesTable


@pytest.mark.parametrize("way", ["copy", "link", "move"])
def test_files_are_adopted(inside: Callable[..., Any], tmp_path: Path, way: str) -> None:
    table = TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1s")
    data = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC"))})
    pq.write_table(data, tmp_path / "in.parquet")
    before = (tmp_path / "in.parquet").read_bytes()
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", way, "--json")
    assert (ended.code, json.loads(ended.out)["rows"]) == (0, 2)
    (segment,) = table.refresh().segments()
    assert (tmp_path / "t" / segment.path).read_bytes() == before
    assert (tmp_path / "in.parquet").exists() is (way != "move")


def test_other_ways_are_refused(inside: Callable[..., Any], tmp_path: Path) -> None:
    TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1s")
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("ms"))}), tmp_path / "in.parquet")
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "hardlink")
    assert (ended.code, "Did you mean 'link'" in ended.err) == (2, True)
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "copy")
    assert (ended.code, "without adopt" in ended.err) == (1, True)
