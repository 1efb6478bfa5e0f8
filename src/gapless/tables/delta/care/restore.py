"""RESTORE of a Delta table: the actions that make its newest version the same as an earlier one, and their commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from gapless.errors import CommitConflict, CorruptTable
from gapless.files.read.source import segment_footer
from gapless.formats.delta.actions import Action, AddFile, Commit, DomainMetadata, Metadata, Protocol, RemoveFile, TableState
from gapless.formats.delta.conflict import OURS, RESTORE, VACUUM_END, CommitPredicate, vacuum_cutoff_ns
from gapless.formats.delta.features import check_writable, raised, supported_features
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.publishing import OWN_PROPERTIES
from gapless.formats.delta.stats_codec import rows_of
from gapless.log.format import Snapshot
from gapless.log.segment import read_commits
from gapless.model.instant import NS_PER
from gapless.model.protocols import WRITER_HORIZON_NS
from gapless.model.segment import StoredFile
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.tables.delta.files.open_file import PathResolver
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.read.versions import VERSIONS, earliest_stored, first_missing, paths_of
from gapless.tables.delta.write.commits import check_may_remove, new_commit
from gapless.tables.shared.restore import RestoreReport, expired_version, missing_file, run_restore

_MOST_COLUMN_ID = "delta.columnMapping.maxColumnId"
_STAY = (
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    *OWN_PROPERTIES,
)
"""Properties that tell of commits that are there, and not of the rows; and how the table is published."""
_STAYING_DOMAINS = frozenset({"delta.rowTracking"})


def plan_restore(now: TableState, then: TableState, now_ms: int) -> tuple[Action, ...]:
    """The actions that give a table the files, columns, properties and domains it had `then`; none where it is so `now`.

    The protocol only rises, and so does the highest column id; in-commit timestamps and applied operations stay what they are. `now_ms` is
    the time, in ms since 1970 UTC.
    """
    removed = (RemoveFile.of(file, now_ms) for key, file in now.files.items() if key not in then.files)
    added = (structs.replace(file, data_change=True) for key, file in then.files.items() if key not in now.files)
    return (*_restored_table(now, then), *_restored_domains(now, then), *removed, *added)


def _restored_table(now: TableState, then: TableState) -> Iterator[Protocol | Metadata]:
    protocol = raised(now.protocol, *supported_features(then.protocol))
    if protocol != now.protocol:
        yield protocol
    metadata = replace(then.metadata, configuration=_restored_properties(now.configuration, then.configuration))
    if metadata != now.metadata:
        yield metadata


def _restored_properties(now: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    kept = {name: now[name] for name in _STAY if name in now}
    restored = {name: value for name, value in then.items() if name not in _STAY} | kept
    if _MOST_COLUMN_ID in restored:
        restored[_MOST_COLUMN_ID] = max(restored[_MOST_COLUMN_ID], now.get(_MOST_COLUMN_ID, "0"), key=int)
    return restored


def _restored_domains(now: TableState, then: TableState) -> Iterator[DomainMetadata]:
    for name in sorted(now.domains.keys() | then.domains.keys()):
        before, after = now.domains.get(name), then.domains.get(name)
        if before == after or name in _STAYING_DOMAINS:
            continue
        yield replace(before, removed=True) if after is None and before is not None else after  # type: ignore[misc]


def endangered(
    added: Sequence[AddFile], removed: Mapping[str, RemoveFile], entries: Sequence[tuple[int, Commit, int]], now_ns: int
) -> str | None:
    """The path of a file to be restored that a vacuum may be about to delete; None where there is none.

    `removed` are the tombstones by key, `entries` the commits since the files were live. A vacuum says when it begins and when it is done;
    one that began a day ago is dead.
    """
    cutoff_ms = _cutoff_of_open_vacuum(entries, now_ns)
    for file in added:
        gone = removed.get(file.key)
        if cutoff_ms is not None and (gone is None or (gone.deleted_ms or 0) <= cutoff_ms):
            return file.path
    return None


def _cutoff_of_open_vacuum(entries: Sequence[tuple[int, Commit, int]], now_ns: int) -> int | None:
    """The time before which a vacuum at work deletes what was removed, in ms since 1970 UTC; None where none is at work."""
    open_since: dict[int, int] = {}
    for version, commit, time_ns in entries:
        cutoff_ns = vacuum_cutoff_ns(commit, time_ns)
        if commit.operation == VACUUM_END:
            # Of one that failed, a deletion whose answer was lost may still take effect.
            if commit.parameters.get("status") != "FAILED":
                _close(open_since, commit)
        elif cutoff_ns is not None and now_ns - time_ns < WRITER_HORIZON_NS:
            open_since[version] = cutoff_ns // NS_PER["ms"]
    return max(open_since.values(), default=None)


def _close(open_since: dict[int, int], end: Commit) -> None:
    """Take the vacuum that is done from those at work, cutoffs by the version of their start.

    Ours names it as the version that it was made for. Another's may be any of them; the one that deletes most stays.
    """
    if end.engine.startswith(OURS):
        open_since.pop(-1 if end.read_version is None else end.read_version, None)
    elif open_since:
        del open_since[min(open_since, key=lambda version: open_since[version])]


class Restoring(DeltaHandle):
    """RESTORE of a Delta table."""

    def restore(self, version: int | None = None, *, time: object = None) -> RestoreReport:
        """Make the rows, the columns and the properties those of an earlier version again, as a new commit; no version is lost.

        `version` or `time` names the version, as in `at`. What was committed since, also while this runs, is live no more, and comes back with
        another restore. No file is written: those of that version become live again, once each was seen to be there. What the table needs
        of its readers and writers never becomes less, and operations that were applied stay so. A table that is so already stays at its
        version.

        Raises VersionNotFound (also where a vacuum deleted a file of that version; it names the earliest that can be restored), InvalidTime,
        InvalidOption; CorruptTable where a file is missing that no vacuum would have deleted; NotSupported for an
        append-only table, UnsupportedTable (also for what that version needs), CommitConflict (also where a vacuum at work could delete what is to come back),
        CommitOutcomeUnknown, StoreError.
        """
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        self._check_writable()
        then = VERSIONS.resolve(self._env, newest, VERSIONS.parse(version, time))
        # What that version needs, the table will need again.
        check_writable(then.state.protocol, self.url, then.state.metadata)
        return self._with_publications(run_restore(committer, newest, _Restore(env=self._env, then=then).plan))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restore:
    """One restore under way."""

    env: Environment
    then: Snapshot[TableState]

    def plan(self, now: Snapshot[TableState]) -> tuple[RestoreReport, Proposal[Commit] | None]:
        """The commit that makes a version what `then` was; None where it is."""
        check_writable(now.state.protocol, self.env.store.url, now.state.metadata)
        actions = plan_restore(now.state, self.then.state, self.env.clock.now_ns() // NS_PER["ms"])
        self._check_kept([one for one in actions if isinstance(one, AddFile)], now)
        commit = new_commit(self.env, now, RESTORE, actions, parameters={"version": self.then.version, "timestamp": None})
        if commit.removed:
            check_may_remove(now.state, RESTORE)
        # It says the whole of the table: whatever comes first is taken back as well.
        conflicts = CommitPredicate(state=now.state, exact=True)
        proposal = Proposal(commit=replace(commit, metrics=self._metrics(commit)), check_conflict=conflicts.check_conflict)
        return self._report(commit, now), proposal if actions else None

    def _check_kept(self, added: Sequence[AddFile], now: Snapshot[TableState]) -> None:
        """Raise where a file that becomes live again is gone, or may be soon."""
        missing = first_missing(self.env, paths_of(added))
        if missing is not None:
            earliest = earliest_stored(self.env, now)
            if self.then.version < earliest:
                raise expired_version(self.then.version, missing, earliest)
            raise missing_file(self.then.version, missing, ": someone deleted it")
        since = self.env.drive(read_commits(DELTA, range(self.then.version + 1, now.version + 1)))
        doomed = endangered(added, now.state.removed, since, self.env.clock.now_ns())
        if doomed is not None:
            raise CommitConflict(
                f"version {self.then.version} cannot be restored now: a vacuum is at work that may delete {doomed}",
                why="It began less than a day ago, and the log does not say that it is done; nothing was changed",
                fix="Try again when it is done; where it was killed, run it again or wait a day",
                version=now.version,
                reason="vacuum",
            )

    def _report(self, commit: Commit, now: Snapshot[TableState]) -> RestoreReport:
        return RestoreReport(
            version=now.version,
            restored=self.then.version,
            added_segments=len(commit.added),
            removed_segments=len(commit.removed),
            added_rows=self._rows(commit.added),
            removed_rows=self._rows(commit.removed),
        )

    def _rows(self, files: Iterable[AddFile | RemoveFile]) -> int:
        """Live rows of some files; from their footers where the log does not say."""
        total, places = 0, PathResolver(self.env.store)
        for file in files:
            stored = rows_of(file.stats)
            rows = _rows_in(places, file) if stored is None else stored
            total += rows - (file.deletion_vector.cardinality if file.deletion_vector is not None else 0)
        return total

    def _metrics(self, commit: Commit) -> dict[str, int]:
        """By Delta's names."""
        files = self.then.state.files.values()
        return {
            "tableSizeAfterRestore": sum(file.size for file in files),
            "numOfFilesAfterRestore": len(files),
            "numRemovedFiles": len(commit.removed),
            "numRestoredFiles": len(commit.added),
            "removedFilesSize": sum(file.size or 0 for file in commit.removed),
            "restoredFilesSize": sum(file.size for file in commit.added),
        }


def _rows_in(places: PathResolver, file: AddFile | RemoveFile) -> int:
    """The rows of a file by its footer; those that its vector deletes where it cannot be read, since then it holds none for anyone."""
    place = places.of(file.path)
    try:
        return int(segment_footer(place.store, StoredFile(path=place.path, size=file.size)).metadata.num_rows)
    except CorruptTable:
        return 0 if file.deletion_vector is None else file.deletion_vector.cardinality
