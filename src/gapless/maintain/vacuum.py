"""`vacuum`: list, read the log, plan, tell the log what goes, and only then delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from gapless.dialects.timeseries.actions import Commit, ForgetSegments, TableState
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.dialects.timeseries.upkeep_terms import VacuumTerms
from gapless.errors import InvalidOption, TableNotFound
from gapless.log.dialect import Snapshot
from gapless.log.snapshot import load
from gapless.maintain.part_sweep import survey_parts
from gapless.maintain.sweep import delete_all, linked_folders, list_stored
from gapless.maintain.vacuum_plan import Limits, PartsInUse, Reason, VacuumEntry, VacuumPlan, plan_vacuum
from gapless.model.horizon import WRITER_HORIZON_NS
from gapless.model.instant import NS_PER
from gapless.model.protocols import ObjectInfo
from gapless.runtime.committer import ENGINE, Proposal
from gapless.runtime.driver import Rim
from gapless.runtime.series import SeriesCommitter, SeriesProposal


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What `vacuum` deleted, or would delete, and why everything else stays."""

    url: str
    version: int
    """The version by which it decided; its own where it made a commit."""
    dry_run: bool
    """Whether nothing was changed."""
    entries: tuple[VacuumEntry, ...]
    """One for each file under data/, _coverage/ and _log_parts/, and each unfinished write, by path."""

    @property
    def deleted(self) -> tuple[VacuumEntry, ...]:
        """The files that went; those that would go, of a dry run."""
        return tuple(entry for entry in self.entries if entry.goes)

    @property
    def freed_bytes(self) -> int:
        """The size of those in bytes."""
        return sum(entry.size for entry in self.deleted)

    @property
    def files(self) -> Mapping[Reason, int]:
        """How many files there were for each reason that there was."""
        return Counter(entry.reason for entry in self.entries)


def parse_age(name: str, value: object) -> int:
    """An age in nanoseconds; raises InvalidOption for what is none, or a time to come."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidOption(
            f"{name}={value!r} is no age",
            why="It says how long ago, and so is a timedelta of 0 or more",
            fix=f"Pass one, such as {name}=timedelta(days=7)",
            option=name,
            value=value,
        )
    return value // timedelta(microseconds=1) * NS_PER["us"]


def load_newest(rim: Rim) -> Snapshot[TableState]:
    """The newest version, read anew from the log; raises TableNotFound, CorruptTable, UnsupportedTable, StoreError."""
    snapshot = rim.drive(load(TIME_SERIES))
    if snapshot is None:
        raise TableNotFound(
            f"there is no table at {rim.store.url} any more",
            why=f"It has no {TIME_SERIES.folder}/ with commits",
            fix="Check the path; nothing was changed",
            path=rim.store.url,
        )
    return snapshot


@dataclass(slots=True, kw_only=True)
class _Vacuum:
    """One vacuum under way, with the plan that holds."""

    rim: Rim
    limits: Limits
    stored: list[ObjectInfo]
    linked: frozenset[str]
    parts: PartsInUse
    plan: VacuumPlan = field(default_factory=lambda: VacuumPlan(entries=(), forget=()))

    def decide(self, snapshot: Snapshot[TableState]) -> VacuumPlan:
        """Plan by this version."""
        self.plan = plan_vacuum(snapshot.state, self.stored, self.limits, linked=self.linked, parts=self.parts)
        return self.plan

    def propose(self, snapshot: Snapshot[TableState]) -> SeriesProposal | None:
        """The commit that gives up what is to go; None where no version needs to hear of it."""
        plan = self.decide(snapshot)
        if not plan.forget:
            return None
        removed = {path: gone for path in plan.forget if (gone := snapshot.state.removed.get(path)) is not None}
        older_than_s = self.limits.older_than_ns / NS_PER["s"]
        entry = Commit(
            id=self.rim.ids.uuid(),
            operation="vacuum",
            engine=ENGINE,
            parameters={"older_than_s": older_than_s, "segments": len(plan.forget)},
            actions=(ForgetSegments(plan.forget),),
        )
        return Proposal(commit=entry, judge=VacuumTerms(paths=frozenset(plan.forget), removed=removed).judge)


def vacuum_table(
    committer: SeriesCommitter, *, older_than: timedelta, dry_run: bool = True, horizon_ns: int = WRITER_HORIZON_NS
) -> VacuumReport:
    """Delete what no version that is kept needs, or with `dry_run` only say what that is.

    Nothing goes that may belong to a writer at work: younger than `horizon_ns` (nanoseconds) and named by no version. Nothing goes
    before a commit said so; where the outcome of that is not known, nothing goes at all. Raises InvalidOption, TableNotFound,
    CorruptTable, UnsupportedTable, CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    rim = committer.rim
    limits = Limits(now_ns=rim.clock.now_ns(), older_than_ns=parse_age("older_than", older_than), horizon_ns=horizon_ns)
    # Files first: one whose commit lands while we look is then named by the log.
    stored = list_stored(rim.store)
    linked = linked_folders(rim.store, (info.path for info in stored))
    snapshot = load_newest(rim)
    parts = rim.drive(survey_parts(stored, snapshot, limits, dry_run=dry_run))
    act = _Vacuum(rim=rim, limits=limits, stored=stored, linked=linked, parts=parts)
    if dry_run:
        act.decide(snapshot)
    else:
        landed = committer.change(snapshot, act.propose)
        snapshot = snapshot if landed is None else landed
        delete_all(rim.store, act.plan.doomed)
    return VacuumReport(url=rim.store.url, version=snapshot.version, dry_run=dry_run, entries=act.plan.entries)
