"""The command as a process of its own, and a table to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gapless.cli.app import run
from gapless.tables.timeseries.table import TimeSeriesTable

SRC = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "FORCE_COLOR", "GAPLESS_TRACEBACK"}} | {
    "PYTHONPATH": str(SRC)
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


Gapless = Callable[..., Ended]


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment of the commands."""
    return ENVIRONMENT


@pytest.fixture(scope="session")
def gapless() -> Gapless:
    """Run `python -m gapless …` to its end."""

    def process(*words: object, cwd: Path | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "gapless", *map(str, words)],
            capture_output=True,
            cwd=cwd,
            env=ENVIRONMENT,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return process


@pytest.fixture
def inside(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gapless:
    """Run a command in this process, which is quicker; not for how a process ends."""

    def command(*words: object, cwd: Path | None = None) -> Ended:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capfd.readouterr()
        return Ended(run([str(word) for word in words]), *capfd.readouterr())

    return command


@pytest.fixture(scope="session")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two symbols, hourly from 2026-01-05T09Z: A has 9, 10 and 12 o'clock, B 9 to 12; nothing else ever changes it."""
    path = tmp_path_factory.mktemp("tables") / "prices"
    table = TimeSeriesTable.create(path, index="ts", bucket="1h", entity=["symbol"])
    hours = [("A", 9), ("A", 10), ("A", 12), ("B", 9), ("B", 10), ("B", 11), ("B", 12)]
    lines = [f"{symbol},2026-01-05T{hour:02d}:00:00Z,{hour}.5,9007199254740993" for symbol, hour in hours]
    file = path.parent / "prices.csv"
    file.write_text("symbol,ts,close,volume\n" + "\n".join(lines) + "\n")
    table.append_file(file)
    return path
