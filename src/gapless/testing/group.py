"""A group commit without threads: what several callers of one handle submit at one moment, done in one turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from gapless.model.report import AppendReport
from gapless.runtime.turns import Turns
from gapless.table.group import Member, Result
from gapless.table.table import TimeSeriesTable


class _Gathered(BaseException):
    """An append was stopped where it would wait for its turn."""


class _Gathering(Turns[Member, AppendReport]):
    """Turns that no one gets: they keep what is submitted."""

    def __init__(self) -> None:
        super().__init__(lambda _members: [])
        self.members: list[Member] = []

    def submit(self, item: Member) -> AppendReport:
        self.members.append(item)
        raise _Gathered


def append_at_once(table: TimeSeriesTable, calls: Sequence[Callable[[], object]]) -> list[Result]:
    """Let the appends to `table` that `calls` make share one turn, the first leading; one result for each, an error as a value.

    Each call must be one append of few rows, which neither fails before its turn nor catches BaseException.
    """
    turns, gathering = table._turns, _Gathering()  # noqa: SLF001 - the one place where a turn is played without threads
    table._turns = gathering  # noqa: SLF001
    try:
        for call in calls:
            with contextlib.suppress(_Gathered):
                call()
    finally:
        table._turns = turns  # noqa: SLF001
    return list(turns.take(gathering.members))
