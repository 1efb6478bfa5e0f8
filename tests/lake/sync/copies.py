"""A lake to copy, and readers of copies that know nothing of gapless's lakes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

import gapless as gl
from gapless.lake.lake import Lake

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "lake-layout.md").read_text(encoding="utf-8")
START = datetime(2024, 1, 1, tzinfo=UTC)


def by_the_page() -> Callable[[str, str], duckdb.DuckDBPyRelation]:
    """`rows(root, table)` as docs/reference/lake-layout.md has it."""
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)  # the page's own
    found: Callable[[str, str], duckdb.DuckDBPyRelation] = names["rows"]
    return found


def hours(first: int, count: int = 1) -> list[dict[str, object]]:
    return [{"ts": START + timedelta(hours=first + one), "v": first + one} for one in range(count)]


def fill(lake: Lake, step: int) -> None:
    """One of each: rows, columns, snapshots; a table of rows, one with a key, two with a log."""
    if step == 0:
        lake.create_table("events")
        lake.create_table("orders", key=["id"])
        lake.create_table("hourly", kind="timeseries", index="ts", bucket="1h")
        lake.create_table("notes", kind="delta")
    lake.run("events", [{"id": 10 * step}])
    lake.run("events", [{"id": 10 * step + 1, f"new{step}": 1}])
    lake.run("orders", [{"id": 1, "v": step}, {"id": 2 + step, "v": step}])
    lake.table("orders").compact(incremental=step > 0)
    lake.run("orders", [{"id": 1, "v": 100 + step}])
    lake.run("hourly", hours(step))
    lake.run("notes", [{"id": step}])


def state(root: Path) -> dict[str, list[Any]]:
    """What a lake answers."""
    lake = gl.lake.open(root)
    return {
        "events": sorted(lake.table("events").to_arrow().column("id").to_pylist()),
        "orders": sorted((one["id"], one["v"]) for one in lake.table("orders").to_arrow().to_pylist()),
        "hourly": sorted(one["v"] for one in lake.table("hourly").to_arrow().to_pylist()),
        "notes": sorted(one["id"] for one in lake.table("notes").to_arrow().to_pylist()),
    }


def read_by_others(root: Path) -> set[int]:
    """Rows of the table without a key, by the page: every file that a manifest names is there."""
    return {row[0] for row in by_the_page()(str(root), "events").project("id").fetchall()}
