"""Imports in processes of their own, killed with SIGKILL once they stored their nth object: forks of a process that has imported all.

Run as a module it takes a job in each line, and answers each with the exit status of the process that did it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import gapless as gl
from gapless.store.local.store import LocalStore
from gapless.tables.transfer import plan
from support.store_points import Point, Watch, watched


def few_files(replace: Any = setattr) -> None:
    """Have imports make commits of two files, so that there are several."""
    replace(plan, "TAKEN_FILES", 2)
    replace(plan, "WRITTEN_FILES", 2)


@dataclass(frozen=True, slots=True)
class KillServer:
    """The process that forks others."""

    process: subprocess.Popen[str]

    def run(self, source: str, target: str, options: Mapping[str, Any], nth: int) -> int:
        """Import in a process of its own, killed after the nth object it stored; its exit status, 0 where it came to its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"source": source, "target": target, "options": options, "nth": nth}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def kill_server() -> Iterator[KillServer]:
    """Ends with the context."""
    command = [sys.executable, "-m", "support.killed_imports"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield KillServer(process)


def do(job: Mapping[str, Any]) -> None:
    """One job, in a process of its own."""
    few_files()
    point = Point(place=job["target"], stored=lambda _path, _data: True)
    watched(LocalStore, Watch(point, job["nth"], lambda _path: os.kill(os.getpid(), signal.SIGKILL)), setattr)
    gl.import_table(job["source"], job["target"], **job["options"])


def serve() -> None:
    """A process for each line, which finds all loaded that an import loads."""
    rows = pa.table({"n": [1]})
    gl.delta.create("memory://loading", rows.schema).append(rows)
    gl.import_table("memory://loading", "memory://loaded", index="n", index_type="int64", bucket=1)
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
