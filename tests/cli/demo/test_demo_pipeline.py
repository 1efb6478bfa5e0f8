"""The demo's pipeline: a real broker, Spark, and two tables, held against the raw file; and what it says where it cannot run."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.cli.app import run
from gapless.cli.demo.broker import broker_jars, kafka_broker
from gapless.cli.demo.data import PACKAGE, flights_zip
from gapless.cli.demo.kafka_flights import read_flights
from gapless.errors import SparkNotStarted
from gapless.spark.setup.start import find_java
from support.maven import maven_environment

ROOT = Path(__file__).resolve().parents[3]
Require = Callable[[object, str], None]


@pytest.mark.long
def test_flights_come_through_kafka_into_both_tables_once(tmp_path: Path, require: Require) -> None:
    require(importlib.util.find_spec(PACKAGE), f"{PACKAGE} is not installed")
    for module in ("pyspark", "confluent_kafka", "matplotlib"):
        require(importlib.util.find_spec(module), f"{module} is not installed")
    try:
        broker_jars(java_of_machine(), ROOT / "build")
    except SparkNotStarted as error:
        require(None, error.why)
    command = [
        sys.executable,
        "-m",
        "gapless",
        "demo",
        "pipeline",
        "--days",
        "2",
        "--out",
        "out",
        "--jars",
        str(ROOT / "build"),
    ]
    ended = subprocess.run(command, check=False, cwd=tmp_path, env=maven_environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    raw = rows_of_days(2)
    departures = gl.open(tmp_path / "out" / "departures").scan().to_arrow().to_pylist()
    flown = [row for row in raw if row["dep_delay"] != "NA"]
    told = Counter((row["carrier"], row["flight"], row["origin"], row["time_hour"].strftime("%FT%TZ")) for row in departures)
    assert told == Counter((row["carrier"], int(row["flight"]), row["origin"], row["time_hour"]) for row in flown)
    carriers = gl.delta.open(tmp_path / "out" / "carriers").scan().to_arrow().to_pylist()
    assert {row["carrier"]: row["flights"] for row in carriers} == Counter(row["carrier"] for row in raw)
    assert (tmp_path / "out" / "departures.png").read_bytes().startswith(b"\x89PNG")
    # Each run took its half.
    assert ended.stdout.count(f"departures: {len(raw) // 2:,} rows read") == 1
    assert f"departures: {len(raw) - len(raw) // 2:,} rows read" in ended.stdout


def rows_of_days(days: int) -> list[dict[str, str]]:
    with zipfile.ZipFile(flights_zip()) as packed, packed.open(packed.namelist()[0]) as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        return [row for row in rows if row["month"] == "1" and int(row["day"]) <= days]


def java_of_machine() -> Path:
    """The machine's own where it has one, which trusts whom the machine trusts."""
    system = shutil.which("java")
    return find_java(os.environ) if system is None else Path(system).resolve().parents[1]


def test_flights_are_those_of_the_first_days(require: Require) -> None:
    require(importlib.util.find_spec(PACKAGE), f"{PACKAGE} is not installed")
    flights, raw = read_flights(flights_zip(), 3), rows_of_days(3)
    assert len(flights.records) == len(raw)
    assert flights.by_carrier == Counter(row["carrier"] for row in raw)
    assert flights.departed == sum(row["dep_delay"] != "NA" for row in raw)


def test_without_a_client_of_kafka_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], require: Require
) -> None:
    require(importlib.util.find_spec(PACKAGE), f"{PACKAGE} is not installed")
    found: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "confluent_kafka" else found(name))
    assert run(["demo", "pipeline", "--out", str(tmp_path / "out")]) == 2
    assert "confluent_kafka is not installed" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["demo", "pipelines"]) == 2
    assert "Did you mean 'pipeline'?" in capfd.readouterr().err


def test_a_broker_that_ends_at_once_says_what_it_said_last(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'There is no disk'\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(SparkNotStarted, match="There is no disk"), kafka_broker(tmp_path, tmp_path, tmp_path / "broker"):
        raise AssertionError("it is not up")
