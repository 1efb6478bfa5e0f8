"""Eight processes that append to one table at once, and whether what they were told is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contest.case import Case
from contest.rounds import Entry, Played, meet, task
from contest.workers import Failed, Worker, running

PROCESSES = 8


def play_writers(case: Case, names: Sequence[str], folder: Path) -> Played:
    """All repeats of one contender after the other: the processes of all of them at once do not fit."""
    played = {name: Entry() for name in names}
    for name in names:
        try:
            _repeats(case, name, folder, played[name])
        except Failed as failed:
            played[name].why_not = str(failed)
    return played


def _repeats(case: Case, name: str, folder: Path, entry: Entry) -> None:
    with running([task(replace(case, act="audit"), name, folder)]) as (auditor,):
        meet(entry, auditor, case)
        if entry.why_not:
            return
        with running([task(case, name, folder, writer=f"w{number}") for number in range(PROCESSES)]) as workers:
            for worker in workers:
                worker.hello()
            for number in range(1, case.repeats + 1):
                entry.turns[number] = _turn(case, number, auditor, workers)


def _turn(case: Case, number: int, auditor: Worker, workers: Sequence[Worker]) -> dict[str, Any]:
    """A new table, all processes at once, and what is in the table then."""
    auditor.send(2 * number)
    auditor.receive(case.patience)
    for worker in workers:
        worker.send(number)
    said = [worker.receive(case.patience) for worker in workers]
    auditor.send(2 * number + 1)
    rows, volume = auditor.receive(case.patience)["answer"]
    done = sum(each["done"] for each in said)
    errors: Counter[str] = Counter()
    for each in said:
        errors.update(each["errors"])
    return {
        "seconds": max(each["seconds"] for each in said) / max(done, 1),
        "cpu": sum(each["cpu"] for each in said) / max(done, 1),
        "held": 0,
        "peak": sum(each["peak"] - each["held"] for each in said),
        "appends": done,
        "failed": sum(each["failed"] for each in said),
        "errors": dict(errors.most_common(3)),
        # Rows that are there beside those that were acknowledged: a failed append that landed, or, below zero, loss.
        "astray": rows - 1 - done * case.rows,
        "answer": volume >= sum(each["volume"] for each in said) and rows > done * case.rows,
    }
