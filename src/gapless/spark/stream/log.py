"""A table as a stream follows it: where the stream begins, how far a batch reaches, and what lies in one.

Where a stream that has no checkpoint yet begins.

Which columns a stream gives, and whether the table still has them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gapless.errors import CorruptTable, InvalidTime, LogWarning, NotSupported, SchemaMismatch, VersionNotFound
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.codec.schema import COLUMNS_FEATURE
from gapless.formats.timeseries.common_schema import reading_meta
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.stream_plan import Budget, Cursor, Item, OnChange, between, commit_items, row_items, take
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.log.versions import TooEarly, read_range, version_at
from gapless.model.instant import format_instant
from gapless.predicate.range import check_columns
from gapless.runtime.environment import Environment
from gapless.spark.reading.arrow_columns import shown_schema
from gapless.spark.reading.frame import view_of
from gapless.spark.setup.executors import job_context
from gapless.spark.setup.options import SourceOptions
from gapless.tables.shared.changes import CommitChange, feed_schema
from gapless.tables.shared.versions import no_version, parse_instant_value
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.read.changes import Change, CommitRows, changes_between
from gapless.tables.timeseries.read.history import SchemaDiff, diff_schemas
from gapless.tables.timeseries.read.versions import open_version, remains


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a stream follows a table."""

    on_change: OnChange
    pass_missing: bool
    """Whether it goes on, with a warning, where versions that it has not emitted can be told no longer; else that is an error."""

    @classmethod
    def of(cls, options: SourceOptions) -> StreamOptions:
        """As the options say."""
        on_change: OnChange = "tell" if options.change_feed else options.on_data_change
        return cls(on_change=on_change, pass_missing=options.on_missing_versions == "earliest")


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
            raise made_again(self.env.store.url, self.newest, created_ns, cursor.version - 1)
        if cursor.version > self.newest.version + (not cursor.whole):
            raise VersionNotFound(
                f"the stream has read version {cursor.version - 1} of {self.env.store.url}, which is not there",
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
                ((version, commit, time_ns),) = self.env.drive(read_range(TIME_SERIES, start.version, start.version + 1))
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
        missing = _missing(self.env.store.url, cursor, goes_on, self.newest.state)
        if not self.follow.pass_missing:
            raise missing
        warnings.warn(f"{missing.what}. {missing.why}. The stream goes on without.", LogWarning, stacklevel=2)
        return goes_on

    def _check_same(self, found: Snapshot[TableState]) -> None:
        seen = self.newest
        if found.state.meta.created_ns != seen.state.meta.created_ns:
            raise made_again(self.env.store.url, found, seen.state.meta.created_ns, seen.version)


def _inserts(item: Item) -> CommitRows:
    return CommitChange(version=item.version, time_ns=item.time_ns, change=Change(removed=(), added=item.added))


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


def first_cursor(log: StreamLog, options: SourceOptions) -> Cursor:
    """Where a stream begins: with all rows of the newest version where no option says it, and then with what later ones change.

    Raises VersionNotFound for a version that is not there, or cannot be told any more and must be; InvalidTime.
    """
    newest, version = log.newest, options.starting_version
    if options.starting_timestamp is not None:
        return _since(log, parse_instant_value(options.starting_timestamp, name="startingTimestamp"))
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
        ((version, commit, time_ns),) = log.env.drive(read_range(TIME_SERIES, earliest, earliest + 1))
        items = commit_items(version, commit, time_ns, "tell")
        return Cursor(version=earliest + (bool(items) and not log.tells(version, items)))
    return Cursor(version=earliest)


def _since(log: StreamLog, time_ns: int) -> Cursor:
    """The first version that was committed at `time_ns` (since 1970 UTC) or later."""
    if time_ns > log.env.clock.now_ns():
        raise InvalidTime(
            f"startingTimestamp={format_instant(time_ns)!r} lies in the future",
            why="Which version will be the first then is not known yet",
            fix='Pass a time that has been, or startingVersion "latest"',
            value=time_ns,
        )
    earliest = log.newest.state.earliest
    found = log.env.drive(version_at(TIME_SERIES, log.newest, time_ns - 1, first=earliest))
    if not isinstance(found, TooEarly):
        return Cursor(version=found + 1)
    # Versions that are expired may have come at that time or later, unless the earliest that is kept came then.
    return _kept(log, earliest if earliest == 1 or found.time_ns <= time_ns else earliest - 1)


def _kept(log: StreamLog, version: int) -> Cursor:
    cursor = Cursor(version=version)
    return cursor if version >= log.newest.state.earliest else log.past_missing(cursor)


def columns_of(options: SourceOptions) -> pa.Schema:
    """The declared columns of a stream that begins now; raises as opening the table, and as `stream_columns`."""
    meta = job_context(view_of(options.path, None, None)).snapshot.state.meta
    return stream_columns(meta, options.columns, feed=options.change_feed)


def stream_columns(meta: TableMeta, columns: Sequence[str] | None, *, feed: bool) -> pa.Schema:
    """The declared columns of a stream: those asked for, all where None, and with `feed` those of a change feed behind.

    Raises NotSupported while the table has no columns, UnknownColumn, InvalidOption.
    """
    if meta.schema is None:
        raise NotSupported(
            "a table without columns cannot be streamed",
            why="Spark fixes the columns of a stream before it starts, and this table takes them from its first rows",
            fix="Append rows first, or make the table with schema=",
            feature="streams of tables without columns",
        )
    if feed:
        return feed_schema(meta.schema or pa.schema([]), columns)
    names = tuple(meta.schema.names if columns is None else columns)
    check_columns(names, meta.schema)
    return pa.schema([meta.schema.field(name) for name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningColumns:
    """The columns that a stream was started with."""

    meta: TableMeta
    """What the table was then."""
    columns: tuple[str, ...] | None
    """Those that were asked for; None for all."""
    feed: bool

    @property
    def declared(self) -> pa.Schema:
        """In the table's types."""
        return stream_columns(self.meta, self.columns, feed=self.feed)

    @property
    def shown(self) -> pa.Schema:
        """In Spark's types; raises UnsupportedType."""
        return shown_schema(self.declared)

    def read_as(self, meta: TableMeta) -> pa.Schema:
        """The declared columns in the types of `meta`, under which rows are read; raises SchemaMismatch where Spark was told others."""
        declared = stream_columns(meta, self.columns, feed=self.feed)
        wide = [
            f"{a.name!r} was {b.type} and is {a.type}" for a, b in zip(self.declared, declared, strict=True) if a.type != b.type
        ]
        if shown_schema(declared) == self.shown:
            return declared
        raise SchemaMismatch(
            f"the batch has rows from before a restore took columns back to narrower types: {'; '.join(wide)}",
            why="Spark was told the types of now, which do not hold all values of those rows",
            fix="Widen the column again and make the DataFrame anew, or start a stream after the restore, with startingVersion and a"
            " checkpoint location of its own",
            differences=tuple(wide),
        )

    def check(self, now: TableMeta) -> None:
        """Raise SchemaMismatch where the table's columns are others now, told apart by their identities as well as by their names."""
        changes = _told(diff_schemas(self.meta, now), self.columns)
        if changes:
            raise columns_changed(changes)


def columns_changed(changes: Sequence[str]) -> SchemaMismatch:
    """The error that stops a stream whose columns are the table's no longer."""
    return SchemaMismatch(
        f"the columns of the table changed under the stream: {'; '.join(changes)}",
        why="Spark fixes the columns of a stream when its DataFrame is made; no row of the batch was given",
        fix="Make the DataFrame anew, with load(), and start the query with the same checkpoint: it goes on where it was, and shows"
        " older and newer rows under the columns of now",
        differences=tuple(changes),
    )


def _told(diff: SchemaDiff, columns: tuple[str, ...] | None) -> list[str]:
    """What differs, one text a column, as far as it touches the columns asked for."""
    wanted = None if columns is None else set(columns)
    lost = [f"{name!r} was dropped" for name in diff.dropped if wanted is None or name in wanted]
    renamed = [f"{old!r} is {new!r} now" for old, new in diff.renamed.items() if wanted is None or wanted & {old, new}]
    retyped = [
        f"{name!r} was {old} and is {new}" for name, (old, new) in diff.retyped.items() if wanted is None or name in wanted
    ]
    added = [f"{name!r} was added" for name in diff.added if wanted is None or name in wanted]
    told = lost + renamed + retyped + added
    return told or (["they come in another order"] if diff.reordered and wanted is None else [])
