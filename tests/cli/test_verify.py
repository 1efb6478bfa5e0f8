"""`verify` and `repair` as a cron job meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Gapless
from gapless.tables.timeseries.table import TimeSeriesTable


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Versions 1 to 4, three hours of one symbol each from the second on."""
    made = TimeSeriesTable.create(tmp_path / "prices", index="ts", bucket="1h", entity="symbol")
    for day in (5, 6, 7):
        file = tmp_path / f"{day}.csv"
        lines = [f"A,2026-01-{day:02d}T{hour:02d}:00:00Z,1.5" for hour in range(3)]
        file.write_text("symbol,ts,close\n" + "\n".join(lines) + "\n")
        made.append_file(file)
    return tmp_path / "prices"


def files(table: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_a_sound_table_exits_0_and_says_what_was_looked_at(gapless: Gapless, table: Path) -> None:
    ended = gapless("verify", table, "--deep")
    assert (ended.code, ended.err) == (0, "")
    size = sum(path.stat().st_size for path in (table / "data").iterdir())
    looked = f"Version 4: 4 commits and 3 segments looked at, {size:,} bytes against their checksums, every row read"
    assert ended.out == f"{looked}. No problem.\n"
    assert gapless("repair", table).out == "Nothing to mend.\n"


def test_a_problem_exits_1_and_is_one_line(gapless: Gapless, table: Path) -> None:
    path = next((table / "data").iterdir())
    path.unlink()
    (table / "data" / "left.parquet").write_bytes(b"x")
    ended = gapless("verify", table)
    assert (ended.code, ended.err) == (1, "")
    first, second, last = ended.out.splitlines()
    assert first.startswith(f"Problem [segment-missing] segment data/{path.name} is missing")
    assert first.endswith("(repair cannot mend it: bring the file back from a backup)")
    assert second.startswith("Note [orphan] no version names data/left.parquet")
    assert last.endswith("1 problem, 1 note.")


def test_json_says_all_of_it_in_one_document(gapless: Gapless, table: Path) -> None:
    (table / "_timeseries_log" / "0000000003.json").write_bytes(b"")
    ended = gapless("verify", table, "--json")
    assert (ended.code, ended.err) == (1, "")
    report = json.loads(ended.out)
    assert (report["ok"], report["version"], report["deep"], report["commits"]) == (False, 4, False, 3)
    (problem,) = report["problems"]
    assert problem.keys() == {"code", "path", "what", "mend", "severity"}
    assert (problem["code"], problem["mend"]) == ("commit-damaged", "accept-loss")
    assert [note["code"] for note in report["notes"]] == ["orphan"]


def test_repair_changes_nothing_without_apply(gapless: Gapless, table: Path) -> None:
    (table / "_timeseries_log" / "CURRENT").write_bytes(b"?")
    before = files(table)
    ended = gapless("repair", table)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == (
        "Would do _timeseries_log/CURRENT: let CURRENT name version 4\n"
        "1 step to do with --apply; no problem left after that. Nothing was changed.\n"
    )
    assert files(table) == before
    done = gapless("repair", table, "--apply", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert (report["ok"], report["applied"], report["left"]) == (True, True, [])
    assert [step["act"] for step in report["steps"]] == ["write-hint"]
    assert (table / "_timeseries_log" / "CURRENT").read_bytes() == b"4\n"


def test_log_10_a_lost_commit_from_the_shell(gapless: Gapless, table: Path) -> None:
    (table / "_timeseries_log" / "0000000003.json").unlink()
    opened = gapless("info", table)
    assert opened.code == 1
    assert opened.err.startswith("Error [corrupt-table]: version 3 is lost")
    refused = gapless("repair", table, "--apply")
    assert refused.code == 1
    assert "`gapless repair --accept-loss` gives it up" in refused.out
    done = gapless("repair", table, "--apply", "--accept-loss")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("1 step done; no problem is left.\n")
    assert gapless("verify", table, "--deep").code == 0
    history = json.loads(gapless("history", table, "--json").out)
    assert [entry["operation"] for entry in history] == ["create", "append", "repair", "append"]


def test_where_no_table_is(gapless: Gapless, tmp_path: Path) -> None:
    for command in ("verify", "repair"):
        ended = gapless(command, tmp_path / "none")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("Error [table-not-found]")
    assert not (tmp_path / "none").exists()
