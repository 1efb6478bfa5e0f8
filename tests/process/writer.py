"""A writer in a process of its own: `python -m process.writer TASK`, with a task as JSON. What it did goes to stdout, a JSON a line.

It waits for a line on stdin before its first append, so that several start together and a killer knows when the work begins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gapless as gl
from process.delta_ledger import make_delta, open_delta
from process.ledger import Place, make_table, open_at, rows_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a writer does: `count` appends from number `start`, or tables `location/start` and on."""

    location: str
    options: dict[str, str] = field(default_factory=dict)
    writer: str = "w"
    start: int = 0
    count: int = 1_000_000
    create: bool = False
    """Make tables, and append to each once, rather than append to one."""
    delta: bool = False
    """Append to a Delta table."""

    @property
    def place(self) -> Place:
        return self.location, self.options


def environment() -> dict[str, str]:
    """The environment of a process that can import gapless and these modules."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def run_python(program: str) -> int:
    """Run a program in a new Python for at most two minutes; its exit code."""
    return subprocess.run([sys.executable, "-c", program], env=environment(), timeout=120, check=False).returncode


@contextmanager
def started(task: Task) -> Iterator[subprocess.Popen[str]]:
    """A writer that waits for its line; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "process.writer", json.dumps(asdict(task))],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def await_ready(process: subprocess.Popen[str]) -> None:
    """Wait until a writer has loaded all it needs."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", "the writer did not start; its traceback is on stderr"


def begin(process: subprocess.Popen[str]) -> None:
    """Let it work."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def said(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """All that it says until it ends; a last line cut short by a kill was not said."""
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    opened, made = (open_delta, make_delta) if task.delta else (open_at, make_table)
    table: Any = None if task.create else opened(task.place)
    # What a first append loads would be waited for by all at once.
    _append(made(("memory://warm", {})), task, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(task.start, task.start + task.count):
        began = time.perf_counter()
        try:
            report = _make(task, number) if table is None else _append(table, task, number)
        except gl.GaplessError as error:
            print(json.dumps({"number": number, "error": f"{type(error).__name__}: {error}"}), flush=True)
        else:
            answer = {"number": number, "version": report.version, "already": report.already_applied}
            print(json.dumps({**answer, "seconds": time.perf_counter() - began}), flush=True)


def _append(table: Any, task: Task, number: int) -> gl.AppendReport:
    report: gl.AppendReport = table.append(rows_of((task.writer, number)), operation_id=(task.writer, number))
    return report


def _make(task: Task, number: int) -> gl.AppendReport:
    place = f"{task.location}/{number}", task.options
    return _append(make_table(place, checkpoint_interval=1), task, 0)


if __name__ == "__main__":
    main()
