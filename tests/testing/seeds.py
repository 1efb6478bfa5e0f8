"""Which seeds a run of the tests draws, and what playing them costs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gapless.testing.simulation.process import Kind
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.simulation import Run, simulate

ROOT = Path(__file__).resolve().parents[2]


def first_seed() -> int:
    """Drawn from the commit hash, so that every change plays histories of its own; 0 outside a clone."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(head[:10], 16) * 1_000_000


@contextmanager
def one_arrow_thread() -> Iterator[None]:
    """Tiny segments decode faster where Arrow hands nothing over to its pool."""
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        yield
    finally:
        pa.set_cpu_count(before)


def play(first: int, count: int, kind: Kind = SERIES) -> tuple[list[str], float, int]:
    """Play so many histories of a kind of table: what went wrong with the command that replays it, CPU seconds, store calls."""
    return play_each(partial(simulate, kind=kind), first, count)


def play_each(play_one: Callable[[int], Run], first: int, count: int) -> tuple[list[str], float, int]:
    """Play so many histories; what `play` gives."""
    begun = time.process_time()
    wrong: list[str] = []
    calls = 0
    with one_arrow_thread():
        for seed in range(first, first + count):
            run = play_one(seed)
            calls += len(run.trace)
            wrong += (f"replay with: {run.command}\n    {fault}" for fault in run.faults)
    return wrong, time.process_time() - begun, calls


def slices(count: int) -> Sequence[Any]:
    """Parameters of a test that is cut into so many slices, of which the first runs without `make test-all`."""
    return [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, count))]


def first_wrong(play_one: Callable[[int], Run], within: int, caught_by: int | None) -> Run | None:
    """A history among the first `within` seeds with faults, None where there is none.

    The seed that is known to have some is played before the others; each history stands for itself, so that this changes only how soon.
    """
    known = () if caught_by is None or caught_by >= within else (caught_by,)
    return next((run for run in map(play_one, chain(known, range(within))) if run.faults), None)
