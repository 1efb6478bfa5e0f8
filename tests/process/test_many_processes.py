"""Eight processes append disjoint data to one table at once: no error reaches a caller, no row is lost or doubled."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Any

import pytest

from process.ledger import Append, Place, check, make_table
from process.writer import Task, await_ready, begin, said, started

PROCESSES = 8


def run_writers(place: Place, each: int, *, delta: bool = False) -> tuple[dict[Append, dict[str, Any]], float]:
    """What each append was answered, and the seconds from the first start to the last end."""
    tasks = [
        Task(location=place[0], options=place[1], writer=f"w{number}", count=each, delta=delta) for number in range(PROCESSES)
    ]
    with ExitStack() as stack:
        processes = [stack.enter_context(started(task)) for task in tasks]
        for process in processes:
            await_ready(process)
        began = time.perf_counter()
        for process in processes:
            begin(process)
        answers = {
            (task.writer, one["number"]): one for task, process in zip(tasks, processes, strict=True) for one in said(process)
        }
        seconds = time.perf_counter() - began
        assert [process.wait() for process in processes] == [0] * PROCESSES
    return answers, seconds


def _slice(place: str, each: int) -> list[Any]:
    first = [pytest.mark.long] if place == "seaweedfs" else []
    return [pytest.param(place, each, marks=first), pytest.param(place, 200, marks=pytest.mark.soak)]


@pytest.mark.parametrize(
    ("place", "each"), [*_slice("disk", 12), *_slice("ministack", 4), *_slice("seaweedfs", 8)], indirect=["place"]
)
def test_eight_processes_append_to_one_table(place: Place, each: int, request: pytest.FixtureRequest) -> None:
    make_table(place, checkpoint_interval=25)
    answers, seconds = run_writers(place, each)
    errors = [one["error"] for one in answers.values() if "error" in one]
    assert not errors, f"{len(errors)} errors reached a caller, the first: {errors[0]}"
    sent: set[Append] = {(f"w{number}", one) for number in range(PROCESSES) for one in range(each)}
    assert set(answers) == sent
    found = check(place, sent)
    assert found.version == 1 + len(sent), "each append is one commit, and no version is left out"
    assert sorted(one["version"] for one in answers.values()) == list(range(2, found.version + 1))
    assert not any(one["already"] for one in answers.values())
    assert found.orphans == ()
    took = sorted(one["seconds"] * 1e3 for one in answers.values())
    p99 = took[min(len(took) - 1, len(took) * 99 // 100)]
    print(f"{request.node.callspec.id}: {PROCESSES} x {each}, {len(sent) / seconds:.0f} commits/s, ", end="")
    print(f"append p50 {statistics.median(took):.0f} ms, p99 {p99:.0f} ms; 0 errors, 0 rows lost or doubled")
