"""A loopback HTTP proxy before an S3 server that takes its time with each request, and remembers when each came and was answered."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from process.flaky_proxy import Faults, Relay, serving


@dataclass(frozen=True, slots=True)
class Seen:
    """One request, with times by the monotonic clock in seconds."""

    method: str
    path: str
    began: float
    ended: float

    @property
    def lists(self) -> bool:
        """Whether it lists a folder."""
        return self.method == "GET" and "list-type" in self.path


@dataclass(slots=True)
class Log:
    """The requests that were answered."""

    seen: list[Seen] = field(default_factory=list)

    def until(self, moment: float) -> list[Seen]:
        """Those whose answers came before a moment."""
        return [one for one in self.seen if one.ended <= moment]


def rounds(seen: Sequence[Seen]) -> int:
    """How many of these requests came one after the other: the most of which no two were under way at once."""
    count, free = 0, float("-inf")
    for one in sorted(seen, key=lambda one: one.ended):
        if one.began >= free:
            count, free = count + 1, one.ended
    return count


@contextmanager
def slow_proxy(upstream: str, seconds: float) -> Iterator[tuple[str, Log]]:
    """A running proxy, each request through which takes so long: its endpoint, and what it saw."""
    log = Log()

    class Slow(Relay):
        faults = Faults(upstream)

        def do_GET(self) -> None:  # noqa: N802 - http.server names it
            began = time.monotonic()
            time.sleep(seconds)
            super().do_GET()
            log.seen.append(Seen(self.command, self.path, began, time.monotonic()))

        do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815 - http.server names them

    with serving(Slow) as endpoint:
        yield endpoint, log
