"""fsync of local files and folders, several at once, and of deferred files before what names them."""

# pathlib has no fsync.
# ruff: noqa: PTH120

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock, Thread

from gapless.store.local.file_system import NO_FOLDER_SYNC, open_folder

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


@dataclass(slots=True)
class _Written:
    """A whole file under its name."""

    handle: int
    """That it was written by: the system tells it what went wrong with the data since."""
    folder: str
    failure: OSError | None = None


class DeferredFiles:
    """What was written ahead of being durable, by path; a file that could not be synced once counts as lost for ever."""

    def __init__(self, folders: Folders) -> None:
        """`folders` are those of the store."""
        self._folders = folders
        self._written: dict[str, _Written] = {}

    def __del__(self) -> None:
        """What nobody can settle any more is not held open."""
        self.forget(list(self._written))

    def add(self, path: str, handle: int, folder: str) -> None:
        """Keep an open file, whole and under its name, which lies in `folder`."""
        self._written[path] = _Written(handle, folder)

    def forget(self, paths: Iterable[str]) -> None:
        """Give up files that are among these."""
        for path in paths:
            if (known := self._written.pop(path, None)) is not None:
                _close(known.handle)

    def settle(self, paths: Iterable[str], beside: int | None = None) -> tuple[str, OSError] | None:
        """Make those of these paths durable that are kept here, with their folders, and sync the file `beside` in the same breath.

        Gives back one that failed, with the reason; then the others may be durable or not. Raises OSError where `beside` failed.
        """
        mine = [(path, self._written[path]) for path in paths if path in self._written]
        failed = next(((path, one.failure) for path, one in mine if one.failure is not None), None)
        if failed is not None:
            return failed
        folders = self._folders.unsettled(one.folder for _, one in mine)
        own = [] if beside is None else [beside]
        try:
            with _opened(folders) as opened:
                errors = sync_all([*(one.handle for _, one in mine), *opened, *own])
        except OSError as unopened:  # a folder: nothing was synced
            return mine[0][0], unopened
        folder_error = next(
            (e for e in errors[len(mine) : len(mine) + len(opened)] if e and e.errno not in NO_FOLDER_SYNC), None
        )
        for (path, one), error in zip(mine, errors, strict=False):
            one.failure = error or folder_error
            if one.failure is not None:
                failed = failed or (path, one.failure)
            else:
                self.forget([path])
        if folder_error is None:
            self._folders.settled.update(folders)
        if failed is None and beside is not None and errors[-1] is not None:
            raise errors[-1]
        return failed


class Folders:
    """The folders of a store below its root, as far as their own names must still be made durable."""

    def __init__(self, root: str) -> None:
        """`root` is an absolute path."""
        self._root = root
        self.settled: set[str] = set()
        """Those whose own names were synced."""

    def unsettled(self, of: Iterable[str]) -> list[str]:
        """What to sync so that new names in these folders last: each, and the first time also those above it, which another process may
        have just made.
        """
        found: dict[str, None] = {}
        for folder in of:
            found[folder] = None
            while folder not in self.settled and folder != self._root:
                folder = os.path.dirname(folder)  # noqa: PLW2901
                found[folder] = None
        return list(found)


@contextlib.contextmanager
def _opened(folders: Iterable[str]) -> Iterator[list[int]]:
    """Handles by which folders can be synced."""
    with contextlib.ExitStack() as stack:
        handles: list[int] = []
        for folder in folders:
            if (handle := open_folder(folder)) is not None:
                stack.callback(_close, handle)
                handles.append(handle)
        yield handles


def _close(handle: int) -> None:
    """Close what was synced, or what no one needs."""
    with contextlib.suppress(OSError):
        os.close(handle)
