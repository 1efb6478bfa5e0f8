"""Restore an earlier version of a time-series table, and tag versions so that they are kept."""

from __future__ import annotations

from functools import partial

from gapless.errors import InvalidOption, ObjectNotFound, nearest
from gapless.formats.timeseries.actions import Commit, SetTag, TableState
from gapless.formats.timeseries.conflict.maintenance import RestoreChecker, TagChecker, plan_restore
from gapless.log.format import Snapshot
from gapless.publish.publishers import check_files, check_publishable
from gapless.publish.sources.timeseries import columns_of, file_of
from gapless.runtime.committer import Proposal
from gapless.tables.shared.restore import RestoreReport, missing_file, run_restore
from gapless.tables.shared.versions import VersionQuery, parse_version
from gapless.tables.timeseries.context import SeriesProposal, new_commit
from gapless.tables.timeseries.handle import Handle
from gapless.tables.timeseries.read.versions import VERSIONS, check_kept, find_version, open_version


class Restoring(Handle):
    """Restore and tags of a time-series table."""

    def restore(self, version: int | None = None, *, time: object = None, tag: str | None = None) -> RestoreReport:
        """Make the rows, the columns and the properties those of an earlier version again, as a new commit; no version is lost. How the table is
        published stays as it is.

        `version`, `time` or `tag` names the version, as in `at`. What was committed since, also while this runs, is live no more, and
        comes back with another restore. No segment is written: those of that version become live again, once each was seen to be
        there. A table that is so already stays at its version.

        Raises VersionNotFound for a version that is not there or was expired, InvalidTime, InvalidOption, CorruptTable where a file of it
        is missing, CommitConflict, CommitOutcomeUnknown, UpgradeNeeded, StoreError.
        """
        query = VERSIONS.parse(version, time, tag)
        self._check_writable()
        committer = self._committer
        newest = committer.refresh(self._snapshot)
        then = open_version(self._env, newest, find_version(self._env, newest, query))
        return self._with_publications(run_restore(committer, newest, partial(self._plan_restore, then)))

    def _plan_restore(
        self, then: Snapshot[TableState], now: Snapshot[TableState]
    ) -> tuple[RestoreReport, SeriesProposal | None]:
        check_kept(now.state, then.version)
        actions = plan_restore(now.state, then.state)
        commit = new_commit(self._env, "restore", {"version": then.version}, actions)
        report = RestoreReport(
            version=now.version,
            restored=then.version,
            added_segments=len(commit.added),
            removed_segments=len(commit.removed),
            added_rows=sum(segment.rows for segment in commit.added),
            removed_rows=sum(now.state.live[path].segment.rows for path in commit.removed),
        )
        self._check_files(commit, then.version)
        if formats := now.state.meta.properties.publish:
            meta = commit.meta or now.state.meta
            check_publishable(formats, columns_of(meta))
            # Where types change, files that stay live hold what was said of them before, too.
            same = meta.schema == now.state.meta.schema
            files = (file_of(segment, meta) for segment in (commit.added if same else then.state.segments))
            check_files(self._env.store, formats, columns_of(meta), files)
        proposal = Proposal(commit=commit, check_conflict=RestoreChecker(version=then.version).check_conflict)
        return report, proposal if actions else None

    def _check_files(self, commit: Commit, version: int) -> None:
        """Raise CorruptTable where a file of a segment that becomes live again is missing."""
        for path in (path for segment in commit.added for path in segment.files):
            try:
                self._env.store.head(path)
            except ObjectNotFound as error:
                raise missing_file(version, path, "") from error

    # -- tags ----------------------------------------------------------------------------------------------------------

    def tag(self, name: str, version: int | None = None, *, move: bool = False) -> int:
        """Name a version, which expiry and vacuum then keep; returns it.

        Args:
            name: Printable, and not empty.
            version: The version; the one that this handle sees where not given.
            move: Take the name from the version that has it, if another does; else that is an error.

        Naming a version again as it is named makes no commit. Raises InvalidOption, VersionNotFound for a version that is not there or was
        expired, CommitConflict, CommitOutcomeUnknown, UpgradeNeeded, StoreError.
        """
        _check_name(name)
        at = self.version if version is None else parse_version(version)
        self._check_writable()
        committer = self._committer
        committer.land(committer.refresh(self._snapshot), partial(self._propose_tag, name, at, move=move))
        return at

    def untag(self, name: str) -> int:
        """Take a tag away, so that expiry may take its version; returns the version it named.

        Raises InvalidOption where there is no such tag, CommitConflict, CommitOutcomeUnknown, UpgradeNeeded, StoreError.
        """
        self._check_writable()
        committer = self._committer
        named: list[int] = []

        def propose(now: Snapshot[TableState]) -> SeriesProposal:
            named.append(_tagged(now.state, name))
            return self._tagging(name, None)

        committer.land(committer.refresh(self._snapshot), propose)
        return named[-1]

    def _propose_tag(self, name: str, version: int, now: Snapshot[TableState], *, move: bool) -> SeriesProposal | None:
        find_version(self._env, now, VersionQuery(version=version))
        known = now.state.tags.get(name)
        if known == version:
            return None
        if known is not None and not move:
            raise InvalidOption(
                f"the tag {name!r} names version {known}",
                why="A name that moved by accident would no longer keep the version it kept",
                fix=f"Pass move=True to let it name version {version}, or take another name",
                option="name",
                value=name,
            )
        return self._tagging(name, version)

    def _tagging(self, name: str, version: int | None) -> SeriesProposal:
        parameters = {"name": name, **({} if version is None else {"version": version})}
        commit = new_commit(self._env, "untag" if version is None else "tag", parameters, [SetTag(name, version)])
        return Proposal(commit=commit, check_conflict=TagChecker(name=name, version=version).check_conflict)


def _tagged(state: TableState, name: str) -> int:
    if name not in state.tags:
        raise InvalidOption(f"there is no tag {name!r}", fix=nearest(str(name), state.tags), option="name", value=name)
    return state.tags[name]


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidOption(
            f"{name!r} is no name for a version",
            why="A tag is a text of printable characters, and not empty",
            fix='Pass one such as "before-backfill"',
            option="name",
            value=name,
        )
