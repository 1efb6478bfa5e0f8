"""`import` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file that is taken, and one that is rewritten."""
    (tmp_path / "in").mkdir()
    for name, unit in (("a", "us"), ("b", "ms")):
        rows = pa.table({"ts": pa.array([ord(name)], pa.timestamp(unit, "UTC")), "x": [1.5]})
        pq.write_table(rows, tmp_path / "in" / f"{name}.parquet")
    return tmp_path / "in"


def test_a_dry_run_lists_files_and_writes_nothing(inside: Command, folder: Path, tmp_path: Path) -> None:
    ended = inside("import", folder, tmp_path / "t", "--index", "ts", "--bucket", "1s", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["file", "outcome", "rows", "why"]
    assert any(line.split()[:3] == ["a.parquet", "taken", "1"] for line in lines)
    assert any(line.split()[:3] == ["b.parquet", "rewritten", "1"] and "timestamp[ms" in line for line in lines)
    assert "1 file taken (1 row), 1 file rewritten (1 row)" in ended.out
    assert not (tmp_path / "t").exists()


def test_an_import_and_the_same_again(inside: Command, folder: Path, tmp_path: Path) -> None:
    words = ("import", folder, tmp_path / "t", "--index", "ts", "--bucket", "1s", "--property", "codec=smallest")
    ended = inside(*words)
    assert (ended.code, "is at version 3" in ended.out) == (0, True)
    assert gl.open(tmp_path / "t").properties.codec == "smallest"
    assert gl.open(tmp_path / "t").scan().to_arrow().num_rows == 2
    assert "already" in inside(*words).out
    found = json.loads(inside(*words, "--json").out)
    assert (found["already_applied"], [file["outcome"] for file in found["files"]]) == (True, ["taken", "rewritten"])
    assert inside(*words, "--adopt", "move").code == 2
    assert inside(*words, "--adopt", "link").code == 0


def test_a_refused_file_is_an_exit_code(inside: Command, folder: Path, tmp_path: Path) -> None:
    (folder / "c.parquet").write_text("PAR1")
    words = ("import", folder, tmp_path / "t", "--index", "ts", "--bucket", "1s")
    ended = inside(*words, "--dry-run")
    assert (ended.code, "c.parquet" in ended.out, "refused" in ended.out) == (1, True, True)
    ended = inside(*words)
    assert (ended.code, "c.parquet" in ended.err) == (1, True)
    assert not (tmp_path / "t").exists()
    assert inside(*words, "--adopt", "rewrite", "--exclude", "x").code == 1
    (folder / "c.parquet").unlink()
    assert inside(*words, "--adopt", "rewrite", "--exclude", "x", "--format", "parquet").code == 0
    assert gl.open(tmp_path / "t").scan().to_arrow().schema.names == ["ts"]


def test_a_version_is_exported(inside: Command, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1, 2]})
    table.append({"n": [3]})
    ended = inside("export", tmp_path / "t", tmp_path / "all")
    assert (ended.code, "version 3 as parquet: 3 rows in 1 file." in ended.out) == (0, True)
    assert "Not kept: history: versions 1 to 2" in ended.out
    ended = inside("export", tmp_path / "t", tmp_path / "two", "--format", "delta", "--version", "2", "--json")
    assert (ended.code, json.loads(ended.out)["rows"]) == (0, 2)
    assert gl.delta.open(tmp_path / "two").count() == 2
    back = ("export", tmp_path / "two", tmp_path / "back", "--format", "timeseries")
    assert inside(*back).code == 2
    assert inside(*back, "--index", "n", "--bucket", "1h").code == 1
    assert inside(*back, "--index", "n", "--bucket", "1", "--index-type", "int64").code == 0
    assert gl.open(tmp_path / "back").scan().to_arrow()["n"].to_pylist() == [1, 2]
    assert inside("export", tmp_path / "t", tmp_path / "all").code == 2
    assert inside("export", tmp_path / "t", tmp_path / "x", "--format", "csv").code == 2
