"""Opening a table of many segments, in a process that has just begun, and asking which of them may hold a symbol's day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contest.case import Case
from contest.rounds import Entry, Played, meet, task, turn
from contest.workers import running


def play_opening(case: Case, names: Sequence[str], folder: Path) -> Played:
    """Every contender makes its metadata once; each round is a process of its own, which has only imported."""
    played = {name: Entry() for name in names}
    for name in names:
        entry, make = played[name], replace(case, act="synthesize")
        with running([task(make, name, folder)]) as (worker,):
            meet(entry, worker, case)
            turn(entry, worker, 0, case.patience)
    for number in range(1, case.repeats + 1):
        for name in names:
            if played[name].why_not or (name != case.floor and played[name].spent(case.cap) and number > 1):
                continue
            with running([task(case, name, folder)]) as (worker,):
                meet(played[name], worker, case)
                turn(played[name], worker, number, case.patience)
    for entry in played.values():
        entry.turns.pop(0, None)
    return played
