"""What the actors of a simulation did and saw, as values for the auditor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gapless.model.properties import OnOverlap
from gapless.model.report import AppendReport

BUCKET_WIDTH = 10
"""Index values per bucket in simulated tables."""

Row = tuple[int, str, int]
"""(index value, entity, number): no two rows that are meant to be different have the same number."""
Bucket = tuple[str, int]
"""(entity, bucket id)."""
Outcome = Literal["acknowledged", "refused", "unknown", "killed"]


def buckets_of(rows: tuple[Row, ...]) -> frozenset[Bucket]:
    """The buckets in which rows lie."""
    return frozenset((entity, at // BUCKET_WIDTH) for at, entity, _ in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One append that someone wants done once."""

    rows: tuple[Row, ...]
    on_overlap: OnOverlap
    operation_id: tuple[str, int] | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One call of `append`. Times are simulated nanoseconds."""

    actor: str
    intent: Intent
    outcome: Outcome
    report: AppendReport | None = None
    """What an acknowledged call gave back."""
    error: Exception | None = None
    """What a refused or unknown call raised."""
    shared: bool = False
    """Whether other appends of the process came at the same moment, for a group commit."""
    ids: frozenset[str]
    """Every id that was drawn during the call: the id of a commit that it made is among them."""
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One opening, refresh or read: the version it gave, and for a read what lay in it."""

    actor: str
    version: int
    fresh: bool
    """Whether it promised the newest version."""
    rows: tuple[Row, ...] | None = None
    """All rows, in order; None where none were read."""
    buckets: frozenset[Bucket] | None = None
    """The coverage; None where it was not asked."""
    started_ns: int
    ended_ns: int


@dataclass(slots=True)
class History:
    """All that happened, in the order in which it ended."""

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    mishaps: list[str] = field(default_factory=list)
    """Errors that no fault excuses, with their traceback."""
    kills: int = 0
