"""Bringing an earlier version of a Delta table back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gapless.dialects.delta.actions import AddFile, Commit, RemoveFile, TableState
from gapless.dialects.delta.conflict import Terms
from gapless.dialects.delta.deletion_vector import vector_path
from gapless.dialects.delta.dialect import DELTA
from gapless.dialects.delta.features import check_writable
from gapless.dialects.delta.stats_codec import rows_of
from gapless.errors import CommitConflict, CorruptTable
from gapless.log.dialect import Snapshot
from gapless.log.snapshot import read_entries
from gapless.maintain.delta.restore_plan import endangered, plan_restore
from gapless.model.data_file import StoredFile
from gapless.model.instant import NS_PER
from gapless.parquet.delta.places import Places
from gapless.parquet.source import segment_footer
from gapless.runtime.committer import Proposal
from gapless.runtime.driver import Rim
from gapless.table.delta.append_only import check_may_remove
from gapless.table.delta.commits import new_commit
from gapless.table.delta.handle import DeltaHandle
from gapless.table.delta.travel import find_version, first_missing
from gapless.table.restore import RestoreReport


class Restoring(DeltaHandle):
    """Bringing versions back."""

    def restore(self, version: int | None = None, *, time: object = None) -> RestoreReport:
        """Make the rows, the columns and the properties those of an earlier version again, as a new commit; no version is lost.

        `version` or `time` names the version, as in `at`. What was committed since, also while this runs, is live no more, and comes back with
        another restore. No file is written: those of that version become live again, once each was seen to be there. What the table needs
        of its readers and writers never becomes less, and operations that were applied stay so. A table that is so already stays at its
        version.

        Raises VersionNotFound, InvalidTime, InvalidOption; CorruptTable where a file of that version is missing; NotSupported for an
        append-only table, UnsupportedTable (also for what that version needs), CommitConflict (also where a vacuum at work could delete what is to come back),
        CommitOutcomeUnknown, StoreError.
        """
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        self._check_writable()
        then = find_version(self._rim, newest, version=version, time=time)
        # What that version needs, the table will need again.
        check_writable(then.state.protocol, self.url, then.state.metadata)
        act = _Restore(rim=self._rim, then=then)
        landed = committer.change(newest, act.propose)
        report = act.reports[-1]
        return report if landed is None else replace(report, version=landed.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restore:
    """One restore under way."""

    rim: Rim
    then: Snapshot[TableState]
    reports: list[RestoreReport] = field(default_factory=list)
    """What each proposal would do."""

    def propose(self, now: Snapshot[TableState]) -> Proposal[Commit] | None:
        """The commit that makes a version what `then` was; None where it is."""
        check_writable(now.state.protocol, self.rim.store.url, now.state.metadata)
        actions = plan_restore(now.state, self.then.state, self.rim.clock.now_ns() // NS_PER["ms"])
        commit = new_commit(self.rim, now, "RESTORE", actions, parameters={"version": self.then.version, "timestamp": None})
        if commit.removed:
            check_may_remove(now.state, "RESTORE")
        self._check_kept(commit, now)
        self.reports.append(self._report(commit, now))
        if not actions:
            return None
        # It says the whole of the table: whatever comes first is taken back as well.
        return Proposal(commit=replace(commit, metrics=self._metrics(commit)), judge=Terms(state=now.state, exact=True).judge)

    def _check_kept(self, commit: Commit, now: Snapshot[TableState]) -> None:
        """Raise where a file that becomes live again is gone, or may be soon."""
        missing = first_missing(self.rim, _files_of(commit.added))
        if missing is not None:
            raise CorruptTable(
                f"version {self.then.version} cannot be restored: {missing} is missing",
                why="The log keeps that version, but nothing is stored there: a vacuum deleted it, or someone else; nothing was changed",
                fix="Bring the file back from a backup, or restore another version",
                path=missing,
            )
        since = self.rim.drive(read_entries(DELTA, self.then.version + 1, now.version + 1))
        doomed = endangered(commit.added, now.state.removed, since, self.rim.clock.now_ns())
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
        total, places = 0, Places(self.rim.store)
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


def _rows_in(places: Places, file: AddFile | RemoveFile) -> int:
    """The rows of a file by its footer; those that its vector deletes where it cannot be read, since then it holds none for anyone."""
    place = places.of(file.path)
    try:
        return int(segment_footer(place.store, StoredFile(path=place.path, size=file.size)).metadata.num_rows)
    except CorruptTable:
        return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


def _files_of(files: Iterable[AddFile]) -> Iterable[str]:
    """The paths of data files and deletion vectors, as the log has them."""
    for file in files:
        yield file.path
        if file.deletion_vector is not None and file.deletion_vector.storage != "i":
            yield vector_path(file.deletion_vector)
