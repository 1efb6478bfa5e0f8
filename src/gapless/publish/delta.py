"""Publishing a time-series table as Delta: a commit of `_delta_log/` for each version, of the same files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from gapless.errors import ForeignCommit, NotSupported, SchemaMismatch, TableExists, UnsupportedType
from gapless.formats.delta.actions import Action, AddFile, Applied, Commit, Metadata, canonical, log_path
from gapless.formats.delta.actions import TableState as DeltaState
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.column_mapping import check_names
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.log.snapshot import load
from gapless.model.operation import SequenceId, operation_key
from gapless.model.types import bare_type, children
from gapless.publish.delta_actions import (
    data_file,
    published_commit,
    published_metadata,
    published_operation,
    published_protocol,
    removed_file,
)
from gapless.publish.source_changes import SourceChange, changes_after, check_files, whole_table
from gapless.runtime.committer import ENGINE, Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.runtime.first_commit import commit_first

_OWN_PROPERTIES = frozenset(
    {
        "delta.enableInCommitTimestamps",
        "delta.inCommitTimestampEnablementVersion",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.columnMapping.mode",
        "delta.columnMapping.maxColumnId",
        "delta.enableTypeWidening",
    }
)
"""The properties of a published table that we set."""


def publisher(env: Environment) -> DeltaPublisher:
    """The publisher of the table that `env` reaches."""
    return DeltaPublisher(env)


def check_columns(meta: TableMeta, before: TableMeta | None) -> None:
    """Raise UnsupportedType or SchemaMismatch for columns that a Delta table cannot have, that some readers of Delta refuse, or that type
    widening does not let follow those of `before`.
    """
    for name, type_ in _unread(meta.schema or ()):
        raise UnsupportedType(
            f"column {name!r} of type {type_} cannot be published as Delta",
            why="Readers of Delta differ in what they make of such values, and some read none",
            fix="Cast it to a wider type that Delta has: float32, decimal128(20, 0) or int64",
            column=name,
            type=str(type_),
        )
    metadata = published_metadata(meta, None if before is None else published_metadata(before, None, ""), "")
    check_names(metadata.schema, mapped=True)


def _unread(fields: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """The columns, and fields nested in them, that some readers of Delta cannot read: Spark no float16, Polars no uint64."""
    for field in fields:
        if bare_type(field.type) in (pa.uint64(), pa.float16()):
            yield field.name, field.type
        yield from ((f"{field.name}.{name}", type_) for name, type_ in _unread(children(bare_type(field.type))))


class DeltaPublisher:
    """Keeps the Delta log of one table. The log is the publisher's only memory: its newest commit says which version it describes."""

    format = "delta"
    folder = DELTA.folder

    def __init__(self, env: Environment) -> None:
        """For the table that `env` reaches."""
        self._env = env
        self._known: Snapshot[DeltaState] | None = None

    def published(self) -> tuple[int, int] | None:
        """The version of the table that is published, and that of the Delta table which says so; None where nothing is.

        Raises ForeignCommit where another writer made the newest one, CorruptTable, StoreError.
        """
        newest = self._newest()
        return None if newest is None else (self._source_version(newest), newest.version)

    def differences(self, source: Snapshot[TableState]) -> list[str]:
        """See `Publisher.differences`."""
        newest = self._newest()
        if newest is None:
            return []
        live = {canonical(log_path(segment.path)) for segment in source.state.segments}
        found = set(newest.state.files)
        told = [f"it has {path}, which the table does not" for path in sorted(found - live)]
        told += [f"it lacks {path}" for path in sorted(live - found)]
        metadata = published_metadata(source.state.meta, newest.state.metadata, newest.state.metadata.id)
        return [*told, *([] if metadata.schema == newest.state.metadata.schema else ["it has other columns"])]

    def publish(self, source: Snapshot[TableState], *, mend: bool = False) -> int:
        """See `Publisher.publish`: each version in a commit of its own. Several may do so at once, and each version is published once. Versions
        whose commits are cleaned away come as one.
        """
        found = self._newest()
        if found is None and source.state.meta.schema is None:
            return -1  # no columns to describe yet
        newest = found or self._begin(source)
        if mend and not self._is_ours(newest):
            newest = self._follow(newest, whole_table(source), whole=True, mend=True)
        while (published := self._source_version(newest)) < source.version:
            changes = changes_after(self._env, source, published)
            if changes and any(self.format not in change.meta.properties.publish for change in changes):
                changes = None  # nobody looked whether versions of meanwhile can be described: they come as one
            for change in [whole_table(source)] if changes is None else changes:
                try:
                    newest = self._follow(newest, change, whole=changes is None)
                except (NotSupported, UnsupportedType, SchemaMismatch):
                    # A version of before that Delta cannot describe; the newest one may be another matter.
                    if changes is None or change.version == source.version:
                        raise
                    newest = self._follow(newest, whole_table(source), whole=True)
                    break
        return newest.version

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _newest(self) -> Snapshot[DeltaState] | None:
        """The newest version of the Delta table, if there is one."""
        if self._known is None:
            self._known = self._env.drive(load(DELTA))
        else:
            self._known = self._committer.refresh(self._known)
        return self._known

    @property
    def _committer(self) -> Committer[Commit, DeltaState]:
        return Committer(table_format=DELTA, env=self._env, moved=self._move)

    def _move(self, snapshot: Snapshot[DeltaState]) -> None:
        self._known = snapshot

    def _begin(self, source: Snapshot[TableState]) -> Snapshot[DeltaState]:
        """Version 0, which has all live files."""
        change = whole_table(source)
        check_files(change.added)
        metadata = published_metadata(change.meta, None, self._env.ids.uuid())
        protocol = published_protocol(metadata, None)
        files = (data_file(segment, metadata.schema, change.meta.ids, change) for segment in change.added)
        entry = published_commit(change, (protocol, metadata, *files), self._env.ids.uuid(), ENGINE)
        taken = TableExists(
            f"a Delta table was made at {self._env.store.url} a moment ago",
            why="Another publisher was quicker",
            fix="Publish again",
            path=self._env.store.url,
        )
        try:
            self._known = commit_first(self._env, DELTA, entry, taken, time_ns=change.time_ns)
        except TableExists as error:
            if error is not taken or (found := self._newest()) is None:
                raise
            return found
        return self._known

    def _follow(
        self, newest: Snapshot[DeltaState], change: SourceChange, *, whole: bool, mend: bool = False
    ) -> Snapshot[DeltaState]:
        """Publish one change, unless it is by now."""

        def propose(now: Snapshot[DeltaState]) -> Proposal[Commit] | None:
            is_foreign = mend and not self._is_ours(now)
            if not is_foreign and self._source_version(now) >= change.version:
                return None
            actions = tuple(self._actions(now.state, change, whole=whole, mend=mend))
            return Proposal(
                commit=published_commit(change, actions, self._env.ids.uuid(), ENGINE),
                check_conflict=_never_follows,
                # They are live in the table itself, which looks after them.
                prepared=frozenset(segment.path for segment in change.added),
                time_ns=change.time_ns,
            )

        self._committer.land(newest, propose)
        assert self._known is not None  # the committer tells each version
        return self._known

    def _actions(self, now: DeltaState, change: SourceChange, *, whole: bool, mend: bool) -> Iterable[Action]:
        check_files(change.added)
        metadata = published_metadata(change.meta, _ours(now.metadata) if mend else now.metadata, now.metadata.id)
        protocol = published_protocol(metadata, now.protocol)
        if protocol != now.protocol:
            yield protocol
        if metadata is not now.metadata:
            yield metadata
        gone: Iterable[AddFile] = (
            file for path in change.removed if (file := now.files.get(canonical(log_path(path)))) is not None
        )
        added = change.added
        if whole:
            live = {canonical(log_path(segment.path)): segment for segment in change.added}
            gone = [file for key, file in now.files.items() if key not in live]
            # What another writer says of a file may be wrong, so all are said again; files of one path take each other's place.
            added = tuple(segment for key, segment in live.items() if mend or key not in now.files)
        yield from (removed_file(file, change) for file in gone)
        yield from (data_file(segment, metadata.schema, change.meta.ids, change) for segment in added)

    def _source_version(self, snapshot: Snapshot[DeltaState]) -> int:
        """The version that is published. Raises ForeignCommit where the newest commit is not ours."""
        known = _last(snapshot)
        if known is not None and isinstance(known.operation, SequenceId) and self._is_ours(snapshot):
            return known.operation.sequence
        raise ForeignCommit(
            f"version {snapshot.version} of the Delta table at {self._env.store.url} was not made by gapless",
            why="It only describes the files of the time-series table that lies there, which another writer would damage",
            fix="`gapless repair` begins the description anew; write to the table itself, with gl.open",
            format=self.format,
            published_version=snapshot.version,
        )

    def _is_ours(self, snapshot: Snapshot[DeltaState]) -> bool:
        """Whether the newest commit publishes a version."""
        known, version = _last(snapshot), snapshot.version
        if known is None or known.version is not None:
            return known is not None and known.version == version
        # A log checkpoint does not say which commit it was.
        entry, _ = DELTA.decode(self._env.store.get(DELTA.path_of(version)), version)
        return entry.operation_id == known.operation


def _ours(found: Metadata) -> Metadata:
    """What another writer may have left, with the properties alone that we set."""
    kept = {key: value for key, value in found.configuration.items() if key in _OWN_PROPERTIES}
    return replace(found, configuration=kept, partition_by=())


def _last(snapshot: Snapshot[DeltaState]) -> Applied | None:
    """The last publication."""
    return snapshot.state.applied.get(operation_key(published_operation(0)))


def _never_follows(_mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
    """What came first is looked at by the next proposal: another publisher's commit, or another writer's."""
    yield from ()
    return Conflicting("published")
