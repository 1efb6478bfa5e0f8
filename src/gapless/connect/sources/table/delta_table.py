"""Delta tables as sources need them, with or without a change data feed."""

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
from gapless.formats.delta.action_codec import decode_metadata, encode_action
from gapless.formats.delta.actions import Metadata, TableState
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.read.change_rows import WholeFile, files_of
from gapless.tables.delta.read.stream_log import DeltaStreamLog
from gapless.tables.delta.read.versions import VERSIONS, VersionFiles, open_version
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.handle import Kind


class DeltaSourceTable(FollowedTable):
    """A Delta table."""

    kind: ClassVar[Kind] = "delta"
    versions = VERSIONS

    def __init__(self, table: DeltaTable, *, pass_missing: bool = False) -> None:
        """Through this handle; `pass_missing`: versions that can be told no longer are left out, with a warning."""
        super().__init__(table)
        self._table = table
        self._pass_missing = pass_missing
        self._known: DeltaStreamLog | None = None

    @property
    def _log(self) -> DeltaStreamLog:
        if self._known is None:
            context = context_of(self._table)
            self._known = DeltaStreamLog(
                env=context.env, newest=context.snapshot, pass_missing=self._pass_missing, follower=FOLLOWER
            )
        return self._known

    def _columns(self, state: TableState) -> SourceColumns:
        return _columns(state.metadata)

    def begin(self, at: Begin) -> tuple[int, bool]:
        """See `SourceTable.begin`."""
        newest = self._log.newest.version
        if at.time_ns is not None:
            return self._log.since(at.time_ns, ("start", at.option)), False
        if at.version is None:
            return newest, True
        if at.version == "latest":
            return newest + 1, False
        return self._log.first() if at.version == "earliest" else self._log.begin(at.version), False

    def encode(self, columns: SourceColumns) -> Mapping[str, Any]:
        """See `SourceTable.encode`."""
        (body,) = encode_action(columns.meta).values()
        assert isinstance(body, Mapping)
        return body

    def decode(self, body: Mapping[str, Any]) -> SourceColumns:
        """See `SourceTable.decode`."""
        return _columns(decode_metadata({**body, "schemaString": body["schemaString"]}, "the cursor"))

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`. Log checkpoints may have files in any order, so that they are read by age and path."""
        log = self._log
        snapshot = open_version(log.env, log.newest, version)
        files = sorted(snapshot.state.files.values(), key=lambda file: (file.modified_ms, file.key))

        def rows(_: SourceColumns) -> Iterator[pa.RecordBatch]:
            reader = FileReader.of(log.env.store, snapshot.state.metadata)
            with VersionFiles(env=log.env, snapshot=snapshot).reading(files):
                for _file, table in reader.read(files):
                    yield from map(inserted, table.to_batches())

        columns = _columns(snapshot.state.metadata)
        return CommitRead(time_ns=snapshot.time_ns, columns=columns, files=len(files), rows=rows)

    def commit(self, version: int) -> CommitRead:
        """See `SourceTable.commit`."""
        log = self._log
        found = log.at(version)
        changes = found.changes()
        # Files that came and went are read in that order; vectors and change files have both.
        in_order = all(isinstance(part, WholeFile) for part in changes)

        def rows(columns: SourceColumns) -> Iterator[pa.Table | pa.RecordBatch]:
            read = partial(log.rows, found, columns.meta)
            yield from read() if in_order else removals_first(read)

        return CommitRead(
            time_ns=found.after.time_ns,
            columns=_columns(found.after.state.metadata),
            changes_rows=found.changes_rows,
            files=sum(len(files_of(part)) for part in changes),
            rows=rows,
        )

    def past_missing(self, place: Place, gone: VersionNotFound) -> int:
        """See `SourceTable.past_missing`."""
        return self._log.past_missing(place.version, gone, place.rest)


def _columns(metadata: Metadata) -> SourceColumns:
    schema = to_arrow(metadata.schema).remove_metadata()
    return SourceColumns(schema=schema, stored=tuple(one.physical_name for one in metadata.schema.fields), meta=metadata)


def open_delta_source(location: str, storage_options: Mapping[str, str] | None, options: Mapping[str, Any]) -> TableSource:
    """A source out of a Delta table. Raises InvalidOption, InvalidTime, TableNotFound, StoreError."""
    asked = TableSourceOptions.parse(options)
    table = DeltaTable.open(location, storage_options=storage_options)
    return TableSource(DeltaSourceTable(table, pass_missing=asked.on_missing_versions == "earliest"), asked)
