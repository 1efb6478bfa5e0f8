"""The log segment that makes one version of a table: a log checkpoint and the commits after it; listings of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gapless.errors import CorruptTable
from gapless.log.effects import Concurrently, Conversation, Get, ListNames, perform
from gapless.log.format import Entry, State, StoredCheckpoint, TableFormat

BATCH = 256
"""Commits that are requested together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LogSegment:
    """A contiguous run of the log that makes a table's state at `version`: at most one checkpoint, and the commits to replay after it.

    Its guarantees are checked when it is made; ValueError says which does not hold:

    1. There is no gap between its commits.
    2. Only commits past the checkpoint are in it, the first right after it; without one they begin with the table's first.
    3. The checkpoint is whole: of one in several parts all are there.
    4. It ends at `version`, with a commit or with the checkpoint itself.

    >>> LogSegment(version=12, checkpoint=StoredCheckpoint(10, ("log/10.checkpoint",)), commits=(11, 12), first=0)
    LogSegment(version=12, checkpoint=10, commits=11..12)
    """

    version: int
    checkpoint: StoredCheckpoint | None
    commits: tuple[int, ...]
    """Versions of the commits to replay, oldest first."""
    first: int
    """The number of a table's first version."""

    def __post_init__(self) -> None:
        for before, after in zip(self.commits, self.commits[1:], strict=False):
            if after != before + 1:
                raise ValueError(f"{self}: commit {after} follows commit {before}")
        start = self.first if self.checkpoint is None else self.checkpoint.version + 1
        if self.commits and self.commits[0] != start:
            raise ValueError(f"{self}: the first commit is {self.commits[0]} and not {start}")
        if self.checkpoint is not None and len(set(self.checkpoint.paths)) != self.checkpoint.parts:
            raise ValueError(f"{self}: {len(set(self.checkpoint.paths))} parts of the checkpoint's {self.checkpoint.parts}")
        if (end := self.commits[-1] if self.commits else start - 1) != self.version or end < self.first:
            raise ValueError(f"{self}: it ends at version {end}")

    def __repr__(self) -> str:
        checkpoint, commits = "none", "none"
        if self.checkpoint is not None:
            parts = f" ({self.checkpoint.parts} parts)" if self.checkpoint.parts > 1 else ""
            checkpoint = f"{self.checkpoint.version}{parts}"
        if self.commits:
            commits = f"{self.commits[0]}..{self.commits[-1]}" if len(self.commits) > 1 else str(self.commits[0])
        return f"LogSegment(version={self.version}, checkpoint={checkpoint}, commits={commits})"


@dataclass(frozen=True, slots=True)
class LogListing:
    """A listing of a log's folder: the versions of its commits, and its whole checkpoints, both in ascending order."""

    commits: tuple[int, ...]
    """There may be gaps: a commit may be lost, and beside a writer a listing may lack one and have the one after it."""
    checkpoints: tuple[StoredCheckpoint, ...]

    @classmethod
    def parse(cls, table_format: TableFormat[Entry, State], names: Iterable[str]) -> LogListing:
        """What the paths of a folder's objects say; other objects are passed over."""
        names = tuple(names)
        commits = {version for name in names if (version := table_format.version_of(name)) is not None}
        return cls(tuple(sorted(commits)), tuple(table_format.checkpoints_in(names)))

    def cleaned_until(self, version: int) -> int | None:
        """The checkpoint at or past `version` from which the log is whole again, where it was cleaned of that version's commit; None
        where the commit is there, or lost.

        Cleaning deletes the oldest commits and leaves a checkpoint behind them; a commit that is missing among others is lost.
        """
        oldest = self.commits[0] if self.commits else version + 1
        if oldest <= version:
            return None
        versions = (checkpoint.version for checkpoint in self.checkpoints)
        return min((found for found in versions if found >= version and found >= oldest - 1), default=None)


def list_log(table_format: TableFormat[Entry, State]) -> Conversation[LogListing]:
    """List the whole log. Raises StoreError."""
    return LogListing.parse(table_format, (yield from perform(ListNames(table_format.folder))))


def read_commits(
    table_format: TableFormat[Entry, State],
    versions: Sequence[int],
    prefetched: Mapping[str, bytes] = MappingProxyType({}),
    *,
    before_ns: int = 0,
) -> Conversation[list[tuple[int, Entry, int]]]:
    """Read the commits of versions in a row as (version, entry, commit time); `prefetched` has some of them by path, `before_ns` is the
    commit time of the version before.

    Raises CorruptTable where one is missing.
    """
    entries: list[tuple[int, Entry, int]] = []
    for first in range(0, len(versions), BATCH):
        paths = {version: table_format.path_of(version) for version in versions[first : first + BATCH]}
        unread = tuple(Get(path) for path in paths.values() if path not in prefetched)
        answers = yield from perform(Concurrently(unread))
        read = {**prefetched, **{get.path: data for get, data in zip(unread, answers, strict=True) if data is not None}}
        for version, path in paths.items():
            if path not in read:
                raise lost_commit(table_format, version)
            entries.append(decode_commit(table_format, read[path], version, entries[-1][2] if entries else before_ns))
    return entries


def decode_commit(table_format: TableFormat[Entry, State], data: bytes, version: int, before_ns: int) -> tuple[int, Entry, int]:
    """A commit as (version, entry, commit time); where it has no time, that of the commit before it. Raises CorruptTable."""
    entry, time_ns = table_format.decode(data, version)
    return version, entry, time_ns or before_ns


def lost_commit(
    table_format: TableFormat[Entry, State], version: int, why: str = "The commit is missing although later ones exist"
) -> CorruptTable:
    """The error for a commit that should be there and is not."""
    before = (
        f"; {table_format.open_at}(path, version={version - 1}) reads what was before it"
        if version > table_format.first
        else ""
    )
    return CorruptTable(
        f"version {version} is lost: {table_format.path_of(version)} is not there",
        why=why,
        fix=f"Bring the file back from a backup{before}",
        path=table_format.path_of(version),
    )
