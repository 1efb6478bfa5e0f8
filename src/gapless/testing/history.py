"""What the actors of a simulation did and saw, as values for the auditor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gapless.testing.intents import Bucket, Intent, Row

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
