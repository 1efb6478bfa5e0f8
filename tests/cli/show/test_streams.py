"""Commands whose stdout or stderr is closed, full or read no further: each ends with its exit code, and never with a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import gapless as gl

COMMANDS = (
    "scan t --json", "history t", "verify t", "gaps t", "compact t", "append t a.csv --on-overlap skip", "delta vacuum d", "--help",
)  # fmt: skip
FULL = Path("/dev/full")
"""Linux has it: a disk without room."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams")
    (place / "a.csv").write_text("ts,v\n2026-01-01T00:00:00Z,1\n2026-01-01T02:00:00Z,2\n")
    gl.create(place / "t", index="ts", bucket="1h").append_file(place / "a.csv")
    gl.delta.create(str(place / "d"), pa.schema([("a", pa.int64())])).append([{"a": 1}])
    return place


def ends(command: str, place: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit code of a command of the shell, in which `gapless` is ours; and what reached its stderr."""
    script = f'gapless() {{ {shlex.quote(sys.executable)} -m gapless "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=place, env=dict(environment), capture_output=True, timeout=120, check=False, text=True
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "[bug]" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_stdout_is_closed_begins_nothing_and_exits_1(
    command: str, place: Path, environment: dict[str, str]
) -> None:
    version = gl.open(place / "t").version
    code, said = ends(f"gapless {command} >&-", place, environment)
    assert code == 1
    assert said.startswith("Error [os-error]: stdout is closed, so nothing was begun")
    assert gl.open(place / "t").version == version
    assert not (place / "new").exists()


@pytest.mark.parametrize("command", [one for one in COMMANDS if not one.startswith("create")])
def test_a_command_whose_stdout_is_full_exits_1_with_the_code_of_a_full_disk(
    command: str, place: Path, environment: dict[str, str]
) -> None:
    if not FULL.exists():
        pytest.skip("a system without /dev/full")
    code, said = ends(f"gapless {command} > {FULL}", place, environment)
    assert code == 1
    assert said.startswith("Error [storage-full]: what the command has to say cannot be written: ")


@pytest.mark.parametrize(
    ("command", "code"),
    [("gapless info t", 0), ("gapless info none", 2), ("gapless scan t --bogus", 2), ("gapless append t a.csv", 4)],
)
@pytest.mark.parametrize("stderr", ["2>&-", f"2>{FULL}", "2> >(true)"])
def test_what_cannot_be_told_on_stderr_is_still_said_by_the_exit_code(
    command: str, code: int, stderr: str, place: Path, environment: dict[str, str]
) -> None:
    assert ends(f"{command} {stderr}", place, environment) == (code, "")


def test_with_both_closed_the_exit_code_is_left(place: Path, environment: dict[str, str]) -> None:
    assert ends("gapless info t >&- 2>&-", place, environment) == (1, "")
    if FULL.exists():
        assert ends(f"gapless info t > {FULL} 2>&1", place, environment) == (1, "")


def test_a_file_that_is_written_while_stderr_is_closed_holds_its_rows_alone(
    place: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    assert ends(f"gapless scan t --output {tmp_path}/x.csv <&- 2>&-", place, environment) == (0, "")
    assert (tmp_path / "x.csv").read_text().splitlines()[0] == "ts,v"
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("command", ["scan t --json", "--help"])
def test_a_reader_that_has_gone_ends_a_command_with_141(command: str, place: Path, environment: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "gapless", *command.split()]
    with os.fdopen(write, "wb") as stdout:
        done = subprocess.run(
            words, cwd=place, env=environment, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=120
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_sql_of_a_table_without_columns_says_that_it_has_none(place: Path, environment: dict[str, str]) -> None:
    gl.delta.create(str(place / "bare"), pa.schema([]))
    gl.create(place / "empty", index="ts", bucket="1h")
    for name in ("bare", "empty"):
        code, said = ends(f"gapless sql {name} 'select count(*) from {name}'", place, environment)
        assert code == 2
        assert said.startswith(
            f"Error [invalid-query]: the table '{name}' has no columns, and SQL cannot ask a table without any"
        )
        assert ends(f"gapless sql {name} 'select 1 as one'", place, environment)[0] == 0
