"""What a push or pull did, and how two copies of a lake stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gapless.lake.sync.plan import Conflict

Direction = Literal["push", "pull"]
Relation = Literal["same", "ours is newer", "theirs is newer", "diverged", "not here", "not there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSync:
    """What was copied of one table."""

    table: str
    runs: int
    """Manifests, one a run and node."""
    snapshots: int
    objects: int
    size: int
    """Bytes that were copied."""
    log_version: int | None = None
    """The version that the copy has, where the table has a log of its own."""
    expired: int = 0
    """Runs and snapshots that were removed from the copy, since its newest snapshot has their rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What one push or pull did."""

    direction: Direction
    url: str
    number: int | None
    """Of the state that was pushed or pulled; None where it was pulled from a lake that runs write into."""
    time_ns: int
    """When that state was copied from the lake that runs write into, nanoseconds since 1970 UTC."""
    tables: tuple[TableSync, ...]
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """Which state a copy is of."""

    source: str | None
    """Where it was pulled from; None where it is pushed to."""
    number: int
    time_ns: int
    """When the state was copied from the lake that runs write into, nanoseconds since 1970 UTC."""
    age_s: float
    """How long ago that is."""
    tables: tuple[str, ...]
    snapshots: Mapping[str, str] = field(default_factory=dict)
    """Tables of which only one snapshot is here."""
    lacking: tuple[str, ...] = ()
    """Tables that are there and not here."""
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables of which only these partitions are here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """How one table stands on both sides."""

    table: str
    columns: Relation
    runs_to_push: int = 0
    snapshots_to_push: int = 0
    runs_to_pull: int = 0
    snapshots_to_pull: int = 0
    log_ours: int | None = None
    log_theirs: int | None = None
    conflict: str = ""
    """What keeps them from coming together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStatus:
    """How a lake and a copy of it stand."""

    url: str
    replica: ReplicaInfo | None
    """What is told of this lake, where it is a copy itself."""
    remote: ReplicaInfo | None
    """The same of the other side; None where runs write into it, or nothing is there yet."""
    config: Relation
    config_difference: str
    """The lines of `lake.toml` that differ, from theirs to ours."""
    tables: tuple[TableStatus, ...]

    @property
    def in_sync(self) -> bool:
        """Whether a push and a pull would copy nothing."""
        return self.config == "same" and all(
            one.columns == "same"
            and not (one.runs_to_push or one.snapshots_to_push or one.runs_to_pull or one.snapshots_to_pull or one.conflict)
            and one.log_ours == one.log_theirs
            for one in self.tables
        )
