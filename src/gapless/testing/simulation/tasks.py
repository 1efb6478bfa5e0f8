"""Tasks and intended changes of a simulation, as values: each change knows which rows a table holds once it is done.

This is the whole model that the auditor replays: for every commit, the rows after it are `intent.after(rows before it)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
MARK = 10**6
"""What a merge or an update multiplies its own number by, before it adds the row's: below it lies the row's first number, for ever."""
Care = Literal["compact", "vacuum", "expire", "tag", "untag", "add_column", "zorder", "checkpoint", "clean_log", "abort"]
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
class Changing:
    """Rows that take the place of those with their index value and entity, and others whose key's rows go; of several of one key the last
    counts.
    """

    rows: Rows
    removes: frozenset[int]
    """The numbers of those that go."""
    operation_id: OperationName = None

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        newest = {row[:2]: row for row in self.rows}
        puts = (row for row in newest.values() if row[2] not in self.removes)
        return tuple(sorted((*(row for row in before if row[:2] not in newest), *puts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwriting:
    """Rows that take the place of all of some entities."""

    rows: Rows
    entities: tuple[str, ...]
    operation_id: OperationName = None

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        return tuple(sorted((*(row for row in before if row[1] not in self.entities), *self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """Rows of which each marks all those with its index value and entity, or comes in where there is none; no two have one key."""

    rows: Rows
    operation_id: OperationName = None

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        marks = {row[:2]: row[2] for row in self.rows}
        known = {row[:2] for row in before}
        kept = ((*row[:2], marked(row[2], marks.get(row[:2]))) for row in before)
        return tuple(sorted((*kept, *(row for row in self.rows if row[:2] not in known))))


def marked(number: int, mark: int | None) -> int:
    """A row's number once it was marked."""
    return number if mark is None else mark * MARK + number % MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Updating:
    """Rows of `[start, end)` that are marked, each of one entity where it is given."""

    start: int
    end: int
    mark: int
    entity: str | None = None
    operation_id: OperationName = None
    rows: Rows = ()

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done."""
        return tuple(sorted((*row[:2], marked(row[2], self.mark if self._takes(row) else None)) for row in before))

    def _takes(self, row: Row) -> bool:
        return self.start <= row[0] < self.end and self.entity in (None, row[1])


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
class Maintenance:
    """What leaves every row as it is."""

    care: Care
    detail: tuple[Any, ...] = ()
    operation_id: OperationName = None
    rows: Rows = ()

    def after(self, before: Rows, _at: RowsAt) -> Rows:
        """The rows once it is done: the same."""
        return before


Intent = Appending | Upserting | Changing | Overwriting | Merging | Updating | Deleting | Replacing | Restoring | Maintenance


@dataclass(frozen=True, slots=True)
class Submit:
    """Make a change, and with an operation id send it again until the answer is clear."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class AppendTogether:
    """Append several at once, as threads that share the handle do."""

    intents: tuple[Appending, ...]


@dataclass(frozen=True, slots=True)
class RestoreEarlier:
    """Restore the version that lies so many before the one that the handle sees."""

    versions: int
    operation_id: OperationName = None


@dataclass(frozen=True, slots=True)
class Maintain:
    """Tidy up: compact, vacuum, expire, tag, add a column."""

    care: Care
    amount: int
    """Seconds that a vacuum spares, versions that expiry keeps, versions that a tag goes back; else anything."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open the table anew."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Move the handle to the newest version."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read rows and coverage of the handle's version, which others may outrun for `linger_s` seconds meanwhile."""

    linger_s: float


@dataclass(frozen=True, slots=True)
class ReadOld:
    """Read the version that lies so many before the one that the handle sees."""

    versions: int
    linger_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PauseUntil:
    """Do nothing until so many seconds after the beginning, when the others wake too."""

    until_s: float


Task = Submit | AppendTogether | RestoreEarlier | Maintain | Open | Refresh | Read | ReadOld | Pause | PauseUntil


def may_be_resent(task: Task) -> bool:
    """Whether a task is a change that can be sent twice without harm."""
    match task:
        case Submit(intent):
            return intent.operation_id is not None
        case AppendTogether(intents):
            return all(intent.operation_id is not None for intent in intents)
    return False


def is_change(task: Task) -> bool:
    """Whether a task changes rows."""
    return isinstance(task, Submit | AppendTogether | RestoreEarlier)


Outcome = Literal["acknowledged", "refused", "unknown", "killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One call that changes the table. Times are simulated nanoseconds."""

    actor: str
    intent: Intent
    outcome: Outcome
    report: Any = None
    """What an acknowledged call gave back."""
    error: Exception | None = None
    """What a refused or unknown call raised."""
    shared: bool = False
    """Whether other appends of the process came at the same moment, for a group commit."""
    ids: frozenset[str]
    """Every id that was drawn during the call: the id of a commit that it made is among them."""
    started_ns: int
    ended_ns: int

    @property
    def version(self) -> int | None:
        """The version that its report names; None without."""
        return getattr(self.report, "version", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One opening, refresh or read: the version it gave, and for a read what lay in it."""

    actor: str
    version: int
    fresh: bool
    """Whether it promised the newest version."""
    asked: bool = False
    """Whether the version was asked for by its number."""
    rows: tuple[Row, ...] | None = None
    """All rows, in order; None where none were read."""
    buckets: frozenset[Bucket] | None = None
    """The coverage; None where it was not asked."""
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A version that could not be read, since it is said to be kept no longer."""

    actor: str
    version: int
    error: Exception
    started_ns: int
    ended_ns: int


@dataclass(slots=True)
class History:
    """All that happened, in the order in which it ended."""

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    mishaps: list[str] = field(default_factory=list)
    """Errors that no fault excuses, with their traceback."""
    kills: int = 0
