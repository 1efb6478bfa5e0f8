"""A pipeline in a process of its own, killed with SIGKILL again and again while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.copies import copied
from support.pipelines import made, rows
from support.targets import TARGETS

RUN = """
import sys
from gapless.connect import CheckpointStore, Runner, sink, source
place, kind, mode = sys.argv[1:]
options = {"key": ["id"]} if mode == "upsert" else {}
Runner(
    source(f"timeseries:{place}/feed", start="earliest"),
    None,
    {"main": sink(f"{kind}:{place}/sink", pipeline="orders", name="main", mode=mode, spill_bytes=1, **options)},
    CheckpointStore(f"{place}/checkpoints"),
    checkpoint_rows=3,
).run()
"""
COMMITS, EACH = 12, 3


def started(place: Path, kind: str, mode: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, place, kind, mode])


def newest(checkpoints: Path) -> int:
    """The highest number of a finished checkpoint."""
    names = os.listdir(checkpoints) if checkpoints.exists() else []  # noqa: PTH208  # while files come and go
    return max((int(name.partition(".")[0]) for name in names if name.endswith(".done")), default=0)


@pytest.mark.parametrize(
    "mode", [pytest.param("append", marks=pytest.mark.soak), pytest.param("upsert", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("kind", TARGETS)
def test_log_15_a_pipeline_that_is_killed_loses_and_doubles_nothing(kind: str, mode: str, tmp_path: Path) -> None:
    feed = made("timeseries", tmp_path / "feed")
    for number in range(COMMITS):
        feed.append(rows(number * EACH, EACH, 17))
    target = TARGETS[kind]
    target.make(str(tmp_path / "sink"), None)
    checkpoints, kills = tmp_path / "checkpoints", 0
    # A life ends once it has made some checkpoints more, at whatever it does then.
    for more in (1, 3, 2):
        until = newest(checkpoints) + 2 * more
        with started(tmp_path, kind, mode) as run:
            while run.poll() is None and newest(checkpoints) < until:
                time.sleep(0.001)  # between two looks at another process
            if run.poll() is None:
                run.send_signal(signal.SIGKILL)
                kills += 1
    with started(tmp_path, kind, mode) as run:
        assert run.wait() == 0
    everything = rows(0, COMMITS * EACH, 17).to_pylist()
    expected = everything if mode == "append" else {row["id"]: row for row in everything}.values()
    found = target.rows(copied(str(tmp_path / "sink"), None, tmp_path / "copy"))
    assert sorted(row["v"] for row in found) == sorted(row["v"] for row in expected)
    assert target.open(str(tmp_path / "sink"), None).verify(deep=True).ok
    assert not list((tmp_path / "sink").rglob("_prepared/*/*.json"))
    assert kills
