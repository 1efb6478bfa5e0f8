"""A clock and ids that repeat from run to run."""

from __future__ import annotations

import uuid
from random import Random

from gapless.testing.timeline import Timeline


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
