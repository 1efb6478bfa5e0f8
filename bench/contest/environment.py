"""The peers' own environment: `build/bench/venv`, made by pip from requirements/bench.txt, so that the developers' locks stay as they are."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "bench"
LOCK = ROOT / "requirements" / "bench.txt"
_HOME = BUILD / "venv"
PYTHON = _HOME / "bin" / "python"


def prepare() -> None:
    """Make or refresh the environment; costs nothing where it holds what is locked. What does not install is said, and left out."""
    stamp = _HOME / ".stamp"
    if stamp.exists() and stamp.read_text() == LOCK.read_text():
        return
    print(f"installing {LOCK.relative_to(ROOT)} into {_HOME.relative_to(ROOT)}", flush=True)
    venv.create(_HOME, with_pip=True, clear=True)
    if _pip(["-r", str(LOCK)]):
        # One that is not to be had stops them all: so, one by one.
        for line in LOCK.read_text().splitlines():
            if line and not line.startswith("#") and _pip([line]):
                print(f"  does not install: {line}", flush=True)
    stamp.write_text(LOCK.read_text())


def _pip(arguments: Sequence[str]) -> int:
    with (BUILD / "pip.log").open("a") as log:
        install = [
            str(PYTHON),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "--no-deps",
            *arguments,
        ]
        return subprocess.run(install, stdout=log, stderr=log, check=False).returncode


def interpreter(*, own: bool) -> str:
    """The Python that runs a contender: the peers', or this one."""
    return sys.executable if own else str(PYTHON)
