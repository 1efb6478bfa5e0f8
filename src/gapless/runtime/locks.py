"""What threads share, made whole again in a forked child, where the thread that held it does not exist."""

from __future__ import annotations

import os
from threading import Lock
from types import TracebackType
from typing import Protocol
from weakref import WeakSet


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
