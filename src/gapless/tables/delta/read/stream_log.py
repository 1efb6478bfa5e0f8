"""A Delta table as one follows it version by version: what the table was before and after each, and the rows that its commit changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from gapless.errors import CorruptTable, VersionNotFound
from gapless.formats.delta.actions import AddFile, Commit, Metadata, RemoveFile, TableState
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.log.format import Snapshot
from gapless.log.snapshot import advance, refresh
from gapless.log.versions import read_range
from gapless.runtime.environment import Environment
from gapless.tables.delta.files.open_file import PathResolver
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.change_rows import CommitRows, FileChange, changed_files, files_of, rows_of_commit
from gapless.tables.delta.read.changes import check_columns, check_partitions, is_fed
from gapless.tables.delta.read.versions import VERSIONS, VersionFiles, earliest_version, open_version
from gapless.tables.shared.changes import CommitChange
from gapless.tables.shared.versions import check_past, no_version
from gapless.tables.shared.versions_gone import Follower, VersionsGone, pass_over


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaVersion:
    """One version: the table before and after it, and its commit."""

    commit: Commit
    before: Snapshot[TableState] | None
    """None before the first version, and where the log can tell it no longer."""
    after: Snapshot[TableState]

    @property
    def changes_rows(self) -> bool:
        """Whether it took rows away or updated some, and did not only add new ones or lay rows out anew."""
        return bool(self.commit.change_files) or any(file.data_change for file in self.commit.removed)

    def live(self, file: AddFile | RemoveFile) -> AddFile | None:
        """The file as it was live before, with the same deletion vector."""
        return None if self.before is None else self.before.state.files.get(file.key)

    def changes(self) -> tuple[FileChange, ...]:
        """The files by which it changed rows, deletions first."""
        return tuple(changed_files(self.commit, self.live))

    def commit_rows(self) -> CommitRows:
        """The same, with its number and time."""
        return CommitChange(version=self.after.version, time_ns=self.after.time_ns, change=self.changes())

    @property
    def is_fed(self) -> bool:
        """Whether the change data feed is on."""
        return is_fed(self.after.state.metadata)


@dataclass(slots=True, kw_only=True)
class DeltaStreamLog:
    """The log of one table, from the version on that was the newest when it was last asked."""

    env: Environment
    newest: Snapshot[TableState]
    pass_missing: bool
    """Whether one goes on, with a warning, where versions can be told no longer; else that is an error."""
    follower: Follower = field(default_factory=Follower)
    _last: Snapshot[TableState] | None = field(default=None, init=False)
    """After the version that was read last."""

    def refresh(self) -> None:
        """Look at the newest version. Raises VersionNotFound where another table lies there now, CorruptTable, StoreError."""
        try:
            newest = self.env.drive(refresh(DELTA, self.newest))
        except CorruptTable:
            self._check_same(open_table(self.env, self.env.store.url))
            raise
        self._check_same(newest)
        check_readable(newest.state.protocol, self.env.store.url, newest.state.metadata)
        self.newest = newest

    def first(self) -> int:
        """The first version whose commit can be told; one past that of the oldest log checkpoint, where the commit of that is gone."""
        earliest = self.env.drive(earliest_version())
        try:
            self._entry(earliest)
        except VersionNotFound:
            return earliest + 1
        return earliest

    def begin(self, version: int) -> int:
        """A version from which on one reads; a later one where it can be told no longer. Raises VersionNotFound."""
        if not DELTA.first <= version <= self.newest.version + 1:
            raise no_version(version, self.newest.version, first=DELTA.first)
        first = self.first()
        return version if version >= first else self._past(version, first, _cleaned(first))

    def since(self, time_ns: int, names: tuple[str, str]) -> int:
        """The first version that was committed at a time (nanoseconds since 1970 UTC) or later; raises InvalidTime for one in the future."""
        check_past(self.env, time_ns, names)
        try:
            return VERSIONS.since(self.env, self.newest, time_ns)
        except VersionNotFound as gone:
            # Of those that are gone, the last is one that may have come then.
            return self._past(gone.version - 1, gone.version, gone.why)

    def past_missing(self, version: int, gone: VersionNotFound, rest: str = "") -> int:
        """Where one goes on that cannot be told the next version; raises VersionNotFound where that is an error.

        `rest` says what of the version, all rows of which were to be read, was not.
        """
        first = self.first()
        # Where its commit is still there, files are gone, which the error names.
        why = gone.why if version < first else f"{_sentence(gone.what)}. {gone.why}"
        return self._past(version + bool(rest), max(version + 1, first), why, rest)

    def at(self, version: int) -> DeltaVersion:
        """A version's commit, and the table before and after it.

        Raises VersionNotFound where that can be told no longer or the commit made another table of it, CorruptTable, UnsupportedTable, StoreError.
        """
        commit, time_ns = self._entry(version)
        before = self._before(version)
        if before is None:
            after = open_version(self.env, self.newest, version)
        else:
            after = advance(DELTA, before, [(version, commit, max(time_ns, before.time_ns))])
            check_readable(after.state.protocol, self.env.store.url, after.state.metadata)
        self._check_same(after)
        self._last = after
        return DeltaVersion(commit=commit, before=before, after=after)

    def check(self, version: DeltaVersion, target: Metadata) -> None:
        """Raise what `rows` raises of the log alone: SchemaMismatch, and VersionNotFound where a partition is not known any more."""
        check_partitions(version.after.version, version.commit, target, version.live)
        if version.before is not None and version.changes_rows:
            check_columns(version.before.state.metadata, target, version.after.version)

    def rows(self, version: DeltaVersion, target: Metadata) -> Iterator[pa.Table]:
        """The rows that a version's commit changed, in the columns of `target`, with their kind of change behind, deletions first.

        Of a commit that wrote rows anew without a change data feed, those come that only its files before or only those after have; all
        rows of these files are held for that.

        Raises VersionNotFound where a vacuum took files, SchemaMismatch where rows from before do not fit the columns, CorruptTable, StoreError.
        """
        self.check(version, target)
        change = version.commit_rows()
        files = [file for part in change.change for file in files_of(part)]
        names = tuple(field.name for field in target.schema.fields)
        with VersionFiles(env=self.env, snapshot=version.after).reading(files):
            yield from rows_of_commit(PathResolver(self.env.store), target, change, names, fed=version.is_fed)

    def _entry(self, version: int) -> tuple[Commit, int]:
        ((_, commit, time_ns),) = self.env.drive(read_range(DELTA, version, version + 1))
        return commit, time_ns

    def _before(self, version: int) -> Snapshot[TableState] | None:
        if self._last is not None and self._last.version == version - 1:
            return self._last
        try:
            return open_version(self.env, self.newest, version - 1) if version > DELTA.first else None
        except VersionNotFound:
            return None

    def _past(self, first: int, goes_on: int, why: str, rest: str = "") -> int:
        gone = VersionsGone(first=first, goes_on=goes_on, rest=rest, why=why).error(self.env.store.url, self.follower)
        pass_over(gone, allowed=self.pass_missing)
        return goes_on

    def _check_same(self, found: Snapshot[TableState]) -> None:
        seen, now = self.newest.state.metadata.id, found.state.metadata.id
        if seen != now:
            raise VersionNotFound(
                f"the table at {self.env.store.url} is not the one that the stream has read up to version {self.newest.version}",
                why=f"That has the id {seen}; it was removed, and another one made in its place, with the id {now}",
                fix=self.follower.afresh,
                version=found.version,
            )


def _cleaned(first: int) -> str:
    return f"The log was cleaned of their commits; what remains begins with version {first}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
