"""An actor's processes, each with a handle on the table that dies with it; group commits of one; what a kind of table brings along.

`series.SERIES` and `delta_kind.DELTA_TABLE` are the two kinds.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any

from gapless.errors import AccessDenied, StoreUnavailable
from gapless.model.operation import AppendReport
from gapless.model.protocols import Store
from gapless.runtime.concurrency import Turns
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.group import Member, Result
from gapless.testing.simulation.draw import Scenario
from gapless.testing.simulation.intents import Intent, Rows
from gapless.testing.simulation.tasks import History, Maintain, Missed, Seen, Task, may_be_resent
from gapless.testing.simulation.timeline import SimClock, SimIds
from gapless.testing.simulation.watch import Ledger, Watched
from gapless.testing.store.stores import Killed, SimStore


class _Gathered(BaseException):
    """An append was stopped where it would wait for its turn."""


class _Gathering(Turns[Member, AppendReport]):
    """Turns that no one gets: they keep what is submitted."""

    def __init__(self) -> None:
        super().__init__(lambda _members: [])
        self.members: list[Member] = []

    def submit(self, item: Member) -> AppendReport:
        self.members.append(item)
        raise _Gathered


def append_at_once(table: TimeSeriesTable, calls: Sequence[Callable[[], object]]) -> list[Result]:
    """Let the appends to `table` that `calls` make share one turn, the first leading; one result for each, an error as a value.

    Each call must be one append of few rows, which neither fails before its turn nor catches BaseException.
    """
    turns, gathering = table._turns, _Gathering()  # noqa: SLF001 - the one place where a turn is played without threads
    table._turns = gathering  # noqa: SLF001
    try:
        for call in calls:
            with contextlib.suppress(_Gathered):
                call()
    finally:
        table._turns = turns  # noqa: SLF001
    return list(turns.take(gathering.members))


Held = tuple[Rows, frozenset[tuple[str, int]] | None]
"""What was read of a version: its rows, and the buckets that its coverage names where the kind has coverage."""
Table = Any
"""A handle, which has `version`, `refresh`, `at` and `append`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table that can be simulated."""

    name: str
    first: int
    """The number of its first version."""
    draw: Callable[[Random, int], Scenario]
    """What a seed decides beforehand."""
    make: Callable[[Environment, Scenario], None]
    """Commits the first version."""
    open: Callable[[Environment], Table]
    calls: Mapping[type, Callable[[Table, Any], Any]]
    """By the type of an intent: the call that carries it out, which gives a report."""
    refusals: tuple[type[Exception], ...]
    """What a change may come to without harm: the auditor asks whether it had to."""
    append_refusals: tuple[type[Exception], ...]
    """The same of an append."""
    maintain: Callable[[Table, Maintain], Intent]
    """What a task of tidying up comes to on what a handle sees."""
    look: Callable[[Table], Callable[[], Held]]
    """Begins to read a version; what it gives reads on."""
    watch: Callable[[Store, Callable[[], int]], Watched]
    """The store under watch, given the one behind it and the true time in nanoseconds."""
    read_ledger: Callable[[Any], Ledger]
    """The whole log as the watch saw it."""
    after: Callable[[Table, Ledger], list[str]]
    """What is wrong with a table once all is over, beyond its rows by version."""
    stray: Callable[[Table], Any]
    """Appends a row of its own."""
    surroundings: Callable[[int], AbstractContextManager[object]] = nullcontext
    """What must hold around the history of a seed for it to repeat."""


MAX_SENDS = 4
"""How often one change with an operation id is sent."""


class Process:
    """One life of an actor: a handle on the table, which dies with it."""

    def __init__(self, kind: Kind, store: SimStore, ids: SimIds, history: History, *, deadline_s: float, skew_ns: int) -> None:
        """Work through `store`; the table is opened when it is first needed."""
        self.kind = kind
        self.store, self.ids, self.history = store, ids, history
        self.env = Environment(store=store, clock=SimClock(store.timeline, skew_ns=skew_ns), ids=ids, deadline_s=deadline_s)
        self._table: Table | None = None

    @property
    def now_ns(self) -> int:
        """True simulated time."""
        return self.store.timeline.now_ns

    @property
    def table(self) -> Table:
        """The handle, opened if need be. Raises StoreUnavailable."""
        if self._table is None:
            started_ns = self.now_ns
            self._table = self.kind.open(self.env)
            self.note_seen(started_ns, fresh=True)
        return self._table

    def forget_table(self) -> None:
        """Open anew next time."""
        self._table = None

    def note_seen(
        self,
        started_ns: int,
        *,
        fresh: bool,
        read: Held | None = None,
        version: int | None = None,
        asked: bool = False,
    ) -> None:
        """Put into the history what was seen."""
        rows, buckets = read or (None, None)
        self.history.seen.append(
            Seen(
                actor=self.store.name,
                version=self.table.version if version is None else version,
                fresh=fresh,
                asked=asked,
                rows=rows,
                buckets=buckets,
                started_ns=started_ns,
                ended_ns=self.now_ns,
            )
        )

    def note_missed(self, started_ns: int, version: int, error: Exception) -> None:
        """Put into the history that a version was refused."""
        name, ended_ns = self.store.name, self.now_ns
        self.history.missed.append(Missed(actor=name, version=version, error=error, started_ns=started_ns, ended_ns=ended_ns))


Act = Callable[[Process, Any], None]


def run_actor(tasks: list[Task], act: Act, restart: Callable[[], Process], random: Random) -> None:
    """Do the tasks, in one process after the other: where one is killed, the next goes on with what was left."""
    left = list(tasks)
    process = restart()
    sends = 0
    while left:
        task = left[0]
        try:
            act(process, task)
        except Killed:
            process.history.kills += 1
            sends += 1
            process.store.timeline.pause(random.random())
            process = restart()
            if not may_be_resent(task) or sends >= MAX_SENDS:
                left.pop(0)
                sends = 0
            continue
        except (StoreUnavailable, AccessDenied):
            pass  # what was read or opened is not known, and nothing depends on it
        except Exception:  # noqa: BLE001 - the auditor reports it
            process.history.mishaps.append(f"{process.store.name}: {traceback.format_exc()}")
        left.pop(0)
        sends = 0
