"""One simulated history of a table, all of it decided by a seed.

```python
from gapless.testing.simulation import simulate

run = simulate(seed=7)                                  # a new DictStore behind the faults
run = simulate(seed=7, make_store=lambda: MyStore())    # your own store behind them, empty
assert not run.faults, run.faults
```
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from gapless.errors import LogWarning
from gapless.model.properties import OVERLAP_POLICIES
from gapless.model.protocols import Store
from gapless.runtime.driver import Rim
from gapless.table.lifecycle import create_table, open_table, parse_index
from gapless.table.table import TimeSeriesTable
from gapless.testing.audit import audit
from gapless.testing.clock import SimClock, SimIds, seeded
from gapless.testing.dict_store import DictStore
from gapless.testing.faulty import Faults, SimStore, Step
from gapless.testing.history import BUCKET_WIDTH, History, Intent
from gapless.testing.roles import (
    LOCATION,
    SCHEMA,
    Append,
    Open,
    Process,
    Read,
    Refresh,
    Rest,
    Task,
    Together,
    live,
    may_be_resent,
    rows_of,
    to_batch,
)
from gapless.testing.timeline import Timeline

OUTAGE = Faults(lost_request=0.5, lost_reply=0.25, late=0.25)
"""While the network is down, nothing is answered."""
TOGETHER_CHANCE = 0.15
"""Of how many appends come with others, for a group commit."""
AFTERLIFE_CHANCE = 0.25
"""Of how many runs the table is opened, read and written once all is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a seed decides beforehand."""

    actors: dict[str, list[Task]]
    faults: Faults
    outage_s: tuple[float, float] | None
    """When the network is down, in simulated seconds from the start; None for never."""
    deadline_s: float
    kill_chance: float
    """How likely it is that one life of an actor ends early."""
    typed: bool
    """Whether the table is made with its schema, or adopts it from the first append."""
    properties: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One simulated history, and what the auditor found."""

    seed: int
    trace: tuple[Step, ...]
    history: History
    faults: tuple[str, ...]
    """What must not be, a sentence each; empty for a good run."""

    @property
    def command(self) -> str:
        """What replays it."""
        return f"python -m gapless.testing.simulate --seed {self.seed}"


def draw_scenario(random: Random) -> Scenario:
    """A small table, three or four actors with a few tasks each, and the weather."""
    names = ["ann", "bob", "cy", "dee"][: random.choice((3, 3, 4))]
    numbers = iter(range(1, 1_000_000))
    actors = {name: draw_tasks(random, name, lane, numbers) for lane, name in enumerate(names)}
    if random.random() < 0.3:  # twins do the same work, as an orchestrator that starts a job a second time
        actors[names[-1]] = [
            task for task in actors[names[0]] if not isinstance(task, Append | Together) or may_be_resent(task)
        ]
    down_s = random.random() * 0.3
    return Scenario(
        actors=actors,
        faults=replace(Faults.even(random.choice((0.0, 0.01, 0.04, 0.1))), late_s=random.choice((0.05, 0.3, 3.0))),
        outage_s=(down_s, down_s + random.random() * 2) if random.random() < 0.2 else None,
        deadline_s=random.choice((0.2, 2.0, 60.0)),
        kill_chance=random.choice((0.0, 0.3, 0.7)),
        typed=random.random() < 0.7,
        properties={"codec": "none", "checkpoint_interval": random.choice((0, 2, 3, 5))},
    )


def draw_tasks(random: Random, name: str, lane: int, numbers: Any) -> list[Task]:
    """The work of one actor: mostly appends for a writer, mostly reads for a reader."""
    appends = random.choice((0.2, 0.7, 0.9))
    naming = random.choice(("stream", "job", "none"))
    tasks: list[Task] = []
    for turn in range(random.choice((2, 3, 4))):
        if random.random() < appends:
            operation = {"stream": (f"app-{name}", turn), "job": f"job-{name}-{turn}", "none": None}[naming]
            intent = draw_intent(random, lane, numbers, operation)
            tasks.append(Append(intent))
            if random.random() < TOGETHER_CHANCE:
                others = draw_others(random, lane, numbers, operation)
                tasks[-1] = Together((intent, *others))
        else:
            tasks.append(random.choice((Open(), Refresh(), Read(0.0), Read(random.random() / 5), Rest(random.random() / 5))))
    return tasks if random.random() < 0.5 else [*tasks, Read(random.choice((0.0, 0.05)))]


def draw_others(random: Random, lane: int, numbers: Any, first: tuple[str, int] | str | None) -> list[Intent]:
    """What other threads of the process want to append at the same moment as the first."""
    app = first[0] if isinstance(first, tuple) else first
    names = [
        None if app is None else (f"{app}-{extra}", first[1]) if isinstance(first, tuple) else f"{app}-{extra}"
        for extra in (1, 2)
    ]
    return [draw_intent(random, lane, numbers, name) for name in names[: random.choice((1, 2))]]


