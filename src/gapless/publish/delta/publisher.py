"""Publishing a time-series table as Delta: a commit of `_delta_log/` for each version, of the same files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from gapless.errors import CorruptTable, ForeignCommit, NotSupported, SchemaMismatch, TableExists, UnsupportedType
from gapless.formats.delta.actions import Action, AddFile, Applied, Commit
from gapless.formats.delta.actions import TableState as DeltaState
from gapless.formats.delta.file_path import canonical, log_path
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.schema.column_mapping import check_names
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.log.snapshot import load
from gapless.model.operation import SequenceId, operation_key
from gapless.model.publishing import PublishedFormat, PublishSettings
from gapless.model.segment import DataFile, StoredFile
from gapless.model.types import bare_type, children
from gapless.publish.delta.actions import (
    data_files,
    own_part,
    published_commit,
    published_metadata,
    published_operation,
    published_protocol,
    removed_file,
)
from gapless.publish.delta.differences import found_differences
from gapless.publish.delta.schema import changes_types
from gapless.publish.source import Source, SourceChange, SourceColumns, SourceFile, check_described
from gapless.publish.stored_types import OlderTypes, StoredColumns, older_types
from gapless.runtime.committer import ENGINE, Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.runtime.first_commit import commit_first


def publisher(env: Environment, _settings: PublishSettings) -> DeltaPublisher:
    """The publisher of the table that `env` reaches."""
    return DeltaPublisher(env)


def check_columns(columns: SourceColumns, before: SourceColumns | None) -> None:
    """Raise UnsupportedType or SchemaMismatch for columns that a Delta table cannot have, that some readers of Delta refuse, or that type
    widening does not let follow those of `before`.
    """
    for name, type_ in _unread(columns.schema or ()):
        raise UnsupportedType(
            f"column {name!r} of type {type_} cannot be published as Delta",
            why="Readers of Delta differ in what they make of such values, and some read none",
            fix="Cast it to a wider type that Delta has: float32, decimal128(20, 0) or int64",
            column=name,
            type=str(type_),
        )
    metadata = published_metadata(columns, None if before is None else published_metadata(before, None, ""), "")
    check_names(metadata.schema, mapped=True)


def check_stored(columns: SourceColumns, stored: StoredColumns) -> None:
    """Raise UnsupportedType for a column whose files hold a type that Delta's type widening does not lead on from."""
    published_metadata(columns, None, "", older=stored.older)


