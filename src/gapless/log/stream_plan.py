"""Streaming reads of tables of every kind: how far a stream has come, and what fits into one micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from gapless.errors import InvalidOption

OnChange = Literal["error", "skip", "tell"]
"""What a stream does about a commit that changed rows which are there: stop, pass over the whole commit, or tell both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a stream has come: it has emitted all before `version`, and of that the first `index` items."""

    version: int
    index: int = 0
    whole: bool = False
    """Whether the version's items are all rows that it has, rather than what its commit changed; the next are its successor's changes."""

    @property
    def place(self) -> Cursor:
        """The beginning of its version."""
        return replace(self, index=0)

    @property
    def order(self) -> tuple[int, bool, int]:
        """What cursors of one stream are ordered by."""
        return self.version, self.whole, self.index

    def past(self) -> Cursor:
        """The beginning of what follows its version."""
        return Cursor(version=self.version + 1)


class StreamItem(Protocol):
    """What is emitted in one piece."""

    @property
    def files(self) -> int:
        """Data files that must be read for it."""
        ...

    @property
    def size(self) -> int:
        """About as many bytes must be read for it."""
        ...


Item = TypeVar("Item", bound=StreamItem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one batch may still take; None is no limit."""

    files: int | None = None
    size: int | None = None
    """Bytes."""
    fresh: bool = True
    """Whether the batch is empty so far: its first item is admitted however large it is, or the stream would not move on."""

    def less(self, item: StreamItem) -> Budget | None:
        """What is left once the item is taken; None where it is too much."""
        files, size = _less(self.files, item.files), _less(self.size, item.size)
        fits = (files is None or files >= 0) and (size is None or size >= 0)
        return Budget(files=files, size=size, fresh=False) if fits or self.fresh else None


def _less(left: int | None, cost: int) -> int | None:
    return None if left is None else left - cost


def take(cursor: Cursor, items: Sequence[StreamItem], budget: Budget) -> tuple[Cursor, Budget]:
    """The cursor past as many of its version's `items` as the budget admits, and what is left of that.

    A cursor that does not leave its version says that the batch is full.
    """
    for index in range(cursor.index, len(items)):
        left = budget.less(items[index])
        if left is None:
            return replace(cursor, index=index), budget
        budget = left
    return cursor.past(), budget


def between(versions: Iterable[tuple[Cursor, tuple[Item, ...]]], start: Cursor, end: Cursor) -> list[Item]:
    """The items of `[start, end)`, of versions each with its place and all its items."""
    found: list[Item] = []
    for place, items in versions:
        first = start.index if place == start.place else 0
        last = end.index if place == end.place else len(items)
        found += items[first:last] if start.place.order <= place.order < end.order else ()
    return found


def data_change(version: int, operation: str) -> InvalidOption:
    """The error for a commit that changed rows which are there, where a stream does not take such; `operation` is what the log calls it."""
    return InvalidOption(
        f"version {version} ({operation or 'of another writer'}) changed rows that the stream may have given already",
        why="A stream of appended rows cannot take rows back, and onDataChange is 'error'",
        fix='Set onDataChange to "skip", which leaves out all rows of such commits, or changeFeed to "true", which tells both sides;'
        " the checkpoint stays good",
        option="onDataChange",
        value="error",
    )
