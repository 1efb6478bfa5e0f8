"""What vacuums of every kind of table share: how old a file must be, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from gapless.errors import InvalidOption
from gapless.model.instant import NS_PER

Reason = Literal["live", "retained", "tagged", "recent", "in-flight", "unknown", "expired", "orphan"]
"""Why a file stays, or goes:

- live: the newest version has it, or a log checkpoint that is stored
- retained: an older version that is kept has it
- tagged: a version that a tag names has it
- recent: nothing needs it, but it was removed, or written and never committed, less than `older_than` ago
- in-flight: no version names it, but a writer at work may be about to commit it
- unknown: no name of ours, or it lies beyond a symbolic link: never touched
- expired: only versions that are expired have it: it goes
- orphan: a write that was never committed left it: it goes
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumEntry:
    """One file, and what is to become of it."""

    path: str
    """Relative to the table root."""
    size: int
    """Bytes."""
    reason: Reason
    version: int | None = None
    """The newest version that needs it, where an older one (retained) or a tagged one does."""
    tag: str | None = None
    """The name of that version, where a tag keeps it."""

    @property
    def goes(self) -> bool:
        """Whether vacuum deletes it."""
        return self.reason in DELETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The time and the ages that decide, all in nanoseconds."""

    now_ns: int
    """Since 1970 UTC."""
    older_than_ns: int
    """How long ago a segment must have been removed, or written in vain."""
    horizon_ns: int
    """How long a writer may take from its first file to its commit."""

    def is_stray(self, written_ns: int) -> bool:
        """Whether a file of ours that no version names may go, by the last sign that someone wrote it."""
        return self.reason_of_stray(written_ns) in DELETED

    def reason_of_stray(self, written_ns: int) -> Reason:
        """What becomes of a file of ours that no version names, by the last sign that someone wrote it."""
        age_ns = self.now_ns - written_ns
        if age_ns < self.horizon_ns:
            return "in-flight"
        return "recent" if age_ns < self.older_than_ns else "orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What `vacuum` deleted, or would delete, and why everything else stays."""

    url: str
    version: int
    """The version by which it decided; its own where it made a commit."""
    dry_run: bool
    """Whether nothing was changed."""
    entries: tuple[VacuumEntry, ...]
    """One for each file under data/, _coverage/ and _log_parts/, and each unfinished write, by path."""

    @property
    def deleted(self) -> tuple[VacuumEntry, ...]:
        """The files that went; those that would go, of a dry run."""
        return tuple(entry for entry in self.entries if entry.goes)

    @property
    def freed_bytes(self) -> int:
        """The size of those in bytes."""
        return sum(entry.size for entry in self.deleted)

    @property
    def files(self) -> Mapping[Reason, int]:
        """How many files there were for each reason that there was."""
        return Counter(entry.reason for entry in self.entries)


def parse_age(name: str, value: object) -> int:
    """An age in nanoseconds; raises InvalidOption for what is none, or a time to come."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidOption(
            f"{name}={value!r} is no age",
            why="It says how long ago, and so is a timedelta of 0 or more",
            fix=f"Pass one, such as {name}=timedelta(days=7)",
            option=name,
            value=value,
        )
    return value // timedelta(microseconds=1) * NS_PER["us"]


DELETED: frozenset[Reason] = frozenset({"expired", "orphan"})
