"""Simulated time: threads of which one runs at a time, delayed effects, and a clock and ids that repeat from run to run.

Each actor runs ordinary code that blocks. Where it waits (`Timeline.pause`), the one whose time comes first goes on, so that
the order of everything follows from the waits alone: the same waits give the same run.
"""

from __future__ import annotations

import heapq
import threading
import uuid
from collections.abc import Callable
from random import Random

START_NS = 1_700_000_000_000_000_000
"""Where simulated time begins: 2023-11-14T22:13:20Z."""

Effect = Callable[[], None]


class _Actor:
    """A thread that runs while it holds its baton."""

    __slots__ = ("baton", "thread")

    def __init__(self, name: str, life: Callable[[_Actor], None]) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread = threading.Thread(target=life, args=(self,), name=name, daemon=True)


class Timeline:
    """The order in which things happen. Without actors it is a clock that moves only when someone waits."""

    def __init__(self, start_ns: int = START_NS) -> None:
        """Begin at `start_ns`, nanoseconds since 1970 UTC."""
        self.now_ns = start_ns
        self._due: list[tuple[int, int, _Actor | Effect]] = []
        self._count = 0
        self._actors: list[_Actor] = []
        self._running: _Actor | None = None
        self._ended = threading.Lock()
        self._failure: BaseException | None = None

    def spawn(self, name: str, body: Callable[[], None]) -> None:
        """Add an actor that starts to run `body` now, once `run` is called."""
        actor = _Actor(name, lambda me: self._live(me, body))
        self._actors.append(actor)
        self._add(0, actor)

    def later(self, delay_s: float, effect: Effect) -> None:
        """Let something happen in `delay_s` seconds. It may not wait."""
        self._add(delay_s, effect)

    def pause(self, seconds: float) -> None:
        """Wait: everything that is due within `seconds` happens first."""
        me = self._running
        if me is None:
            self._pass_time(seconds)
        elif not self.is_foreign():
            self._add(seconds, me)
            following = self._next()
            if following is not me:
                self._hand_to(following)
                me.baton.acquire()
                self._running = me

    def is_foreign(self) -> bool:
        """Whether the caller is a thread of a library's pool, beside the actor that runs; it may not wait."""
        return self._running is not None and self._running.thread is not threading.current_thread()

    def run(self) -> None:
        """Run until every actor has ended and everything that was to happen has; raises what an actor raised."""
        self._ended.acquire()
        self._hand_to(self._next())
        self._ended.acquire()
        self._running = None
        for actor in self._actors:
            actor.thread.join()
        self._actors.clear()
        self._ended.release()
        if self._failure is not None:
            raise self._failure

    def _live(self, me: _Actor, body: Callable[[], None]) -> None:
        me.baton.acquire()
        self._running = me
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            self._failure = self._failure or error
        self._hand_to(self._next())

    def _add(self, delay_s: float, item: _Actor | Effect) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now_ns + int(delay_s * 1e9), self._count, item))

    def _next(self) -> _Actor | None:
        """Let happen what comes before the next actor, which is given back; None where none is left."""
        while self._due:
            at_ns, _, item = heapq.heappop(self._due)
            self.now_ns = max(self.now_ns, at_ns)
            if isinstance(item, _Actor):
                return item
            item()
        return None

    def _hand_to(self, actor: _Actor | None) -> None:
        if actor is None:
            self._ended.release()
        elif actor.thread.ident is None:
            actor.baton.release()
            actor.thread.start()
        else:
            actor.baton.release()

    def _pass_time(self, seconds: float) -> None:
        until_ns = self.now_ns + int(seconds * 1e9)
        while self._due and self._due[0][0] <= until_ns:
            at_ns, _, item = heapq.heappop(self._due)
            self.now_ns = max(self.now_ns, at_ns)
            assert not isinstance(item, _Actor), "an actor runs within `run` only"
            item()
        self.now_ns = until_ns


def seeded(seed: int) -> Random:
    """Chance that a seed decides."""
    return Random(seed)  # noqa: S311 - to repeat is what it is for


class SimClock:
    """See `gapless.model.protocols.Clock`: simulated time, which passes only while someone waits."""

    def __init__(self, timeline: Timeline | None = None, *, skew_ns: int = 0) -> None:
        """Show a timeline's time (its own without one), wrong by `skew_ns` as another machine's clock may be."""
        self.timeline = timeline or Timeline()
        self._skew_ns = skew_ns

    def now_ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00Z, by this clock."""
        return self.timeline.now_ns + self._skew_ns

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never runs back."""
        return self.timeline.now_ns / 1e9

    def sleep(self, seconds: float) -> None:
        """Let others go on for so long."""
        self.timeline.pause(seconds)


class SimIds:
    """See `gapless.model.protocols.IdSource`: ids that a seed decides."""

    def __init__(self, random: Random) -> None:
        """Draw from `random`, which no one else should draw from."""
        self._random = random
        self.given: list[str] = []
        """Every id that was given out, in order."""

    def uuid(self) -> str:
        """A random UUID, in lower case with hyphens."""
        self.given.append(str(uuid.UUID(int=self._random.getrandbits(128), version=4)))
        return self.given[-1]

    def jitter(self) -> float:
        """A number drawn evenly from [0, 1)."""
        return self._random.random()
