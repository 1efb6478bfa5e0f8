"""Temporary files of the local store, written back to disk while they are being made."""

# pathlib has no open file by number.
# ruff: noqa: PTH105

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from gapless.errors import StoreError
from gapless.store.local.file_system import discard

_EARLY_BYTES = 256 << 10
"""So many bytes at a time the system is asked to begin with, so that the disk works while others are made, and a sync at the end has little left."""
_AT_ONCE = 512
"""Pieces that the system takes at once; it takes twice as many."""
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


class BegunFile:
    """See `gapless.model.protocols.DeferredObject`."""

    __slots__ = ("_early", "_error", "_handle", "_keep", "_size", "_target", "_temp")

    def __init__(
        self, opened: tuple[int, str], target: str, keep: Callable[[int], None], error: Callable[[OSError], StoreError]
    ) -> None:
        """`opened` is an open file and its name until it has that of `target`; then `keep` is given it. `error` tells what went wrong."""
        self._handle, self._temp = opened
        self._target, self._keep, self._error = target, keep, error
        self._size = self._early = 0

    def put(self, *pieces: bytes | memoryview) -> None:
        """All of it at once: written and finished, or discarded."""
        try:
            self.write(*pieces)
            self.finish()
        except BaseException:
            self.discard()
            raise

    def write(self, *pieces: bytes | memoryview) -> None:
        """Add bytes; see `DeferredObject.write`."""
        left = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        try:
            while left:
                left = self._write(left)
        except OSError as error:
            raise self._error(error) from error
        if self._size - self._early >= _EARLY_BYTES:
            begin_write_back(self._handle, self._early, self._size - self._early)
            self._early = self._size

    def finish(self) -> None:
        """Give it its name; see `DeferredObject.finish`."""
        try:
            self._check_size()
            os.replace(self._temp, self._target)
        except OSError as error:
            raise self._error(error) from error
        handle, self._handle = self._handle, -1
        self._keep(handle)

    def discard(self) -> None:
        """Leave nothing of it, unless it has its name; see `DeferredObject.discard`."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with suppress(OSError):
                os.close(handle)
            discard(self._temp)

    def _check_size(self) -> None:
        if os.fstat(self._handle).st_size != self._size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _write(self, pieces: list[memoryview]) -> list[memoryview]:
        """Add some of the pieces; those that are left."""
        count = os.writev(self._handle, pieces[:_AT_ONCE])
        if count == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += count
        whole = 0
        while whole < len(pieces) and len(pieces[whole]) <= count:
            count -= len(pieces[whole])
            whole += 1
        return [pieces[whole][count:], *pieces[whole + 1 :]] if count else pieces[whole:]


def begin_write_back(handle: int, start: int, length: int) -> None:
    """Have the system begin to send these bytes of a file to its disk, and wait for nothing: a hint, which makes nothing durable."""
    send = _send_range()
    if send is not None:
        send(handle, start, length)


@cache
def _send_range() -> Callable[[int, int, int], object] | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "sync_file_range"):
        return None
    return lambda handle, start, length: libc.sync_file_range(
        handle, ctypes.c_int64(start), ctypes.c_int64(length), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE)
    )


Opened = tuple[int, str]
"""An open file that is new and empty, and its name."""


class TempFiles:
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
