"""Memory does not grow with the table: a table four times as large takes hardly more to append and to read.

The sizes that gapless works in are divided by 32, so that a small table shows it; `memory_probe.py` says how to run it with the real ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("memory_probe.py")
ROWS = 500_000
SCALE = 32
MORE_DATA_MB = 3 * ROWS * 37 / 2**20
"""What the larger table has more than the smaller, as Arrow holds it."""


def took(job: str, rows: int, place: Path) -> dict[str, float]:
    command = [sys.executable, str(PROBE), job, str(rows), str(place), str(SCALE)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    assert found["rows"] == rows
    return found


@pytest.mark.parametrize(
    ("append", "scans"),
    [("append by time", ["scan"]), pytest.param("append by site", ["scan by index", "compact"], marks=pytest.mark.long)],
)
def test_memory_is_bounded_whatever_the_size_of_the_table(tmp_path: Path, append: str, scans: list[str]) -> None:
    """By time: segments lie apart and are read as they are. By site: all overlap, and are sorted in windows."""
    for job in (append, *scans):
        small, large = (took(job, rows, tmp_path / str(rows)) for rows in (ROWS, 4 * ROWS))
        print(f"{job}: {small} -> {large}, {MORE_DATA_MB:.0f} MB more data")
        assert large["arrow_mb"] - small["arrow_mb"] < MORE_DATA_MB / 6
        assert large["rss_mb"] - small["rss_mb"] < MORE_DATA_MB * 0.7
