"""Known bugs of corrections, compaction, vacuum, expiry and restore, planted from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.conflict.maintenance import CompactChecker, RestoreChecker
from gapless.formats.timeseries.conflict.rows import RewriteChecker
from gapless.formats.timeseries.format import TIME_SERIES, TimeSeries
from gapless.log import commit as commit_module
from gapless.log.cleanup import clean
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Snapshot
from gapless.runtime.committer import Committer
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.vacuum import Limits, VacuumReport, delete_all, list_stored, parse_age
from gapless.tables.timeseries.care import expire, restore, vacuum, vacuum_plan
from gapless.tables.timeseries.care.restore import Restoring
from gapless.tables.timeseries.context import SeriesCommitter, SeriesProposal
from gapless.tables.timeseries.read import versions as travel
from gapless.tables.timeseries.write.append import Appender

Plant = Callable[[pytest.MonkeyPatch], None]


def _stands(_self: Any, mine: Any, _version: int, _theirs: Any) -> Conversation[Any]:
    yield from ()
    return Compatible(mine)


def compact_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction that lost a race does not ask whether its segments are still live."""
    monkeypatch.setattr(CompactChecker, "check_conflict", _stands)


def compact_against_a_fresh_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """MAINT-09: a compaction is committed against the newest version instead of the one it read."""
    honest = Committer.commit

    def broken(self: SeriesCommitter, snapshot: Snapshot[TableState], proposal: SeriesProposal) -> Any:
        if proposal.commit.operation == "compact":
            snapshot = self.refresh(snapshot)
        return honest(self, snapshot, proposal)

    monkeypatch.setattr(Committer, "commit", broken)


def rewrite_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upsert, delete or replacement that lost a race is committed as it was decided before."""
    monkeypatch.setattr(RewriteChecker, "check_conflict", _stands)


def rewrite_without_the_rows_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewrite that lost a race asks for its segments, and not for rows that it has not seen."""
    monkeypatch.setattr(RewriteChecker, "_unseen", lambda _self, _added: [])


def rewrite_an_operation_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upsert, delete or replacement does not look whether it was made before."""
    monkeypatch.setattr(ChangeOutcome, "before", lambda _snapshot, _operation: None)


def decide_by_a_stale_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by this simulator: an append leaves rows out, or is refused, for what its handle saw and was deleted since."""
    honest = Appender.stager
    monkeypatch.setattr(Appender, "stager", lambda self, snapshot: replace(honest(self, snapshot), newest=None))


def discard_what_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by this simulator: an error of the question whether the log was cleaned is taken to say that nothing landed."""

    honest = commit_module._landed

    def broken(*arguments: Any, **named: Any) -> Conversation[Any]:
        conversation = honest(*arguments, **named)
        try:
            request = next(conversation)
            while True:
                request = conversation.send((yield request))
        except StopIteration as end:
            return end.value

    monkeypatch.setattr(commit_module, "_landed", broken)


def vacuum_what_tags_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum does not ask what tags keep."""
    honest = vacuum_plan._status_of
    monkeypatch.setattr(vacuum_plan, "_status_of", lambda gone, state, limits: honest(gone, replace(state, tags={}), limits))


def vacuum_what_versions_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum takes what the newest version does not have."""
    honest = vacuum_plan._status_of

    def broken(gone: Any, state: TableState, limits: Limits) -> Any:
        return honest(gone, replace(state, earliest=gone.removed), limits)

    monkeypatch.setattr(vacuum_plan, "_status_of", broken)


def vacuum_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum takes every file that no version names, however young."""
    monkeypatch.setattr(Limits, "reason_of_unnamed", lambda _self, _written_ns: "orphan")


def vacuum_by_an_old_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum reads the log, then lists the files, and deletes those that it does not know from the log without a commit."""

    def broken(committer: SeriesCommitter, *, older_than: Any, dry_run: bool = True, horizon_ns: int = 0) -> Any:
        env = committer.env
        limits = Limits(now_ns=env.clock.now_ns(), older_than_ns=parse_age("", older_than), horizon_ns=horizon_ns)
        snapshot = vacuum.load_newest(env)
        stored = list_stored(env.store, vacuum.FOLDERS, TIME_SERIES.folder)
        plan = vacuum_plan.plan_vacuum(snapshot.state, stored, limits)
        delete_all(env.store, plan.paths_to_delete, lambda: True, lambda _path: None)
        return VacuumReport(url="", version=snapshot.version, dry_run=dry_run, entries=plan.entries)

    monkeypatch.setattr("gapless.tables.timeseries.care.maintenance.vacuum_table", broken)


def restore_what_was_vacuumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore makes segments live whose version expired and whose files a vacuum gave up."""
    monkeypatch.setattr(RestoreChecker, "check_conflict", _stands)
    monkeypatch.setattr(restore, "check_kept", lambda _state, _version: None)
    monkeypatch.setattr(restore, "find_version", lambda _env, _newest, query: query.version)
    monkeypatch.setattr(TimeSeries, "vacuumed", lambda *_arguments: None)
    monkeypatch.setattr(Restoring, "_check_files", lambda _self, _commit, _version: None)


def read_what_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired version is read as long as its files are there."""
    monkeypatch.setattr(travel, "check_kept", lambda _state, _version: None)


def clean_the_log_of_tagged_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is cleaned without a checkpoint at the versions that tags name."""
    honest = clean
    monkeypatch.setattr(expire, "clean", lambda dialect, floor, _tagged: honest(dialect, floor, ()))


def clean_the_log_before_its_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is cleaned without the checkpoints that stand for what goes."""

    def nothing(_dialect: Any, _version: int) -> Conversation[None]:
        yield from ()

    monkeypatch.setattr("gapless.log.cleanup._ensure_checkpoint", nothing)


def _checkpoints_of(monkeypatch: pytest.MonkeyPatch, change: Callable[[TableState], TableState]) -> None:
    honest = TimeSeries.encode_checkpoint

    def broken(self: TimeSeries, snapshot: Snapshot[TableState]) -> bytes:
        return honest(self, replace(snapshot, state=change(snapshot.state)))

    monkeypatch.setattr(TimeSeries, "encode_checkpoint", broken)


def checkpoint_without_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint leaves the operation ids out."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, applied={}))


def checkpoint_without_the_last_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint holds the segments of the version before."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, live=dict(list(state.live.items())[:-1])))


def checkpoint_without_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint leaves the tags out."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, tags={}))


def checkpoint_without_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint does not say which versions expired."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, earliest=1))


def checkpoint_without_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log checkpoint leaves out what was removed and is kept for older versions."""
    _checkpoints_of(monkeypatch, lambda state: replace(state, removed={}))


MAINTENANCE_PLANTS: tuple[Plant, ...] = (
    compact_without_asking,
    compact_against_a_fresh_version,
    rewrite_without_asking,
    rewrite_without_the_rows_that_came,
    rewrite_an_operation_again,
    decide_by_a_stale_handle,
    discard_what_landed,
    vacuum_what_tags_keep,
    vacuum_what_versions_keep,
    vacuum_what_is_in_flight,
    vacuum_by_an_old_log,
    restore_what_was_vacuumed,
    read_what_expired,
    clean_the_log_of_tagged_versions,
    clean_the_log_before_its_checkpoints,
    checkpoint_without_operations,
    checkpoint_without_the_last_segment,
    checkpoint_without_tags,
    checkpoint_without_expiry,
    checkpoint_without_tombstones,
)
