"""Several files synced at once, side by side: the caller waits for about as long as for one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache

_MOST = 8
"""Files that one call has synced at a time."""
_WORTH_A_THREAD = 3
"""Fewer are synced one after the other: to wake a thread takes the processor about as long as it would wait for the disk."""


@cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """The threads of this process: a forked child has none of its parent's."""
    return ThreadPoolExecutor(_MOST, "gapless-sync")


def sync_all(handles: Sequence[int]) -> list[OSError | None]:
    """Sync the files and folders behind these handles: for each its error, or None. No thread uses them once this has ended."""
    left = deque(enumerate(handles))
    found: list[OSError | None] = [None] * len(handles)

    def work() -> None:
        with suppress(IndexError):
            while True:
                place, handle = left.popleft()
                found[place] = _sync_one(handle)

    helpers: list[Future[None]] = []
    try:
        # RuntimeError where no thread can be had any more: the caller does what is left.
        with suppress(RuntimeError):
            for _ in handles[1:_MOST] if len(handles) >= _WORTH_A_THREAD else ():
                helpers.append(_pool(os.getpid()).submit(work))  # noqa: PERF401  # those begun are to be waited for
        work()
    finally:
        left.clear()
        errors = [one.exception() for one in helpers if not one.cancel()]
    for error in errors:
        if error is not None:
            raise error
    return found


def _sync_one(handle: int) -> OSError | None:
    try:
        os.fsync(handle)
    except OSError as error:
        return error
    return None
