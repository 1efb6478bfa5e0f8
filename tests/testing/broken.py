"""Known bugs, planted from outside: each takes pytest's monkeypatch and breaks one thing the simulator must notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gapless.errors import CommitOutcomeUnknown, ObjectNotFound, StoreUnavailable
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import Commit, TableState
from gapless.formats.timeseries.conflict import rows as conflict
from gapless.formats.timeseries.format import TimeSeries
from gapless.log import commit as commit_module
from gapless.log.effects import Conversation as Talk
from gapless.log.effects import Get, Put, PutNew, perform
from gapless.log.format import Snapshot
from gapless.log.snapshot import load
from gapless.model.operation import OperationId
from gapless.runtime.committer import Committer
from gapless.runtime.environment import Environment
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.timeseries import lifecycle
from gapless.tables.timeseries.context import SeriesCommitter, SeriesProposal
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.write import group
from gapless.testing.simulation.timeline import SimIds
from testing.broken_maintenance import MAINTENANCE_PLANTS
from testing.broken_talk import (
    append_again_after_a_lost_reply,
    hint_before_the_commit,
    rebase_on_the_last_only,
    retry_one_version_on,
    skip_the_read_back,
    take_exists_for_done,
)

Plant = Callable[[pytest.MonkeyPatch], None]
Conversation = Callable[..., Talk[Any]]


def rebase_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebase does not look at the coverage of the commits that came first."""
    monkeypatch.setattr(conflict, "overlapping_coverage", lambda _segments, _coverage, _grid: [])


def forget_operations_on_rebase(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebase does not ask whether the operation landed meanwhile."""
    monkeypatch.setattr(Commit, "applies", lambda _commit, _operation: False)


def trust_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest version is the one that CURRENT names."""

    def broken(dialect: Any, at: int | None = None) -> Talk[Any]:
        hint = yield from perform(Get(dialect.hint))
        return (yield from load(dialect, int(hint) if hint else at))

    monkeypatch.setattr(lifecycle, "load", broken)


def delete_on_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the outcome is not known, the files are removed."""
    honest = Committer.commit

    def broken(self: SeriesCommitter, snapshot: Snapshot[TableState], proposal: SeriesProposal) -> Any:
        try:
            return honest(self, snapshot, proposal)
        except (CommitOutcomeUnknown, StoreUnavailable):
            proposal.discard()
            proposal.abandon()
            raise

    monkeypatch.setattr(Committer, "commit", broken)


def delete_when_the_retry_finds_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second put that is refused for lack of space is taken to say that the first did not land either."""

    def broken(path: str, data: bytes, *, again: bool) -> Talk[Put]:
        del again
        return (yield from perform(PutNew(path, data)))

    monkeypatch.setattr(commit_module, "_put", broken)


def compare_no_commit_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies at our version is taken for ours."""
    monkeypatch.setattr(TimeSeries, "id_of", lambda _self, _entry: "")


def report_the_version_aimed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names the version of the first try, not the one where the rebase landed."""
    honest = Committer.commit

    def broken(self: SeriesCommitter, snapshot: Snapshot[TableState], proposal: SeriesProposal) -> Any:
        result = honest(self, snapshot, proposal)
        aimed = proposal.commit.operation == "append" and isinstance(result, Snapshot)
        return replace(result, version=snapshot.version + 1) if aimed else result

    monkeypatch.setattr(Committer, "commit", broken)


def time_by_the_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit's time is its writer's clock, whatever the time of the commit before."""
    monkeypatch.setattr(commit_module, "max", lambda clock_ns, _least_ns: clock_ns, raising=False)


def take_a_cold_cache_for_no_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage that is not in memory counts as none."""
    honest = CoverageCache.union
    monkeypatch.setattr(
        CoverageCache,
        "union",
        lambda self, segments, types, wanted=None: honest(self, [s for s in segments if s.path in self._known], types, wanted),
    )


def clean_up_after_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment gives up at the first silence of a read, and the append removes its files."""

    def impatient(self: Environment, path: str, _pace: object) -> bytes | None:
        try:
            return self.store.get(path)
        except ObjectNotFound:
            return None

    monkeypatch.setattr(Environment, "_get", impatient)
    delete_on_unknown(monkeypatch)


def name_files_by_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts of one millisecond write to the same file."""
    honest = StagedWrite.write

    class OneId(SimIds):
        def uuid(self) -> str:
            return "00000000-0000-4000-8000-000000000000"

    def broken(self: StagedWrite, *arguments: Any) -> None:
        env = self.env
        self.env = replace(env, ids=OneId(Random(0)))
        try:
            honest(self, *arguments)
        finally:
            self.env = env

    monkeypatch.setattr(StagedWrite, "write", broken)


def take_silence_for_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that gets no answer counts as a read of nothing."""

    def broken(self: Environment, path: str, _pace: object) -> bytes | None:
        try:
            return self.store.get(path)
        except (ObjectNotFound, StoreUnavailable):
            return None

    monkeypatch.setattr(Environment, "_get", broken)


def ask_for_the_operation_only_where_it_clashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near to what this simulator found: a change does not look for its operation in the commits it just read."""
    honest = ChangeOutcome.before
    refreshed: list[Snapshot[TableState]] = []

    honest_refresh = Committer.refresh

    def refresh(self: SeriesCommitter, snapshot: Snapshot[TableState]) -> Snapshot[TableState]:
        newest = honest_refresh(self, snapshot)
        if snapshot.version < newest.version:
            refreshed.append(newest)
        return newest

    def before(snapshot: Snapshot[TableState], operation: OperationId | None, kind: str) -> ChangeOutcome | None:
        just_read = any(snapshot is one for one in refreshed)
        return None if just_read else honest(snapshot, operation, kind)

    monkeypatch.setattr(Committer, "refresh", refresh)
    monkeypatch.setattr(ChangeOutcome, "before", before)


def refuse_members_for_what_did_not_land(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by this simulator: a member of a group commit is refused for rows of another member."""
    monkeypatch.setattr(group, "CoverageOverlap", ZeroDivisionError)


PLANTS: tuple[Plant, ...] = (
    skip_the_read_back,
    take_exists_for_done,
    append_again_after_a_lost_reply,
    retry_one_version_on,
    rebase_blindly,
    rebase_on_the_last_only,
    forget_operations_on_rebase,
    trust_current,
    delete_on_unknown,
    delete_when_the_retry_finds_no_space,
    compare_no_commit_ids,
    report_the_version_aimed_at,
    hint_before_the_commit,
    time_by_the_clock_alone,
    take_a_cold_cache_for_no_coverage,
    clean_up_after_any_error,
    name_files_by_time_alone,
    take_silence_for_absence,
    ask_for_the_operation_only_where_it_clashed,
    refuse_members_for_what_did_not_land,
    *MAINTENANCE_PLANTS,
)


@contextlib.contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Within it, the bug is there."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        plant(monkeypatch)
        yield
