"""Several files synced at once, side by side: the caller waits for about as long as for one."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from threading import Lock, Thread

_MOST = 8
"""Files that one call has synced at a time, and threads that sync for others in a process."""
_WORTH_A_THREAD = 3
"""Fewer are synced one after the other: to wake a thread takes the processor about as long as it would wait for the disk."""


class _Helper:
    """A thread that works for one caller at a time. Its hand-overs are locks: a pool's queue and futures cost more than a sync."""

    __slots__ = ("_begin", "_done", "_failure", "_work", "_works")

    _work: Callable[[], None]
    _done: Lock
    """Given back once its work is done."""

    def __init__(self) -> None:
        """Start it; raises RuntimeError where no thread can be had."""
        self._begin = _taken()
        self._failure: BaseException | None = None
        self._works = False
        Thread(target=self._run, name="gapless-sync", daemon=True).start()

    def begin(self, work: Callable[[], None]) -> None:
        """Have it work."""
        # No call stands between the last two: an interrupt there would have its caller wait for ever.
        self._work, self._done = work, _taken()
        self._works = True
        self._begin.release()

    def wait(self) -> BaseException | None:
        """Wait until it has done its work, if it had any, whoever interrupts; what that raised, or what interrupted."""
        interrupted: BaseException | None = None
        while self._works:
            try:
                self._done.acquire()
            except BaseException as error:  # noqa: BLE001  # its caller raises it, once no thread is at its files
                interrupted = error
        failure, self._failure = self._failure, None
        return interrupted or failure

    def _run(self) -> None:
        while True:
            self._begin.acquire()
            done = self._done
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001  # its caller is told
                self._failure = error
            del self._work
            self._works = False
            done.release()


def _taken() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


class _Helpers:
    """Those of a process that have nothing to do, and how many more there may be."""

    def __init__(self) -> None:
        self._idle: list[_Helper] = []
        self._unborn = [None] * _MOST

    def take(self) -> _Helper | None:
        """One that no one else has until it is given back; None where all have something to do, or the program ends and threads with it."""
        if sys.is_finalizing():
            return None
        with suppress(IndexError):
            return self._idle.pop()
        try:
            self._unborn.pop()
        except IndexError:
            return None
        try:
            return _Helper()
        except RuntimeError:
            self._unborn.append(None)
            return None

    def give_back(self, helper: _Helper) -> None:
        """One that has done its work."""
        self._idle.append(helper)


@cache
def _helpers(_process: int) -> _Helpers:
    """The threads of this process: a forked child has none of its parent's."""
    return _Helpers()


def sync_all(handles: Sequence[int]) -> list[OSError | None]:
    """Sync the files and folders behind these handles: for each its error, or None. No thread uses them once this has ended."""
    if len(handles) < _WORTH_A_THREAD:
        return [_sync_one(handle) for handle in handles]
    left = deque(enumerate(handles))
    found: list[OSError | None] = [None] * len(handles)

    def work() -> None:
        with suppress(IndexError):
            while True:
                place, handle = left.popleft()
                found[place] = _sync_one(handle)

    helpers: list[_Helper] = []
    try:
        for _ in handles[1:_MOST]:
            # Where none is free the caller does what is left.
            if (helper := _helpers(os.getpid()).take()) is None:
                break
            helpers.append(helper)
            helper.begin(work)
        work()
    finally:
        left.clear()
        errors = [_ended(helper) for helper in helpers]
    for error in errors:
        if error is not None:
            raise error
    return found


def _ended(helper: _Helper) -> BaseException | None:
    """Wait for a helper and let others have it; what its work raised."""
    error = helper.wait()
    _helpers(os.getpid()).give_back(helper)
    return error


def _sync_one(handle: int) -> OSError | None:
    try:
        os.fsync(handle)
    except OSError as error:
        return error
    return None
