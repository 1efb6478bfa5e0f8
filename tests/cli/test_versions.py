"""`log`, `at`, `changes`, `restore` and `tag`, as a script meets them."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.conftest import Gapless
from gapless.tables.timeseries.table import TimeSeriesTable

ttf = pytest.importorskip("timeseries_table_format", reason="needs a newer pyarrow than our oldest")


@pytest.fixture(scope="session")
def corrected(prices: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`prices` (version 2 has 7 rows) with A at 9 o'clock corrected in version 3 and B gone in version 4; never changed."""
    path = shutil.copytree(prices, tmp_path_factory.mktemp("travel") / "prices")
    table = TimeSeriesTable.open(path)
    nine = datetime(2026, 1, 5, 9, tzinfo=UTC)
    table.upsert({"symbol": ["A"], "ts": [nine], "close": [1.0], "volume": [1]})
    table.delete(entity={"symbol": "B"})
    return path


@pytest.fixture
def place(corrected: Path, tmp_path: Path) -> Path:
    return shutil.copytree(corrected, tmp_path / "prices")


def strict(text: str) -> Any:
    assert text.endswith("\n")
    return json.loads(text, parse_constant=pytest.fail)


def test_log_lists_the_newest_commits_first(gapless: Gapless, corrected: Path) -> None:
    ended = gapless("log", corrected, "--json")
    assert (ended.code, ended.err) == (0, "")
    commits = strict(ended.out)
    assert [(c["version"], c["operation"], c["rows"], c["removed_rows"]) for c in commits] == [
        (4, "delete", 3, 7),
        (3, "upsert", 7, 7),
        (2, "append", 7, 0),
        (1, "create", 0, 0),
    ]
    assert commits[-1]["duration_s"] is None
    assert commits[2]["duration_s"] >= 0
    assert commits[2]["time"].endswith("Z")


def test_log_in_words_and_history_oldest_first(inside: Gapless, corrected: Path) -> None:
    lines = inside("log", corrected, "--limit", 2).out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["4", "3"]
    assert [one["version"] for one in strict(inside("history", corrected, "--json").out)] == [1, 2, 3, 4]
    assert inside("history", corrected).out.splitlines()[2].split()[0] == "1"


def test_at_gives_rows_and_answers_of_then(inside: Gapless, corrected: Path) -> None:
    then = strict(inside("at", corrected, "--version", 2, "--entity", "symbol=A", "--columns", "ts,close", "--json").out)
    assert [row["close"] for row in then] == [9.5, 10.5, 12.5]
    assert inside("at", corrected, "--version", 3, "--sql", "select sum(close) as s from this", "--csv").out == "s\n68.0\n"
    assert inside("at", corrected, "--time", "2999-01-01T00:00Z", "--json", "--where", "close < 5").out.count("\n") == 1


def test_at_writes_a_file(inside: Gapless, corrected: Path, tmp_path: Path) -> None:
    assert inside("at", corrected, "--version", 2, "-o", tmp_path / "out.parquet").code == 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 7


def test_at_says_what_is_wrong_in_the_words_of_the_shell(inside: Gapless, corrected: Path) -> None:
    none = inside("at", corrected)
    assert (none.code, none.out) == (2, "")
    assert "--version 3, --time 2026-01-05T00:00Z or --tag NAME" in none.err
    naive = inside("at", corrected, "--time", "2026-01-05T09:00")
    assert (naive.code, "has no time zone" in naive.err, "datetime" in naive.err) == (2, True, False)
    assert "The table has versions 1 to 4" in inside("at", corrected, "--version", 9).err
    assert "--sql goes with none of" in inside("at", corrected, "--version", 2, "--sql", "select 1", "--where", "true").err


def test_at_reads_what_was_before_a_damaged_commit(gapless: Gapless, place: Path) -> None:
    (place / "_timeseries_log" / "0000000004.json").unlink()
    newest = gapless("scan", place)
    assert newest.code == 1
    assert "`gapless at PATH --version 3` reads what was before it" in newest.err
    ended = gapless("at", place, "--version", 3, "--json")
    assert (ended.code, len(strict(ended.out))) == (0, 7)
    assert "whether a later commit expired" in ended.err


def test_changes_are_told_row_by_row(inside: Gapless, corrected: Path) -> None:
    rows = strict(inside("changes", corrected, 3, 3, "--json").out)
    assert [(row["_change_type"], row["close"]) for row in rows] == [("update_preimage", 9.5), ("update_postimage", 1)]
    every = strict(inside("changes", corrected, 1, "--columns", "symbol", "--json").out)
    assert [row["_change_type"] for row in every].count("delete") == 4
    assert every[0].keys() == {"symbol", "_change_type", "_commit_version", "_commit_timestamp"}
    assert inside("changes", corrected, 5).out.strip().endswith("0 rows")
    assert inside("changes", corrected, 6).code == 2


def test_restore_and_tag(inside: Gapless, place: Path) -> None:
    assert inside("tag", place).out == "The table has no tags.\n"
    assert inside("tag", place, "good", "--version", 2).out == "good names version 2.\n"
    moved = inside("tag", place, "good")
    assert (moved.code, "Pass --move" in moved.err) == (2, True)
    assert strict(inside("tag", place, "--json").out) == {"good": 2}
    said = inside("restore", place, "--tag", "good")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Version 6 is as version 2 was: 7 rows in 1 segment came back, ")
    again = strict(inside("restore", place, "--version", 6, "--json").out)
    assert again == {
        "version": 6, "restored": 6, "added_segments": 0, "removed_segments": 0, "added_rows": 0, "removed_rows": 0,
        "published": {},
    }  # fmt: skip
    assert inside("restore", place, "--version", 2).out == "The table is as version 2 was: still version 6.\n"
    assert len(strict(inside("scan", place, "--json").out)) == 7
    assert inside("tag", place, "good", "--delete").out == "good named version 2, and names none now.\n"


def test_the_first_write_to_a_table_of_0_9_0_may_be_a_tag(inside: Gapless, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    ttf.TimeSeriesTable.create(table_root=root, index_column="ts", index_type="timestamp", index_granularity="1h")
    refused = inside("tag", root, "start")
    assert (refused.code, "Pass --upgrade" in refused.err) == (1, True)
    assert inside("tag", root, "start", "--upgrade").out == "start names version 1.\n"


def test_restore_of_nothing_is_wrong(inside: Gapless, place: Path) -> None:
    assert inside("restore", place).code == 2
    assert inside("restore", place, "--version", 2, "--tag", "a").code == 2
    assert inside("restore", place, "--tag", "a").code == 2
    assert inside("tag", place, "--move").code == 2
    assert inside("tag", place, "a", "--delete", "--move").code == 2
    assert "still version 4" in inside("restore", place, "--version", 4).out
