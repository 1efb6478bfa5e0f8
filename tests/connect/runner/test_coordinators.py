"""Coordinators in processes of their own that race on the numbers of one checkpoint store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gapless.connect import CheckpointStore
from support.targets import Storage

COORDINATOR = """
import json, sys
from gapless.connect import Checkpoint, CheckpointStore, Cursor
from gapless.errors import CommitConflict
place, storage, me = json.loads(sys.argv[1])
store = CheckpointStore(place, storage_options=storage)
for line in sys.stdin:
    act, number = json.loads(line)
    mine = Checkpoint(id=number, cursor=Cursor(source="table", state={"row": me}), prepared={})
    try:
        if act == "recover":
            store.recover()
        else:
            store.record(mine)
            store.decide(mine)
        won = act != "recover"
    except CommitConflict:
        won = False
    print(json.dumps(won), flush=True)
"""
PROCESSES, ROUNDS = 3, 8


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.soak)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Storage]:
    return request.getfixturevalue("s3_options") if request.param == "s3" else (str(tmp_path / "checkpoints"), None)


@pytest.fixture
def coordinators(place: tuple[str, Storage]) -> Iterator[list[subprocess.Popen[str]]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", COORDINATOR, json.dumps([*place, me])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for me in range(PROCESSES)
        ]


def at_once(coordinators: list[subprocess.Popen[str]], acts: list[str], number: int) -> list[int]:
    """Tell all of them what to do with a number; who of them may commit it."""
    for process, act in zip(coordinators, acts, strict=True):
        assert process.stdin is not None
        process.stdin.write(json.dumps([act, number]) + "\n")
    for process in coordinators:
        assert process.stdin is not None
        process.stdin.flush()
    return [
        me for me, process in enumerate(coordinators) if process.stdout is not None and json.loads(process.stdout.readline())
    ]


def test_of_coordinators_that_race_on_one_number_one_wins(
    coordinators: list[subprocess.Popen[str]], place: tuple[str, Storage]
) -> None:
    for _ in range(ROUNDS):
        number = CheckpointStore(place[0], storage_options=place[1]).recover().next_id
        (winner,) = at_once(coordinators, ["decide"] * PROCESSES, number)
        decided = CheckpointStore(place[0], storage_options=place[1]).recover().decided
        assert decided is not None
        assert (decided.id, decided.cursor.state) == (number, {"row": winner})


def test_a_coordinator_that_recovers_meanwhile_and_one_that_decides_agree(
    coordinators: list[subprocess.Popen[str]], place: tuple[str, Storage]
) -> None:
    """Who was told that it may commit is whom each recovery finds. One that decided while another recovered may be told that it was late,
    and is committed by the other: it goes on by a recovery of its own, which finds that.
    """
    for _ in range(ROUNDS):
        store = CheckpointStore(place[0], storage_options=place[1])
        before = store.recover()
        winners = at_once(coordinators, ["decide", "recover", "decide"], before.next_id)
        assert len(winners) <= 1
        decided = store.recover().decided
        assert store.recover().decided == decided
        if winners or decided != before.decided:
            assert decided is not None
            assert decided.id == before.next_id
            assert decided.cursor.state["row"] in (winners or (0, 2))
