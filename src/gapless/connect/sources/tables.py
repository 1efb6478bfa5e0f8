"""Time-series and Delta tables as sources need them: what each version's commit did to the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from gapless.connect.sources.commit_order import removals_first
from gapless.errors import VersionNotFound
from gapless.files.compare.row_diff import CHANGE_TYPE, INSERT
from gapless.formats.delta.actions import AddFile, CdcFile, RemoveFile
from gapless.formats.delta.format import DELTA
from gapless.formats.timeseries.conflict.rules import change_of
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.formats.timeseries.stream_plan import changes_rows
from gapless.log.versions import read_range
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import context_of as delta_context
from gapless.tables.delta.read.versions import VersionFiles, earliest_version
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.changes import COMMIT_TIMESTAMP, COMMIT_VERSION, TYPE_FIELD
from gapless.tables.shared.handle import table_id
from gapless.tables.timeseries.handle import context_of as series_context
from gapless.tables.timeseries.read.view import TableView
from gapless.tables.timeseries.table import TimeSeriesTable

FEED = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRead:
    """What one commit did to the rows."""

    time_ns: int
    """Its commit time, nanoseconds since 1970 UTC."""
    inserts: bool
    """Whether it only added rows; one that only laid them out anew added none."""
    schema: pa.Schema
    """The table's columns then."""
    rows: Iterator[pa.RecordBatch]
    """In the columns of `schema`, and the kind of change of each behind; not read yet."""


class SourceTable(Protocol):
    """A table of one kind, as a source needs it."""

    url: str

    @property
    def table_id(self) -> str:
        """What tells it from a table made in its place."""
        ...

    def schema_at(self, version: int) -> pa.Schema:
        """The columns of a version; of the newest that is known where it is not there any more, or not yet."""
        ...

    def newest(self) -> int:
        """The newest version, asked for now. Raises StoreError."""
        ...

    def first(self) -> int:
        """The first version whose commit can be told."""
        ...

    def whole(self, version: int) -> CommitRead:
        """All rows of a version, as inserts. Raises VersionNotFound."""
        ...

    def commit(self, version: int, *, tell: bool) -> CommitRead:
        """What the commit of a version did; of one that changed rows no columns and rows unless `tell`.

        Raises VersionNotFound where that can be told no longer.
        """
        ...


class SeriesSourceTable:
    """A time-series table."""

    def __init__(self, table: TimeSeriesTable) -> None:
        """Through this handle."""
        self._table, self.url = table, table.url

    @property
    def table_id(self) -> str:
        """See `SourceTable.table_id`."""
        return table_id(self._table)

    def schema_at(self, version: int) -> pa.Schema:
        """See `SourceTable.schema_at`."""
        return _schema_at(self._table, version)

    def newest(self) -> int:
        """See `SourceTable.newest`."""
        return self._table.refresh().version

    def first(self) -> int:
        """See `SourceTable.first`."""
        earliest = series_context(self._table).snapshot.state.earliest
        return earliest if earliest == TIME_SERIES.first else earliest + 1

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`."""
        view = self._table.at(version=version)
        return _all_of(view, series_context(view).snapshot.time_ns)

    def commit(self, version: int, *, tell: bool) -> CommitRead:
        """See `SourceTable.commit`."""
        ((_, commit, time_ns),) = series_context(self._table).env.drive(read_range(TIME_SERIES, version, version + 1))
        only_added = change_of(commit) == "compact" or not changes_rows(commit)
        if not only_added and not tell:
            return _untold(time_ns)
        feed = self._table.changes(version, version)
        rows = iter(feed.to_batches()) if only_added else removals_first(feed.to_batches)
        return CommitRead(time_ns=time_ns, inserts=only_added, schema=_plain(feed.schema), rows=rows)


class DeltaSourceTable:
    """A Delta table, with or without a change data feed."""

    def __init__(self, table: DeltaTable) -> None:
        """Through this handle."""
        self._table, self.url = table, table.url

    @property
    def table_id(self) -> str:
        """See `SourceTable.table_id`."""
        return table_id(self._table)

    def schema_at(self, version: int) -> pa.Schema:
        """See `SourceTable.schema_at`."""
        return _schema_at(self._table, version)

    def newest(self) -> int:
        """See `SourceTable.newest`."""
        return self._table.refresh().version

    def first(self) -> int:
        """See `SourceTable.first`."""
        return delta_context(self._table).env.drive(earliest_version())

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`. Log checkpoints may have files in any order, so that they are read by age and path."""
        view = self._table.at(version=version)
        snapshot = delta_context(view).snapshot
        files = sorted(snapshot.state.files.values(), key=lambda file: (file.modified_ms, file.key))
        return self._added(view, files, snapshot.time_ns)

    def commit(self, version: int, *, tell: bool) -> CommitRead:
        """See `SourceTable.commit`. One that changed rows can be told only where the change data feed was on."""
        context = delta_context(self._table)
        ((_, commit, time_ns),) = context.env.drive(read_range(DELTA, version, version + 1))
        added = [one for one in commit.actions if isinstance(one, AddFile) and one.data_change]
        changed = any(isinstance(one, CdcFile) or (isinstance(one, RemoveFile) and one.data_change) for one in commit.actions)
        if changed and not tell:
            return _untold(time_ns)
        if changed:
            feed = self._table.changes(version, version)
            return CommitRead(time_ns=time_ns, inserts=False, schema=_plain(feed.schema), rows=removals_first(feed.to_batches))
        return self._added(self._table.at(version=version), added, time_ns)

    def _added(self, view: DeltaView, files: Sequence[AddFile], time_ns: int) -> CommitRead:
        """The rows of these files, in their order, in the columns of a version."""
        context = delta_context(view)
        stored = VersionFiles(env=context.env, snapshot=context.snapshot)
        reader = FileReader.of(context.env.store, context.snapshot.state.metadata)

        def rows() -> Iterator[pa.RecordBatch]:
            with stored.reading(files):
                for _, table in reader.read(files):
                    yield from map(_inserted, table.to_batches())

        return CommitRead(time_ns=time_ns, inserts=True, schema=_columns(view), rows=rows())


def _untold(time_ns: int) -> CommitRead:
    """A commit that changed rows, of which nobody asked how."""
    return CommitRead(time_ns=time_ns, inserts=False, schema=pa.schema([]), rows=iter(()))


def _schema_at(table: TimeSeriesTable | DeltaTable, version: int) -> pa.Schema:
    try:
        return _columns(table if version >= table.version else table.at(version=version))
    except VersionNotFound:
        return _columns(table)


def _columns(view: TableView | DeltaView) -> pa.Schema:
    return (view.schema or pa.schema([])).remove_metadata()


def _plain(feed: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in feed if field.name not in FEED])


def _all_of(view: TableView | DeltaView, time_ns: int) -> CommitRead:
    rows = (_inserted(batch) for batch in view.scan().to_batches())
    return CommitRead(time_ns=time_ns, inserts=True, schema=_columns(view), rows=rows)


def _inserted(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(INSERT, TYPE_FIELD.type), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], schema=batch.schema.append(TYPE_FIELD))
