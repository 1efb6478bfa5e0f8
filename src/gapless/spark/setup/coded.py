"""Errors of ours on their way through Spark, which keeps nothing of them but their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gapless.errors import GaplessError


@contextmanager
def coded() -> Iterator[None]:
    """Whatever of ours is raised inside, or in a function that this decorates, says its code in a line `[code]` below its message.

    Spark shows the traceback of its Python workers: class, message and this line come to the user in the text of Spark's exception.
    """
    try:
        yield
    except GaplessError as error:
        line = f"[{error.code}]"
        if line not in getattr(error, "__notes__", ()):
            error.add_note(line)
        raise
