"""Whose turn it is to create in a folder, among those on this machine who ask: a courtesy, which no promise rests on."""

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
_FIRST_LOOK_S = 0.0002
_LONGEST_LOOK_S = 0.002


class Turn:
    """Turns of one store: by an advisory lock on the folder itself, which leaves no file behind and ends with its process."""

    def __init__(self) -> None:
        self._mine = threading.local()
        self._patience_s = PATIENCE_S

    @contextlib.contextmanager
    def __call__(self, folder: str) -> Iterator[bool]:
        """Wait for one's turn; whether it came. It is over with the context, or when `end` says so."""
        handle = _open(folder)
        if handle is None:
            yield False
            return
        try:
            taken = _take(handle, self._patience_s)
            self._patience_s = PATIENCE_S if taken else self._patience_s / 2
            self._mine.handle = handle if taken else None
            yield taken
        finally:
            self.end()
            with contextlib.suppress(OSError):
                os.close(handle)

    def end(self) -> None:
        """This thread's turn, if it has one, is over."""
        handle, self._mine.handle = getattr(self._mine, "handle", None), None
        if handle is not None:
            # A child that was forked meanwhile holds the same lock; closing our handle would not free it.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)


def _open(folder: str) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None


def _take(handle: int, patience_s: float) -> bool:
    """Whether the lock was had in time; False also where the file system has none."""
    until, look = time.monotonic() + patience_s, _FIRST_LOOK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(look)
            look = min(2 * look, _LONGEST_LOOK_S)
        except OSError:
            return False
        else:
            return True
