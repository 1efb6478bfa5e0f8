"""What the actors of a simulation want done, as values: each knows which rows a table holds once it is done.

This is the whole model that the auditor replays: for every commit, the rows after it are `intent.after(rows before it)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gapless.model.properties import OnOverlap

BUCKET_WIDTH = 10
"""Index values per bucket in simulated tables."""

COLUMNS = ("ts", "entity", "number")
Row = tuple[int, str, int]
"""(index value, entity, number): no two rows that are meant to be different have the same number."""
Rows = tuple[Row, ...]
"""In order."""
Bucket = tuple[str, int]
"""(entity, bucket id)."""
OperationName = tuple[str, int] | str | None
RowsAt = Callable[[int], Rows]
"""The rows of a version."""
Care = Literal["compact", "vacuum", "expire", "tag", "untag", "add_column"]
"""What changes no row."""


def buckets_of(rows: Rows) -> frozenset[Bucket]:
    """The buckets in which rows lie."""
    return frozenset((entity, at // BUCKET_WIDTH) for at, entity, _ in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appending:
    """Rows that someone wants appended once."""

    rows: Rows
    on_overlap: OnOverlap
    operation_id: OperationName = None

    def to_write(self, before: Rows) -> Rows:
        """Its rows that should be there afterwards: under "skip" those of buckets that were not covered."""
        covered = buckets_of(before) if self.on_overlap == "skip" else frozenset()
        return tuple(sorted(row for row in self.rows if not buckets_of((row,)) & covered))

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        mine = buckets_of(self.rows) if self.on_overlap == "replace" else frozenset()
        kept = (row for row in before if not buckets_of((row,)) & mine)
        return tuple(sorted((*kept, *self.to_write(before))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserting:
    """Rows that take the place of those with their index value and entity; of several with one key the last counts."""

    rows: Rows
    operation_id: OperationName = None

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        newest = {row[:2]: row for row in self.rows}
        return tuple(sorted((*(row for row in before if row[:2] not in newest), *newest.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleting:
    """Rows of `[start, end)` that go: those of one entity, or with a number below one, where these are given."""

    start: int
    end: int
    entity: str | None = None
    below: int | None = None
    by_age: bool = False
    """Whether it is retention that takes them: all before `end`."""
    operation_id: OperationName = None
    rows: Rows = ()

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        return tuple(row for row in before if not self._takes(row))

    def _takes(self, row: Row) -> bool:
        at, entity, number = row
        chosen = self.start <= at < self.end and self.entity in (None, entity)
        return chosen and (self.below is None or number < self.below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing:
    """Rows of `[start, end)` (of one entity, where it is given) that go, and others that come in their place."""

    start: int
    end: int
    rows: Rows
    entity: str | None = None
    operation_id: OperationName = None

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        kept = (row for row in before if not (self.start <= row[0] < self.end and self.entity in (None, row[1])))
        return tuple(sorted((*kept, *self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """The rows of an older version, again."""

    version: int
    operation_id: OperationName = None
    rows: Rows = ()

    def after(self, _before: Rows, at: RowsAt) -> Rows:
        """The rows once it is done."""
        return at(self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caring:
    """What leaves every row as it is."""

    care: Care
    detail: tuple[Any, ...] = ()
    operation_id: OperationName = None
    rows: Rows = ()

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done: the same."""
        return before


Intent = Appending | Upserting | Deleting | Replacing | Restoring | Caring