def draw_intent(random: Random, lane: int, numbers: Any, operation: tuple[str, int] | str | None) -> Intent:
    """An append of up to three rows, in buckets of the actor's own or in some that all share."""
    rows = []
    for _ in range(random.choice((0, 1, 1, 2, 2, 3)) if operation else random.choice((1, 1, 2, 3))):
        bucket = random.randrange(4) if random.random() < 0.35 else 10 * (lane + 1) + random.randrange(8)
        rows.append((bucket * BUCKET_WIDTH + random.randrange(BUCKET_WIDTH), random.choice("xy"), next(numbers)))
    return Intent(rows=tuple(rows), on_overlap=random.choice(OVERLAP_POLICIES), operation_id=operation)


def simulate(seed: int, *, make_store: Callable[[], Store] | None = None, scenario: Scenario | None = None) -> Run:
    """Play the history that `seed` decides, over a new store, and audit it.

    `make_store` makes the store behind the faults, which must be empty; `scenario` replaces what the seed would draw. The same
    arguments give the same trace. Raises nothing that a fault may cause; what should not be is in `Run.faults`.
    """
    random = seeded(seed)
    scenario = scenario or draw_scenario(random)
    timeline, history = Timeline(), History()
    store = DictStore(lambda: timeline.now_ns) if make_store is None else make_store()
    _make_table(store, timeline, scenario, random)
    world = _World(timeline, store, history, scenario, random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # a checkpoint that could not be written or read is part of the weather
        world.play()
        found = audit(store, history, deadline_s=scenario.deadline_s)
        if random.random() < AFTERLIFE_CHANCE:
            found += _afterlife(store, timeline, history)
    return Run(seed=seed, trace=tuple(world.trace), history=history, faults=tuple(found))


def _make_table(store: Store, timeline: Timeline, scenario: Scenario, random: Random) -> None:
    rim = Rim(store=store, clock=SimClock(timeline), ids=SimIds(seeded(random.getrandbits(64))))
    index = parse_index("ts", "int64", BUCKET_WIDTH, ("entity",), None)
    create_table(rim, LOCATION, index, SCHEMA if scenario.typed else None, scenario.properties)


class _World:
    """The actors of one run and what they share."""

    def __init__(self, timeline: Timeline, store: Store, history: History, scenario: Scenario, random: Random) -> None:
        self.trace: list[Step] = []
        self._timeline, self._store, self._history, self._scenario = timeline, store, history, scenario
        self._random = random
        self._faults = scenario.faults
        self._stores: list[SimStore] = []

    def play(self) -> None:
        for name, tasks in self._scenario.actors.items():
            own = seeded(self._random.getrandbits(64))
            self._timeline.spawn(name, partial(live, tasks, partial(self._bear, name, own), own))
        if self._scenario.outage_s is not None:
            for at_s, faults in zip(self._scenario.outage_s, (OUTAGE, self._scenario.faults), strict=True):
                self._timeline.later(at_s, partial(self._change_weather, faults))
        self._timeline.run()

    def _bear(self, name: str, random: Random) -> Process:
        store = SimStore(
            self._store, random=seeded(random.getrandbits(64)), timeline=self._timeline, faults=self._faults, name=name
        )
        store.trace = self.trace
        if random.random() < self._scenario.kill_chance:
            store.dies_at = 1 + random.randrange(25)
        self._stores.append(store)
        ids = SimIds(seeded(random.getrandbits(64)))
        skew_ns = random.choice((0, 0, -(10**9), 10**9, 3_600 * 10**9))
        return Process(store, ids, self._history, deadline_s=self._scenario.deadline_s, skew_ns=skew_ns)

    def _change_weather(self, faults: Faults) -> None:
        self._faults = faults
        for store in self._stores:
            store.faults = faults


def _afterlife(store: Store, timeline: Timeline, history: History) -> list[str]:
    try:
        return _check_afterlife(store, timeline, history)
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return [f"once all was over: {traceback.format_exc()}"]


def _check_afterlife(store: Store, timeline: Timeline, history: History) -> list[str]:
    """Once all is over, the table opens, reads as the last reader would expect, and takes a write, without help."""
    rim = Rim(store=store, clock=SimClock(timeline), ids=SimIds(seeded(0)), deadline_s=1.0)
    table = TimeSeriesTable(rim, LOCATION, open_table(rim, LOCATION))
    version, rows = table.version, rows_of(table.scan().to_arrow())
    report = table.append(to_batch(((10**6, "x", 10**9),)), on_overlap="allow")
    found = [] if report.version == version + 1 else [f"a write after the end landed as {report.version}, not as {version + 1}"]
    newest = max((sent.report.version for sent in history.sent if sent.report is not None), default=1)
    if version < newest:
        found.append(f"the end opens at version {version}, though {newest} was acknowledged")
    if len({number for _, _, number in rows}) < len(rows):
        found.append("the end reads rows twice")
    return found
