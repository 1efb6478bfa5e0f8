"""A time-series table as a stream of Spark's follows it: planned on the driver, read by Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gapless.errors import InvalidOption
from gapless.files.read.scan import ReadPlan, read
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.log.stream_plan import Budget, Cursor
from gapless.model.instant import format_instant, parse_instant
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup
from gapless.runtime.environment import Environment
from gapless.spark.reading.arrow_columns import shown_batches, shown_schema
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.options import SourceOptions
from gapless.spark.setup.packs import packs_of
from gapless.spark.stream.log import RunningColumns, series_columns, stream_options, stream_start
from gapless.spark.stream.offset import Offset, unreadable
from gapless.tables.timeseries.read.changes import CommitRows, rows_of_changes
from gapless.tables.timeseries.read.stream_log import StreamLog, first_cursor
from gapless.tables.timeseries.read.versions import reading_version
from gapless.tables.timeseries.read.view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStream:
    """Follows one table; see `FollowedTable`."""

    log: StreamLog
    running: RunningColumns

    @classmethod
    def of(cls, view: TableView, options: SourceOptions) -> SeriesStream:
        """From the version of a view on. Raises NotSupported for a table in memory, or without columns."""
        known = job_context(view)
        columns = series_columns(known.snapshot.state.meta)
        log = StreamLog(env=known.env, newest=known.snapshot, follow=stream_options(options))
        return cls(log=log, running=RunningColumns(table=columns, columns=options.columns, feed=options.change_feed))

    @property
    def newest(self) -> int:
        """See `FollowedTable.newest`."""
        return self.log.newest.version

    def refresh(self) -> None:
        """See `FollowedTable.refresh`."""
        self.log.refresh()
        self.running.check(series_columns(self.log.newest.state.meta))

    def first(self, options: SourceOptions) -> Offset:
        """See `FollowedTable.first`."""
        return Offset.first(
            format_instant(self.log.newest.state.meta.created_ns), first_cursor(self.log, stream_start(options))
        )

    def check_made(self, offset: Offset) -> None:
        """See `FollowedTable.check_made`."""
        self.log.check_made(_created_ns(offset), offset.cursor)

    def latest(self, start: Cursor, budget: Budget, until: int | None) -> Cursor:
        """See `FollowedTable.latest`."""
        return self.log.latest(start, budget, until)

    def parts(self, start: Cursor, end: Cursor, cores: int) -> list[InputPartition]:
        """See `FollowedTable.parts`."""
        items = self.log.items(start, end)
        meta = self.log.reading_meta(items)
        declared = self.running.read_as(series_columns(meta))
        return [
            StreamPart(store=self.log.env.store, meta=meta, declared=declared, feed=self.running.feed, told=pack)
            for pack in packed(self.log.told(items), cores)
        ]


def _created_ns(offset: Offset) -> int:
    """When the table of an offset was made; raises InvalidOption for an offset of another kind of table."""
    try:
        return parse_instant(offset.table)[0]
    except (ValueError, InvalidOption) as error:
        raise unreadable(offset.to_json(), f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class StreamPart(InputPartition):
    """Changes whose rows one task gives; picklable."""

    store: Store
    meta: TableMeta
    """The columns under which rows are read."""
    declared: pa.Schema
    """What is given of them, in the table's types."""
    feed: bool
    """Whether the columns of a change feed are behind; without them, changes only bring rows."""
    told: tuple[CommitRows, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in Spark's types, a row group in memory at a time, or what telling a change apart takes.

        Raises VersionNotFound where a version expired since it was planned and its files are gone; CorruptTable, StoreError.
        """
        env, shown = Environment(store=self.store), shown_schema(self.declared)
        for one in self.told:
            with reading_version(env, one.version - bool(one.change.removed)):
                yield from shown_batches(self._rows(one), shown)

    def _rows(self, told: CommitRows) -> Iterator[pa.RecordBatch]:
        if self.feed:
            return rows_of_changes(self.store, TableState(meta=self.meta, live={}), (told,), self.declared).read()
        assert self.meta.schema is not None
        plan = ReadPlan(
            groups=tuple(ReadGroup(segments=(segment,), sort=False) for segment in told.change.added),
            index=self.meta.index,
            schema=self.meta.schema,
            ids=self.meta.ids,
            columns=tuple(self.declared.names),
        )
        return read(self.store, plan)


def packed(told: Sequence[CommitRows], cores: int) -> list[tuple[CommitRows, ...]]:
    """The changes, in their order, in packs of about one size, as `packs_of` makes them of segments."""
    rest = iter(told)
    return [tuple(next(rest) for _ in pack) for pack in packs_of(map(_weighed, told), cores)]


def _weighed(told: CommitRows) -> Segment:
    """A segment as large as all that must be read for a change."""
    segments = (*told.change.removed, *told.change.added)
    known = [one.size for one in segments if one.size is not None]
    size = sum(known) if len(known) == len(segments) else None
    return replace(segments[0], size=size, rows=sum(one.rows for one in segments))
