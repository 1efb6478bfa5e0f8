"""`upsert`, `replace`, `delete` and `drop-before` as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Gapless
from gapless.tables.timeseries.table import TimeSeriesTable

HEAD = "symbol,ts,close\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices"
    made = TimeSeriesTable.create(path, index="ts", bucket="1h", entity="symbol")
    made.append_file(csv(tmp_path, "a.csv", ("A", 9, 1.5), ("A", 10, 2.5), ("B", 9, 3.5)))
    return path


def csv(folder: Path, name: str, *rows: tuple[str, int, float]) -> Path:
    file = folder / name
    file.write_text(HEAD + "".join(f"{symbol},2026-01-05T{hour:02d}:00Z,{close}\n" for symbol, hour, close in rows))
    return file


def told(path: Path) -> list[tuple[str, int, float]]:
    rows = TimeSeriesTable.open(path).scan().to_arrow().to_pylist()
    return sorted((row["symbol"], row["ts"].hour, row["close"]) for row in rows)


def test_upsert_replaces_by_key_and_adds(inside: Gapless, table: Path, tmp_path: Path) -> None:
    ended = inside("upsert", table, csv(tmp_path, "b.csv", ("A", 10, 9.5), ("C", 10, 8.5)))
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "Version 3: 2 rows written, 1 row of the table replaced or deleted; 1 segment gave way to 2.\n"
    assert told(table) == [("A", 9, 1.5), ("A", 10, 9.5), ("B", 9, 3.5), ("C", 10, 8.5)]
    again = inside("upsert", table, tmp_path / "b.csv", "--key", "close", "--json")
    assert json.loads(again.out) | {"segments": 0} == {
        "rows": 0, "segments": 0, "buckets": 0, "skipped_rows": 0, "skipped_buckets": 0, "removed_rows": 0,
        "removed_segments": 0, "replaced_buckets": 0, "updated_rows": 0, "inserted_rows": 0, "version": 3, "already_applied": False, "published": {},
    }  # fmt: skip


def test_a_key_that_comes_twice_says_what_to_type(inside: Gapless, table: Path, tmp_path: Path) -> None:
    file = csv(tmp_path, "b.csv", ("A", 10, 9.5), ("A", 10, 8.5))
    ended = inside("upsert", table, file)
    assert (ended.code, ended.out) == (1, "")
    assert (
        "Error [duplicate-key]: 1 key found more than once in the input: (symbol=A, ts=2026-01-05 10:00:00+00:00)" in ended.err
    )
    assert "--on-duplicate last keeps the last that arrives" in ended.err
    assert inside("upsert", table, file, "--on-duplicate", "last").code == 0
    assert ("A", 10, 8.5) in told(table)


def test_delete_needs_a_condition(inside: Gapless, table: Path) -> None:
    ended = inside("delete", table)
    assert (ended.code, ended.out) == (2, "")
    assert "--where true deletes all rows" in ended.err
    assert inside("delete", table, "--entity", "symbol=A", "--where", "close > 2").code == 0
    assert told(table) == [("A", 9, 1.5), ("B", 9, 3.5)]
    assert inside("delete", table, "--start", "2026-01-05T10:00Z").out == "Nothing to change, still version 3.\n"
    assert inside("delete", table, "--where", "true").code == 0
    assert told(table) == []


def test_replace_a_range_once(inside: Gapless, table: Path, tmp_path: Path) -> None:
    words = (
        "replace",
        table,
        csv(tmp_path, "b.csv", ("A", 10, 9.5)),
        "--start",
        "2026-01-05T09:00Z",
        "--end",
        "2026-01-05T11:00Z",
    )
    assert inside(*words, "--entity", "symbol=A", "--operation-id", "fix:1").code == 0
    assert told(table) == [("A", 10, 9.5), ("B", 9, 3.5)]
    again = inside(*words, "--entity", "symbol=A", "--operation-id", "fix:1")
    assert again.out == "This operation was applied before, by version 3; nothing was changed now.\n"
    outside = inside("replace", table, tmp_path / "b.csv", "--end", "2026-01-05T10:00Z")
    assert (outside.code, "row 0 lies outside" in outside.err) == (1, True)


def test_drop_before_a_time(inside: Gapless, table: Path) -> None:
    ended = inside("drop-before", table, "2026-01-05T10:00Z")
    assert ended.out == "Version 3: 0 rows written, 2 rows of the table replaced or deleted; 1 segment gave way to 1.\n"
    assert told(table) == [("A", 10, 2.5)]
    assert inside("drop-before", table, "2026-01-05T10:00").code == 2, "no zone"


def test_replace_needs_a_range(inside: Gapless, table: Path, tmp_path: Path) -> None:
    ended = inside("replace", table, csv(tmp_path, "b.csv", ("A", 10, 9.5)))
    assert (ended.code, ended.out) == (2, "")
    assert "replace without a range would replace every row" in ended.err
    assert "Say --start, --end or --entity" in ended.err
    assert told(table) == [("A", 9, 1.5), ("A", 10, 2.5), ("B", 9, 3.5)]


def test_append_replaces_where_that_is_the_policy(inside: Gapless, table: Path, tmp_path: Path) -> None:
    file = csv(tmp_path, "b.csv", ("A", 10, 9.5))
    ended = inside("append", table, file, "--on-overlap", "replace")
    assert ended.code == 0
    assert "in place of 1 row" in ended.out
    assert told(table) == [("A", 9, 1.5), ("A", 10, 9.5), ("B", 9, 3.5)]
