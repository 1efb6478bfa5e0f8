"""Worker processes as the runner sees them: ask, and wait for the answer until a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Iterator
from typing import Any

from contest.environment import BUILD, ROOT, interpreter
from contest.registry import CONTENDERS, OWN


class Failed(Exception):
    """A contender that did not answer, with its own words where it had any."""


class Worker:
    """A process that does one case for one contender."""

    def __init__(self, task: dict[str, Any]) -> None:
        """Start it; `hello` waits until it is ready."""
        contender = task["contender"]
        (BUILD / "logs").mkdir(parents=True, exist_ok=True)
        self.log = BUILD / "logs" / f"{CONTENDERS[contender]}.log"
        run = [interpreter(own=contender in OWN), "-m", "contest.worker", json.dumps(task | {"module": CONTENDERS[contender]})]
        with self.log.open("a") as log:
            log.write(f"== {task}\n")
            log.flush()
            self._process = subprocess.Popen(
                run,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT / "bench")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )

    def hello(self, seconds: float = 300) -> dict[str, Any]:
        """Who is there; raises Failed."""
        return self._answer(seconds)

    def send(self, number: int) -> None:
        """Let it do round `number`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"round": number}) + "\n")
            self._process.stdin.flush()

    def receive(self, seconds: float = 300) -> dict[str, Any]:
        """What came of the round; raises Failed."""
        return self._answer(seconds)

    def dismiss(self) -> None:
        """Let it end by itself."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        """Wait until it has ended, or kill it."""
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            self._process.kill()
            raise Failed(f"no answer in {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"it ended; see {self.log.relative_to(ROOT)}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise Failed(found["error"])
        return found


@contextlib.contextmanager
def running(tasks: list[dict[str, Any]]) -> Iterator[list[Worker]]:
    """Workers for these tasks, which end with the block."""
    workers = [Worker(task) for task in tasks]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.end()
