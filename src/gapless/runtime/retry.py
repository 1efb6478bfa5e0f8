"""Trying an act of the caller's again, with backoff, a deadline and a way to cancel."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from gapless.errors import CommitConflict, InvalidOption, StoreUnavailable
from gapless.model.protocols import Clock, IdSource
from gapless.model.time.duration import parse_duration
from gapless.runtime.backoff import Backoff, pause
from gapless.runtime.environment import RandomIds, SystemClock

_LOGGER = logging.getLogger("gapless.runtime")
T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]

PASSING: tuple[type[Exception], ...] = (StoreUnavailable, CommitConflict, ConnectionError)
"""Errors that can pass by themselves, and after which nothing was committed."""


class Cancel(Protocol):
    """What says that no further try is wanted: a `threading.Event`, say."""

    def is_set(self) -> bool:
        """Whether it is so."""
        ...


def retry(
    act: Callable[[], T],
    *,
    errors: Errors = PASSING,
    attempts: int | None = None,
    deadline: str | timedelta | None = "60s",
    backoff: Backoff | None = None,
    cancel: Cancel | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> T:
    """What an act returns, tried again after errors that can pass.

    Args:
        act: A call without arguments. It is made once at least.
        errors: Which errors are tried again: classes, or a function that is asked. By default StoreUnavailable, CommitConflict and
            Python's ConnectionError, after which nothing was committed. Add CommitOutcomeUnknown where the call carries an `operation_id`,
            and only there: without one, what landed would land again.
        attempts: No more tries than this; None for as many as the deadline lets.
        deadline: No try begins later than this after the first began, "90s" or a timedelta; None for no such limit. A wait ends with it, and
            one last try follows. A try that is under way is not stopped.
        backoff: The waits; by default up to 0.1 s after the first failure, then up to twice as long each time, to 30 s at most.
        cancel: Ends the tries once `cancel.is_set()`, as a `threading.Event` has it; a wait ends within 0.1 s.
        clock: What tells and passes time, for tests; by default the system's.
        ids: What draws the jitter (`jitter()`), for tests.

    At the end, the error of the last try is raised, with a note (`__notes__`) of how many there were and why they ended. Any other error is
    raised at once. Raises InvalidOption for an argument that means nothing.
    """
    if attempts is not None and attempts < 1:
        raise InvalidOption(
            f"attempts={attempts} is no number of tries", why="One try is the least", fix="Pass 1 or more", option="attempts", value=attempts
        )  # fmt: skip
    longest_s = None if deadline is None else parse_duration(deadline, "deadline").total_seconds()
    clock, ids, backoff = clock or SystemClock(), ids or RandomIds(), backoff or Backoff()
    began, failures = clock.monotonic(), 0
    while True:
        try:
            return act()
        except Exception as error:
            if not _may_pass(error, errors):
                raise
            failures += 1
            took_s = clock.monotonic() - began
            end = _end(failures, attempts, None if longest_s is None else longest_s - took_s)
            if end is None:
                wait_s = backoff.wait_s(failures - 1, ids.jitter())
                wait_s = wait_s if longest_s is None else min(wait_s, longest_s - took_s)
                _LOGGER.info("try %d failed, another follows in %.3f s: %s", failures, wait_s, error)
                pause(clock, wait_s, lambda: cancel is not None and cancel.is_set())
                end = "cancelled" if cancel is not None and cancel.is_set() else None
            if end is not None:
                error.add_note(f"gapless.retry: {failures} {'try' if failures == 1 else 'tries'}; {end}")
                raise


def _may_pass(error: Exception, errors: Errors) -> bool:
    """Whether an error is among those that are tried again."""
    return isinstance(error, errors) if isinstance(errors, type | tuple) else errors(error)


def _end(failures: int, attempts: int | None, left_s: float | None) -> str | None:
    """Why there is no further try after so many failures, with so many seconds left; None where there is one."""
    if attempts is not None and failures >= attempts:
        return f"attempts={attempts}"
    return "the deadline has passed" if left_s is not None and left_s <= 0 else None
