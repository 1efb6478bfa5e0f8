"""Iceberg tables as sources need them: versions are the sequence numbers of the snapshots that a branch or tag follows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.snapshots import Operation, Snapshot

from gapless.connect.sources.table.place import Place
from gapless.connect.sources.table.source_table import Begin, CommitRead, ConsecutiveVersions, SourceColumns, inserted
from gapless.errors import InvalidOption, LogWarning, UnsupportedTable, VersionNotFound, nearest
from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, surplus_rows
from gapless.model.instant import NS_PER, format_instant
from gapless.model.protocols import Clock
from gapless.tables.iceberg.columns import arrow_schema
from gapless.tables.iceberg.reading import plan_manifests, plan_tasks, read_task, removes_rows
from gapless.tables.iceberg.table import IcebergTable, ancestors_of, version_of
from gapless.tables.shared.changes import TYPE_FIELD
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.versions import parse_instant_value, whole_number

MAIN = "main"


class IcebergSourceTable(ConsecutiveVersions):
    """An Iceberg table, along a branch, up to a tag or to one snapshot."""

    kind: ClassVar[Kind] = "iceberg"

    def __init__(
        self,
        table: IcebergTable,
        *,
        ref: str = MAIN,
        snapshot_id: int | None = None,
        columns_of_now: bool = False,
        pass_missing: bool = False,
    ) -> None:
        """`columns_of_now`: a version is read in the table's columns of now, rather than in those that it had. Raises UnsupportedTable."""
        self._table, self._ref, self._snapshot_id = table, ref, snapshot_id
        self._of_now, self._pass_missing = columns_of_now, pass_missing
        self.url, self.table_id = table.options.place, table.table_id
        self._read: int | None = None
        self._chain: list[Snapshot] = []
        self._by_version: dict[int, Snapshot] = {}
        if table.metadata.format_version < 2:
            raise UnsupportedTable(
                f"{self.url} is of version 1 of Iceberg",
                why="Its snapshots have no sequence numbers, by which cursors go",
                fix="Upgrade it in Spark: ALTER TABLE … SET TBLPROPERTIES ('format-version'='2')",
                needs="Iceberg version 1",
            )
        self._follow()

    # -- its history -----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Look at the history that the metadata tells, oldest first, and by sequence number."""
        metadata = self._table.metadata
        head = self._head()
        self._chain = list(ancestors_of(metadata, head))[::-1]
        self._by_version = {version_of(one): one for one in self._chain}

    def _head(self) -> Snapshot | None:
        metadata = self._table.metadata
        if self._snapshot_id is not None:
            found = metadata.snapshot_by_id(self._snapshot_id)
            if found is None:
                raise self._gone(f"snapshot {self._snapshot_id} of {self.url} is not there", 0)
            return found
        if self._ref in metadata.refs:
            return metadata.snapshot_by_id(metadata.refs[self._ref].snapshot_id)
        if self._ref == MAIN:
            return None
        raise InvalidOption(
            f"ref={self._ref!r} names no branch or tag of {self.url}",
            fix=nearest(self._ref, metadata.refs),
            option="ref",
            value=self._ref,
        )

    @property
    def _newest(self) -> int:
        return version_of(self._chain[-1]) if self._chain else 0

    @property
    def _first(self) -> int:
        """The first version that can be told."""
        return 1 if self._is_whole else version_of(self._chain[0])

    @property
    def _is_whole(self) -> bool:
        """Whether the history is kept from the beginning on. That a snapshot has no parent says nothing: expiry takes it away."""
        return not self._chain or version_of(self._chain[0]) == 1

    def _at(self, version: int) -> Snapshot | None:
        """The newest snapshot of a version, or before it."""
        return next((one for one in reversed(self._chain) if version_of(one) <= version), None)

    def _gone(self, what: str, version: int, why: str = "It may have been expired") -> VersionNotFound:
        known = f"versions {version_of(self._chain[0])} to {self._newest}" if self._chain else "no snapshot"
        return VersionNotFound(
            what, why=f"{why}; there are {known}", fix="Start the source without its cursor", version=version
        )

    @property
    def clock(self) -> Clock:
        """See `SourceTable.clock`."""
        return self._table.env.clock

    def newest(self) -> int:
        """See `SourceTable.newest`."""
        self._table.refresh()
        if self._table.table_id != self.table_id:
            raise self._gone(f"the table at {self.url} is another one than was read", self._newest, "It was made anew")
        self._follow()
        if self._read is not None:
            self._check_read(self._read, self._newest + 1)
        return self._newest

    def _check_read(self, snapshot_id: int, version: int) -> None:
        """Raise VersionNotFound where a snapshot that was read before a version is not among those that the newest one follows."""
        if not self._chain or any(one.snapshot_id == snapshot_id for one in self._chain):
            if self._chain:
                return
            raise self._gone(f"snapshot {snapshot_id} of {self.url}, which was read, is not there", version)
        first = self._chain[0]
        expired = self._table.metadata.snapshot_by_id(snapshot_id) is None
        if first.parent_snapshot_id == snapshot_id or (expired and version <= version_of(first)):
            return
        raise VersionNotFound(
            f"snapshot {snapshot_id} of {self.url}, which was read, is none that {self._ref!r} follows any more",
            why="The table was rolled back, or the branch replaced: what was given of it is not taken back",
            fix="Start without the cursor, into a sink of a higher generation",
            version=version - 1,
        )

    def mark(self, place: Place) -> Mapping[str, Any]:
        """See `SourceTable.mark`: the id of the snapshot that was read last, or is being read."""
        last = self._at(place.version if place.whole or place.row else place.version - 1)
        return {} if last is None else {"snapshot_id": last.snapshot_id}

    def check_mark(self, place: Place, state: Mapping[str, Any]) -> None:
        """See `SourceTable.check_mark`."""
        if (told := state.get("snapshot_id")) is not None:
            self._check_read(int(told), place.version)

    # -- places in it ----------------------------------------------------------------------------------------------------

    def begin(self, at: Begin) -> tuple[int, bool]:
        """See `SourceTable.begin`."""
        if at.time_ns is not None:
            return self._since(at.time_ns), False
        if at.version is None:
            return self._newest, True
        if at.version == "latest":
            return self._newest + 1, False
        if at.version == "earliest":
            return self._first, False
        if at.version < self._first and not self._pass_missing:
            raise self._gone(f"version {at.version} of {self.url} can be told no longer", at.version)
        if at.version > self._newest + 1:
            raise self._gone(f"version {at.version} of {self.url} is not there yet", at.version, "It is yet to come")
        return max(at.version, self._first), False

    def _since(self, time_ns: int) -> int:
        found = next((one for one in self._chain if one.timestamp_ms * NS_PER["ms"] >= time_ns), None)
        if found is self._chain[0] if self._chain else False:
            if not self._is_whole and not self._pass_missing:
                raise self._gone(f"what was committed since {format_instant(time_ns)} can be told no longer", self._first)
            return self._first
        return self._newest + 1 if found is None else version_of(found)

    def version_of(self, version: object, time: object) -> int:
        """See `SourceTable.version_of`."""
        if time is not None:
            return self.last_by(parse_instant_value(time, name="time"))
        number = whole_number(version)
        before_the_first = number == 0 and self._is_whole
        if number is None or (number not in self._by_version and not before_the_first):
            raise self._gone(f"version {version!r} of {self.url} is not there", number or 0)
        return number

    def last_by(self, time_ns: int) -> int:
        """See `SourceTable.last_by`."""
        found = next((one for one in reversed(self._chain) if one.timestamp_ms * NS_PER["ms"] <= time_ns), None)
        if found is None and not self._is_whole:
            raise self._gone(f"the version of {format_instant(time_ns)} is not there", self._first)
        return version_of(found)

    # -- columns ---------------------------------------------------------------------------------------------------------

    def columns_at(self, version: int) -> SourceColumns:
        """See `SourceTable.columns_at`."""
        return _columns(self._schema(None if version > self._newest else self._at(version)))

    def _schema(self, snapshot: Snapshot | None) -> Schema:
        metadata = self._table.metadata
        known = None if snapshot is None or self._of_now else snapshot.schema_id
        return next((one for one in metadata.schemas if one.schema_id == known), metadata.schema())

    def encode(self, columns: SourceColumns) -> Mapping[str, Any]:
        """See `SourceTable.encode`."""
        told: dict[str, Any] = columns.meta.model_dump(mode="json", by_alias=True)
        return told

    def decode(self, body: Mapping[str, Any]) -> SourceColumns:
        """See `SourceTable.decode`."""
        return _columns(Schema.model_validate(body))

    # -- rows ------------------------------------------------------------------------------------------------------------

    def whole(self, version: int) -> CommitRead:
        """See `SourceTable.whole`."""
        snapshot = self._by_version.get(version)
        if snapshot is None and version:
            raise self._gone(f"version {version} of {self.url} is not there", version)
        self._read = None if snapshot is None else snapshot.snapshot_id
        tasks = plan_tasks(self._table.metadata, self._table.io, snapshot)
        return self._told(snapshot, tasks)

    def commit(self, version: int) -> CommitRead:
        """See `SourceTable.commit`. A version of another branch, or one that lays rows out anew, has nothing."""
        snapshot = self._by_version.get(version)
        if version < self._first:
            raise self._gone(f"what version {version} of {self.url} did can be told no longer", version)
        if snapshot is None:
            return self._told(self._at(version), ())
        self._read = snapshot.snapshot_id
        operation = None if snapshot.summary is None else snapshot.summary.operation
        if operation == Operation.REPLACE:
            return self._told(snapshot, ())
        metadata, io, parent = self._table.metadata, self._table.io, snapshot.parent_snapshot_id
        before = None if parent is None else metadata.snapshot_by_id(parent)
        if operation == Operation.APPEND or before is None:
            mine = [one for one in snapshot.manifests(io) if one.added_snapshot_id == snapshot.snapshot_id]
            if operation != Operation.APPEND and any(removes_rows(one) for one in mine):
                raise self._gone(f"what version {version} of {self.url} changed can be told no longer", version)
            return self._told(snapshot, plan_manifests(metadata, io, mine, added_by=snapshot.snapshot_id))
        then, now = plan_tasks(metadata, io, before), plan_tasks(metadata, io, snapshot)
        old, new = _by_file(then), _by_file(now)
        gone = [task for task in then if new.get(task.file.file_path) != old[task.file.file_path]]
        came = [task for task in now if old.get(task.file.file_path) != new[task.file.file_path]]
        return self._told(snapshot, came, gone)

    def past_missing(self, place: Place, gone: VersionNotFound) -> int:
        """See `SourceTable.past_missing`."""
        self.newest()
        if not self._pass_missing or self._first <= place.version:
            raise gone
        rest = f", and {place.rest}" if place.rest else ""
        message = f"{self.url}: versions {place.version} to {self._first - 1} are expired{rest}, and are left out"
        warnings.warn(message, LogWarning, stacklevel=2)
        return self._first

    def _told(self, snapshot: Snapshot | None, came: Sequence[FileScanTask], gone: Sequence[FileScanTask] = ()) -> CommitRead:
        """Rows of files that came; those of files that are gone, or have lost rows, less those that came again."""

        def rows(columns: SourceColumns) -> Iterator[pa.RecordBatch | pa.Table]:
            schema: Schema = columns.meta
            if not gone:
                for task in came:
                    yield from map(inserted, read_task(self._table.metadata, self._table.io, task, schema))
                return
            lost, fresh = surplus_rows(self._all(gone, schema), self._all(came, schema))
            for table, kind in ((lost, DELETE), (fresh, INSERT)):
                if table.num_rows:
                    yield table.append_column(CHANGE_TYPE, pa.array([kind] * table.num_rows, TYPE_FIELD.type))

        time_ms = 0 if snapshot is None else snapshot.timestamp_ms
        return CommitRead(
            time_ns=time_ms * NS_PER["ms"],
            columns=_columns(self._schema(snapshot)),
            changes_rows=bool(gone),
            files=len(came) + len(gone),
            rows=rows,
        )

    def _all(self, tasks: Sequence[FileScanTask], schema: Schema) -> pa.Table:
        read = (batch for task in tasks for batch in read_task(self._table.metadata, self._table.io, task, schema))
        return pa.Table.from_batches(list(read), arrow_schema(schema))


def _by_file(tasks: Sequence[FileScanTask]) -> dict[str, frozenset[str]]:
    """What deletes rows of each file."""
    return {task.file.file_path: frozenset(one.file_path for one in task.delete_files) for task in tasks}


def _columns(schema: Schema) -> SourceColumns:
    return SourceColumns(schema=arrow_schema(schema), stored=tuple(str(one.field_id) for one in schema.fields), meta=schema)
