"""`gapless pipelines restart`, of a run that is at work: it ends, and its like goes on where it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gapless as gl
from gapless.pipelines.run.state import PipelineState, RunState

SQL = """CREATE SOURCE events (id BIGINT, ts TIMESTAMP) WITH (type='json', location='{root}/in');
CREATE SINK air WITH (type='timeseries', location='{root}/air', index='ts', bucket='1h') AS SELECT * FROM events;
"""
COPY = "CREATE SINK copy WITH (type='delta', location='{root}/copy') AS SELECT * FROM events WHERE id % 2 = 0;"


@pytest.mark.long
def test_a_restart_ends_the_run_elsewhere_and_goes_on_here(tmp_path: Path) -> None:
    (tmp_path / "gapless.toml").write_text('[pipelines.spark]\n"spark.driver.memory" = "1g"\n', encoding="utf-8")
    (tmp_path / "copy.sql").write_text(SQL.format(root=tmp_path), encoding="utf-8")
    send(tmp_path, 0)
    state = PipelineState(str(tmp_path / ".gapless" / "pipelines" / "copy"))
    running = [started(tmp_path, "run", "copy.sql", "--continuous", "--master", "local[2]")]
    try:
        until(running, lambda: ids(tmp_path) == [0])
        running.append(started(tmp_path, "pipelines", "restart", "copy"))
        assert running[0].wait(120) == 0
        send(tmp_path, 1)
        until(running[1:], lambda: ids(tmp_path) == [0, 1])
        run = standing(state)
        assert (run.status, run.number, run.pid) == ("running", 2, running[1].pid)
        assert (run.start.continuous, run.start.master) == (True, "local[2]")
        os.killpg(running[1].pid, signal.SIGKILL)
        running[1].wait()
        assert standing(state).status == "died"
        assert ids(tmp_path) == [0, 1]
    finally:
        for one in running:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)


@pytest.mark.soak
@pytest.mark.parametrize("lives", [2, 8])
def test_lives_that_end_at_random_leave_each_row_once(tmp_path: Path, lives: int) -> None:
    (tmp_path / "gapless.toml").write_text('[pipelines.spark]\n"spark.driver.memory" = "1g"\n', encoding="utf-8")
    (tmp_path / "copy.sql").write_text((SQL + COPY).format(root=tmp_path), encoding="utf-8")
    state = PipelineState(str(tmp_path / ".gapless" / "pipelines" / "copy"))
    drawn, sent = random.Random(lives), 0
    for _ in range(lives):
        running = started(tmp_path, "run", "copy.sql", "--continuous", "--master", "local[2]")
        try:
            for _file in range(drawn.randint(2, 6)):
                send(tmp_path, sent)
                sent += 1
                if drawn.random() < 0.5:
                    until([running], lambda: len(ids(tmp_path)) >= drawn.randint(1, sent))  # noqa: B023  # called at once
            if drawn.random() < 0.7:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                begun = state.run()  # it may have been killed before it began
                assert begun is None or begun.status in ("died", "stopped", "finished")
            else:
                until([running], lambda: state.run() is not None and standing(state).status == "running")
                assert started(tmp_path, "pipelines", "stop", "copy").wait(60) == 0
                assert running.wait(180) == 0
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    assert started(tmp_path, "run", "copy.sql", "--master", "local[2]").wait(240) == 0
    assert ids(tmp_path) == list(range(sent))
    copied = gl.delta.open(tmp_path / "copy").scan().to_arrow().column("id").to_pylist()
    assert sorted(copied) == list(range(0, sent, 2))
    assert standing(state).status == "finished"


def send(root: Path, number: int) -> None:
    (root / "in").mkdir(exist_ok=True)
    made = root / f".{number}.json"
    made.write_text(
        json.dumps({"id": number, "ts": f"2026-01-{5 + number // 24:02d}T{number % 24:02d}:00:00Z"}) + "\n", encoding="utf-8"
    )
    made.rename(root / "in" / f"{number}.json")


def ids(root: Path) -> list[int]:
    if not (root / "air" / "_timeseries_log").exists():
        return []
    return sorted(gl.open(root / "air").scan().to_arrow().to_pydict().get("id", []))


def standing(state: PipelineState) -> RunState:
    run = state.run()
    assert run is not None
    return run


def started(root: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "gapless", *words]
    return subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)


def until(running: list[subprocess.Popen[bytes]], true: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not true():
        assert running[0].poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)
