"""Waiting, trying again and stopping, by an injected clock."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from gapless.errors import AccessDenied, CommitConflict, CommitOutcomeUnknown, GaplessError, StoreError
from gapless.model.protocols import Clock, IdSource
from gapless.runtime.backoff import Backoff, pause

_LOGGER = logging.getLogger("gapless.connect")
_BACKOFF = Backoff(first_s=0.1, longest_s=30.0)
T = TypeVar("T")


def may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed later, with nothing changed by whoever runs it."""
    return isinstance(error, StoreError | CommitConflict | CommitOutcomeUnknown) and not isinstance(error, AccessDenied)


@dataclass(slots=True, kw_only=True)
class Stall:
    """What stands still, and when it is tried again."""

    since: float
    """By the monotonic clock."""
    error: GaplessError
    """The last one."""
    attempts: int = 0
    retry_at: float = 0.0


@dataclass(slots=True)
class Pace:
    """How a run waits."""

    clock: Clock
    ids: IdSource
    patience_s: float = 60.0
    """How long it waits for what stands still, with nothing else to do."""
    stopped: bool = False
    """Whether it is to end."""

    def now(self) -> float:
        """Seconds by the monotonic clock."""
        return self.clock.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait, or until the run is stopped."""
        pause(self.clock, seconds, lambda: self.stopped)

    def delay(self, stall: Stall | None, error: GaplessError) -> Stall:
        """Another failed attempt, the first where `stall` is None: the ceiling of the wait doubles, and half of it is waited at least."""
        stall = stall or Stall(since=self.now(), error=error)
        ceiling = _BACKOFF.ceiling_s(stall.attempts)
        stall.attempts, stall.error = stall.attempts + 1, error
        stall.retry_at = self.now() + ceiling * (1 + self.ids.jitter()) / 2
        return stall

    def wait_for(self, stall: Stall, retry_at: float, since: float) -> None:
        """Wait until an attempt is due; raises the error where that has gone on for too long since `since`."""
        left = since + self.patience_s - self.now()
        if left <= 0:
            raise stall.error
        self.pause(min(left, max(0.0, retry_at - self.now())))

    def insist(self, act: Callable[[], T]) -> T:
        """What an act gives, tried again after errors of the store until it took too long or the run is stopped; then raises the error."""
        stall, since = None, self.now()
        while True:
            try:
                return act()
            except StoreError as error:
                if self.stopped or not may_pass(error):
                    raise
                stall = self.delay(stall, error)
                _LOGGER.warning("a checkpoint could not be made, and is tried again: %s", error.what)
                self.wait_for(stall, stall.retry_at, since)


@contextmanager
def on_signals(act: Callable[[], None], *signals: signal.Signals) -> Iterator[None]:
    """While the block runs, `act` on the first of these signals; the second one does what it did before. One that is ignored stays so. In the
    main thread alone.
    """
    before = {one: handler for one in signals if (handler := signal.getsignal(one)) is not signal.SIG_IGN}

    def restore() -> None:
        for one, handler in before.items():
            signal.signal(one, signal.SIG_DFL if handler is None else handler)

    def handle(_signal: int, _frame: FrameType | None) -> None:
        restore()
        act()

    for one in before:
        signal.signal(one, handle)
    try:
        yield
    finally:
        restore()
