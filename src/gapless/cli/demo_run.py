"""The demo's pipeline as a process: watched, and killed on purpose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gapless.errors import NotSupported

LOG = "pipeline.log"
"""Where what Spark says to stderr goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A batch that is in the table, as the pipeline says it."""

    batch: int
    """Its number, from 0."""
    known: bool
    """Whether the table had it when it came."""


def run_pipeline(folder: Path, told: Callable[[Landed], None], *, kill_after: int | None = None) -> list[Landed]:
    """Run the pipeline in `folder`; each batch is told when the table has it, and all are given back.

    As soon as the table has batch `kill_after` the whole process group is killed: Python and Java. Raises NotSupported where the
    pipeline fails.
    """
    seen: list[Landed] = []
    with _pipeline(folder) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(Landed(**json.loads(line)))
            if seen[-1].batch == kill_after:
                _kill(process)
            told(seen[-1])
    killed = process.returncode == -signal.SIGKILL and any(one.batch == kill_after for one in seen)
    if process.returncode and not killed:
        raise _failed(process.returncode, folder / LOG)
    return seen


@contextlib.contextmanager
def _pipeline(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The process, in a group and session of its own; all of it is gone when the block ends."""
    command = [sys.executable, "-m", "gapless.cli.demo_pipeline", str(folder)]
    with (
        (folder / LOG).open("ab") as log,
        subprocess.Popen(  # noqa: S603  # this Python, and a folder that the user named
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        except BaseException:
            _kill(process)
            raise


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(code: int, log: Path) -> NotSupported:
    # The lines of a trace are indented, what went wrong is not.
    said = [
        line
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip() and not line[0].isspace()
    ]
    return NotSupported(
        f"the pipeline on Spark ended with exit code {code}",
        why=said[-1] if said else "It said nothing",
        fix=f"{log} has all it said; `gapless demo --no-spark` leaves this part out",
        feature="demo",
    )
