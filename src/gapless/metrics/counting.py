"""Beginning and ending to count, and the counts as values."""

from __future__ import annotations

from collections.abc import Callable

from gapless.errors import NotSupported
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.metrics import COUNTS, Sample

_AT_END: list[Callable[[], None]] = []
"""What takes the counts away from where they are shown."""
ENABLING = ForkSafeLock()
"""Held while a registry or a meter provider is told of the counts."""


def enable(*, tables: bool = False) -> None:
    """Count from now on, for `read`. With `tables` counters are kept by table, wherever they are shown: as many of each as there are tables.

    What was counted before `tables` was asked for has an empty text for the table.
    """
    COUNTS.tables = COUNTS.tables or tables
    COUNTS.on = True


def disable() -> None:
    """Count nothing from now on, and forget what was counted; registries and meter providers show nothing any more.

    A meter provider cannot be told that instruments are gone: it shows them again once counting is enabled again, be it for another.
    """
    COUNTS.on = COUNTS.tables = False
    while _AT_END:
        _AT_END.pop()()
    COUNTS.start_afresh()


def read() -> tuple[Sample, ...]:
    """What this process counted since `enable`, or one of its kind, was first called. What never happened is left out.

    Gauges always name their table, counters where `tables` was asked for.
    """
    return COUNTS.read()


def at_end(act: Callable[[], None]) -> None:
    """Have `disable` call this, once."""
    _AT_END.append(act)


def missing(library: str, package: str) -> NotSupported:
    """The error for a library that is not installed."""
    return NotSupported(
        f"metrics for {library} need the package {package}",
        why="It is not installed",
        fix="pip install 'gapless[metrics]'",
        feature="metrics",
    )
