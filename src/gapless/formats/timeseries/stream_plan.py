"""Streaming reads of time-series tables: from commits to the items of one micro-batch. Pure.

A version's items, and their order, follow from its commit alone, so that a batch which is planned again after a restart is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.formats.timeseries.actions import Commit, TableState
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.log.format import Snapshot
from gapless.log.stream_plan import OnChange, data_change
from gapless.model.segment import Segment


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
            raise data_change(version, commit.operation)
        return ()
    if change == "rewrite":
        return (Item(version=version, time_ns=time_ns, added=commit.added, removed=commit.removed),)
    return tuple(Item(version=version, time_ns=time_ns, added=(one,)) for one in commit.added if one.data_change)


def changes_rows(commit: Commit) -> bool:
    """Whether a commit took rows away or brought back some that were there before, and did not only add new ones."""
    return change_of(commit) == "rewrite" or (commit.operation == "restore" and bool(commit.added))
