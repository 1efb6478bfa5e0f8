"""A table's commits as its users see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gapless.dialects.timeseries.actions import AddSegment, Commit, Removed, RemoveSegment, TableState
from gapless.model.instant import NS_PER
from gapless.model.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    engine: str
    parameters: Mapping[str, object]
    rows: int
    """Rows of the segments it added."""
    segments: int
    """Segments it added."""
    bytes: int | None
    """Bytes of the segments it added; None where another writer left a size out."""
    removed_rows: int | None
    """Rows of the segments it took away; None where vacuum has forgotten one and the commit that added it was not read."""
    removed_segments: int
    """Segments it took away."""
    removed_bytes: int | None
    """Bytes of the segments it took away; None as for `removed_rows` and `bytes`."""
    duration: timedelta | None
    """From the call to the commit; None where the writer did not say."""
    tags: tuple[str, ...]
    """The names that the newest version known to the table gives this one."""
    commit_id: str


def history_entries(entries: Iterable[tuple[int, Commit, int]], state: TableState) -> list[HistoryEntry]:
    """The entries of commits (version, commit, commit time), oldest first. `state` is that of the last of them, or of a later
    version; it knows the tags, and segments that were removed.
    """
    known: dict[str, Segment | Removed] = dict(state.removed)
    return [_entry(version, commit, time_ns, state, known) for version, commit, time_ns in entries]


def _entry(version: int, commit: Commit, time_ns: int, state: TableState, known: dict[str, Segment | Removed]) -> HistoryEntry:
    removed: list[Segment | Removed | None] = []
    for action in commit.actions:
        if isinstance(action, AddSegment):
            known[action.segment.path] = action.segment
        elif isinstance(action, RemoveSegment):
            removed.append(known.get(action.path))
    return HistoryEntry(
        version=version,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // NS_PER["us"]),
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        rows=sum(segment.rows for segment in commit.added),
        segments=len(commit.added),
        bytes=_total([segment.size for segment in commit.added]),
        removed_rows=_total([None if gone is None else gone.rows for gone in removed]),
        removed_segments=len(removed),
        removed_bytes=_total([None if gone is None else gone.size for gone in removed]),
        duration=None if commit.duration_ms is None else timedelta(milliseconds=commit.duration_ms),
        tags=tuple(sorted(name for name, tagged in state.tags.items() if tagged == version)),
        commit_id=commit.id,
    )


def _total(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
