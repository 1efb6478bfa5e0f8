"""In a terminal of 80 columns: what is printed fits, has colour unless NO_COLOR is set, and progress is shown and taken away."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyarrow as pa
import pytest
from rich.cells import cell_len

from gapless.tables.timeseries.table import TimeSeriesTable

COLUMNS = 80
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _in_terminal(words: tuple[object, ...], environment: dict[str, str]) -> str:
    """What a command writes to the terminal that it runs in."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "gapless", *map(str, words)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm-256color"},
    ):
        os.close(theirs)
        text = bytearray()
        try:
            while chunk := os.read(ours, 65_536):
                text += chunk
        except OSError:  # the other side has gone
            pass
    os.close(ours)
    return text.decode()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 30 columns, of which one holds long texts."""
    path = tmp_path_factory.mktemp("wide") / "t"
    table = TimeSeriesTable.create(path, index="ts", bucket="1h")
    columns = {f"column_{n}": pa.array([n]) for n in range(28)}
    table.append(pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "text": ["x" * 500], **columns}))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("scan",), ("scan", "--where", "a = 'a long text that goes on' or b = 'and on' or column_that_is_not_there = 3"),
        ("sql", "select nosuch from this"), ("coverage",), ("gaps",), ("info",), ("history",), ("schema",), ("scan", "--help"),
    ],
    ids=lambda words: "-".join(words[:2])[:20],
)  # fmt: skip
def test_no_line_is_wider_than_the_terminal(wide: Path, environment: dict[str, str], words: tuple[str, ...]) -> None:
    plain = _ESCAPE.sub("", _in_terminal((words[0], wide, *words[1:]), environment))
    assert plain.strip()
    lines = [line.rpartition("\r")[2] for line in plain.replace("\r\n", "\n").split("\n")]
    # A path has no place to break; only the facts of `info` show one, folded.
    assert [line for line in lines if cell_len(line) > COLUMNS] == []


def test_columns_without_room_are_named(wide: Path, environment: dict[str, str]) -> None:
    shown = " ".join(_ESCAPE.sub("", _in_terminal(("scan", wide), environment)).split())
    assert "No room here for" in shown
    assert "column_27" in shown


def test_no_color_is_heard(prices: Path, environment: dict[str, str]) -> None:
    colour = re.compile(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-7])[;m]")
    assert colour.search(_in_terminal(("coverage", prices), environment))
    assert not colour.search(_in_terminal(("coverage", prices), environment | {"NO_COLOR": "1"}))


def test_progress_is_shown_and_taken_away(tmp_path: Path, environment: dict[str, str], prices: Path) -> None:
    TimeSeriesTable.create(tmp_path / "t", index="ts", bucket="1h", entity=["symbol"])
    text = _in_terminal(("append", tmp_path / "t", prices.parent / "prices.csv"), environment)
    assert "appending" in text
    assert "\x1b[2K" in text
    assert "Version 2: 7 rows in 1 segment, covering 7 buckets." in text
