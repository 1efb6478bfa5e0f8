"""What deltalake reads of a table of ours."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as DeltaLakeTable

from support.delta_rows import counted_table


def their_rows(path: Path) -> Counter[str]:
    """The rows of the newest version, as deltalake reads it."""
    return counted_table(DeltaLakeTable(str(path)).to_pyarrow_table())


def plain(table: pa.Table) -> Counter[str]:
    """Rows to compare with theirs."""
    return counted_table(table)


def log_lines(path: Path, version: int) -> list[dict[str, Any]]:
    """The actions of a commit, read as strict JSON."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    text = (path / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def adds(path: Path, version: int) -> list[dict[str, Any]]:
    """The `add` actions of a commit."""
    return [line["add"] for line in log_lines(path, version) if "add" in line]


def stats(path: Path, version: int) -> dict[str, Any]:
    """The statistics of the one file that a commit added."""
    (add,) = adds(path, version)
    found: dict[str, Any] = json.loads(add["stats"])
    return found
