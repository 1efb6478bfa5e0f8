"""Look back in a log: find the version that was the newest at a time, and read the commits of a range of versions."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.errors import CorruptTable, VersionNotFound
from gapless.log.checkpoint import read_checkpoint
from gapless.log.effects import Concurrently, Conversation, Get, perform
from gapless.log.format import Entry, Snapshot, State, TableFormat
from gapless.log.segment import BATCH, list_log, lost_commit, read_commits
from gapless.model.instant import NS_PER


@dataclass(frozen=True, slots=True)
class TooEarly:
    """No such version is as old as that; the first was committed then (nanoseconds since 1970 UTC)."""

    first: int
    time_ns: int


def version_at(
    table_format: TableFormat[Entry, State], newest: Snapshot[State], time_ns: int, *, first: int | None = None
) -> Conversation[int | TooEarly]:
    """Time travel: the newest version from `first` on (where not given, of all) that was committed at `time_ns` (since 1970 UTC) or before.

    Reads about log2 of the commits there are. Commit times are those in the log, in whole microseconds, and never run backward;
    where another writer's do, it is a version at or before that time whose successor is after it. Raises CorruptTable.
    """
    if time_ns >= _shown(newest.time_ns):
        return newest.version
    first = table_format.first if first is None else first
    first_ns = yield from time_of(table_format, first)
    if time_ns < first_ns:
        return TooEarly(first, first_ns)
    low, high = first, newest.version
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from time_of(table_format, middle)) <= time_ns:
            low = middle
        else:
            high = middle
    return low


def read_back(
    table_format: TableFormat[Entry, State], version: int, limit: int | None = None, *, since_ns: int | None = None
) -> Conversation[list[tuple[int, Entry, int]]]:
    """The newest `limit` commits up to `version` (all where not given) as (version, entry, commit time), oldest first.

    With `since_ns` (since 1970 UTC) no more than are needed to hold one of that time or before. A log that was cleaned gives those that it
    still has. Raises CorruptTable where a commit is lost.
    """
    end = table_format.first - 1 if limit is None else max(table_format.first - 1, version - limit)
    entries: list[tuple[int, Entry, int]] = []
    for newest in range(version, end, -BATCH):
        versions = range(newest, max(newest - BATCH, end), -1)
        found = yield from perform(Concurrently(tuple(Get(table_format.path_of(at)) for at in versions)))
        for at, data in zip(versions, found, strict=True):
            if data is None:
                if (yield from list_log(table_format)).cleaned_until(at) is None:
                    raise lost_commit(table_format, at, "The commit is missing although others exist")
                return _in_order(entries)
            entries.append((at, *table_format.decode(data, at)))
        if since_ns is not None and any(0 < time_ns <= since_ns for _, _, time_ns in entries):
            break
    return _in_order(entries)


def _in_order(entries: list[tuple[int, Entry, int]]) -> list[tuple[int, Entry, int]]:
    """Oldest first, each that says no commit time with that of the one before it; what begins with none has 0."""
    ordered: list[tuple[int, Entry, int]] = []
    for version, entry, time_ns in reversed(entries):
        ordered.append((version, entry, time_ns or (ordered[-1][2] if ordered else 0)))
    return ordered


def read_range(table_format: TableFormat[Entry, State], start: int, end: int) -> Conversation[list[tuple[int, Entry, int]]]:
    """The commits of versions `[start, end)`, which there are, as (version, entry, commit time).

    Raises VersionNotFound where the log was cleaned of one, CorruptTable where one is lost.
    """
    try:
        return (yield from read_commits(table_format, range(start, end)))
    except CorruptTable:
        kept = (yield from list_log(table_format)).cleaned_until(start)
        if kept is None:
            raise
        raise _cleaned(start, kept) from None


def _cleaned(version: int, kept: int) -> VersionNotFound:
    return VersionNotFound(
        f"what version {version} changed can be told no longer",
        why=f"The log was cleaned of its commit; it begins with version {kept + 1} now",
        fix=f"Ask from version {kept + 1} on, and read version {kept} whole",
        version=version,
    )


def time_of(table_format: TableFormat[Entry, State], version: int) -> Conversation[int]:
    """A version's commit time as it is shown; from its log checkpoint where the log was cleaned of the commit."""
    data = yield from perform(Get(table_format.path_of(version)))
    if data is not None:
        return _shown(table_format.decode(data, version)[1])
    for checkpoint in (yield from list_log(table_format)).checkpoints:
        if checkpoint.version == version and (found := (yield from read_checkpoint(table_format, checkpoint))) is not None:
            return _shown(found.time_ns)
    raise lost_commit(table_format, version, "Neither its commit nor a log checkpoint of it is there")


def _shown(time_ns: int) -> int:
    """A commit time as people see it, in whole microseconds; other writers count nanoseconds."""
    return time_ns - time_ns % NS_PER["us"]
