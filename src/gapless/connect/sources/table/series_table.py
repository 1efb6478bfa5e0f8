"""Time-series tables as sources need them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.sources.table.commit_order import removals_first
from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.place import Place
from gapless.connect.sources.table.source import TableSource
from gapless.connect.sources.table.source_table import FOLLOWER, Begin, CommitRead, FollowedTable, SourceColumns, inserted
from gapless.errors import VersionNotFound
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.codec.metadata import decode_meta, encode_meta
from gapless.formats.timeseries.stream_plan import changes_rows, commit_items
from gapless.log.stream_plan import Cursor, OnChange
from gapless.tables.shared.handle import Kind
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.read.stream_log import StreamLog, StreamOptions, StreamStart, first_cursor
from gapless.tables.timeseries.read.versions import VERSIONS, open_version, reading_version
from gapless.tables.timeseries.table import TimeSeriesTable


class SeriesSourceTable(FollowedTable):
    """A time-series table."""

    kind: ClassVar[Kind] = "timeseries"
    versions = VERSIONS

    def __init__(self, table: TimeSeriesTable, *, on_change: OnChange = "error", pass_missing: bool = False) -> None:
        """Through this handle; `pass_missing`: versions that can be told no longer are left out, with a warning."""
        super().__init__(table)
        self._table = table
        self._follow = StreamOptions(on_change=on_change, pass_missing=pass_missing, follower=FOLLOWER)
        self._known: StreamLog | None = None
        self._last: tuple[int, TableMeta] | None = None

    @property
    def _log(self) -> StreamLog:
        if self._known is None:
            context = context_of(self._table)
            self._known = StreamLog(env=context.env, newest=context.snapshot, follow=self._follow)
        return self._known

    def _columns(self, state: TableState) -> SourceColumns:
        return _columns(state.meta)

    def begin(self, at: Begin) -> tuple[int, bool]:
        """See `SourceTable.begin`."""
        start = StreamStart(version=at.version, time_ns=at.time_ns, names=("start", at.option))
        cursor = first_cursor(self._log, start)
        return cursor.version, cursor.whole

    def encode(self, columns: SourceColumns) -> Mapping[str, Any]:
        """See `SourceTable.encode`."""
        return encode_meta(columns.meta)

    def decode(self, body: Mapping[str, Any]) -> SourceColumns:
        """See `SourceTable.decode`."""
        return _columns(decode_meta(body))

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`."""
        view = self._table.at(version=version)
        snapshot = context_of(view).snapshot

        def rows(_: SourceColumns) -> Iterator[pa.RecordBatch]:
            yield from map(inserted, view.scan().to_batches())

        columns = _columns(snapshot.state.meta)
        return CommitRead(time_ns=snapshot.time_ns, columns=columns, files=len(snapshot.state.live), rows=rows)

    def commit(self, version: int) -> CommitRead:
        """See `SourceTable.commit`."""
        log = self._log
        _, commit, time_ns = log.entry(version)
        items = list(commit_items(version, commit, time_ns, "tell"))
        if items and not log.tells(version, tuple(items)):
            raise VersionNotFound(f"what version {version} changed can be told no longer", version=version)
        meta = commit.meta or self._meta_at(version)
        self._last = version, meta

        def read(columns: SourceColumns) -> Iterator[pa.Table]:
            state = TableState(meta=columns.meta, live={})
            for one in log.told(items):
                with reading_version(log.env, version - bool(one.change.removed)):
                    yield from one.change.rows(log.env.store, state)

        def rows(columns: SourceColumns) -> Iterator[pa.Table | pa.RecordBatch]:
            rewritten = any(item.removed for item in items)
            yield from removals_first(partial(read, columns)) if rewritten else read(columns)

        return CommitRead(
            time_ns=time_ns,
            columns=_columns(meta),
            changes_rows=bool(items) and changes_rows(commit),
            files=sum(item.files for item in items),
            rows=rows,
        )

    def past_missing(self, place: Place, gone: VersionNotFound) -> int:
        """See `SourceTable.past_missing`."""
        self._log.refresh()
        state, rest = self._log.newest.state, place.rest
        if state.keeps(place.version) and (place.whole or place.version > state.earliest):
            raise gone
        # What is left of a version that was begun is told as the rest of it, and not among the versions that follow.
        return self._log.past_missing(Cursor(version=place.version, whole=bool(rest)), rest).version

    def _meta_at(self, version: int) -> TableMeta:
        if self._last is not None and self._last[0] in (version - 1, version):
            return self._last[1]
        return open_version(self._log.env, self._log.newest, version).state.meta


def _columns(meta: TableMeta) -> SourceColumns:
    schema = (meta.schema or pa.schema([])).remove_metadata()
    return SourceColumns(schema=schema, stored=tuple(meta.ids.stored_name(one.name) for one in schema), meta=meta)


def open_series_source(location: str, storage_options: Mapping[str, str] | None, options: Mapping[str, Any]) -> TableSource:
    """A source out of a time-series table. Raises InvalidOption, InvalidTime, TableNotFound, StoreError."""
    asked = TableSourceOptions.parse(options)
    table = TimeSeriesTable.open(location, storage_options=storage_options)
    pass_missing = asked.on_missing_versions == "earliest"
    return TableSource(SeriesSourceTable(table, on_change=asked.on_change, pass_missing=pass_missing), asked)
