"""A Delta table as a stream of Spark's follows it: planned on the driver, read by Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gapless.errors import VersionNotFound
from gapless.files.compare.row_diff import INSERT
from gapless.formats.delta.actions import Metadata
from gapless.log.stream_plan import Budget, Cursor, OnChange, between, data_change, take
from gapless.model.protocols import Store
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.setup.job_context import delta_job_context
from gapless.spark.setup.options import SourceOptions
from gapless.spark.setup.packs import packs_of
from gapless.spark.stream.log import RunningColumns, delta_columns, stream_options, stream_start
from gapless.spark.stream.offset import Offset
from gapless.tables.delta.files.open_file import PathResolver
from gapless.tables.delta.read.change_rows import CommitRows, FileChange, WholeFile, files_of, rows_of_commit
from gapless.tables.delta.read.stream_log import DeltaStreamLog, DeltaVersion
from gapless.tables.delta.read.versions import open_version
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.shared.changes import COMMIT_FIELDS, CommitChange, change_feed
from gapless.tables.shared.versions_gone import Follower

_KEPT_VERSIONS = 1_000
"""What is emitted of so many versions is remembered: Spark asks how far a batch reaches, and then what lies in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaItem:
    """What is emitted in one piece: rows of one file, or all that one commit changed."""

    told: CommitRows
    fed: bool
    """Whether the table had a change data feed then."""

    @property
    def files(self) -> int:
        """Data files that must be read for it."""
        return sum(len(files_of(part)) for part in self.told.change)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(file.size for part in self.told.change for file in files_of(part))


