"""The lives of an actor: in one process after another, with a handle on the table that dies with each."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from random import Random
from typing import Any

from gapless.errors import AccessDenied, StoreUnavailable
from gapless.runtime.driver import Rim
from gapless.testing.clock import SimClock, SimIds
from gapless.testing.faulty import Killed, SimStore
from gapless.testing.history import History, Missed, Seen
from gapless.testing.kind import Held, Kind, Table
from gapless.testing.tasks import Task, may_be_resent

MAX_SENDS = 4
"""How often one change with an operation id is sent."""


class Process:
    """One life of an actor: a handle on the table, which dies with it."""

    def __init__(self, kind: Kind, store: SimStore, ids: SimIds, history: History, *, deadline_s: float, skew_ns: int) -> None:
        """Work through `store`; the table is opened when it is first needed."""
        self.kind = kind
        self.store, self.ids, self.history = store, ids, history
        self.rim = Rim(store=store, clock=SimClock(store.timeline, skew_ns=skew_ns), ids=ids, deadline_s=deadline_s)
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
            self._table = self.kind.open(self.rim)
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


def live(tasks: list[Task], act: Act, rebirth: Callable[[], Process], random: Random) -> None:
    """Do the tasks, in one process after the other: where one is killed, the next goes on with what was left."""
    left = list(tasks)
    process = rebirth()
    sends = 0
    while left:
        task = left[0]
        try:
            act(process, task)
        except Killed:
            process.history.kills += 1
            sends += 1
            process.store.timeline.pause(random.random())
            process = rebirth()
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
