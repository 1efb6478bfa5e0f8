"""Pipelines run by the command line in processes of their own, killed with SIGKILL before or after a batch of a sink."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.maven import maven_environment

_LIFE = """
import os, signal, sys
import gapless.pipelines.run.run as run
from gapless.cli.app import main

made, doomed = run.batch_sink, sys.argv[1]

def batch_sink(defined, *given, **more):
    write = made(defined, *given, **more)
    def struck(frame, batch):
        before, name, number = doomed.split(":")
        here = defined.name == name and number in ("*", str(batch))
        if here and before == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        report = write(frame, batch)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return report
    return struck if doomed else write

run.batch_sink = batch_sink
main(["run", sys.argv[2], "--master", "local[2]", "--json"])
"""


def live(sql: Path, doomed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a pipeline to its end, or `doomed` to die: "before:SINK:BATCH" is before that sink has the batch, "after:…" once it has, and Spark
    has not noted it; a batch "*" is the first one that comes.
    """
    command = [sys.executable, "-c", _LIFE, doomed, str(sql)]
    return subprocess.run(command, check=False, env=maven_environment(), capture_output=True, text=True)
