"""An actor of a simulation: its processes, each with a handle that dies with it, and how each of its tasks is done with a real table.

`series.SERIES` and `delta_kind.DELTA_TABLE` are the two kinds of table. A new kind of operation is an intent (`tasks`), the call that carries it
out in a `Kind`, and its chance in `draw`; the auditor replays it.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar, cast

from gapless.errors import AccessDenied, CommitOutcomeUnknown, CorruptTable, StoreUnavailable, VersionNotFound
from gapless.model.operation import AppendReport
from gapless.model.protocols import Store
from gapless.runtime.concurrency import Turns
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.group import Member, Result
from gapless.testing.simulation.draw import Scenario
from gapless.testing.simulation.tasks import (
    Appending,
    AppendTogether,
    History,
    Intent,
    Maintain,
    Missed,
    Open,
    Outcome,
    Pause,
    PauseUntil,
    Read,
    ReadOld,
    Refresh,
    RestoreEarlier,
    Restoring,
    Rows,
    Seen,
    Sent,
    Submit,
    Task,
    may_be_resent,
)
from gapless.testing.simulation.timeline import START_NS, SimClock, SimIds
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

    Each call must be one append of few rows, which catches no BaseException. One that has its answer before its turn, as one that was applied
    already, takes no part in it.
    """
    turns, gathering = table._turns, _Gathering()  # noqa: SLF001 - the one place where a turn is played without threads
    results: list[Result | None] = []
    table._turns = gathering  # noqa: SLF001
    try:
        for call in calls:
            results.append(None)
            with contextlib.suppress(_Gathered):
                results[-1] = cast("Result", call())
    finally:
        table._turns = turns  # noqa: SLF001
    shared = iter(turns.take(gathering.members) if gathering.members else ())
    return [next(shared) if result is None else result for result in results]


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


class Life(Protocol):
    """A process that does an actor's tasks."""

    @property
    def store(self) -> SimStore:
        """What it reaches."""

    @property
    def history(self) -> History:
        """What happens goes there."""


Lives = TypeVar("Lives", bound=Life)


def run_actor(
    tasks: list[Any],
    act: Callable[[Lives, Any], None],
    restart: Callable[[], Lives],
    random: Random,
    may_resend: Callable[[Any], bool] = may_be_resent,
) -> None:
    """Do the tasks, in one process after the other: where one is killed, the next goes on with what was left, and does the same again
    where that can be done twice.
    """
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
            if not may_resend(task) or sends >= MAX_SENDS:
                left.pop(0)
                sends = 0
            continue
        except (StoreUnavailable, AccessDenied):
            pass  # what was read or opened is not known, and nothing depends on it
        except Exception:  # noqa: BLE001 - the auditor reports it
            process.history.mishaps.append(f"{process.store.name}: {traceback.format_exc()}")
        left.pop(0)
        sends = 0


_NO_ANSWER = (CommitOutcomeUnknown, StoreUnavailable)


# -- changes -----------------------------------------------------------------------------------------------------------


def _send(process: Process, intents: tuple[Intent, ...]) -> list[Outcome]:
    """Send changes (several only where they are appends) at one moment, and note what came of each."""
    table, started_ns, drawn = process.table, process.now_ns, len(process.ids.given)
    calls = [partial(_attempt, process.kind, table, intent) for intent in intents]
    results = append_at_once(table, calls) if len(calls) > 1 else [calls[0]()]
    sent = [
        Sent(
            actor=process.store.name,
            intent=intent,
            outcome=_outcome_of(process.kind, result),
            shared=len(intents) > 1,
            report=None if isinstance(result, BaseException) else result,
            error=result if isinstance(result, Exception) else None,
            ids=frozenset(process.ids.given[drawn:]),
            started_ns=started_ns,
            ended_ns=process.now_ns,
        )
        for intent, result in zip(intents, results, strict=True)
    ]
    process.history.sent += sent
    for result in results:
        if isinstance(result, Killed):
            raise result
    return [one.outcome for one in sent]


def _attempt(kind: Kind, table: Table, intent: Intent) -> Any:
    expected = (Killed, *_NO_ANSWER, *(kind.append_refusals if isinstance(intent, Appending) else kind.refusals))
    try:
        return kind.calls[type(intent)](table, intent)
    except BaseException as error:
        if isinstance(error, expected):
            return error
        raise


def _outcome_of(kind: Kind, result: Any) -> Outcome:
    """What a call came to; raises an error that no fault excuses."""
    match result:
        case Killed():
            return "killed"
        case _ if isinstance(result, _NO_ANSWER):
            return "unknown"
        case _ if isinstance(result, kind.refusals):
            return "refused"
        case BaseException():
            raise result
    return "acknowledged"


def _do(process: Process, task: Submit) -> None:
    for _ in range(MAX_SENDS):
        (outcome,) = _send(process, (task.intent,))
        if outcome != "unknown" or task.intent.operation_id is None:
            return
        process.forget_table()


def _append_together(process: Process, task: AppendTogether) -> None:
    for intent, outcome in zip(task.intents, _send(process, task.intents), strict=True):
        if outcome == "unknown" and intent.operation_id is not None:
            process.forget_table()
            _do(process, Submit(intent))


def _restore_earlier(process: Process, task: RestoreEarlier) -> None:
    _send(process, (Restoring(version=max(process.kind.first, process.table.version - task.versions)),))


def _maintain(process: Process, task: Maintain) -> None:
    _send(process, (process.kind.maintain(process.table, task),))


# -- reads -------------------------------------------------------------------------------------------------------------


def _open(process: Process, _task: Open) -> None:
    process.forget_table()
    assert process.table is not None


def _refresh(process: Process, _task: Refresh) -> None:
    table, started_ns = process.table, process.now_ns
    table.refresh()
    process.note_seen(started_ns, fresh=True)


def _read(process: Process, task: Read) -> None:
    _read_view(process, process.table, process.table.version, task.linger_s)


def _read_old(process: Process, task: ReadOld) -> None:
    version, started_ns = max(process.kind.first, process.table.version - task.versions), process.now_ns
    try:
        view = process.table.at(version=version)
    except VersionNotFound as error:
        process.note_missed(started_ns, version, error)
    else:
        _read_view(process, view, version, task.linger_s, asked_ns=started_ns)


def _read_view(process: Process, table: Table, version: int, linger_s: float, asked_ns: int | None = None) -> None:
    started_ns = process.now_ns if asked_ns is None else asked_ns
    try:
        begun = process.kind.look(table)
        process.env.clock.sleep(linger_s)
        read = begun()
    except (CorruptTable, VersionNotFound) as error:
        # The auditor asks whether it had expired: then its files may be gone.
        process.note_missed(started_ns, version, error)
    else:
        process.note_seen(started_ns, fresh=False, asked=asked_ns is not None, read=read, version=version)


def _pause(process: Process, task: Pause) -> None:
    process.env.clock.sleep(task.seconds)


def _pause_until(process: Process, task: PauseUntil) -> None:
    process.env.clock.sleep(max(0.0, task.until_s - (process.now_ns - START_NS) / 1e9))


_ACTS: dict[type, Callable[[Process, Any], None]] = {
    Submit: _do,
    AppendTogether: _append_together,
    RestoreEarlier: _restore_earlier,
    Maintain: _maintain,
    Open: _open,
    Refresh: _refresh,
    Read: _read,
    ReadOld: _read_old,
    Pause: _pause,
    PauseUntil: _pause_until,
}


def act(process: Process, task: Task) -> None:
    """Do one task; raises Killed, StoreUnavailable, AccessDenied, and what no fault excuses."""
    _ACTS[type(task)](process, task)
