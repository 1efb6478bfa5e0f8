"""VACUUM for time-series tables: delete what no version that is kept needs, parts of log checkpoints among it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from gapless.errors import CorruptTable, StoreError, TableNotFound, VersionNotFound
from gapless.formats.timeseries.actions import COVERAGE_FOLDER, DATA_FOLDER, STAGED_FOLDER, Commit, ForgetSegments, TableState
from gapless.formats.timeseries.conflict.maintenance import VacuumChecker
from gapless.formats.timeseries.format import LOG_FOLDER, TIME_SERIES
from gapless.log.checkpoint import store_snapshot
from gapless.log.cleanup import parts_in_use
from gapless.log.effects import Conversation, Get, ListNames, perform
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.model.instant import NS_PER
from gapless.model.protocols import WRITER_HORIZON_NS, ObjectInfo
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.tables.shared.prepared import PREPARED_FOLDER
from gapless.tables.shared.vacuum import Limits, Vacuum, VacuumPlan, VacuumReport, linked_folders, list_stored, parse_age
from gapless.tables.timeseries.care.vacuum_plan import PartsInUse, plan_vacuum
from gapless.tables.timeseries.context import SeriesCommitter, SeriesProposal, new_commit

FOLDERS = (COVERAGE_FOLDER, TIME_SERIES.parts_folder, PREPARED_FOLDER, STAGED_FOLDER, DATA_FOLDER)
"""Where vacuum looks for objects; of the log's folder it only looks at unfinished writes."""


def survey_parts(
    stored: Iterable[ObjectInfo], snapshot: Snapshot[TableState], limits: Limits, *, dry_run: bool
) -> Conversation[PartsInUse]:
    """What the log checkpoints say of the stored parts, which were listed before.

    A writer that hangs between a part and the checkpoint that names it may still store that one. So, but for a dry run, the checkpoint
    is stored in its place first: then it comes too late. Raises StoreError.
    """
    parts = {info.path: info for info in stored if TIME_SERIES.part_of(info.path) is not None}
    if not parts:
        return PartsInUse()
    named = yield from parts_in_use(TIME_SERIES, parts.keys())
    unnamed = (info for path, info in parts.items() if path not in named and limits.is_orphan(info.modified_ns))
    owing = {version for info in unnamed if (version := TIME_SERIES.part_of(info.path)) is not None}
    there = set(map(TIME_SERIES.checkpoint_of, (yield from perform(ListNames(TIME_SERIES.folder)))))
    settled: set[int] = set()
    for version in sorted(owing):
        if version in there or (version <= snapshot.version and (dry_run or (yield from _forestall(version)))):
            settled.add(version)
    return PartsInUse(named=named, settled=frozenset(settled))


def _forestall(version: int) -> Conversation[bool]:
    """See to it that no one else can store the checkpoint of a version any more; False where that failed."""
    try:
        snapshot = yield from load(TIME_SERIES, version)
        if snapshot is None:
            return False
        yield from store_snapshot(TIME_SERIES, snapshot)
        return (yield from perform(Get(TIME_SERIES.checkpoint_path(version)))) is not None
    except VersionNotFound:
        return True  # the log was cleaned past it: a checkpoint of it leads nowhere
    except (CorruptTable, StoreError):
        return False


def load_newest(env: Environment) -> Snapshot[TableState]:
    """The newest version, read anew from the log; raises TableNotFound, CorruptTable, UnsupportedTable, StoreError."""
    snapshot = env.drive(load(TIME_SERIES))
    if snapshot is None:
        raise TableNotFound(
            f"there is no table at {env.store.url} any more",
            why=f"It has no {TIME_SERIES.folder}/ with commits",
            fix="Check the path; nothing was changed",
            path=env.store.url,
        )
    return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeriesVacuum(Vacuum[Commit, TableState]):
    """One commit, before anything goes: no writer brings back what it names."""

    limits: Limits
    parts: PartsInUse

    def plan(self, snapshot: Snapshot[TableState], prepared: frozenset[str]) -> VacuumPlan:
        linked = linked_folders(self.env.store, self.stored)
        return plan_vacuum(snapshot.state, self.stored, self.limits, linked=linked, parts=self.parts, prepared=prepared)

    def start(self, snapshot: Snapshot[TableState], plan: VacuumPlan) -> SeriesProposal | None:
        if not plan.forget:
            return None
        removed = {path: gone for path in plan.forget if (gone := snapshot.state.removed.get(path)) is not None}
        parameters = {"older_than_s": self.limits.older_than_ns / NS_PER["s"], "segments": len(plan.forget)}
        entry = new_commit(self.env, "vacuum", parameters, [ForgetSegments(plan.forget)])
        checker = VacuumChecker(paths=frozenset(plan.forget), removed=removed)
        return Proposal(commit=entry, check_conflict=checker.check_conflict)


def vacuum_table(
    committer: SeriesCommitter, *, older_than: timedelta, dry_run: bool = True, horizon_ns: int = WRITER_HORIZON_NS
) -> VacuumReport:
    """Delete what no version that is kept needs, or with `dry_run` only say what that is.

    Nothing goes that may belong to a writer at work: younger than `horizon_ns` (nanoseconds) and named by no version. Nothing goes
    before a commit said so; where the outcome of that is not known, nothing goes at all. Raises InvalidOption, TableNotFound,
    CorruptTable, UnsupportedTable, CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    env = committer.env
    limits = Limits(now_ns=env.clock.now_ns(), older_than_ns=parse_age("older_than", older_than), horizon_ns=horizon_ns)
    # Files first: one whose commit lands while we look is then named by the log.
    stored = list_stored(env.store, FOLDERS, LOG_FOLDER)
    snapshot = load_newest(env)
    parts = env.drive(survey_parts(stored, snapshot, limits, dry_run=dry_run))
    vacuum = _SeriesVacuum(committer=committer, stored=stored, limits=limits, parts=parts)
    return vacuum.run(snapshot, dry_run=dry_run)
