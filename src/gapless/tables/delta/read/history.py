"""The commits of a Delta table as its users see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gapless.formats.delta.actions import Commit, Json
from gapless.model.operation import OperationId
from gapless.tables.shared.history import duration_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    """Delta's name for it: WRITE, DELETE, MERGE, OPTIMIZE and the like."""
    engine: str
    parameters: Mapping[str, Json]
    metrics: Mapping[str, int]
    """What the writer counted, by Delta's names."""
    files: int
    """Files it made live."""
    bytes: int
    """Bytes of these."""
    removed_files: int
    """Files it took away."""
    read_version: int | None
    """The version it was decided on; None where the writer did not say."""
    isolation: str
    blind_append: bool
    """Whether it read nothing of the table."""
    user: str | None
    """Who committed, as far as the writer said."""
    message: str | None
    """What the writer noted (`userMetadata`)."""
    operation_id: OperationId | None
    duration: timedelta | None
    """From the call to the commit; None where the writer did not say."""
    commit_id: str


def history_entry(version: int, commit: Commit, time: datetime) -> DeltaHistoryEntry:
    """A commit as `history` shows it."""
    added = commit.added
    user = commit.info.get("userName") or commit.info.get("userId")
    message = commit.info.get("userMetadata")
    return DeltaHistoryEntry(
        version=version,
        time=time,
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        metrics=commit.metrics,
        files=len(added),
        bytes=sum(file.size for file in added),
        removed_files=len(commit.removed),
        read_version=commit.read_version,
        isolation=commit.isolation,
        blind_append=commit.blind_append,
        user=None if user is None else str(user),
        message=None if message is None else str(message),
        operation_id=commit.operation_id,
        duration=duration_of(commit.duration_ms),
        commit_id=commit.id,
    )
