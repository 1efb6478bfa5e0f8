"""Deleting files of a Delta table that no version needs which is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from gapless.dialects.delta.actions import Commit, Json, TableState
from gapless.dialects.delta.conflict import Terms
from gapless.dialects.delta.dialect import DELTA
from gapless.dialects.delta.features import check_writable
from gapless.dialects.delta.properties import Settings
from gapless.errors import StoreError
from gapless.log.dialect import Snapshot
from gapless.log.requests import Talk
from gapless.log.travel import read_back
from gapless.log.verdict import Clash, Stands
from gapless.maintain.delta.retention import age_ns, parse_retention
from gapless.maintain.delta.vacuum_plan import Surroundings, paths_needed, plan_vacuum
from gapless.maintain.sweep import delete_all, linked_folders
from gapless.maintain.vacuum import VacuumReport
from gapless.maintain.vacuum_plan import Limits, VacuumEntry
from gapless.model.horizon import WRITER_HORIZON_NS, is_old
from gapless.model.instant import NS_PER
from gapless.model.protocols import ObjectInfo, ShowsUnfinished, Store
from gapless.runtime.committer import Committer, Proposal
from gapless.runtime.driver import Rim
from gapless.table.delta.commits import new_commit
from gapless.table.delta.handle import DeltaHandle

START, END = "VACUUM START", "VACUUM END"
"""Operations of the commits before and after files go."""


class Vacuuming(DeltaHandle):
    """Vacuum of a Delta table."""

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
        deleted can be read by no older version. Raises InvalidOption, UnsupportedTable, CorruptTable (then nothing was deleted),
        CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        committer = self._committer
        # Files first: one whose commit lands while we look is then named by the log.
        stored = list_stored(self._rim.store)
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()
        asked = _Asked.parse(older_than, snapshot, enforce=enforce_retention)
        act = _Vacuum(rim=self._rim, asked=asked, stored=stored)
        entries = act.decide(snapshot)
        if not dry_run and any(entry.goes for entry in entries):
            snapshot, entries = act.apply(committer, snapshot)
        return VacuumReport(url=self.url, version=snapshot.version, dry_run=dry_run, entries=entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Which age a vacuum goes by, in nanoseconds."""

    older_than_ns: int
    retention_ns: int
    """The table's own."""
    specified: bool
    enforced: bool

    @classmethod
    def parse(cls, older_than: object, snapshot: Snapshot[TableState], *, enforce: bool) -> _Asked:
        """From the arguments; raises InvalidOption for what is no age, or one below the table's retention where that is enforced."""
        kept = Settings.of(snapshot.state.configuration).deleted_file_retention
        given_ns = parse_retention(older_than, kept, "delta.deletedFileRetentionDuration", enforce=enforce)
        return cls(older_than_ns=given_ns, retention_ns=age_ns(kept), specified=older_than is not None, enforced=enforce)

    @property
    def parameters(self) -> dict[str, Json]:
        """What the commit before says, by Delta's names."""
        said: dict[str, Json] = {
            "retentionCheckEnabled": self.enforced,
            "defaultRetentionMillis": self.retention_ns // NS_PER["ms"],
        }
        return said | ({"specifiedRetentionMillis": self.older_than_ns // NS_PER["ms"]} if self.specified else {})


@dataclass(slots=True, kw_only=True)
class _Vacuum:
    """One vacuum under way, with the plan that holds."""

    rim: Rim
    asked: _Asked
    stored: list[ObjectInfo]
    entries: tuple[VacuumEntry, ...] = ()

    @property
    def doomed(self) -> list[str]:
        """The paths of the files that go."""
        return [entry.path for entry in self.entries if entry.goes]

    def decide(self, snapshot: Snapshot[TableState]) -> tuple[VacuumEntry, ...]:
        """Plan by this version."""
        store = self.rim.store
        limits = Limits(now_ns=self.rim.clock.now_ns(), older_than_ns=self.asked.older_than_ns, horizon_ns=WRITER_HORIZON_NS)
        below = (info.path for info in self.stored if "/" in info.path)
        around = Surroundings(root=store.url, linked=linked_folders(store, below))
        entries = self.rim.drive(read_back(DELTA, snapshot.version))
        self.entries = plan_vacuum(snapshot.state, entries, self.stored, limits, around)
        return self.entries

    def apply(
        self, committer: Committer[Commit, TableState], snapshot: Snapshot[TableState]
    ) -> tuple[Snapshot[TableState], tuple[VacuumEntry, ...]]:
        """Tell the log, delete, and tell the log how that went; the version after it.

        Whoever restores a version takes a vacuum for dead after a day. So one that hung begins anew, with what is live by then.
        """
        while True:
            begun_ns = self.rim.clock.now_ns()
            started = committer.change(snapshot, self._propose_start)
            if started is None:
                return committer.refresh(snapshot), self.entries
            try:
                done = delete_all(self.rim.store, self.doomed, partial(self._is_in_time, begun_ns))
            except StoreError:
                committer.change(started, partial(self._propose_end, "FAILED", started.version))
                raise
            status = "COMPLETED" if done else "FAILED"
            snapshot = committer.change(started, partial(self._propose_end, status, started.version)) or started
            if done:
                return snapshot, self.entries

    def _is_in_time(self, begun_ns: int) -> bool:
        return not is_old(self.rim.clock.now_ns(), begun_ns)

    def _propose_start(self, snapshot: Snapshot[TableState]) -> Proposal[Commit] | None:
        check_writable(snapshot.state.protocol, self.rim.store.url, snapshot.state.metadata)
        going = [entry for entry in self.decide(snapshot) if entry.goes]
        if not going:
            return None
        counts = {"numFilesToDelete": len(going), "sizeOfDataToDelete": sum(entry.size for entry in going)}
        commit = new_commit(self.rim, snapshot, START, (), parameters=self.asked.parameters)
        terms = _VacuumTerms(base=Terms(state=snapshot.state), root=self.rim.store.url, doomed=frozenset(self.doomed))
        return Proposal(commit=replace(commit, metrics=counts), judge=terms.judge)

    def _propose_end(self, status: str, start: int, snapshot: Snapshot[TableState]) -> Proposal[Commit]:
        """What says that the vacuum is done which began with version `start`."""
        commit = new_commit(self.rim, snapshot, END, (), parameters={"status": status})
        gone = len(self.doomed) if status == "COMPLETED" else 0
        commit = replace(commit, metrics={"numDeletedFiles": gone}, read_version=start)
        return Proposal(commit=commit, judge=Terms(state=snapshot.state).judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VacuumTerms:
    """The commit that says which files go follows none that makes one of them live again: then it is decided anew."""

    base: Terms
    root: str
    doomed: frozenset[str]

    def judge(self, mine: Commit, version: int, theirs: Commit) -> Talk[Stands[Commit] | Clash]:
        """See `gapless.log.verdict.Judge`."""
        wanted = next((path for path in paths_needed(theirs.added, self.root) if path in self.doomed), None)
        if wanted is not None:
            return Clash("same files", wanted)
        return (yield from self.base.judge(mine, version, theirs))


def list_stored(store: Store) -> list[ObjectInfo]:
    """All objects below the root outside the log, the unfinished writes of a local disk among them. Raises StoreError."""
    stored = [info for info in store.list("") if not info.path.startswith(f"{DELTA.folder}/")]
    return stored + (list(store.unfinished("")) if isinstance(store, ShowsUnfinished) else [])
