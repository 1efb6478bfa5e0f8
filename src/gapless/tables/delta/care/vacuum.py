"""VACUUM, log checkpoints and log cleanup of a Delta table: what no retained version references is deleted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from gapless.errors import InvalidOption, LogWarning, ObjectNotFound, StoreUnavailable
from gapless.formats.delta.actions import Commit, Json, TableState
from gapless.formats.delta.conflict import VACUUM_END, VACUUM_START, CommitPredicate
from gapless.formats.delta.features import check_writable, supports
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.operation_ids import txn_of
from gapless.formats.delta.properties import Settings
from gapless.log.cleanup import clean, find_floor
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.log.snapshot import write_checkpoint
from gapless.log.versions import read_back
from gapless.model.instant import NS_PER
from gapless.model.protocols import WRITER_HORIZON_NS, is_old
from gapless.publish.source import published_mark
from gapless.runtime.committer import Proposal
from gapless.tables.delta.care.vacuum_plan import paths_needed, plan_vacuum
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.read.versions import earliest_version
from gapless.tables.delta.write.commits import new_commit
from gapless.tables.shared.publication.publications import described_still
from gapless.tables.shared.vacuum import Limits, Vacuum, VacuumPlan, VacuumReport, linked_folders, list_stored, parse_age


def age_ns(kept: timedelta) -> int:
    """A retention in nanoseconds."""
    return kept // timedelta(microseconds=1) * NS_PER["us"]


def parse_retention(older_than: object, kept: timedelta, named: str, *, enforce: bool) -> int:
    """The age in nanoseconds by which something goes: `older_than`, or `kept`, which the table's property `named` says.

    Raises InvalidOption for what is no age, and for one below `kept` where that is enforced.
    """
    if older_than is None:
        return age_ns(kept)
    given_ns = parse_age("older_than", older_than)
    if enforce and given_ns < age_ns(kept):
        raise InvalidOption(
            f"older_than='{older_than}' is shorter than the table's retention, which is '{kept}'",
            why="Readers of versions within it, and writers that take long, could lose files under their hands",
            fix=f"Pass a longer one or none, set {named}, or pass enforce_retention=False where nobody else is at work",
            option="older_than",
            value=older_than,
        )
    return given_ns


class Vacuuming(DeltaHandle):
    """Vacuum of a Delta table."""

    def _published_versions(self, snapshot: Snapshot[TableState]) -> Mapping[str, int]:
        return self._publications.marks(self._source(snapshot))

    def vacuum(
        self, older_than: timedelta | None = None, *, dry_run: bool = True, enforce_retention: bool = True
    ) -> VacuumReport:
        """Delete files that only versions before the last `older_than` need, and what interrupted writes left.

        Args:
            older_than: How long ago a file must have been removed, as the log says it, or a change file committed. Where not given, the
                table's `delta.deletedFileRetentionDuration`, else 7 days. What was never committed stays for a day in any case: a writer at
                work may be about to commit it.
            dry_run: Only say what would go; with False it goes.
            enforce_retention: With False `older_than` may be shorter than the table's retention. Readers of older versions, and streams that
                lag, then lose files under their hands.

        The report has a reason for each file outside the log. Data files, change files and deletion vectors that the log names go by what it
        says; what it does not name only where it has a name that Delta's writers give. All else is never touched: other files and folders,
        tables nested in this one's folder, and what lies beyond a symbolic link. A commit before and one after tell of it, and what was
        deleted can be read by no older version. What is published in another format and not up to date keeps the files that it describes, and
        the report says whom it waits for; not for longer than seven days after the first commit that was not published. Raises InvalidOption, UnsupportedTable, CorruptTable (then nothing was deleted),
        CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        committer = self._committer
        # Files first: one whose commit lands while we look is then named by the log.
        stored = list_stored(self._env.store, ("",), DELTA.folder)
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()
        kept = Settings.of(snapshot.state.configuration).deleted_file_retention
        older_than_ns = parse_retention(older_than, kept, "delta.deletedFileRetentionDuration", enforce=enforce_retention)
        said: dict[str, Json] = {
            "retentionCheckEnabled": enforce_retention,
            "defaultRetentionMillis": age_ns(kept) // NS_PER["ms"],
            **({} if older_than is None else {"specifiedRetentionMillis": older_than_ns // NS_PER["ms"]}),
        }
        if not dry_run:
            self._follow(snapshot)
        vacuum = _DeltaVacuum(
            committer=committer, stored=stored, older_than_ns=older_than_ns, parameters=said, marks=self._published_versions
        )
        report = vacuum.run(snapshot, dry_run=dry_run)
        held = any(entry.reason == "published" for entry in report.entries)
        return self._with_publications(replace(report, waits_for=tuple(vacuum.waits_for) if held else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeltaVacuum(Vacuum[Commit, TableState]):
    """A commit before files go, and one after."""

    older_than_ns: int
    parameters: Mapping[str, Json]
    """What the commit before says, by Delta's names."""
    marks: Callable[[Snapshot[TableState]], Mapping[str, int]]
    """Of a version, the version that each format describes in which it is published."""
    waits_for: dict[str, int] = field(default_factory=dict)
    """The formats that describe an earlier version than that of the last plan, with that version."""

    def plan(self, snapshot: Snapshot[TableState], prepared: frozenset[str]) -> VacuumPlan:
        limits = Limits(now_ns=self.env.clock.now_ns(), older_than_ns=self.older_than_ns, horizon_ns=WRITER_HORIZON_NS)
        entries, linked = self.env.drive(read_back(DELTA, snapshot.version)), linked_folders(self.env.store, self.stored)
        root = self.env.store.url
        first = entries[0][0] if entries else snapshot.version
        held = described_still(self.env, DELTA, self.marks(snapshot), newest=snapshot.version, earliest=first)
        self.waits_for.clear()
        self.waits_for.update(held)
        planned = plan_vacuum(
            snapshot.state, entries, self.stored, limits,
            root=root, linked=linked, prepared=prepared, described=min(held.values(), default=None),
        )  # fmt: skip
        return VacuumPlan(entries=planned)

    def start(self, snapshot: Snapshot[TableState], plan: VacuumPlan) -> Proposal[Commit] | None:
        check_writable(snapshot.state.protocol, self.env.store.url, snapshot.state.metadata)
        going = [entry for entry in plan.entries if entry.goes]
        if not going:
            return None
        counts = {"numFilesToDelete": len(going), "sizeOfDataToDelete": sum(entry.size for entry in going)}
        told = [published_mark(name, version) for name, version in self.marks(snapshot).items() if version]
        marks = [txn_of(mark, "") for mark in told if snapshot.state.recognise(mark) is None]
        commit = new_commit(self.env, snapshot, VACUUM_START, marks, parameters=self.parameters)
        terms = _VacuumPredicate(
            base=CommitPredicate(state=snapshot.state),
            root=self.env.store.url,
            deleted=frozenset(plan.paths_to_delete),
        )
        return Proposal(commit=replace(commit, metrics=counts), check_conflict=terms.check_conflict)

    def is_in_time(self, begun_ns: int) -> bool:
        # Whoever restores a version takes a vacuum for dead after a day.
        return not is_old(self.env.clock.now_ns(), begun_ns)

    def end(self, snapshot: Snapshot[TableState], plan: VacuumPlan, start: int, *, done: bool) -> Proposal[Commit] | None:
        if not plan.paths_to_delete:
            return None
        commit = new_commit(self.env, snapshot, VACUUM_END, (), parameters={"status": "COMPLETED" if done else "FAILED"})
        commit = replace(commit, metrics={"numDeletedFiles": len(plan.paths_to_delete) if done else 0}, read_version=start)
        return Proposal(commit=commit, check_conflict=CommitPredicate(state=snapshot.state).check_conflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VacuumPredicate:
    """The commit that says which files go follows none that makes one of them live again: then it is decided anew."""

    base: CommitPredicate
    root: str
    deleted: frozenset[str]

    def check_conflict(self, mine: Commit, version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        """See `gapless.log.format.ConflictChecker`."""
        wanted = next((path for path in paths_needed(theirs, self.root) if path in self.deleted), None)
        if wanted is not None:
            return Conflicting("same files", wanted)
        return (yield from self.base.check_conflict(mine, version, theirs))


class Checkpointing(DeltaHandle):
    """Log checkpoints and log cleanup of a Delta table."""

    def checkpoint(self) -> int:
        """Store a log checkpoint of the newest version, where there is none, so that opening needs no commit before it; returns the version.

        One is written by itself every `delta.checkpointInterval` commits. Raises UnsupportedTable, StoreError.
        """
        newest = self._committer.refresh(self._snapshot)
        self._check_writable()
        self._env.drive(write_checkpoint(DELTA, newest))
        path = DELTA.checkpoint_path(newest.version)
        try:
            self._env.store.head(path)
        except ObjectNotFound as error:
            raise StoreUnavailable(
                f"the log checkpoint {path} was not written",
                why="The store did not take it; see the warning",
                fix="Try again",
                path=path,
            ) from error
        return newest.version

    def cleanup_log(self, older_than: timedelta | None = None, *, enforce_retention: bool = True) -> tuple[str, ...]:
        """Remove commits and log checkpoints that no version needs which was the newest within the last `older_than`; returns their paths.

        Args:
            older_than: By commit time; where not given, the table's `delta.logRetentionDuration`, else 30 days. No commit younger than a day
                goes in any case.
            enforce_retention: With False `older_than` may be shorter than that.

        Versions whose commits are gone can be read no longer, nor their changes. What is published in another format and not up to date keeps
        the commits that follow what it describes, with a LogWarning that says so, as a vacuum keeps its files. Two checkpoints are stored and read back before anything
        goes, in the form that every reader of Delta knows. In a table with `checkpointProtection`, which DROP FEATURE of Spark leaves,
        nothing goes until all versions before `delta.requireCheckpointProtectionBeforeVersion` may go at once. Raises InvalidOption, UnsupportedTable, CorruptTable, StoreError.
        """
        newest = self._committer.refresh(self._snapshot)
        self._check_writable()
        kept = Settings.of(newest.state.configuration).log_retention
        asked_ns = parse_retention(older_than, kept, "delta.logRetentionDuration", enforce=enforce_retention)
        cutoff_ns = self._env.clock.now_ns() - max(asked_ns, WRITER_HORIZON_NS)
        floor = self._env.drive(find_floor(DELTA, self._described_since(newest), cutoff_ns))
        state = newest.state
        if not supports(state.protocol, "checkpointProtection"):
            return self._env.drive(clean(DELTA, floor, ()))
        # The checkpoint before the floor is made anew, too: of a version whose protocol is the table's again.
        if floor <= Settings.of(state.configuration).protected_before:
            return ()
        return self._env.drive(clean(DELTA, floor, (), commits_first=True))

    def _described_since(self, newest: Snapshot[TableState]) -> int:
        """The version whose commit must stay, so that what is published can go on; the newest where nothing else is described."""
        self._follow(newest)
        marks = self._publications.marks(self._source(newest))
        first = self._env.drive(earliest_version())
        held = described_still(self._env, DELTA, marks, newest=newest.version, earliest=first)
        if held:
            what = f"the log of {self.url} is not cleaned past version {min(held.values())}"
            warnings.warn(f"{what}: what is published as {' and '.join(held)} describes it", LogWarning, stacklevel=3)
        return min([newest.version, *held.values()])
