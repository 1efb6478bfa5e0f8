"""The broker of the demo goes with the process that started it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")

_STARTS = """
import subprocess, sys, time
from gapless.cli.demo.broker import killed_with_us
with subprocess.Popen(["sleep", "600"], start_new_session=True) as started, killed_with_us(started):
    print(started.pid, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_started_is_killed() -> None:
    """By SIGKILL, which nothing can catch."""
    with subprocess.Popen([sys.executable, "-c", _STARTS], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        started = int(starter.stdout.readline())
        assert _runs(started)
        starter.kill()
    until = time.monotonic() + 60
    while _runs(started):
        assert time.monotonic() < until, f"process {started} outlives the one that started it"
        time.sleep(0.02)


def test_what_ends_before_us_is_left_alone() -> None:
    """The watch ends with the block, and kills nothing."""
    code = _STARTS.replace('"600"', '"0"').replace("time.sleep(600)", "started.wait()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not _runs(int(done.stdout))
    assert not done.stderr


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A process that is dead may have nobody to take leave of it.
    return state != "Z"
