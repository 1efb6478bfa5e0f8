"""Files that are opened before one's turn to create in a folder comes: others wait for no more than what must be done in it."""
# pathlib has no open file by number.

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from gapless.store.publish import discard

Opened = tuple[int, str]
"""An open file that is new and empty, and its name."""


class Drafts:
    """Those of one store: at most one a thread."""

    def __init__(self) -> None:
        self._mine = threading.local()

    @contextlib.contextmanager
    def ready(self, folder: str) -> Iterator[None]:
        """Have one in a folder for the first that takes it within the context; what no one took is removed. None where it cannot be had:
        who would take it finds out why.
        """
        try:
            with contextlib.suppress(OSError):
                self._mine.draft = folder, open_temp(folder)
            yield
        finally:
            if (left := self.take(folder)) is not None:
                _remove(left)

    def take(self, folder: str) -> Opened | None:
        """This thread's in a folder, which is then its caller's; None where there is none, or someone removed it."""
        draft: tuple[str, Opened] | None = getattr(self._mine, "draft", None)
        if draft is None or draft[0] != folder:
            return None
        self._mine.draft = None
        if not os.fstat(draft[1][0]).st_nlink:
            _remove(draft[1])
            return None
        return draft[1]


def _remove(opened: Opened) -> None:
    with contextlib.suppress(OSError):
        os.close(opened[0])
    discard(opened[1])


def open_temp(folder: str) -> Opened:
    """A new file in a folder, under a name that no listing shows; raises OSError."""
    temp = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")  # noqa: PTH118  # pathlib costs as much as the system call
    try:
        return os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), temp
    except KeyboardInterrupt:  # mostly it comes while the system works, and finds the file made
        discard(temp)
        raise
