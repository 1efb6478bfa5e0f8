"""Replay or run simulated histories: `python -m gapless.testing.simulate --seed 7`, `… --seed 0 --schedules 1000`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gapless.testing.simulation.delta_kind import DELTA_TABLE
from gapless.testing.simulation.pipelines.play import NAME, simulate_pipelines
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.simulation import Run, simulate

KINDS: Mapping[str, Callable[[int], Run]] = {
    **{kind.name: partial(simulate, kind=kind) for kind in (SERIES, DELTA_TABLE)},
    NAME: simulate_pipelines,
}
"""What histories are of: a kind of table, or pipelines between two tables."""


def describe(run: Run) -> str:
    """The whole history of a run as text: every call, every answer, and what the auditor found."""
    start_ns = run.trace[0][0] if run.trace else 0
    lines = [f"{(at - start_ns) / 1e9:9.4f}s {who:4} {call:9} {path}  {outcome}" for at, who, call, path, outcome in run.trace]
    lines += [f"{sent.actor}: {sent.intent} {sent.outcome} {sent.report or sent.error or ''}" for sent in run.history.sent]
    lines += [f"{seen.actor}: saw version {seen.version} {seen.rows or ''}" for seen in run.history.seen]
    lines += [f"{missed.actor}: missed version {missed.version}: {missed.error}" for missed in run.history.missed]
    lines += [f"{ran.actor}: {ran.task} {ran.answer or ''} {ran.error or ''}" for ran in getattr(run.history, "ran", ())]
    lines += [f"WRONG: {fault}" for fault in run.faults] or ["nothing is wrong"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a history went wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m gapless.testing.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the history to play, or the first of several")
    parser.add_argument("--schedules", type=int, default=1, help="how many histories to play; with one, all of it is printed")
    parser.add_argument("--kind", choices=KINDS, default=SERIES.name, help="the kind of table, or pipelines")
    chosen = parser.parse_args(arguments)
    play = KINDS[chosen.kind]
    if chosen.schedules == 1:
        run = play(chosen.seed)
        sys.stdout.write(describe(run) + "\n")
        return 1 if run.faults else 0
    wrong = 0
    for seed in range(chosen.seed, chosen.seed + chosen.schedules):
        run = play(seed)
        wrong += bool(run.faults)
        for fault in run.faults:
            sys.stdout.write(f"{run.command}: {fault}\n")
    sys.stdout.write(f"{chosen.schedules} histories, {wrong} of them wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
