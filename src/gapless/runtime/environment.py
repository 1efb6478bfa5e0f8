"""The environment of a conversation: a store, a clock and a source of ids that answer its requests."""

from __future__ import annotations

import contextlib
import logging
import random
import time
import uuid
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gapless.errors import LogWarning, ObjectExists, ObjectNotFound, StoreError, StoreUnavailable
from gapless.log.effects import (
    Concurrently,
    Conversation,
    Delete,
    Get,
    GetDrive,
    GetUrl,
    ListNames,
    NewId,
    Now,
    Put,
    PutHint,
    PutNew,
    Request,
    TakeTurn,
    Wait,
    Warn,
)
from gapless.model.protocols import Clock, IdSource, Store, WriterQueue, defers_writes, is_old, takes_turns
from gapless.runtime.backoff import Backoff
from gapless.runtime.metrics import RETRIES


class SystemClock:
    """See `gapless.model.protocols.Clock`."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never runs back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class RandomIds:
    """See `gapless.model.protocols.IdSource`; `uuid4` reads the system's entropy, so a forked child draws its own."""

    def uuid(self) -> str:
        """A random UUID, in lower case with hyphens."""
        return str(uuid.uuid4())

    def jitter(self) -> float:
        """A number drawn evenly from [0, 1)."""
        return random.SystemRandom().random()


_LOGGER = logging.getLogger("gapless.runtime")
_OF_THE_LOG = logging.getLogger("gapless.log")
# Silent until a program says where messages go. Here, since `import gapless` loads nothing, and no table does without this.
logging.getLogger("gapless").addHandler(logging.NullHandler())

T = TypeVar("T")

DEADLINE_S = 60.0
"""How long a commit tries before it gives up."""
TOGETHER = 128
"""Requests under way at a time, where the store is far: enough for the commits that follow a log checkpoint."""
_BACKOFF = Backoff(first_s=0.005, longest_s=1.0)
_LOST_RACE_S = 0.02
"""Who lost a race backs off for at most this or twice what its put took, so that a loser does not sleep through the others' turns."""
_IN_TURN = 3
"""Races that one whose turn it is may lose before it backs off: to commits that came before its turn, and to who asks for none."""


