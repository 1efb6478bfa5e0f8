"""A time-series table as a stream follows it: where the stream begins, how far a batch reaches, and what lies in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gapless.errors import CorruptTable, VersionNotFound
from gapless.formats.timeseries.actions import Commit, TableMeta, TableState
from gapless.formats.timeseries.codec.schema import COLUMNS_FEATURE
from gapless.formats.timeseries.common_schema import reading_meta
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.stream_plan import Item, commit_items, row_items
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.log.stream_plan import Budget, Cursor, OnChange, between, take
from gapless.log.versions import TooEarly, read_range, version_at
from gapless.model.instant import format_instant
from gapless.runtime.environment import Environment
from gapless.tables.shared.changes import CommitChange
from gapless.tables.shared.versions import check_past, no_version
from gapless.tables.shared.versions_gone import Follower, VersionsGone, pass_over
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.read.changes import Change, CommitRows, changes_between
from gapless.tables.timeseries.read.versions import open_version, remains


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a stream follows a table."""

    on_change: OnChange
    pass_missing: bool
    """Whether it goes on, with a warning, where versions that it has not emitted can be told no longer; else that is an error."""

    follower: Follower = field(default_factory=Follower)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """Where a stream begins, as its user says it: a version (inclusive), or a time."""

    version: int | Literal["earliest", "latest"] | None = None
    time_ns: int | None = None
    """Nanoseconds since 1970 UTC: the first version that was committed then or later."""
    names: tuple[str, str] = ("startingVersion", "startingTimestamp")
    """The options that say so."""


@dataclass(slots=True, kw_only=True)
class StreamLog:
    """The log of one table, from the version on that was the newest when it was last asked."""

    env: Environment
    newest: Snapshot[TableState]
    follow: StreamOptions
    _begin: Snapshot[TableState] | None = field(default=None, init=False)
    """The version whose rows come first, once it was read."""

    def refresh(self) -> None:
        """Look at the newest version. Raises VersionNotFound where another table lies there now, CorruptTable, StoreError."""
        seen = self.newest
        try:
            newest = self.env.drive(refresh(TIME_SERIES, seen))
        except CorruptTable:
            self._check_same(open_table(self.env, self.env.store.url))
            raise
        self._check_same(newest)
        self.newest = newest

    def check_made(self, created_ns: int, cursor: Cursor) -> None:
        """Raise VersionNotFound where a cursor is of another table than the one that lies here, or is past all versions of it."""
        if created_ns != self.newest.state.meta.created_ns:
            raise self._made_again(self.newest, created_ns, cursor.version - 1)
        if cursor.version > self.newest.version + (not cursor.whole):
            raise VersionNotFound(
                f"the stream has read version {cursor.version - 1} of {self.env.store.url}, which is not there",
                why=f"The table has versions 1 to {self.newest.version}; an older copy of it was brought back",
                fix=f"{self.follow.follower.afresh}, on a sink that knows which rows it has",
                version=cursor.version - 1,
            )

    def latest(self, start: Cursor, budget: Budget, until: int | None = None) -> Cursor:
        """The end of a batch that begins at `start`: as far as the budget and the versions to `until` (inclusive; all) reach.

        Raises InvalidOption at a change of rows that the stream does not take, VersionNotFound where versions can be told no longer,
        CorruptTable, StoreError.
        """
        last = self.newest.version if until is None else min(until, self.newest.version)
        cursor = start
        for place, items in self._versions(start, last + 1):
            cursor, budget = take(start if place == start.place else place, items, budget)
            if cursor.place == place:
                break
        return cursor

    def items(self, start: Cursor, end: Cursor) -> list[Item]:
        """What lies in a batch `[start, end)`; raises as `latest`."""
        if start.order >= end.order:
            return []
        return between(self._versions(start, end.version + (end.index > 0)), start, end)

    def told(self, items: list[Item]) -> list[CommitRows]:
        """Items with the segments that each took away and brought, those left out that turn out to change no row; raises as `latest`."""
        rewritten = [item.version for item in items if item.removed]
        rewrites: dict[int, CommitRows] = {}
        if rewritten:
            found, _ = changes_between(self.env, self.newest, rewritten[0], rewritten[-1] + 1)
            rewrites = {one.version: one for one in found}
        told = (rewrites.get(item.version) if item.removed else _inserts(item) for item in items)
        return [one for one in told if one is not None]

    def reading_meta(self, items: list[Item]) -> TableMeta:
        """The newest metadata, with each column in a type that also holds what it was when the rows of `items` were committed.

        That is its own, unless a restore took it back to a narrower one since. Raises InvalidOption where there is no such type, and
        as `latest`.
        """
        newest = self.newest.state.meta
        if not items or COLUMNS_FEATURE not in newest.reader_features:
            return newest
        first, last = items[0].version, items[-1].version
        then = open_version(self.env, self.newest, first).state.meta
        entries = self.env.drive(read_range(TIME_SERIES, first + 1, last + 1))
        return reading_meta([then, *(commit.meta for _, commit, _ in entries if commit.meta is not None), newest])

    def _versions(self, start: Cursor, end: int) -> Iterator[tuple[Cursor, tuple[Item, ...]]]:
        """The versions from the one of `start` to before `end`, each with all its items; those that have none too."""
        if start.whole:
            if not self.newest.state.keeps(start.version):
                start = self.past_missing(start)
            else:
                if self._begin is None or self._begin.version != start.version:
                    self._begin = open_version(self.env, self.newest, start.version)
                yield start.place, row_items(self._begin)
                start = start.past()
        while start.version < end:
            try:
                # One at a time: a batch may be full after any.
                version, commit, time_ns = self.entry(start.version)
            except VersionNotFound:
                # Expired and cleaned since it was looked at.
                self.refresh()
                if start.version >= self.newest.state.earliest:
                    raise
                start = self.past_missing(start)
                continue
            items = commit_items(version, commit, time_ns, self.follow.on_change)
            if items and not self.tells(version, items):
                start = self.past_missing(Cursor(version=version))
                continue
            yield Cursor(version=version), items
            start = start.past()

    def entry(self, version: int) -> tuple[int, Commit, int]:
        """The version, its commit and its commit time (nanoseconds since 1970 UTC). Raises VersionNotFound, CorruptTable, StoreError."""
        ((_, commit, time_ns),) = self.env.drive(read_range(TIME_SERIES, version, version + 1))
        return version, commit, time_ns

    def tells(self, version: int, items: tuple[Item, ...]) -> bool:
        """Whether a version is kept, and with it its files; and the one before it, where rows of that are needed."""
        earliest = self.newest.state.earliest
        return version >= earliest and (version > earliest or version == 1 or not items[0].removed)

    def past_missing(self, cursor: Cursor, rest: str | None = None) -> Cursor:
        """Where a stream goes on whose next version can be told no longer; raises VersionNotFound where that is an error.

        `rest` says what of a version, all rows of which were to be read, was not.
        """
        earliest = self.newest.state.earliest
        goes_on = Cursor(version=max(earliest, cursor.version + (cursor.version == earliest)))
        pass_over(self._missing(cursor, goes_on, rest), allowed=self.follow.pass_missing)
        return goes_on

    def _missing(self, cursor: Cursor, goes_on: Cursor, rest: str | None) -> VersionNotFound:
        state, first = self.newest.state, cursor.version + cursor.whole
        expired = f"Versions before {state.earliest} are expired, and files that only they used may be gone; {remains(state)}"
        before = f"The rows of version {first - 1} are needed too, and it is expired; {remains(state)}"
        if rest is None and cursor.whole:
            rest = f"the rows of version {cursor.version} from segment {cursor.index + 1} on"
        why = before if cursor.version == state.earliest else expired
        gone = VersionsGone(first=first, goes_on=goes_on.version, rest=rest or "", why=why)
        return gone.error(self.env.store.url, self.follow.follower)

    def _check_same(self, found: Snapshot[TableState]) -> None:
        seen = self.newest
        if found.state.meta.created_ns != seen.state.meta.created_ns:
            raise self._made_again(found, seen.state.meta.created_ns, seen.version)

    def _made_again(self, found: Snapshot[TableState], created_ns: int, version: int) -> VersionNotFound:
        """The error for a table, made at `created_ns`, that another one has taken the place of."""
        made, now = format_instant(created_ns), format_instant(found.state.meta.created_ns)
        return VersionNotFound(
            f"the table at {self.env.store.url} is not the one that the stream has read up to version {version}",
            why=f"That was made at {made}; it was removed, and another one made in its place at {now}",
            fix=self.follow.follower.afresh,
            version=version,
        )


