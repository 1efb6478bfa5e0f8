"""One simulated history of a table, all of it decided by a seed.

```python
from gapless.testing.simulation.simulation import simulate

run = simulate(seed=7)                                  # a new DictStore behind the faults
run = simulate(seed=7, make_store=lambda: MyStore())    # your own store behind them, empty
assert not run.faults, run.faults
```

Once it is over, the table must still serve, and every version that is kept read as it was.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from gapless.errors import CorruptTable, LogWarning, VersionNotFound
from gapless.formats.timeseries.checkpoint import checkpoint
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment
from gapless.testing.simulation.audit import audit
from gapless.testing.simulation.draw import Scenario
from gapless.testing.simulation.process import Kind, Lives, Process, Table, act, run_actor
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.tasks import History, may_be_resent
from gapless.testing.simulation.timeline import SimClock, SimIds, Timeline, seeded
from gapless.testing.simulation.watch import Ledger, Watched
from gapless.testing.store.stores import DictStore, Faults, SimStore, Step


def check_after_run(kind: Kind, store: Watched, timeline: Timeline, history: History, ledger: Ledger) -> list[str]:
    """What is wrong with the table as it opens, without help, once nothing is under way any more, beside the log of the history."""
    env = Environment(store=store, clock=SimClock(timeline), ids=SimIds(seeded(0)), deadline_s=1.0)
    try:
        table = kind.open(env)
        return [
            *_check_end(kind, table, history),
            *_check_versions(kind, table, ledger),
            *kind.after(table, ledger),
            *_check_write(kind, table),
        ]
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return [f"once all was over: {traceback.format_exc()}"]


def _check_end(kind: Kind, table: Table, history: History) -> Iterator[str]:
    newest = max((sent.version for sent in history.sent if sent.version is not None), default=kind.first)
    if table.version < newest:
        yield f"the end opens at version {table.version}, though {newest} was acknowledged"


def _check_versions(kind: Kind, table: Table, ledger: Ledger) -> Iterator[str]:
    """Every version that is kept reads as the log tells it; of the others none does where versions expire.

    Else one may read again: of two that clean a log, one may store a log checkpoint of a version whose commits the other has removed.
    """
    landed = ledger.commits[ledger.newest].landed
    for version, commit in ledger.commits.items():
        try:
            rows, _ = kind.look(table.at(version=version))()
        except (VersionNotFound, CorruptTable) as error:
            if landed.keeps(version):
                yield f"once all was over, version {version} is refused: {error}"
        else:
            if ledger.expires and not landed.keeps(version):
                yield f"once all was over, version {version} is read, though it expired"
            elif rows != commit.rows:
                yield f"once all was over, version {version} reads {rows}, which are {commit.rows}"


def _check_write(kind: Kind, table: Table) -> Iterator[str]:
    """It takes a write."""
    version = table.version
    report = kind.stray(table)
    if report.version != version + 1:
        yield f"a write after the end landed as {report.version}, not as {version + 1}"


OUTAGE = Faults(lost_request=0.5, lost_reply=0.25, late=0.25)
"""While the network is down, nothing is answered."""
SKEWS_NS = (0, 0, -(10**9), 10**9, 3_600 * 10**9)
"""How wrong the clocks of processes are."""
PART_SEGMENTS = 2
"""Live segments that make a part of a log checkpoint: so few that tables which live for moments make many."""
AFTERLIFE_CHANCE = 0.25
"""Of how many runs the table is opened, read and written once all is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One simulated history, and what the auditor found."""

    kind: str
    """The name of the kind of table."""
    seed: int
    trace: tuple[Step, ...]
    history: History
    faults: tuple[str, ...]
    """What must not be, a sentence each; empty for a good run."""

    @property
    def command(self) -> str:
        """What replays it."""
        kind = "" if self.kind == SERIES.name else f" --kind {self.kind}"
        return f"python -m gapless.testing.simulate{kind} --seed {self.seed}"


def simulate(
    seed: int, *, make_store: Callable[[], Store] | None = None, scenario: Scenario | None = None, kind: Kind = SERIES
) -> Run:
    """Play the history that `seed` decides, over a new store, and audit it.

    `make_store` makes the store behind the faults, which must be empty; `scenario` replaces what the seed would draw; `kind` says which
    kind of table it is of. The same arguments give the same trace. Raises nothing that a fault may cause; what should not be is in
    `Run.faults`.
    """
    with small_parts(), kind.surroundings(seed):
        return _simulate(seed, make_store, scenario, kind)


@contextmanager
def small_parts(segments: int = PART_SEGMENTS) -> Iterator[None]:
    """Let log checkpoints of this process put so few live segments into a part."""
    before = checkpoint.PART_SEGMENTS
    checkpoint.PART_SEGMENTS = segments
    try:
        yield
    finally:
        checkpoint.PART_SEGMENTS = before


def _simulate(seed: int, make_store: Callable[[], Store] | None, scenario: Scenario | None, kind: Kind) -> Run:
    random = seeded(seed)
    scenario = scenario or kind.draw(random, seed)
    timeline, history = Timeline(), History()
    inner = DictStore(lambda: timeline.now_ns) if make_store is None else make_store()
    store = kind.watch(inner, lambda: timeline.now_ns)
    kind.make(Environment(store=store, clock=SimClock(timeline), ids=SimIds(seeded(random.getrandbits(64)))), scenario)
    world = World(kind, timeline, store, history, scenario, random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # a checkpoint that could not be written or read is part of the faults
        world.spawn()
        timeline.run()
        ledger = kind.read_ledger(store)
        found = audit(ledger, history, deadline_s=scenario.deadline_s)
        if random.random() < AFTERLIFE_CHANCE:
            found += check_after_run(kind, store, timeline, history, ledger)
    return Run(kind=kind.name, seed=seed, trace=tuple(world.trace), history=history, faults=tuple(found))


class World:
    """The actors on one table and what they share."""

    def __init__(
        self, kind: Kind, timeline: Timeline, store: Store, history: History, scenario: Scenario, random: Random
    ) -> None:
        """Of this kind of table, which lies in `store`; `random` decides all that the scenario leaves open."""
        self.trace: list[Step] = []
        self._kind = kind
        self._timeline, self._store, self._history, self._scenario = timeline, store, history, scenario
        self._random = random
        self._faults = scenario.faults
        self._stores: list[SimStore] = []

    def spawn(self) -> None:
        """Add all actors of the scenario to the timeline, and when the network is down."""
        for name, tasks in self._scenario.actors.items():
            self.spawn_actor(name, tasks, act, self._start_process)
        self.plan_outage()

    def spawn_actor(
        self,
        name: str,
        tasks: list[Any],
        act: Callable[[Lives, Any], None],
        start: Callable[[str, Random], Lives],
        may_resend: Callable[[Any], bool] = may_be_resent,
    ) -> None:
        """Add one actor, whose processes `start` begins."""
        own = seeded(self._random.getrandbits(64))
        self._timeline.spawn(name, partial(run_actor, tasks, act, partial(start, name, own), own, may_resend))

    def plan_outage(self) -> None:
        """Let the network be down when the scenario says."""
        if self._scenario.outage_s is not None:
            for at_s, faults in zip(self._scenario.outage_s, (OUTAGE, self._scenario.faults), strict=True):
                self._timeline.later(at_s, partial(self._change_faults, faults))

    def start_store(self, name: str, random: Random, *, lives: int = 25) -> SimStore:
        """The store of a new process, which may die within so many calls, or hang."""
        store = SimStore(
            self._store, random=seeded(random.getrandbits(64)), timeline=self._timeline, faults=self._faults, name=name
        )
        store.trace = self.trace
        if random.random() < self._scenario.kill_chance:
            store.dies_at = 1 + random.randrange(lives)
        if random.random() < self._scenario.stall_chance:
            store.stalls[1 + random.randrange(60)] = random.choice(self._scenario.stalls_s)
        self._stores.append(store)
        return store

    def _start_process(self, name: str, random: Random) -> Process:
        store = self.start_store(name, random)
        ids = SimIds(seeded(random.getrandbits(64)))
        skew_ns = random.choice(SKEWS_NS)
        return Process(self._kind, store, ids, self._history, deadline_s=self._scenario.deadline_s, skew_ns=skew_ns)

    def _change_faults(self, faults: Faults) -> None:
        self._faults = faults
        for store in self._stores:
            store.faults = faults