def _unread(fields: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """The columns, and fields nested in them, that some readers of Delta cannot read: Spark no float16, Polars no uint64."""
    for field in fields:
        if bare_type(field.type) in (pa.uint64(), pa.float16()):
            yield field.name, field.type
        yield from ((f"{field.name}.{name}", type_) for name, type_ in _unread(children(bare_type(field.type))))


class DeltaPublisher:
    """Keeps the Delta log of one table. The log is the publisher's only memory: its newest commit says which version it describes."""

    format: PublishedFormat = "delta"
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

    def differences(self, source: Source) -> list[str]:
        """See `Publisher.differences`."""
        newest = self._known or self._newest()
        return [] if newest is None else found_differences(newest.state, source)

    def publish(self, source: Source, *, mend: bool = False) -> int:
        """See `Publisher.publish`: each version in a commit of its own. Several may do so at once, and each version is published once. Versions
        whose commits are cleaned away come as one.
        """
        found = self._readable(mend=mend)
        if found is None and source.columns.schema is None:
            return -1  # no columns to describe yet
        newest = found or self._begin(source)
        if mend and not self._is_ours(newest):
            newest = self._follow(newest, source.whole(), whole=True, mend=source)
        while (published := self._source_version(newest)) < source.version:
            changes = source.changes_after(published, self.format)
            for change in [source.whole()] if changes is None else changes:
                try:
                    newest = self._follow(newest, change, whole=changes is None)
                except (NotSupported, UnsupportedType, SchemaMismatch):
                    # A version of before that Delta cannot describe; the newest one may be another matter.
                    if changes is None or change.version == source.version:
                        raise
                    newest = self._follow(newest, source.whole(), whole=True)
                    break
        if mend and self._source_version(newest) == source.version and found_differences(newest.state, source):
            newest = self._follow(newest, source.whole(), whole=True, mend=source)
        return newest.version

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _newest(self) -> Snapshot[DeltaState] | None:
        """The newest version of the Delta table, if there is one."""
        if self._known is not None:
            try:
                self._known = self._committer.refresh(self._known)
            except CorruptTable:
                self._known = None  # it may be gone, or be another one by now
        if self._known is None:
            self._known = self._env.drive(load(DELTA))
        return self._known

    def _readable(self, *, mend: bool) -> Snapshot[DeltaState] | None:
        """The newest version; with `mend` none where it cannot be read, once what is there was moved away, beside what
        `repair` keeps.

        Nothing is lost by that: it says only what the table's own log does. What readers had of it are versions of another table then.
        """
        try:
            return self._newest()
        except CorruptTable:
            if not mend:
                raise
        # From the newest to the oldest, so that what is left at any time is a table.
        there = {info.path for info in self._env.store.list(self.folder)}
        commits = sorted(path for path in there if DELTA.version_of(path) is not None)
        kept = f"{TIME_SERIES.folder}/_damaged/{self._env.ids.uuid()}"
        for path in (*sorted(there.difference(commits)), *reversed(commits)):
            self._env.store.put(f"{kept}/{path}", self._env.store.get(path))
            self._env.store.delete(path)
        return None

    @property
    def _committer(self) -> Committer[Commit, DeltaState]:
        return Committer(table_format=DELTA, env=self._env, moved=self._move)

    def _move(self, snapshot: Snapshot[DeltaState]) -> None:
        self._known = snapshot

    def _begin(self, source: Source) -> Snapshot[DeltaState]:
        """Version 0, which has all live files."""
        change = source.whole()
        check_described(change.added)
        older = older_types(self._env.store, change.columns, change.added)
        id_ = self._env.ids.uuid()
        metadata = published_metadata(change.columns, None, id_, older=older, added=change.added, anew=True)
        protocol = published_protocol(metadata, None)
        files = data_files(change.added, metadata, change)
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
        self, newest: Snapshot[DeltaState], change: SourceChange, *, whole: bool, mend: Source | None = None
    ) -> Snapshot[DeltaState]:
        """Publish one change, unless it is by now; to `mend` a version also where another writer's commit, or a wrong one, describes it."""

        def propose(now: Snapshot[DeltaState]) -> Proposal[Commit] | None:
            is_wrong = mend is not None and (not self._is_ours(now) or bool(found_differences(now.state, mend)))
            if not is_wrong and self._source_version(now) >= change.version:
                return None
            actions = tuple(self._actions(now.state, change, whole=whole, mend=mend is not None))
            return Proposal(
                commit=published_commit(change, actions, self._env.ids.uuid(), ENGINE),
                check_conflict=_never_follows,
                # They are live in the table itself, which looks after them.
                prepared=frozenset(file.path for file in change.added),
                describes=True,
                time_ns=change.time_ns,
            )

        self._committer.land(newest, propose)
        assert self._known is not None  # the committer tells each version
        return self._known

    def _actions(self, now: DeltaState, change: SourceChange, *, whole: bool, mend: bool) -> Iterable[Action]:
        check_described(change.added)
        live = {canonical(log_path(file.path)): file for file in change.added}
        added = change.added
        if whole:
            gone = [file for key, file in now.files.items() if key not in live]
            # What another writer says of a file may be wrong, so all are said again; files of one path take each other's place.
            added = tuple(file for key, file in live.items() if mend or key not in now.files)
        else:
            found = (now.files.get(canonical(log_path(path))) for path in change.removed)
            gone = [file for file in found if file is not None]
        before = own_part(now.metadata) if mend else now.metadata
        metadata = published_metadata(
            change.columns,
            before,
            now.metadata.id,
            older=self._older_types(now, change, added, gone, whole=whole),
            added=added,
            anew=mend or len(gone) == len(now.files),
        )
        protocol = published_protocol(metadata, None if mend else now.protocol)
        if protocol != now.protocol:
            yield protocol
        if metadata is not now.metadata:
            yield metadata
        yield from (removed_file(file, change) for file in gone)
        yield from data_files(added, metadata, change)

    def _older_types(
        self, now: DeltaState, change: SourceChange, added: Sequence[SourceFile], gone: Sequence[AddFile], *, whole: bool
    ) -> OlderTypes | None:
        """What the files hold that were not written for this change, where it brings such files back; None where it does not."""
        if not whole and change.operation != "restore":
            return None
        files: list[DataFile] = list(added)
        back = published_metadata(change.columns, now.metadata, now.metadata.id, older={}).schema
        if changes_types(back, now.metadata.schema):
            taken = {canonical(file.path) for file in gone}
            kept = (file for file in now.files.values() if canonical(file.path) not in taken)
            files += [StoredFile(path=canonical(file.path), size=file.size) for file in kept]
        return older_types(self._env.store, change.columns, files)

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


def _last(snapshot: Snapshot[DeltaState]) -> Applied | None:
    """The last publication."""
    return snapshot.state.applied.get(operation_key(published_operation(0)))


def _never_follows(_mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
    """What came first is looked at by the next proposal: another publisher's commit, or another writer's."""
    yield from ()
    return Conflicting("published")