def _inserts(item: Item) -> CommitRows:
    return CommitChange(version=item.version, time_ns=item.time_ns, change=Change(removed=(), added=item.added))


def first_cursor(log: StreamLog, start: StreamStart) -> Cursor:
    """Where a stream begins: with all rows of the newest version where no option says it, and then with what later ones change.

    Raises VersionNotFound for a version that is not there, or cannot be told any more and must be; InvalidTime.
    """
    newest, version = log.newest, start.version
    if start.time_ns is not None:
        return _since(log, start.time_ns, start.names)
    if version == "earliest":
        return _earliest(log)
    if version is None and newest.state.live:
        return Cursor(version=newest.version, whole=True)
    if version is None or version == "latest":
        return Cursor(version=newest.version + 1)
    if not 1 <= version <= newest.version + 1:
        raise no_version(version, newest.version, first=TIME_SERIES.first)
    return _kept(log, version)


def _earliest(log: StreamLog) -> Cursor:
    """The first version whose changes can be told."""
    earliest = log.newest.state.earliest
    if earliest > 1 and log.follow.on_change == "tell":
        items = commit_items(*log.entry(earliest), "tell")
        return Cursor(version=earliest + (bool(items) and not log.tells(earliest, items)))
    return Cursor(version=earliest)


def _since(log: StreamLog, time_ns: int, names: tuple[str, str]) -> Cursor:
    """The first version that was committed at `time_ns` (since 1970 UTC) or later."""
    check_past(log.env, time_ns, names)
    earliest = log.newest.state.earliest
    found = log.env.drive(version_at(TIME_SERIES, log.newest, time_ns - 1, first=earliest))
    if not isinstance(found, TooEarly):
        return Cursor(version=found + 1)
    # Versions that are expired may have come at that time or later, unless the earliest that is kept came then.
    return _kept(log, earliest if earliest == 1 or found.time_ns <= time_ns else earliest - 1)


def _kept(log: StreamLog, version: int) -> Cursor:
    cursor = Cursor(version=version)
    return cursor if version >= log.newest.state.earliest else log.past_missing(cursor)