@dataclass(slots=True)
class _Pace:
    """How a conversation waits."""

    until: float
    """Its deadline, by the monotonic clock."""
    lost_s: float | None = None
    """The seconds that the last put took, where another's was first; None where none was, or the store did not answer."""
    path: str = ""
    """What the last put was to store."""
    unanswered: str = ""
    """The last put of which the store did not say whether it took effect, if there was any."""
    deferred: tuple[str, ...] = ()
    """What must be durable before anything that is put, and is not yet."""
    line: WriterQueue | None = None
    """Where it stands in line with others on this machine, who let it go first once its turn has come."""

    def ceiling(self, attempt: int) -> float:
        """The longest wait before try `attempt` in seconds."""
        ceiling = _BACKOFF.ceiling_s(attempt)
        return ceiling if self.lost_s is None else min(ceiling, max(_LOST_RACE_S, 2 * self.lost_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The outside world of one table."""

    store: Store
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    deadline_s: float = DEADLINE_S

    def drive(self, conversation: Conversation[T], deferred: Sequence[str] = (), turn: str | None = None) -> T:
        """Run a conversation to its end and return what it returns.

        Objects that it creates come after those of `deferred` are durable. To create one in the folder `turn` it may ask for its turn, which
        comes at once where the store has no such. An error of the store is thrown into the conversation, which may know what it means;
        else it reaches the caller.
        """
        pace = _Pace(self.clock.monotonic() + self.deadline_s, deferred=tuple(deferred))
        if turn is None or not takes_turns(self.store):
            return self._converse(conversation, pace)
        with self.store.turn(turn) as pace.line:
            return self._converse(conversation, pace)

    def forget(self, deferred: Sequence[str]) -> None:
        """Give up those of `deferred` that are not durable: no conversation will create what names them."""
        if deferred and defers_writes(self.store):
            self.store.forget(deferred)

    def _converse(self, conversation: Conversation[T], pace: _Pace) -> T:
        try:
            request = next(conversation)
            while True:
                try:
                    reply = self._answer(request, pace)
                except StoreError as error:
                    request = conversation.throw(error)
                else:
                    request = conversation.send(reply)
        except StopIteration as end:
            result: T = end.value
            if pace.unanswered:
                _LOGGER.info("%s: what became of %s is: %s", self.store.url, pace.unanswered, type(result).__name__.lower())
            return result

    def _answer(self, request: Request[Any], pace: _Pace) -> object:
        match request:
            case PutNew(path, data):
                return self._put_new(path, data, pace)
            case PutHint(path, data):
                with contextlib.suppress(StoreError):
                    self.store.put(path, data, mode="overwrite", durable=False)
                return None
            case Get(path):
                return self._get(path, pace)
            case Delete(path):
                self.store.delete(path)
                return None
            case ListNames(folder, after):
                return tuple(info.path for info in self.store.list(folder, after))
            case Concurrently(requests):
                return self._together(requests, pace)
            case TakeTurn():
                return self._stand_in_line(pace)
            case _:
                return self._answer_here(request, pace)

    def _answer_here(self, request: Request[Any], pace: _Pace) -> object:
        """The answer to what the store is not asked for."""
        match request:
            case Now():
                return self.clock.now_ns()
            case Wait(attempt):
                return self._wait(attempt, pace)
            case Warn(message):
                _OF_THE_LOG.warning("%s: %s", self.store.url, message)
                warnings.warn(message, LogWarning, stacklevel=3)
                return None
            case GetDrive():
                return self.drive
            case GetUrl():
                return self.store.url
            case NewId():
                return self.ids.uuid()
            case _:
                raise AssertionError(request)

    def _stand_in_line(self, pace: _Pace) -> bool:
        """Whether others still go first; then what must be durable before ours is made so meanwhile."""
        if pace.line is None or not pace.line.wait():
            return False
        if pace.deferred and defers_writes(self.store):
            self.store.settle(pace.deferred)
            pace.deferred = ()
        return True

    def _together(self, requests: tuple[Request[Any], ...], pace: _Pace) -> tuple[object, ...]:
        """Answers of requests that do not wait for each other, if the store is far; raises the first error in their order."""
        if not self.store.capabilities.concurrent or len(requests) < 2:
            return tuple(self._answer(request, pace) for request in requests)
        with ThreadPoolExecutor(min(len(requests), TOGETHER)) as pool:
            return tuple(pool.map(lambda request: self._answer(request, pace), requests))

    def _put_new(self, path: str, data: bytes, pace: _Pace) -> Put:
        began, pace.lost_s, pace.path = self.clock.monotonic(), None, path
        began_ns = self.clock.now_ns()
        try:
            if pace.deferred and defers_writes(self.store):
                self.store.put_after(path, data, pace.deferred)
            else:
                self.store.put(path, data)
        except ObjectExists:
            pace.lost_s = self.clock.monotonic() - began
            return Put.REFUSED
        except StoreUnavailable as error:
            if error.facts.get("path") in pace.deferred or error.facts.get("stored"):
                raise  # what must come before it failed, or it is there and may not last: to look for it would tell nothing
            pace.unanswered = path
            _LOGGER.info("%s: whether %s is stored is not known, and is looked for: %s", self.store.url, path, error.what)
            return Put.NO_ANSWER
        # By the wall clock: the other stands still while a machine sleeps.
        return Put.LATE if is_old(self.clock.now_ns(), began_ns) else Put.DONE

    def _get(self, path: str, pace: _Pace) -> bytes | None:
        attempt = 0
        while True:
            try:
                return self.store.get(path)
            except ObjectNotFound:
                if path == pace.path:  # refused, but not for another's
                    pace.lost_s = None
                return None
            except StoreUnavailable:
                attempt += 1
                pace.lost_s = None
                if not self._wait(attempt, pace):
                    raise

    def _wait(self, attempt: int, pace: _Pace) -> bool:
        """Back off with full jitter, the ceiling doubling from try to try, within the deadline."""
        left = pace.until - self.clock.monotonic()
        if left <= 0:
            return False
        RETRIES.add(1, "no_answer" if pace.lost_s is None else "race", self.store.url)
        if pace.line is not None and pace.line.mine and pace.lost_s is not None and attempt <= _IN_TURN:
            return True
        self.clock.sleep(min(left, pace.ceiling(attempt) * self.ids.jitter()))
        return True
