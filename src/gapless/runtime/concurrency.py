"""Threads: fork-safe locks, group turns that one thread leads for all who wait, parallel calls, answers in order."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

import pyarrow as pa


class Renewable(Protocol):
    """Something that starts afresh in a forked child."""

    def start_afresh(self) -> None:
        """Forget what the parent's threads were doing."""
        ...


_ALL: WeakSet[Renewable] = WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have `thing` start afresh in every forked child, for as long as it lives."""
    _ALL.add(thing)


def _renew_all() -> None:
    for thing in list(_ALL):
        thing.start_afresh()


os.register_at_fork(after_in_child=_renew_all)


class ForkSafeLock:
    """A lock that is free in a forked child."""

    def __init__(self) -> None:
        self.start_afresh()
        renew_after_fork(self)

    def start_afresh(self) -> None:
        """Free, whoever held it."""
        self._lock = Lock()

    def take_if_free(self) -> bool:
        """Take it if no one holds it; whether that was so. It is given back by `release`."""
        return self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


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


Made = TypeVar("Made")

WORTH_THREADS_BYTES = 8 << 20
"""Less Arrow memory than this is worked on before threads are made."""


def side_by_side(acts: Iterable[Callable[[], Made]], memory_bytes: int) -> list[Made]:
    """What the acts give, in their order; as many at a time as Arrow has cores, where there is that much Arrow memory to work on.

    Raises what the first of them that fails raises.
    """
    if pa.cpu_count() < 2 or memory_bytes < WORTH_THREADS_BYTES:
        return [act() for act in acts]
    # Threads live no longer than the call: a fork would leave a pool without any.
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return [future.result() for future in [pool.submit(act) for act in acts]]


WIDTH = 16
"""Requests on their way at a time."""
AHEAD_BYTES = 64 << 20
"""What answers that wait for their turn may hold."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request."""

    act: Callable[[], T]
    size: int = 0
    """Bytes of its answer."""


def in_order(calls: Iterable[Call[T]], *, width: int = WIDTH, limit: int = AHEAD_BYTES) -> Generator[T]:
    """The answers of calls, one after the other; raises what a call raises, in its place.

    Up to `width` calls run ahead, in threads, as long as answers that wait hold no more than `limit` bytes together; one always may. With a
    width of 1 each call runs in the caller's thread, once its answer is asked for. Calls are drawn as there is room for them.
    """
    if width <= 1:
        for call in calls:
            yield call.act()
        return
    pool = ThreadPoolExecutor(width, thread_name_prefix="gapless-ahead")
    try:
        yield from _pooled(iter(calls), pool, width, limit)
    finally:
        # Whoever stops reading early need not wait for answers that nobody wants.
        pool.shutdown(wait=False, cancel_futures=True)


def one_ahead(items: Generator[T]) -> Generator[T]:
    """The items of a generator, of which the next is made in a thread while one is worked on; raises what it raises, in its place.

    Whoever stops early waits for the one that is being made.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="gapless-ahead") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _pooled(calls: Iterator[Call[T]], pool: ThreadPoolExecutor, width: int, limit: int) -> Iterator[T]:
    waiting: deque[tuple[Future[T], int]] = deque()
    held, following = 0, next(calls, None)
    while waiting or following is not None:
        while following is not None and len(waiting) < width and (not waiting or held + following.size <= limit):
            waiting.append((pool.submit(following.act), following.size))
            held += following.size
            following = next(calls, None)
        future, size = waiting.popleft()
        yield future.result()
        held -= size
