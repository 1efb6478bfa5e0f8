"""A table as a stream follows it: where the stream begins, how far a batch reaches, and what lies in one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.dialects.timeseries.identity_codec import COLUMNS_FEATURE
from gapless.dialects.timeseries.reading_meta import reading_meta
from gapless.dialects.timeseries.stream_plan import Budget, Cursor, Item, OnChange, between, commit_items, row_items, take
from gapless.errors import CorruptTable, LogWarning, VersionNotFound
from gapless.log.dialect import Snapshot
from gapless.log.snapshot import refresh
from gapless.log.travel import read_range
from gapless.model.instant import format_instant
from gapless.runtime.driver import Rim
from gapless.spark.options import SourceOptions
from gapless.table.changes import Change, Told, told_changes
from gapless.table.lifecycle import open_table
from gapless.table.travel import open_version, remains


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """How a stream follows a table."""

    on_change: OnChange
    pass_missing: bool
    """Whether it goes on, with a warning, where versions that it has not emitted can be told no longer; else that is an error."""

    @classmethod
    def of(cls, options: SourceOptions) -> Follow:
        """As the options say."""
        on_change: OnChange = "tell" if options.change_feed else options.on_data_change
        return cls(on_change=on_change, pass_missing=options.on_missing_versions == "earliest")


@dataclass(slots=True, kw_only=True)
class StreamLog:
    """The log of one table, from the version on that was the newest when it was last asked."""

    rim: Rim
    newest: Snapshot[TableState]
    follow: Follow
    _begin: Snapshot[TableState] | None = field(default=None, init=False)
    """The version whose rows come first, once it was read."""

    def refresh(self) -> None:
        """Look at the newest version. Raises VersionNotFound where another table lies there now, CorruptTable, StoreError."""
        seen = self.newest
        try:
            newest = self.rim.drive(refresh(TIME_SERIES, seen))
        except CorruptTable:
            self._check_same(open_table(self.rim, self.rim.store.url))
            raise
        self._check_same(newest)
        self.newest = newest

    def check_made(self, created_ns: int, cursor: Cursor) -> None:
        """Raise VersionNotFound where a cursor is of another table than the one that lies here, or is past all versions of it."""
        if created_ns != self.newest.state.meta.created_ns:
            raise made_again(self.rim.store.url, self.newest, created_ns, cursor.version - 1)
        if cursor.version > self.newest.version + (not cursor.whole):
            raise VersionNotFound(
                f"the stream has read version {cursor.version - 1} of {self.rim.store.url}, which is not there",
                why=f"The table has versions 1 to {self.newest.version}; an older copy of it was brought back",
                fix="Start the stream with a checkpoint location of its own, on a sink that knows which rows it has",
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

    def told(self, items: list[Item]) -> list[Told]:
        """Items with the segments that each took away and brought, those left out that turn out to change no row; raises as `latest`."""
        rewritten = [item.version for item in items if item.removed]
        rewrites: dict[int, Told] = {}
        if rewritten:
            found, _ = told_changes(self.rim, self.newest, rewritten[0], rewritten[-1] + 1)
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
        then = open_version(self.rim, self.newest, first).state.meta
        entries = self.rim.drive(read_range(TIME_SERIES, first + 1, last + 1))
        return reading_meta([then, *(commit.meta for _, commit, _ in entries if commit.meta is not None), newest])

    def _versions(self, start: Cursor, end: int) -> Iterator[tuple[Cursor, tuple[Item, ...]]]:
        """The versions from the one of `start` to before `end`, each with all its items; those that have none too."""
        if start.whole:
            if not self.newest.state.keeps(start.version):
                start = self.past_missing(start)
            else:
                if self._begin is None or self._begin.version != start.version:
                    self._begin = open_version(self.rim, self.newest, start.version)
                yield start.place, row_items(self._begin)
                start = start.past()
        while start.version < end:
            try:
                # One at a time: a batch may be full after any.
                ((version, commit, time_ns),) = self.rim.drive(read_range(TIME_SERIES, start.version, start.version + 1))
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

    def tells(self, version: int, items: tuple[Item, ...]) -> bool:
        """Whether a version is kept, and with it its files; and the one before it, where rows of that are needed."""
        earliest = self.newest.state.earliest
        return version >= earliest and (version > earliest or version == 1 or not items[0].removed)

    def past_missing(self, cursor: Cursor) -> Cursor:
        """Where a stream goes on whose next version can be told no longer; raises VersionNotFound where that is an error."""
        earliest = self.newest.state.earliest
        goes_on = Cursor(version=max(earliest, cursor.version + (cursor.version == earliest)))
        missing = _missing(self.rim.store.url, cursor, goes_on, self.newest.state)
        if not self.follow.pass_missing:
            raise missing
        warnings.warn(f"{missing.what}. {missing.why}. The stream goes on without.", LogWarning, stacklevel=2)
        return goes_on

    def _check_same(self, found: Snapshot[TableState]) -> None:
        seen = self.newest
        if found.state.meta.created_ns != seen.state.meta.created_ns:
            raise made_again(self.rim.store.url, found, seen.state.meta.created_ns, seen.version)


def _inserts(item: Item) -> Told:
    return Told(version=item.version, time_ns=item.time_ns, change=Change(removed=(), added=item.added))


def made_again(url: str, found: Snapshot[TableState], created_ns: int, version: int) -> VersionNotFound:
    """The error for a stream whose table, made at `created_ns`, another one has taken the place of."""
    made, now = format_instant(created_ns), format_instant(found.state.meta.created_ns)
    return VersionNotFound(
        f"the table at {url} is not the one that the stream has read up to version {version}",
        why=f"That was made at {made}; it was removed, and what lies here was made at {now}",
        fix="Start the stream with a checkpoint location of its own",
        version=version,
    )


def _missing(url: str, cursor: Cursor, goes_on: Cursor, state: TableState) -> VersionNotFound:
    first, last = cursor.version + cursor.whole, goes_on.version - 1
    versions = f"what version {first} changed" if first == last else f"what versions {first} to {last} changed"
    if cursor.whole:
        versions = f"the rows of version {cursor.version} from segment {cursor.index + 1} on" + f", and {versions}," * (
            first <= last
        )
    expired = f"Versions before {state.earliest} are expired, and files that only they used may be gone; {remains(state)}"
    before = f"The rows of version {first - 1} are needed too, and it is expired; {remains(state)}"
    return VersionNotFound(
        f"{versions} can be told no longer of {url}",
        why=before if cursor.version == state.earliest else expired,
        fix=f'Set onMissingVersions to "earliest", which leaves that out and goes on with version {goes_on.version}, or start a new stream,'
        " with a checkpoint location of its own, which gives all rows that there are first",
        version=first,
    )
