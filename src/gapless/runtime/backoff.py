"""How long to wait before another try. Pure, but for `pause`, which waits by the clock that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapless.errors import InvalidOption
from gapless.model.protocols import Clock

_MOST_DOUBLINGS = 16
_NAP_S = 0.1
"""Of waiting: so soon it is seen that it is to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits whose ceiling doubles from failure to failure, and of which a random share is waited ("full jitter").

    Many who failed at the same moment so come back at different ones. Raises InvalidOption for a negative wait.

    >>> backoff = Backoff(first_s=0.1, longest_s=1)
    >>> [backoff.ceiling_s(failures) for failures in range(5)]
    [0.1, 0.2, 0.4, 0.8, 1]
    >>> backoff.wait_s(2, jitter=0.5)
    0.2
    """

    first_s: float = 0.1
    """The longest wait after the first failure, in seconds."""
    longest_s: float = 30.0
    """No wait is longer, in seconds."""

    def __post_init__(self) -> None:
        for option, value in (("first_s", self.first_s), ("longest_s", self.longest_s)):
            if not 0 <= value < float("inf"):
                raise InvalidOption(
                    f"{option}={value!r} is no wait",
                    why="A wait is 0 seconds or more",
                    fix=f"Pass such as {option}=0.5",
                    option=option,
                    value=value,
                )

    def ceiling_s(self, failures: int) -> float:
        """The longest wait in seconds where there were so many failures before the last one."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures, _MOST_DOUBLINGS))

    def wait_s(self, failures: int, jitter: float) -> float:
        """The wait in seconds; `jitter` is a number drawn evenly from [0, 1), `failures` as in `ceiling_s`."""
        return self.ceiling_s(failures) * jitter


def pause(clock: Clock, seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait so many seconds, or until `is_over`, which is asked ten times a second."""
    until = clock.monotonic() + seconds
    while not is_over() and (left := until - clock.monotonic()) > 0:
        clock.sleep(min(_NAP_S, left))
