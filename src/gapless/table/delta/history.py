"""A Delta table's commits as its users see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gapless.dialects.delta.actions import Commit, Json
from gapless.dialects.delta.dialect import DELTA
from gapless.errors import InvalidOption
from gapless.log.travel import read_back
from gapless.model.instant import NS_PER
from gapless.model.operation import OperationId
from gapless.table.delta.handle import DeltaHandle


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


def history_entries(entries: Iterable[tuple[int, Commit, int]]) -> Iterator[DeltaHistoryEntry]:
    """The entries of commits (version, commit, commit time), oldest first; a time that runs backward is shown as the one before."""
    latest = 0
    for version, commit, time_ns in entries:
        latest = max(latest, time_ns)
        yield _entry(version, commit, latest)


def _entry(version: int, commit: Commit, time_ns: int) -> DeltaHistoryEntry:
    added = commit.added
    user = commit.info.get("userName") or commit.info.get("userId")
    message = commit.info.get("userMetadata")
    return DeltaHistoryEntry(
        version=version,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // NS_PER["us"]),
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
        duration=None if commit.duration_ms is None else timedelta(milliseconds=commit.duration_ms),
        commit_id=commit.id,
    )


class Recalling(DeltaHandle):
    """A Delta table's past, as its log tells it."""

    def history(self, limit: int | None = None) -> list[DeltaHistoryEntry]:
        """The newest `limit` commits up to this version (all where not given), oldest first; a log that was cleaned has the later ones only.

        Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost, StoreError.
        """
        if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 0):
            raise InvalidOption(
                f"limit={limit!r} is no whole number from 0 up", fix="Pass limit=20", option="limit", value=limit
            )
        return list(history_entries(self._rim.drive(read_back(DELTA, self.version, limit))))
