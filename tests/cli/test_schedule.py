"""`maintain` from the shell: once, and as a process that goes on until Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Gapless
from support.pipelines import KINDS, made, opened, rows


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Path:
    table = made(kind, tmp_path / "trips")
    for first in range(4):
        table.append(rows(first, 1))
    return tmp_path / "trips"


def test_all_of_it_once(kind: str, place: Path, inside: Gapless) -> None:
    words = ["--compact", "10 minutes", "--vacuum", "0 3 * * *", "--timezone", "Europe/Berlin"]
    expiry = ["--expire", "1d", "--expire-older-than", "30d"] if kind == "timeseries" else []
    done = inside("maintain", place, *words, *expiry, "--once")
    assert (done.code, done.err) == (0, "")
    noun = "segments" if kind == "timeseries" else "files"
    assert done.out.splitlines()[0].startswith(f"Version {opened(kind, place).version}: 4 {noun} of 0.0 MiB became 1")
    assert done.out.splitlines()[-1] == "Nothing to delete."
    again = json.loads(inside("maintain", place, *words, "--once", "--json").out)
    assert (again["compaction"]["bins"], again["expiry"], again["vacuum"]["dry_run"]) == (0, None, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once"], "nothing is to be done"),
        (["--compact", "10 parsecs", "--once"], "Did you mean 'secs'?"),
        (["--compact", "10 minutes", "--json"], "--json means nothing here"),
    ],
)
def test_what_is_typed_wrong_is_refused(words: list[str], said: str, place: Path, inside: Gapless) -> None:
    ended = inside("maintain", place, *words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())


def test_a_process_goes_on_until_ctrl_c(kind: str, place: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "gapless", "maintain", str(place), "--compact", "1s"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        assert "compact: every 0:00:01" in process.stderr.readline()
        assert "4 files became 1" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.stderr.close()
    assert opened(kind, place).compact().bins == 0
    assert opened(kind, place).scan().count() == 4
