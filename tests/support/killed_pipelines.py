"""Pipelines in processes of their own, killed with SIGKILL at a moment: a process that has imported all and forks one for each.

Run as a module it takes a job in each line, and answers each with the exit status of the process that did it, as `Popen.returncode`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.store.open import open_store
from support.store_points import ALL_POINTS, Watch, watched
from support.targets import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """From the feed of a place into a sink there."""

    place: str
    storage: Storage
    kind: str
    mode: str
    options: Mapping[str, Any]
    """Of the sink."""
    reading: Mapping[str, Any]
    """Of the source."""

    def run(self, **options: Any) -> None:
        """All that there is, in checkpoints of 5 rows."""
        place, storage = self.place, self.storage
        into = sink(
            f"{self.kind}:{place}/sink", pipeline="orders", name="main", mode=self.mode, storage_options=storage, **self.options
        )
        Runner(
            source(f"timeseries:{place}/feed", start="earliest", storage_options=storage, **self.reading),
            None,
            {"main": into},
            CheckpointStore(f"{place}/checkpoints", storage_options=storage),
            checkpoint_rows=5,
            **options,
        ).run()

    def to_json(self, **more: Any) -> str:
        """A line."""
        body = {name: getattr(self, name) for name in ("place", "storage", "kind", "mode", "options", "reading")}
        return json.dumps({"pipeline": body, **more})


@dataclass(frozen=True, slots=True)
class KillServer:
    """The process that forks others."""

    process: subprocess.Popen[str]

    def run(self, pipeline: Pipeline, *, point: str | None = None, nth: int = 1) -> int:
        """Run a pipeline in a process of its own, killed at a point if one is given; its exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(pipeline.to_json(point=point, nth=nth) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def kill_server() -> Iterator[KillServer]:
    """Ends with its input."""
    command = [sys.executable, "-m", "support.killed_pipelines"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield KillServer(process)


def die(_path: str) -> None:
    """As the machine's out-of-memory killer, or a power cut, would have it."""
    os.kill(os.getpid(), signal.SIGKILL)


def do(job: Mapping[str, Any]) -> None:
    """One job, in a process of its own."""
    pipeline = Pipeline(**job["pipeline"])
    if job["point"] is not None:
        kind = type(open_store(f"{pipeline.place}/sink", pipeline.storage))
        watched(kind, Watch(ALL_POINTS[job["point"]], job["nth"], die), setattr)
    pipeline.run()


def serve() -> None:
    """A process for each line."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.alarm(60)
            status = 1
            try:
                do(json.loads(line))
                status = 0
            except BaseException:  # noqa: BLE001  # a forked process may end by _exit alone
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
