"""`create` and `append`: adopted files, and tiny appends that lie in their commits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapless.tables import delta
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


def test_a_delta_table_adopts_files_too(inside: Callable[..., Any], tmp_path: Path) -> None:
    data = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = delta.create(tmp_path / "t", data.schema)
    pq.write_table(data, tmp_path / "in.parquet")
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "link", "--json")
    assert (ended.code, json.loads(ended.out)["rows"]) == (0, 2)
    assert inside("delta", "append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "copy").code == 0
    linked, _ = table.refresh().files()
    assert (tmp_path / "t" / linked.path).samefile(tmp_path / "in.parquet")
    assert table.count() == 4


def test_other_ways_are_refused(inside: Callable[..., Any], tmp_path: Path) -> None:
    TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1s")
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("ms"))}), tmp_path / "in.parquet")
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "hardlink")
    assert (ended.code, "Did you mean 'link'" in ended.err) == (2, True)
    ended = inside("append", tmp_path / "t", tmp_path / "in.parquet", "--adopt", "copy")
    assert (ended.code, "without adopt" in ended.err) == (1, True)


def test_made_appended_to_shown_and_compacted(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,x\n2026-01-05T00:00Z,1\n")
    made = inside("create", "t", "--index", "ts", "--bucket", "1h", "--property", "inline_bytes=65536", cwd=tmp_path)
    assert made.code == 0, made.err
    assert inside("append", "t", "a.csv", cwd=tmp_path).code == 0
    assert not list((tmp_path / "t/data").glob("*"))
    info = json.loads(inside("info", "t", "--json", cwd=tmp_path).out)
    assert info["properties"]["inline_bytes"] == 65536
    assert info["inlined_bytes"] == info["bytes"] > 0
    assert inside("compact", "t", cwd=tmp_path).code == 0
    assert len(list((tmp_path / "t/data").glob("*.parquet"))) == 1
    info = json.loads(inside("info", "t", "--json", cwd=tmp_path).out)
    assert info["inlined_bytes"] == 0 < info["bytes"]


def test_too_much_is_refused_with_the_reason(inside: Callable[..., Any], tmp_path: Path) -> None:
    ended = inside("create", "t", "--index", "ts", "--bucket", "1h", "--property", "inline_bytes=9999999", cwd=tmp_path)
    assert ended.code == 2
    assert "inline_bytes=9,999,999 is more than 1,048,576" in ended.err
    assert "reads all that lies in its log" in ended.err
