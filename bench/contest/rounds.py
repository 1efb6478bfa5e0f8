"""Rounds: in each, every contender has one turn; a first round warms up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contest.answers import agree
from contest.case import Case
from contest.registry import CONTENDERS
from contest.workers import Failed, Worker, running

SLOW = 10.0
"""Seconds from which on a first turn counts."""


NOT_ASKED = "not asked"
"""Why a variant is not there that differs in other cases."""


@dataclass
class Entry:
    """What one contender did in one case."""

    hello: dict[str, Any] = field(default_factory=dict)
    turns: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By round; round 0 warms up."""
    why_not: str = ""

    def spent(self, cap: float) -> bool:
        return bool(self.why_not) or sum(turn["seconds"] * turn.get("appends", 1) for turn in self.turns.values()) > cap

    def counted(self) -> dict[int, dict[str, Any]]:
        """The rounds that count: not the first, unless it was slow or the only one."""
        later = {number: turn for number, turn in self.turns.items() if number > 0}
        slow = 0 in self.turns and self.turns[0]["seconds"] > SLOW
        return self.turns if slow or not later else later


Played = dict[str, Entry]


def play(case: Case, names: Sequence[str], folder: Path) -> Played:
    """All rounds of a case, interleaved: a contender's worker lives through all of them."""
    played = {name: Entry() for name in names}
    with running([task(case, name, folder) for name in names]) as workers:
        for name, worker in zip(names, workers, strict=True):
            meet(played[name], worker, case)
        for number in range(case.repeats + 1):
            for name, worker in zip(names, workers, strict=True):
                if name == case.floor or not played[name].spent(case.cap):
                    turn(played[name], worker, number, case.patience)
    return played


def task(case: Case, name: str, folder: Path, **other: object) -> dict[str, Any]:
    """What a worker is told."""
    about = {"contender": name, "module": CONTENDERS[name], "case": case.act, "shape": case.shape, "folder": str(folder)}
    return about | {"appends": case.appends, "rows": case.rows, "seconds": case.seconds} | other


def meet(entry: Entry, worker: Worker, case: Case) -> None:
    """Wait until a worker is ready, and hear whether it takes part."""
    try:
        entry.hello = worker.hello()
        only = entry.hello["only"]
        entry.why_not = entry.hello["cannot"].get(case.act, "") if not only or case.act in only else NOT_ASKED
    except Failed as failed:
        entry.why_not = str(failed)


def turn(entry: Entry, worker: Worker, number: int, patience: float) -> None:
    """One turn; a contender that fails is out."""
    if entry.why_not:
        return
    try:
        worker.send(number)
        entry.turns[number] = worker.receive(patience)
    except Failed as failed:
        entry.why_not = str(failed)


def ratios(case: Case, played: Played, name: str) -> Iterator[float]:
    """A contender's ratio to the floor in each round that counts and that the floor took part in."""
    floor = played[case.floor].turns
    for number, found in played[name].counted().items():
        if number in floor:
            one, other = floor[number]["seconds"], found["seconds"]
            yield one / other if case.rate else other / one


def disagreeing(played: Played) -> set[str]:
    """Those whose answer to any round was another than most gave, or false."""
    return {name for name in played if any(_odd(number, name, played) for number in played[name].turns)}


def _odd(number: int, name: str, played: Played) -> bool:
    said = [entry.turns[number]["answer"] for entry in played.values() if number in entry.turns]
    own = played[name].turns[number]["answer"]
    return own is False or (2 * sum(agree(own, other) for other in said) <= len(said) and len(said) > 1)
