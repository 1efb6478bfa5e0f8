"""`fill`, and `--calendar` of `coverage` and `gaps`, as a script meets them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from gapless.tables.timeseries.table import TimeSeriesTable

Gapless = Callable[..., Any]
TRADING = "mon-fri 09:30-16:00 America/New_York"

FETCH = """
import sys
from datetime import datetime, timedelta
how, symbol, start, end = sys.argv[1:5]
with open(sys.argv[5], "a") as asked:
    asked.write(f"{symbol}|{start}|{end}\\n")
if how == "fail":
    sys.exit("no such symbol: " + symbol)
at, end = datetime.fromisoformat(start), datetime.fromisoformat(end)
if how == "csv":
    print("ts,close")
if how == "parquet":
    import pyarrow as pa, pyarrow.parquet as pq
    pq.write_table(pa.table({"ts": pa.array([at], pa.timestamp("us", "UTC")), "symbol": [symbol]}), sys.stdout.buffer)
while at < end and how in ("csv", "jsonl"):
    print(f"{at.isoformat()},1.25" if how == "csv" else '{"symbol": "%s", "ts": "%s"}' % (symbol, at.isoformat()))
    at += timedelta(hours=1)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A has hours 9, 10 and 13, "B 'x'" 9 and 11."""
    (tmp_path / "fetch.py").write_text(FETCH)
    made = TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h", entity=["symbol"])
    pairs = [("A", 9), ("A", 10), ("A", 13), ("B 'x'", 9), ("B 'x'", 11)]
    made.append(
        {"ts": [datetime(2026, 1, 5, at, tzinfo=UTC) for _, at in pairs], "symbol": [s for s, _ in pairs], "close": [0.5] * 5}
    )
    return tmp_path / "t"


def command(how: str) -> str:
    return f"'{sys.executable}' fetch.py {how} {{symbol}} {{start}} {{end}} asked.txt"


@pytest.mark.parametrize("how", ["csv", "jsonl"])
def test_a_command_is_asked_for_each_gap(inside: Gapless, table: Path, how: str) -> None:
    done = inside("fill", "t", "--command", command(how), "--format", how, "--json", cwd=table.parent)
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert said == {
        "version": 4, "asked": 2, "rows": 3, "skipped_rows": 0, "filled_buckets": 3, "missing_buckets": 0,
        "missing": [], "empty": [], "failed": [],
    }  # fmt: skip
    assert (table.parent / "asked.txt").read_text().splitlines() == [
        "A|2026-01-05T11:00:00Z|2026-01-05T13:00:00Z",
        "B 'x'|2026-01-05T10:00:00Z|2026-01-05T11:00:00Z",
    ]
    again = inside("fill", "t", "--command", command("fail"), cwd=table.parent)
    assert (again.code, again.out) == (0, "Nothing is missing, so nothing was asked for.\n")


def test_parquet_and_what_came_half(inside: Gapless, table: Path) -> None:
    options = ("fill", "t", "--command", command("parquet"), "--format", "parquet", "--entity", "symbol=A")
    half = inside(*options, "--fail-if-any", cwd=table.parent)
    assert half.code == 3
    assert half.out == "Asked for 1 gap: 1 row came and filled 1 bucket. Still missing: 1 bucket in 1 gap.\n"
    rest = inside(*options, "--fail-if-any", cwd=table.parent)
    assert (rest.code, rest.out) == (0, "Asked for 1 gap: 1 row came and filled 1 bucket. Nothing is missing any more.\n")
    assert inside("gaps", "t", "--fail-if-any", cwd=table.parent).code == 3  # of the other symbol


def test_nothing_there(inside: Gapless, table: Path) -> None:
    done = inside("fill", "t", "--command", command("nothing"), "--workers", "2", "--max-buckets", "1", cwd=table.parent)
    assert done.code == 0
    assert (
        done.out
        == "Asked for 3 gaps: 0 rows came and filled 0 buckets. Nothing came for 3 gaps. Still missing: 3 buckets in 2 gaps.\n"
    )


def test_a_command_that_fails(inside: Gapless, table: Path) -> None:
    stopped = inside("fill", "t", "--command", command("fail"), cwd=table.parent)
    assert (stopped.code, stopped.out) == (1, "")
    assert stopped.err.startswith(
        "Error [fill-stopped]: the fill stopped at [2026-01-05T11:00:00Z, 2026-01-05T13:00:00Z) of symbol='A'"
    )
    assert "exit code 1: no such symbol: A" in stopped.err
    going_on = inside("fill", "t", "--command", command("fail"), "--keep-going", cwd=table.parent)
    assert going_on.code == 1
    assert going_on.out.count("no such symbol") == 2
    assert going_on.out.endswith(
        "Asked for 2 gaps: 0 rows came and filled 0 buckets. 2 gaps failed. Still missing: 3 buckets in 2 gaps.\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no-such-program {start}", "'no-such-program' is no program on the PATH"),
        ("echo {start} {symbl}", "{symbl} stands for nothing"),
        ("echo ts", "It would fetch the same for every gap"),
        ("", "It would fetch the same for every gap"),
        ("echo '{start}", "Its quotes do not match"),
        ("echo {start} {", "Its braces cannot be read"),
        ("echo {start.year}", "Its braces cannot be read"),
        ("echo {}{start}", "Its braces cannot be read"),
    ],
)
def test_commands_that_cannot_be_run(inside: Gapless, table: Path, text: str, said: str) -> None:
    refused = inside("fill", "t", "--command", text, cwd=table.parent)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_braces_that_are_meant(inside: Gapless, table: Path) -> None:
    script = "import sys; print(sys.argv[1] + sys.argv[2])"
    done = inside(
        "fill",
        "t",
        "--command",
        f"'{sys.executable}' -c '{script}' '{{{{\"ts\": \"' '{{start}}\"}}}}'",
        "--format",
        "jsonl",
        cwd=table.parent,
    )
    assert done.out.startswith("Asked for 2 gaps: 2 rows came and filled 2 buckets.")


@pytest.fixture
def trades(tmp_path: Path) -> Path:
    """Minutes of two trading days in New York, a Friday and a Monday, without the last of one and the first of the other."""
    opens = [datetime(2026, 3, day, 9, 30, tzinfo=ZoneInfo("America/New_York")).astimezone(UTC) for day in (6, 9)]
    minutes = [start + timedelta(minutes=at) for start in opens for at in range(390)]
    minutes = [*minutes[:389], *minutes[391:]]
    path = tmp_path / "trades"
    TimeSeriesTable.create(path, index="ts", bucket="1m").append(pa.table({"ts": minutes}))
    return path


def test_gaps_of_expected_times(inside: Gapless, trades: Path) -> None:
    found = inside("gaps", trades, "--calendar", TRADING, "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out) == {
        "gaps": [{"identity": {}, "start": "2026-03-06T20:59:00Z", "end": "2026-03-09T13:31:00Z", "buckets": 2}],
        "missing_buckets": 2, "expected_buckets": 780, "never_arrived": [],
    }  # fmt: skip
    fine = inside("gaps", trades, "--calendar", f"{TRADING} except 2026-03-06 2026-03-09", "--fail-if-any")
    assert (fine.code, fine.out) == (0, "No bucket is expected in this range.\n")
    wrong = inside("gaps", trades, "--calendar", "mon-fri 9:30-16 America/New_York")
    assert wrong.code == 2
    assert "'9:30-16' is no day, no hours and no time zone" in wrong.err


def test_the_map_keeps_missing_apart_from_not_expected(inside: Gapless, trades: Path, tmp_path: Path) -> None:
    options = (
        "--calendar",
        TRADING,
        "--start",
        "2026-03-05T00:00Z",
        "--until",
        "2026-03-11T00:00Z",
        "--plot",
        tmp_path / "map.html",
    )
    shown = inside("coverage", trades, *options).out
    title, row, *_ = shown.splitlines()
    assert title == f"trades: coverage ({TRADING})"
    # Thursday is missing, Friday and Monday lack a minute each, the weekend is blank, Tuesday is missing.
    parts = row.removeprefix("all ").rstrip("0123456789.% ").split()
    assert [re.sub(r"(.)\1+", r"\1", part) for part in parts] == ["×", "█▓", "▒█", "×"]
    assert "782 of 1,560 expected buckets (1m) are missing" in shown
    assert "nothing expected" in (tmp_path / "map.html").read_text()
