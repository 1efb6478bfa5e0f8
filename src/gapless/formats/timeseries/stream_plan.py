"""Streaming reads: from commits and a cursor to the items of one micro-batch. Pure.

A version's items, and their order, follow from its commit alone, so that a batch which is planned again after a restart is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gapless.errors import InvalidOption
from gapless.formats.timeseries.actions import Commit, TableState
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.log.format import Snapshot
from gapless.model.segment import Segment

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is emitted in one piece: rows of one segment, or all that one commit changed."""

    version: int
    time_ns: int
    """The version's commit time (nanoseconds since 1970 UTC)."""
    added: tuple[Segment, ...]
    removed: tuple[str, ...] = ()
    """Paths of segments that the commit took away."""

    @property
    def files(self) -> int:
        """Segments that must be read for it."""
        return len(self.added) + len(self.removed)

    @property
    def size(self) -> int:
        """About as many bytes must be read for it: what a commit took away is taken to be as large as what it brought."""
        added = sum(segment.size or 0 for segment in self.added)
        return added * 2 if self.removed else added


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one batch may still take; None is no limit."""

    files: int | None = None
    size: int | None = None
    """Bytes."""
    fresh: bool = True
    """Whether the batch is empty so far: its first item is admitted however large it is, or the stream would not move on."""

    def less(self, item: Item) -> Budget | None:
        """What is left once the item is taken; None where it is too much."""
        files, size = _less(self.files, item.files), _less(self.size, item.size)
        fits = (files is None or files >= 0) and (size is None or size >= 0)
        return Budget(files=files, size=size, fresh=False) if fits or self.fresh else None


def _less(left: int | None, cost: int) -> int | None:
    return None if left is None else left - cost


def row_items(snapshot: Snapshot[TableState]) -> tuple[Item, ...]:
    """All rows of a version, segment by segment, in the order of their first index values."""
    segments = sorted(snapshot.state.segments, key=lambda one: (one.bounds.first, one.bounds.last, one.path))
    return tuple(Item(version=snapshot.version, time_ns=snapshot.time_ns, added=(segment,)) for segment in segments)


def commit_items(version: int, commit: Commit, time_ns: int, on_change: OnChange) -> tuple[Item, ...]:
    """What a commit emits; nothing where it only laid rows out anew, or changed no row.

    Raises InvalidOption where it changed rows that are there and `on_change` is "error".
    """
    change = change_of(commit)
    if change == "compact":
        return ()
    if on_change != "tell" and changes_rows(commit):
        if on_change == "error":
            raise _data_change(version, commit)
        return ()
    if change == "rewrite":
        return (Item(version=version, time_ns=time_ns, added=commit.added, removed=commit.removed),)
    return tuple(Item(version=version, time_ns=time_ns, added=(one,)) for one in commit.added if one.data_change)


def changes_rows(commit: Commit) -> bool:
    """Whether a commit took rows away or brought back some that were there before, and did not only add new ones."""
    return change_of(commit) == "rewrite" or (commit.operation == "restore" and bool(commit.added))


def take(cursor: Cursor, items: Sequence[Item], budget: Budget) -> tuple[Cursor, Budget]:
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


def _data_change(version: int, commit: Commit) -> InvalidOption:
    return InvalidOption(
        f"version {version} ({commit.operation or 'of another writer'}) changed rows that the stream may have given already",
        why="A stream of appended rows cannot take rows back, and onDataChange is 'error'",
        fix='Set onDataChange to "skip", which leaves out all rows of such commits, or changeFeed to "true", which tells both sides;'
        " the checkpoint stays good",
        option="onDataChange",
        value="error",
    )
