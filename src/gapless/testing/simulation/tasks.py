"""Tasks of the actors of a simulation, and what came of them, as values for the auditor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gapless.testing.simulation.intents import Appending, Bucket, Care, Intent, OperationName, Row


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
