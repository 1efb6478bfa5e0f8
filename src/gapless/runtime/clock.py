"""The real clock and the real source of ids."""

from __future__ import annotations

import random
import time
import uuid


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
