"""How a pipeline stands, where its process is alive, gone, or another one by now; without Spark."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.cli.app import run
from gapless.errors import CommitConflict
from gapless.pipelines.run.state import PipelineState, RunStart, process_mark
from gapless.runtime.environment import SystemClock

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this machine does not say when processes began")


class Later(SystemClock):
    """Some seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now_ns(self) -> int:
        return super().now_ns() + int(self.seconds * 1e9)


def told(folder: Path, **changed: object) -> None:
    """Change what the run says of itself."""
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}), encoding="utf-8")


def status(folder: Path, seconds: float = 0) -> str:
    found = PipelineState(str(folder), clock=Later(seconds)).run()
    assert found is not None
    return found.status


def test_a_run_says_what_it_was_started_with(tmp_path: Path) -> None:
    start = RunStart(file="/lake/air.sql", continuous=True, master="local[2]")
    PipelineState(str(tmp_path)).begin(start)
    found = PipelineState(str(tmp_path)).run()
    assert found is not None
    assert (found.start, found.status, found.pid) == (start, "running", os.getpid())


def test_a_process_that_is_gone_has_died_at_once(tmp_path: Path) -> None:
    program = f"from gapless.pipelines.run.state import PipelineState; PipelineState({str(tmp_path)!r}).begin()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert status(tmp_path) == "died"
    assert PipelineState(str(tmp_path)).begin().number == 2


@needs_proc
def test_a_later_process_of_the_same_number_is_not_the_run(tmp_path: Path) -> None:
    """As after a restart of the machine, or of its container."""
    state = PipelineState(str(tmp_path))
    begun = state.begin()
    assert begun.process == process_mark(os.getpid())
    with pytest.raises(CommitConflict, match="runs already"):
        state.begin()
    told(tmp_path, process=begun.process[:-1] + ("0" if begun.process[-1] != "0" else "1"))
    assert status(tmp_path) == "died"
    assert state.begin().number == 2


@needs_proc
def test_a_process_whose_parent_has_not_asked_for_it_is_dead(tmp_path: Path) -> None:
    PipelineState(str(tmp_path)).begin()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        told(tmp_path, pid=process.pid, process=process_mark(process.pid))
        assert status(tmp_path) == "running"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is there still
        assert status(tmp_path) == "died"


def test_a_run_on_another_machine_is_dead_once_it_was_silent(tmp_path: Path) -> None:
    PipelineState(str(tmp_path)).begin()
    told(tmp_path, host=f"not-{socket.gethostname()}")
    assert status(tmp_path) == "running"
    assert status(tmp_path, seconds=31) == "died"


def test_what_an_earlier_release_wrote_is_read(tmp_path: Path) -> None:
    PipelineState(str(tmp_path)).begin()
    path = tmp_path / "run.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["start"], document["process"]
    path.write_text(json.dumps(document), encoding="utf-8")
    found = PipelineState(str(tmp_path)).run()
    assert found is not None
    assert (found.status, found.start) == ("running", RunStart())


def test_one_that_a_program_ran_is_not_restarted_by_a_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    PipelineState(str(tmp_path / "air")).begin()
    assert run(["pipelines", "restart", "air", "--checkpoints", str(tmp_path)]) == 2
    assert "came from a program" in capfd.readouterr().err
    assert not (tmp_path / "air" / "stop").exists()
    assert run(["pipelines", "restart", "aire", "--checkpoints", str(tmp_path)]) == 2
    assert "Did you mean 'air'?" in capfd.readouterr().err
