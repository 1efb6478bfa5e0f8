"""A queue of the writers on this machine that create in one folder: advisory, no guarantee depends on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator

PATIENCE_S = 0.5
"""How long one waits at most, and half as long after each time it was in vain, until a turn comes again: who stopped in its turn costs
the others a second each.
"""
_FIRST_LOOK_S = 0.0004
_LONGEST_LOOK_S = 0.002
_MOMENT_S = 0.005
"""So long one waits at a time: others have created something by then, most likely."""


class Waiting:
    """One who stands in line; see `gapless.model.protocols.WriterQueue`."""

    __slots__ = ("_crowded", "_handle", "_look_s", "_patience_s", "_until", "behind", "in_vain", "mine")

    mine: bool
    """Whether the turn came, and is not over."""
    in_vain: bool
    """Whether it did not come in time, or there are no turns here."""
    behind: bool
    """Whether others went first."""

    def __init__(self, handle: int | None, patience_s: float, *, crowded: bool = False) -> None:
        """Stand in line by an open folder (None: there is none), for so many seconds at most; `crowded` if there were others the last time."""
        self._handle, self._patience_s, self._crowded = handle, patience_s, crowded
        self._until: float | None = None
        self._look_s = _FIRST_LOOK_S
        self.mine, self.in_vain, self.behind = False, handle is None, False

    def wait(self) -> bool:
        """Look until it is one's turn, for a moment; whether to go on waiting.

        The first time once, or not at all where it is crowded: there is most to do meanwhile, which had else to be done in the turn.
        """
        if self.mine or self.in_vain or self._handle is None:
            return False
        now = time.monotonic()
        moment = now if self._until is None else now + _MOMENT_S
        if self._until is None:
            self._until = now + self._patience_s
            if self._crowded:
                return True
        while self._is_taken(self._handle):
            self.behind = True
            if now > self._until:
                self.in_vain = True
            if self.in_vain or now >= moment:
                return not self.in_vain
            time.sleep(self._look_s)
            self._look_s = min(2 * self._look_s, _LONGEST_LOOK_S)
            now = time.monotonic()
        return False

    def _is_taken(self, handle: int) -> bool:
        """Whether the turn is another's; else it is ours, or there are none."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            self.in_vain = True
            return False
        self.mine = True
        return False

    def end(self) -> None:
        """The turn, if it came, is over."""
        if self.mine and self._handle is not None:
            self.mine = False
            # A child that was forked meanwhile holds the same lock; closing our handle would not free it.
            with contextlib.suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)


class Ticket:
    """Turns of one store: by an advisory lock on the folder itself, which leaves no file behind and ends with its process."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._patience_s = PATIENCE_S
        self._crowded = False

    @contextlib.contextmanager
    def __call__(self, folder: str) -> Iterator[Waiting]:
        """Stand in line for a turn, which is over with the context, or when `end` says so."""
        handle = _open(folder)
        line = self._mine.line = Waiting(handle, self._patience_s, crowded=self._crowded)
        try:
            yield line
        finally:
            if handle is not None:
                self._patience_s = self._patience_s / 2 if line.in_vain else PATIENCE_S
                self._crowded = line.behind
            self.end()
            if handle is not None:
                with contextlib.suppress(OSError):
                    os.close(handle)

    def end(self) -> None:
        """This thread's turn, if it has one, is over."""
        line: Waiting | None = getattr(self._mine, "line", None)
        self._mine.line = None
        if line is not None:
            line.end()


def _open(folder: str) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
