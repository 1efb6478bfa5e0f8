"""The commands as a script meets them: exit codes, one JSON document, one readable block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.conftest import Gapless
from gapless.tables.timeseries.table import TimeSeriesTable


def _strict(text: str) -> Any:
    """A JSON document and a line end, nothing else, and none of Python's NaN."""
    assert text.endswith("\n")
    return json.loads(text, parse_constant=pytest.fail)


def test_gapless_alone_shows_its_help(gapless: Gapless) -> None:
    alone, asked = gapless(), gapless("--help")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out.strip() == asked.out.strip()
    assert "coverage" in alone.out
    assert "Exit codes: 0 fine" in alone.out


def test_the_version_is_one_line(gapless: Gapless) -> None:
    ended = gapless("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("gapless ")
    assert ended.out.count("\n") == 1


def test_the_main_job_in_commands(gapless: Gapless, tmp_path: Path, prices: Path) -> None:
    made = gapless("create", "t", "--index", "ts", "--bucket", "1h", "--entity", "symbol", "--json", cwd=tmp_path)
    assert (made.code, made.err) == (0, "")
    assert _strict(made.out)["version"] == 1
    file = prices.parent / "prices.csv"
    first = gapless("append", "t", file, "--json", cwd=tmp_path)
    report = {"version": 2, "rows": 7, "segments": 1, "buckets": 7, "skipped_rows": 0, "skipped_buckets": 0}
    assert _strict(first.out).items() >= report.items()
    again = gapless("append", "t", file, "--json", cwd=tmp_path)
    assert (again.code, again.out) == (4, "")
    assert again.err.startswith(
        "Error [coverage-overlap]: the table already covers [2026-01-05T09:00:00Z, 2026-01-05T13:00:00Z)"
    )
    assert '--on-overlap "skip"' in again.err
    skipped = gapless("append", "t", file, "--on-overlap", "skip", cwd=tmp_path)
    assert skipped.code == 0
    assert skipped.out == "Nothing to write, still version 2. Left out: 7 rows in 7 buckets that the table covers already.\n"


def test_several_files_are_one_commit_or_none(inside: Gapless, tmp_path: Path) -> None:
    for day in (1, 2, 3):
        (tmp_path / f"{day}.csv").write_text(f"ts,x\n2026-01-0{day}T00:00:00Z,{day if day < 3 else ''}\n")
    (tmp_path / "bad.csv").write_text("ts,x\n2026-01-09T00:00:00Z,word\n")
    inside("create", "t", "--index", "ts", "--bucket", "1d", cwd=tmp_path)
    done = inside("append", "t", "1.csv", "2.csv", "3.csv", "--json", cwd=tmp_path)
    assert _strict(done.out)["version"] == 2
    assert _strict(done.out)["rows"] == 3
    refused = inside("append", "t", "bad.csv", "bad.csv", cwd=tmp_path)
    assert refused.code == 2
    assert "'bad.csv' is named twice" in refused.err
    assert inside("append", "t", "bad.csv", cwd=tmp_path).code == 1
    assert TimeSeriesTable.open(tmp_path / "t").version == 2


READING = {
    "scan": ("scan",),
    "scan-a-range": (
        "scan",
        "--start",
        "2026-01-05T10:00Z",
        "--end",
        "2026-01-05T12:00Z",
        "--entity",
        "symbol=A",
        "--columns",
        "close",
    ),
    "sql": ("sql", "select symbol, sum(volume) as v, 'nan'::double as n from this group by symbol order by symbol"),
    "coverage": ("coverage",),
    "gaps": ("gaps",),
    "info": ("info",),
    "history": ("history",),
    "schema": ("schema",),
}
SAYS = {
    "scan-a-range": [{"close": 10.5}],
    "sql": [{"symbol": "A", "v": 27021597764222979, "n": "NaN"}, {"symbol": "B", "v": 36028797018963972, "n": "NaN"}],
    "gaps": {
        "gaps": [{"identity": {"symbol": "A"}, "start": "2026-01-05T11:00:00Z", "end": "2026-01-05T12:00:00Z", "buckets": 1}],
        "missing_buckets": 1, "expected_buckets": 8, "never_arrived": [],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", READING)
def test_json_is_one_document_and_nothing_else(gapless: Gapless, prices: Path, name: str) -> None:
    command, *options = READING[name]
    ended = gapless(command, prices, *options, "--json")
    assert (ended.code, ended.err) == (0, "")
    found = _strict(ended.out)
    assert SAYS.get(name, found) == found


@pytest.mark.parametrize("name", READING)
def test_what_is_printed_into_a_pipe_has_no_colour(inside: Gapless, prices: Path, name: str) -> None:
    command, *options = READING[name]
    ended = inside(command, prices, *options)
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    assert not any(line != line.rstrip() for line in ended.out.splitlines())


def test_integers_of_64_bits_and_nanoseconds_are_exact(inside: Gapless, tmp_path: Path) -> None:
    table = TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(
        pa.table(
            {"ts": pa.array([1_767_571_200_000_000_001], pa.timestamp("ns", "UTC")), "n": pa.array([2**64 - 1], pa.uint64())}
        )
    )
    rows = _strict(inside("scan", tmp_path / "t", "--json").out)
    assert rows == [{"ts": "2026-01-05T00:00:00.000000001Z", "n": 18446744073709551615}]


def test_an_error_leaves_stdout_empty_also_with_json(inside: Gapless, prices: Path) -> None:
    ended = inside("scan", prices, "--where", "clse > 1", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[0].startswith("Error [unknown-column]: --where 'clse > 1' names a column 'clse'")
    assert "Did you mean 'close'?" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("info", "nothing-here"), 2, "there is no table at nothing-here"),
        (("append", "nothing-here", "x.csv"), 2, "gapless create PATH --index ts --bucket 1h"),
        (("create", "t", "--index", "ts", "--bucket", "1x"), 2, "bucket '1x' is not a length of time"),
        (("create", "t", "--index", "ts", "--bucket", "1h", "--property", "on_overlp=skip"), 2, "Did you mean 'on_overlap'?"),
        (("create", "t", "--index", "ts", "--bucket", "1h", "--property", "unique=1"), 2, "neither True nor False"),
        (("create", "t", "--index", "ts", "--bucket", "1h", "--index-type", "int32"), 2, "--index-type 'int32' is not known"),
    ],
)
def test_what_was_typed_is_wrong(inside: Gapless, tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    ended = inside(*words, cwd=tmp_path)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert not list(tmp_path.iterdir())


def test_gaps_fail_only_if_asked_and_if_there_are_any(inside: Gapless, prices: Path) -> None:
    listed = inside("gaps", prices)
    assert listed.code == 0
    assert "1 bucket of 8 missing, in 1 gap." in listed.out
    failed = inside("gaps", prices, "--fail-if-any")
    assert (failed.code, failed.out, failed.err) == (3, listed.out, "")
    full = inside("gaps", prices, "--entity", "symbol=B", "--fail-if-any")
    assert (full.code, full.out) == (0, "No gaps: all 4 expected buckets are covered.\n")
    assert inside("gaps", prices, "--min-buckets", "2", "--fail-if-any").code == 0


def test_a_dead_feed_shows_until_now(gapless: Gapless, prices: Path) -> None:
    ended = gapless("gaps", prices, "--entity", "symbol=B", "--until", "now", "--fail-if-any", "--json")
    assert ended.code == 3
    (gap,) = _strict(ended.out)["gaps"]
    assert gap["start"] == "2026-01-05T13:00:00Z"


def test_an_expected_identity_that_never_arrived_is_a_gap(inside: Gapless, prices: Path, tmp_path: Path) -> None:
    expected = tmp_path / "symbols.txt"
    expected.write_text("B\nC\n")
    ended = inside("gaps", prices, "--expect", expected, "--fail-if-any", "--json")
    assert ended.code == 3
    found = _strict(ended.out)
    assert found["never_arrived"] == [{"symbol": "C"}]
    assert [(gap["identity"]["symbol"], gap["buckets"]) for gap in found["gaps"]] == [("C", 4)]
    expected.write_text("B\n")
    assert inside("gaps", prices, "--expect", expected, "--fail-if-any").code == 0
    expected.write_text("symbol,venue\nB,X\n")
    wrong = inside("gaps", prices, "--expect", expected, "--fail-if-any")
    assert (wrong.code, wrong.out) == (2, "")
    assert "line 1 has 2 values, not 1" in wrong.err


@pytest.mark.parametrize(
    "options",
    [(), ("--until", "now"), ("--start", "2026-01-01T00:00Z", "--until", "now"), ("--expect", "e.txt", "--until", "now")],
)
def test_a_feed_of_which_nothing_ever_came_is_no_success(inside: Gapless, tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "e.txt").write_text("A\n")
    TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h", entity=["symbol"])
    ended = inside("gaps", "t", *options, "--fail-if-any", cwd=tmp_path)
    assert ended.code == 3
    assert ended.out or ended.err


def test_a_filter_that_meets_no_identity_is_no_success(inside: Gapless, prices: Path) -> None:
    ended = inside("gaps", prices, "--entity", "symbol=AA", "--fail-if-any")
    assert (ended.code, ended.out) == (3, "No identity in the table has these entity values.\n")


def test_a_time_that_cannot_be_read_is_a_wrong_call_also_for_an_empty_table(inside: Gapless, tmp_path: Path) -> None:
    TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h")
    ended = inside("gaps", tmp_path / "t", "--until", "nwo", "--fail-if-any")
    assert (ended.code, ended.out) == (2, "")


def test_coverage_draws_and_saves(inside: Gapless, prices: Path, tmp_path: Path) -> None:
    ended = inside("coverage", prices, "--plot", tmp_path / "map.html")
    assert (ended.code, ended.err) == (0, "")
    assert "87.50%" in ended.out
    assert "longest gap" in ended.out
    assert ended.out.endswith("map.html\n")
    assert "<html" in (tmp_path / "map.html").read_text()
    assert max(map(len, ended.out.splitlines())) <= max(80, len(str(tmp_path)) + 40)
    wrong = inside("coverage", prices, "--plot", tmp_path / "map.gif")
    assert (wrong.code, wrong.out) == (2, "")


def test_rows_go_into_files_and_back(inside: Gapless, prices: Path, tmp_path: Path) -> None:
    rows = TimeSeriesTable.open(prices).scan().to_arrow()
    for suffix in ("parquet", "csv", "jsonl"):
        file = tmp_path / f"rows.{suffix}"
        assert inside("scan", prices, "--output", file).out == f"{file}: 7 rows\n"
        again = TimeSeriesTable.create(tmp_path / suffix, index="ts", bucket="1h", entity=["symbol"])
        again.append_file(file)
        assert again.scan().to_arrow().select(rows.column_names).equals(rows)


def _large(path: Path) -> Path:
    count = 200_000
    table = TimeSeriesTable.create(path, index="n", bucket=1_000, index_type="int64")
    table.append(pa.table({"n": list(range(count)), "text": ["some text"] * count}))
    return path


@pytest.mark.parametrize("output", ["--csv", "--json"])
def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path, environment: dict[str, str], output: str) -> None:
    table = _large(tmp_path / "t")
    with subprocess.Popen(
        [sys.executable, "-m", "gapless", "scan", str(table), output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110  # a device
def test_a_full_disk_behind_stdout_is_an_error(prices: Path, environment: dict[str, str]) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        done = subprocess.run(
            [sys.executable, "-m", "gapless", "scan", str(prices), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(
        b"Error [storage-full]: what the command has to say cannot be written: No space left on device\n"
    )
    assert b"Exception ignored" not in done.stderr


@pytest.mark.usefixtures("interrupts")
def test_ctrl_c_ends_with_130_and_one_block(tmp_path: Path, environment: dict[str, str]) -> None:
    table = _large(tmp_path / "t")
    command = [sys.executable, "-m", "gapless", "scan", str(table), "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"n,text\n"  # from here on it waits for a reader
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith(b"Error [interrupted]: stopped by the keyboard\n")
    assert b"Traceback" not in err


@pytest.mark.usefixtures("interrupts")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no /proc to see when the query begins")
def test_ctrl_c_is_heard_during_a_query(prices: Path, environment: dict[str, str], tmp_path: Path) -> None:
    query = "select count(*) from range(1000000000000) a, this"
    command = [sys.executable, "-m", "gapless", "sql", str(prices), query, "-o", str(tmp_path / "x.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        while b"duckdb" not in Path(f"/proc/{process.pid}/maps").read_bytes():  # it is not there yet
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.startswith(b"Error [interrupted]: stopped by the keyboard\n")
    assert not list(tmp_path.iterdir())


def test_names_that_are_not_ascii_work_under_any_locale(tmp_path: Path, environment: dict[str, str], prices: Path) -> None:
    ascii_only = environment | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    query = "select 'päivä ✓' as \"päivä\""
    for option in ((), ("--json",), ("--csv",)):
        done = subprocess.run(
            [sys.executable, "-m", "gapless", "sql", str(prices), query, *option],
            capture_output=True,
            env=ascii_only,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        if option:
            assert "päivä ✓" in done.stdout.decode()


def test_an_operation_sent_again_writes_nothing(gapless: Gapless, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,v\n2024-01-01T00:00:00Z,1\n")
    gapless("create", tmp_path / "t", "--index", "ts", "--bucket", "1h")
    first = gapless("append", tmp_path / "t", tmp_path / "a.csv", "--operation-id", "job-7:42", "--json")
    again = gapless("append", tmp_path / "t", tmp_path / "a.csv", "--operation-id", "job-7:42")
    assert json.loads(first.out)["already_applied"] is False
    assert (again.code, again.out) == (0, "This operation was applied before, by version 2; nothing was written now.\n")
