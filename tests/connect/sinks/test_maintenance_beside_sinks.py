"""Maintenance never disturbs a sink: it comes at each call of a pipeline's stores, and a sink's commit at each call of its own."""

from __future__ import annotations

import copy
import uuid
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Runner, sink, source
from gapless.model.protocols import Clock
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.shared.handle import environment_of
from support.pipelines import KINDS, SCHEMA, made, opened, rows
from support.visited_store import VisitedStore, Visits

MODES = ("append", "upsert", "overwrite")
BEFORE = 9
"""Rows that the table has before the pipeline begins, each in a file of its own."""


@pytest.fixture
def place() -> str:
    return f"memory://{uuid.uuid4()}"


def grown(kind: str, place: str) -> Any:
    """A table of many small files, some of which only old versions have."""
    table = made(kind, f"{place}-sink")
    for first in range(BEFORE):
        table.append(rows(first, 1, 7))
        if first == BEFORE // 2:
            table.compact()
    return table


def pipeline(place: str, kind: str, mode: str) -> Runner:
    """From a feed into the table, in checkpoints of 4 rows and as many files."""
    made("timeseries", f"{place}-feed").append(rows(BEFORE, 12, 7))
    options: dict[str, Any] = {"key": ["id"]} if mode == "upsert" else {}
    return Runner(
        source(f"timeseries:{place}-feed", start="earliest"),
        None,
        {"main": sink(f"{kind}:{place}-sink", pipeline="orders", name="main", mode=mode, spill_bytes=1, **options)},
        CheckpointStore(f"{place}-checkpoints"),
        checkpoint_rows=4,
    )


def expected(mode: str, last: int) -> list[int]:
    """The numbers of the rows that are there after the pipeline has sent those up to `last`."""
    if mode == "append":
        return list(range(last))
    if mode == "overwrite":
        return list(range(last - 4, last))
    # An upsert leaves the last row of each id that it sent, and all rows of the others: it replaces those with its key.
    return sorted({number % 7: number for number in range(last)}.values())


def found(kind: str, place: str) -> list[int]:
    table = opened(kind, f"{place}-sink")
    assert table.verify(deep=True).ok
    return sorted(table.scan().to_arrow()["v"].to_pylist())


def through(table: Any, env: Environment) -> Any:
    """Another handle of a table, by this environment."""
    return type(table)(env, "t", copy.copy(table)._snapshot)


@dataclass
class FastClock:
    """Goes on by ten seconds with each look at it, until it is six hours ahead: so long anything is due."""

    inner: Clock
    looks: int = 0
    looked: Event = field(default_factory=Event)
    """Set once it was looked at often."""

    def now_ns(self) -> int:
        self.looks += 1
        if self.looks > 20:
            self.looked.set()
        return self.inner.now_ns() + min(self.looks * 10, 6 * 3600) * 10**9

    def monotonic(self) -> float:
        return self.inner.monotonic()

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)


def visited(monkeypatch: pytest.MonkeyPatch, visits: Visits) -> None:
    """All tables that are opened from now on are visited at each call."""
    monkeypatch.setattr("gapless.tables.shared.handle.open_store", lambda *place: VisitedStore(open_store(*place), visits))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_maintenance_at_each_call_of_a_pipeline_disturbs_nothing(
    kind: str, mode: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = grown(kind, place)
    if mode == "upsert":
        table.delete(f"v < {BEFORE - 7}")  # so that a key names one row
    maintenance = gl.Maintenance(table, compact="10 minutes", vacuum="1h")
    runner = pipeline(place, kind, mode)
    with monkeypatch.context() as patched:
        visits = Visits(maintenance.run_once)
        visited(patched, visits)
        report = runner.run()
    assert (report.rows, report.checkpoints) == (12, 3)
    assert visits.made > 40
    assert found(kind, place) == expected(mode, BEFORE + 12)
    assert opened(kind, f"{place}-sink").compact().bins <= 1


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.long), 9], ids=["each", "some"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_that_commits_at_any_call_of_maintenance_is_never_the_loser(kind: str, mode: str, step: int) -> None:
    call = 1
    while commits_at(call, kind, mode):
        call += step
    assert call > 2 * step


def commits_at(call: int, kind: str, mode: str) -> bool:
    """A sink commits at one call of maintenance; False where that has fewer."""
    options: dict[str, Any] = {"key": ["id"]} if mode == "upsert" else {}
    place = f"memory://{uuid.uuid4()}"
    table = grown(kind, place)
    if mode == "upsert":
        table.delete(f"v < {BEFORE - 7}")
    mine = sink(f"{kind}:{place}-sink", pipeline="orders", name="main", mode=mode, **options)
    mine.initialize(SCHEMA)
    mine.write(rows(BEFORE, 4, 7))
    prepared = mine.prepare(1)
    visits = Visits(lambda: mine.finalize(prepared), only_at=call)
    beside = through(table, Environment(store=VisitedStore(environment_of(table).store, visits)))
    gl.Maintenance(beside, compact="10 minutes", vacuum="1h").run_once()
    if visits.made:
        assert found(kind, place) == expected(mode, BEFORE + 4)
    return visits.made == 1


@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_maintenance_beside_a_pipeline(kind: str, place: str) -> None:
    table = grown(kind, place)
    clock = FastClock(environment_of(table).clock)
    fast = through(table, Environment(store=environment_of(table).store, clock=clock))
    with gl.Maintenance(fast, compact="1s", vacuum="1s") as maintenance:
        report = pipeline(place, kind, "append").run()
        assert clock.looked.wait(30)
    assert report.rows == 12
    assert found(kind, place) == list(range(BEFORE + 12))
    status = maintenance.status
    assert status["compact"].runs >= 1
    assert {name: one.last_error for name, one in status.items()} == {"compact": None, "vacuum": None}
