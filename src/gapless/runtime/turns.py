"""Work that concurrent callers share: one of them leads and does it for all who wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from gapless.runtime.locks import renew_after_fork

T = TypeVar("T")
R = TypeVar("R")

MOST_TOGETHER = 256
"""Items that one turn takes at most."""
_GLANCE_S = 0.0003
"""A turn that expects more waits so long at a time for some of them to come, and goes ahead once none did."""


def _taken() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Ticket(Generic[T, R]):
    item: T
    sleep: Lock = field(default_factory=_taken)
    """Given back once, when whoever waits with this ticket may go on."""
    result: R | BaseException | None = None
    leads: bool = False


class Turns(Generic[T, R]):
    """Batches what threads submit while a turn is under way; the next turn takes all that gathered.

    `work` is given the items, its caller's own first, and gives back one result for each, in order: a value, or the exception that
    the item's caller shall see.
    """

    _lock: Lock
    _waiting: list[_Ticket[T, R]]
    _led: bool
    _expected: int
    """How many the last turn woke or left waiting."""
    _took_s: float
    """How long its work took."""

    def __init__(self, work: Callable[[Sequence[T]], Sequence[R | BaseException]]) -> None:
        self._work = work
        self.start_afresh()
        renew_after_fork(self)

    def submit(self, item: T) -> R:
        """Do the item, with others or alone; returns its result or raises its exception."""
        ticket: _Ticket[T, R] = _Ticket(item)
        try:
            with self._lock:
                self._waiting.append(ticket)
                ticket.leads, self._led = not self._led, True
            if not ticket.leads:
                ticket.sleep.acquire()
            if ticket.leads:
                self._gather()
        except BaseException:
            self._give_up(ticket)
            raise
        if ticket.leads:
            self._lead()
        if isinstance(ticket.result, BaseException):
            raise ticket.result
        assert ticket.result is not None
        return ticket.result

    def _give_up(self, ticket: _Ticket[T, R]) -> None:
        """Its caller was interrupted: the item is not done, if no turn has taken it yet, and another leads if it was to lead."""
        with self._lock:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if ticket.leads:
                self._pass_on()

    def _gather(self) -> None:
        """Let those come back whom the last turn woke, as long as they do, for at most half of what that took; not without company."""
        seen, until = len(self._waiting), time.monotonic() + self._took_s / 2
        while seen < self._expected and time.monotonic() < until:
            time.sleep(_GLANCE_S)
            before, seen = seen, len(self._waiting)
            if seen == before:
                return

    def _lead(self) -> None:
        """One turn, which holds the leader's own item; then whoever waits leads the next."""
        with self._lock:
            turn, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        began = time.monotonic()
        results = self.take([ticket.item for ticket in turn])
        with self._lock:
            self._took_s = time.monotonic() - began
            self._expected = min(MOST_TOGETHER, len(turn) + len(self._waiting))
        for ticket, result in zip(turn, results, strict=True):
            ticket.result = result
            if not ticket.leads:
                ticket.sleep.release()
        with self._lock:
            self._pass_on()

    def _pass_on(self) -> None:
        """Let whoever waits longest lead; called with the lock held."""
        self._led = bool(self._waiting)
        if self._led:
            self._waiting[0].leads = True
            self._waiting[0].sleep.release()

    def take(self, items: Sequence[T]) -> Sequence[R | BaseException]:
        """Do these items in one turn: for each a result, or the exception that its caller shall see."""
        try:
            return self._work(items)
        except BaseException as error:  # noqa: BLE001  # each caller is told, the leader too
            return [error] * len(items)

    def start_afresh(self) -> None:
        """No one waits and no one leads."""
        self._lock = Lock()
        self._waiting = []
        self._led = False
        self._expected, self._took_s = 0, 0.0
