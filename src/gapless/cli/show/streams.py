"""Standard streams that are closed, full, or that nobody reads any more."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO


def take_closed_streams() -> None:
    """Take the numbers of standard streams that are closed, before a data file gets one, and is written by what means stderr.

    What is told on a closed stderr is lost. A closed stdin still cannot be read, and a closed stdout not be written.
    """
    for number, unusable in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, unusable)  # the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  # until the end


def check_stdout() -> None:
    """Raise OSError where stdout is closed: before anything is changed that could then not be told."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "stdout is closed, so nothing was begun; send it to /dev/null where nobody is to read it")


def flush_or_discard(stream: TextIO | None) -> None:
    """Write what a stream still holds; where it cannot be written, let nothing complain of it when the process ends."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        discard(stream)


def discard(stream: TextIO | None) -> None:
    """Lead a stream to nowhere: whoever read it has gone, or it has no room."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
