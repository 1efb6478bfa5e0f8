"""A file of a local store in the making: under a name of its own until it is whole, on its way to the disk while it is written."""
# pathlib has no open file by number.
# ruff: noqa: PTH105

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from gapless.errors import StoreError
from gapless.store.publish import discard

_EARLY_BYTES = 256 << 10
"""So many bytes at a time the system is asked to begin with, so that the disk works while others are made, and a sync at the end has little left."""
_AT_ONCE = 512
"""Pieces that the system takes at once; it takes twice as many."""
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


class BegunFile:
    """See `gapless.model.protocols.ObjectAhead`."""

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
        """Add bytes; see `ObjectAhead.write`."""
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
        """Give it its name; see `ObjectAhead.finish`."""
        try:
            self._check_size()
            os.replace(self._temp, self._target)
        except OSError as error:
            raise self._error(error) from error
        handle, self._handle = self._handle, -1
        self._keep(handle)

    def discard(self) -> None:
        """Leave nothing of it, unless it has its name; see `ObjectAhead.discard`."""
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
