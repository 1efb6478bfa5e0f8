"""A table whose tiny appends lie in their commits, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
