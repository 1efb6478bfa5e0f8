"""kill -9 at a random moment of a writer's life; the next open, read and append need no help."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gapless.errors import TableNotFound
from process.ledger import Append, Place, check, make_table, open_at, rows_of
from process.writer import Task, await_ready, begin, said, started

MOST_ANSWERS = 8
FIRST_S = 0.05
"""A first append takes about as long."""


def _live_and_die(task: Task, dice: random.Random) -> list[dict[str, Any]]:
    """Kill a writer at a random moment of an append that follows 0 to MOST_ANSWERS others; what it acknowledged before."""
    with started(task) as process:
        assert process.stdout is not None
        await_ready(process)
        begin(process)
        answers = [json.loads(process.stdout.readline()) for _ in range(dice.randrange(MOST_ANSWERS + 1))]
        time.sleep(dice.random() * 1.2 * (answers[-1]["seconds"] if answers else FIRST_S))
        process.kill()
        answers += said(process)
        assert process.wait() == -signal.SIGKILL, "the writer ended by itself"
    assert not [answer for answer in answers if "error" in answer], answers
    return answers


def _send_again(place: Place, append: Append, acknowledged: set[Append]) -> bool:
    """Send what got no answer again, twice; whether it had landed."""
    landed = append in check(place, acknowledged, {append}).present
    table = open_at(place)
    report = table.append(rows_of(append), operation_id=append)
    assert report.already_applied is landed
    assert report.rows == len(rows_of(append))
    assert table.append(rows_of(append), operation_id=append).already_applied
    acknowledged.add(append)
    check(place, acknowledged)
    return landed


def _kill_rounds(place: Place, rounds: int, seed: int, *, checkpoint_interval: int) -> None:
    dice = random.Random(seed)
    make_table(place, checkpoint_interval=checkpoint_interval)
    acknowledged: set[Append] = set()
    landed = 0
    for _ in range(rounds):
        start = len(acknowledged)
        answers = _live_and_die(Task(location=place[0], options=place[1], start=start), dice)
        numbers = [answer["number"] for answer in answers]
        assert numbers == list(range(start, start + len(numbers)))
        acknowledged |= {("w", number) for number in numbers}
        landed += _send_again(place, ("w", start + len(numbers)), acknowledged)
    found = check(place, acknowledged)
    print(
        f"{rounds} kills, seed {seed}, a checkpoint every {checkpoint_interval} commits: {len(acknowledged)} appends, ", end=""
    )
    print(f"all there once; {landed} unanswered ones had landed; {len(found.orphans)} orphans; 0 wedged, lost, doubled or torn")


@pytest.mark.parametrize(
    ("rounds", "checkpoint_interval"),
    [
        (10, 5),
        pytest.param(10, 100, marks=pytest.mark.long),
        pytest.param(100, 5, marks=pytest.mark.soak),
        pytest.param(100, 100, marks=pytest.mark.soak),
    ],
)
def test_kill_9_loses_doubles_and_wedges_nothing(tmp_path: Path, rounds: int, checkpoint_interval: int) -> None:
    _kill_rounds(
        (str(tmp_path / "table"), {}), rounds, seed=rounds + checkpoint_interval, checkpoint_interval=checkpoint_interval
    )


@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_kill_9_around_create(tmp_path: Path, rounds: int) -> None:
    """The table that was being made is there with its append, there without it, or not there and can be made."""
    dice = random.Random(rounds)
    for one in range(rounds):
        folder = tmp_path / str(one)
        answers = _live_and_die(Task(location=str(folder), create=True), dice)
        for answer in answers:
            check((str(folder / str(answer["number"])), {}), {("w", 0)})
        last: Place = str(folder / str(len(answers))), {}
        try:
            open_at(last)
        except TableNotFound:
            make_table(last, checkpoint_interval=1)
        _send_again(last, ("w", 0), set())
