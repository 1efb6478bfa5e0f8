"""One simulated history of a table, all of it decided by a seed.

```python
from gapless.testing.simulation import simulate

run = simulate(seed=7)                                  # a new DictStore behind the faults
run = simulate(seed=7, make_store=lambda: MyStore())    # your own store behind them, empty
assert not run.faults, run.faults
```
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from gapless.dialects.timeseries import packing
from gapless.errors import LogWarning
from gapless.model.properties import MAX_INLINE_BYTES
from gapless.model.protocols import Store
from gapless.runtime.driver import Rim
from gapless.table.lifecycle import create_table, parse_index
from gapless.testing.afterlife import check_afterlife
from gapless.testing.audit import audit
from gapless.testing.audit_log import read_ledger
from gapless.testing.clock import SimClock, SimIds, seeded
from gapless.testing.dict_store import DictStore
from gapless.testing.draw import DAY_S, Scenario, draw_scenario
from gapless.testing.faulty import Faults, SimStore, Step
from gapless.testing.history import History
from gapless.testing.intents import BUCKET_WIDTH
from gapless.testing.process import LOCATION, Process, live
from gapless.testing.roles import SCHEMA, act
from gapless.testing.timeline import Timeline
from gapless.testing.watch import WatchedStore

OUTAGE = Faults(lost_request=0.5, lost_reply=0.25, late=0.25)
"""While the network is down, nothing is answered."""
PART_SEGMENTS = 2
"""Live segments that make a part of a log checkpoint: so few that tables which live for moments make many."""
INLINED_EVERY = 5
"""Of so many seeds, one makes a table that inlines its appends."""
AFTERLIFE_CHANCE = 0.25
"""Of how many runs the table is opened, read and written once all is over."""


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


def simulate(seed: int, *, make_store: Callable[[], Store] | None = None, scenario: Scenario | None = None) -> Run:
    """Play the history that `seed` decides, over a new store, and audit it.

    `make_store` makes the store behind the faults, which must be empty; `scenario` replaces what the seed would draw. The same
    arguments give the same trace. Raises nothing that a fault may cause; what should not be is in `Run.faults`.
    """
    with small_parts():
        return _simulate(seed, make_store, scenario)


@contextmanager
def small_parts(segments: int = PART_SEGMENTS) -> Iterator[None]:
    """Let log checkpoints of this process put so few live segments into a part."""
    before = packing.PART_SEGMENTS
    packing.PART_SEGMENTS = segments
    try:
        yield
    finally:
        packing.PART_SEGMENTS = before


def _simulate(seed: int, make_store: Callable[[], Store] | None, scenario: Scenario | None) -> Run:
    random = seeded(seed)
    scenario = scenario or _at_times_inlined(draw_scenario(random), seed)
    timeline, history = Timeline(), History()
    store = WatchedStore(DictStore(lambda: timeline.now_ns) if make_store is None else make_store(), lambda: timeline.now_ns)
    _make_table(store, timeline, scenario, random)
    world = _World(timeline, store, history, scenario, random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # a checkpoint that could not be written or read is part of the weather
        world.play()
        ledger = read_ledger(store)
        found = audit(ledger, history, deadline_s=scenario.deadline_s)
        if random.random() < AFTERLIFE_CHANCE:
            found += check_afterlife(store, timeline, history, ledger)
    return Run(seed=seed, trace=tuple(world.trace), history=history, faults=tuple(found))


def _at_times_inlined(scenario: Scenario, seed: int) -> Scenario:
    """The scenario, for every so many seeds with a table whose appends lie in their commits."""
    inlined = {"inline_bytes": MAX_INLINE_BYTES} if seed % INLINED_EVERY == 1 else {}
    return replace(scenario, properties=scenario.properties | inlined)


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
            self._timeline.spawn(name, partial(live, tasks, act, partial(self._bear, name, own), own))
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
        if random.random() < self._scenario.stall_chance:
            store.stalls[1 + random.randrange(60)] = random.choice((0.5, 2 * DAY_S, 9 * DAY_S))
        self._stores.append(store)
        ids = SimIds(seeded(random.getrandbits(64)))
        skew_ns = random.choice((0, 0, -(10**9), 10**9, 3_600 * 10**9))
        return Process(store, ids, self._history, deadline_s=self._scenario.deadline_s, skew_ns=skew_ns)

    def _change_weather(self, faults: Faults) -> None:
        self._faults = faults
        for store in self._stores:
            store.faults = faults