@dataclass(slots=True, kw_only=True)
class DeltaStream:
    """Follows one table; see `FollowedTable`."""

    log: DeltaStreamLog
    running: RunningColumns
    on_change: OnChange
    _items: dict[int, tuple[DeltaItem, ...]] = field(default_factory=dict)
    """By version, what its commit changed."""

    @classmethod
    def of(cls, view: DeltaView, options: SourceOptions) -> DeltaStream:
        """From the version of a view on. Raises NotSupported for a table in memory, or without columns."""
        known, follow = delta_job_context(view), stream_options(options)
        columns = delta_columns(known.snapshot.state.metadata)
        log = DeltaStreamLog(env=known.env, newest=known.snapshot, pass_missing=follow.pass_missing, follower=Follower())
        running = RunningColumns(table=columns, columns=options.columns, feed=options.change_feed)
        return cls(log=log, running=running, on_change=follow.on_change)

    @property
    def newest(self) -> int:
        """See `FollowedTable.newest`."""
        return self.log.newest.version

    def refresh(self) -> None:
        """See `FollowedTable.refresh`."""
        self.log.refresh()
        self.running.check(delta_columns(self._target))

    def first(self, options: SourceOptions) -> Offset:
        """See `FollowedTable.first`."""
        return Offset.first(self._target.id, self._first(options))

    def _first(self, options: SourceOptions) -> Cursor:
        start, log = stream_start(options), self.log
        if start.time_ns is not None:
            return Cursor(version=log.since(start.time_ns, start.names))
        if start.version == "earliest":
            return Cursor(version=log.first())
        if start.version is None and log.newest.state.files:
            return Cursor(version=self.newest, whole=True)
        return Cursor(version=log.begin(start.version) if isinstance(start.version, int) else self.newest + 1)

    def check_made(self, offset: Offset) -> None:
        """See `FollowedTable.check_made`."""
        url, read, follower = self.log.env.store.url, offset.cursor.version - 1, self.log.follower
        if offset.table != self._target.id:
            raise VersionNotFound(
                f"the table at {url} is not the one that the stream has read up to version {read}",
                why=f"That has the id {offset.table}; it was removed, and another one made in its place, with the id {self._target.id}",
                fix=follower.afresh,
                version=read,
            )
        if offset.cursor.version > self.newest + (not offset.cursor.whole):
            raise VersionNotFound(
                f"the stream has read version {read} of {url}, which is not there",
                why=f"The table has versions 0 to {self.newest}; an older copy of it was brought back",
                fix=f"{follower.afresh}, on a sink that knows which rows it has",
                version=read,
            )

    def latest(self, start: Cursor, budget: Budget, until: int | None) -> Cursor:
        """See `FollowedTable.latest`."""
        last = self.newest if until is None else min(until, self.newest)
        cursor = start
        for place, items in self._versions(start, last + 1):
            cursor, budget = take(start if place == start.place else place, items, budget)
            if cursor.place == place:
                break
        return cursor

    def parts(self, start: Cursor, end: Cursor, cores: int) -> list[InputPartition]:
        """See `FollowedTable.parts`."""
        if start.order >= end.order:
            return []
        items = between(self._versions(start, end.version + (end.index > 0)), start, end)
        declared = self.running.read_as(delta_columns(self._target))
        return [
            DeltaStreamPart(
                store=self.log.env.store, target=self._target, declared=declared, feed=self.running.feed, items=pack
            )
            for pack in packs_of(items, cores)
        ]

    @property
    def _target(self) -> Metadata:
        """The columns in which rows are given."""
        return self.log.newest.state.metadata

    def _versions(self, start: Cursor, end: int) -> Iterator[tuple[Cursor, tuple[DeltaItem, ...]]]:
        """The versions from the one of `start` to before `end`, each with all its items; those that have none too."""
        if start.whole:
            try:
                items = self._rows_of(start.version)
            except VersionNotFound as gone:
                start = Cursor(version=self.log.past_missing(start.version, gone, f"the rows of version {start.version}"))
            else:
                yield start.place, items
                start = start.past()
        while start.version < end:
            try:
                items = self._changes_of(start.version)
            except VersionNotFound as gone:
                start = Cursor(version=self.log.past_missing(start.version, gone))
                continue
            yield Cursor(version=start.version), items
            start = start.past()

    def _rows_of(self, version: int) -> tuple[DeltaItem, ...]:
        """All rows of a version. Log checkpoints may have files in any order, so that they are told by age and path."""
        snapshot = open_version(self.log.env, self.log.newest, version)
        files = sorted(snapshot.state.files.values(), key=lambda file: (file.modified_ms, file.key))
        return self._apart(version, snapshot.time_ns, (WholeFile(kind=INSERT, file=file) for file in files))

    def _changes_of(self, version: int) -> tuple[DeltaItem, ...]:
        known = self._items.get(version)
        if known is None:
            if len(self._items) >= _KEPT_VERSIONS:
                self._items.clear()
            known = self._items[version] = self._told(self.log.at(version))
        return known

    def _told(self, found: DeltaVersion) -> tuple[DeltaItem, ...]:
        told = found.commit_rows()
        if not told.change:
            return ()
        if found.changes_rows and self.on_change != "tell":
            if self.on_change == "error":
                raise data_change(told.version, found.commit.operation)
            return ()
        self.log.check(found, self._target)
        if found.changes_rows:
            return (DeltaItem(told=told, fed=found.is_fed),)
        return self._apart(told.version, told.time_ns, told.change)

    def _apart(self, version: int, time_ns: int, parts: Iterable[FileChange]) -> tuple[DeltaItem, ...]:
        """An item for each of the files that a version brought."""
        each: list[tuple[FileChange, ...]] = [(part,) for part in parts]
        told = [CommitChange(version=version, time_ns=time_ns, change=one) for one in each]
        return tuple(DeltaItem(told=one, fed=True) for one in told)


@dataclass(frozen=True, kw_only=True)
class DeltaStreamPart(InputPartition):
    """Changes whose rows one task gives; picklable."""

    store: Store
    target: Metadata
    """The columns under which rows are read."""
    declared: pa.Schema
    """What is given of them, in the table's types."""
    feed: bool
    """Whether the columns of a change feed are behind; without them, changes only bring rows."""
    items: tuple[DeltaItem, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in Spark's types. Raises CorruptTable where a file is gone, which a vacuum may have taken; StoreError."""
        yield from shown_batches(self._rows(), shown_schema(self.declared))

    def _rows(self) -> Iterator[pa.RecordBatch]:
        if self.feed:
            names = tuple(self.declared.names[: -1 - len(COMMIT_FIELDS)])
            read = ((one.told, rows) for one in self.items for rows in self._read(one, names))
            yield from change_feed(self.declared, lambda: read).read()
            return
        names = tuple(self.declared.names)
        for one in self.items:
            for rows in self._read(one, names):
                yield from rows.select(names).to_batches()

    def _read(self, one: DeltaItem, names: tuple[str, ...]) -> Iterator[pa.Table]:
        return rows_of_commit(PathResolver(self.store), self.target, one.told, names, fed=one.fed)
