"""Changes that are prepared first and committed later, or not at all, for both kinds of table: the two phases of a commit."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

import pyarrow as pa
import pytest

from gapless.errors import CommitConflict, CommitOutcomeUnknown, CoverageOverlap, InvalidValue
from gapless.files.write.staged_write import StagedWrite
from gapless.model.operation import JobId, OperationId, SequenceId
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types
from gapless.tables.delta.write.append import Append
from gapless.tables.delta.write.landing import RowCommitter
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.shared.landing import Prepared
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.write.append import Appender, Overwriter
from support.clocked_delta import ClockedDelta, numbered
from support.clocked_table import Clocked, rows_at
from support.faulty_store import FaultyStore, once, unavailable

JOB = JobId("load")


class Place(Protocol):
    """A table whose clock the test sets, and how it appends in two phases."""

    world: Any

    def prepare(self, *values: int, operation: OperationId | None = JOB) -> Prepared[Any, Any]:
        """An append of these values, staged for the version that a fresh handle sees."""
        ...

    def committer(self, store: Any = None) -> Any:
        """That of a handle which begins anew."""
        ...

    def values(self) -> Sequence[float]:
        """Those of the newest version."""
        ...

    def data(self) -> set[str]:
        """The stored objects that are not the log's."""
        ...


class Series:
    def __init__(self) -> None:
        self.world = Clocked()
        self.world.append(0)

    def prepare(self, *values: int, operation: OperationId | None = JOB, policy: OnOverlap = "reject") -> Prepared[Any, Any]:
        context = context_of(self.world.open())
        rows = pa.concat_tables([rows_at(value) for value in values])
        appender = Appender(context=context, on_overlap=policy, operation=operation)
        return appender.prepare(context.snapshot, [as_batches(rows)])

    def committer(self, store: Any = None) -> Any:
        return context_of(self.world.open(store)).committer

    def values(self) -> Sequence[float]:
        return self.world.hours()

    def data(self) -> set[str]:
        return {name for name in self.world.names() if not name.startswith("_timeseries_log/")}


class Delta:
    def __init__(self) -> None:
        self.world = ClockedDelta()
        self.world.append(0)

    def prepare(self, *values: int, operation: OperationId | None = JOB) -> Prepared[Any, Any]:
        table = self.world.open()
        rows = RowCommitter(
            committer=table._committer,
            propose=Append(env=table._env, operation=operation).propose,
            kind="append",
            check_writable=table._check_writable,
            operation=operation,
        )
        return rows.prepare(table._snapshot, [as_batches(numbered(*values))])

    def committer(self, store: Any = None) -> Any:
        return self.world.open(store)._committer

    def values(self) -> Sequence[float]:
        return self.world.ids()

    def data(self) -> set[str]:
        return self.world.data_files()


@pytest.fixture(params=[Series, Delta])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param()
    return made


def test_what_is_prepared_is_stored_and_in_no_version_before_it_is_committed(place: Place) -> None:
    before, version = place.data(), place.world.open().version
    prepared = place.prepare(5, 6)
    assert set(prepared.files) == place.data() - before
    assert prepared.files
    assert (place.values(), place.world.open().version) == ([0], version)
    outcome = prepared.commit(place.committer())
    assert (outcome.version, outcome.tally.rows, outcome.already) == (version + 1, 2, False)
    assert place.values() == [0, 5, 6]
    assert place.data() == before | set(prepared.files)


@pytest.mark.parametrize("operation", [JOB, SequenceId("feed", 7), None])
def test_committed_twice_it_answers_the_same(place: Place, operation: OperationId | None) -> None:
    prepared = place.prepare(5, operation=operation)
    first = prepared.commit(place.committer())
    place.world.append(9)
    again = prepared.commit(place.committer())
    assert again.already
    if operation is not None:
        assert (again.version, again.tally) == (first.version, first.tally)
    assert place.values() == [0, 5, 9]
    assert set(prepared.files) <= place.data()


def test_aborted_it_leaves_no_file(place: Place) -> None:
    before = place.data()
    prepared = place.prepare(5, 6)
    assert prepared.abort(place.committer())
    assert (place.data(), place.values()) == (before, [0])
    assert prepared.abort(place.committer()), "there is nothing left, and that is no error"


@pytest.mark.parametrize("operation", [JOB, None])
def test_what_was_committed_cannot_be_aborted(place: Place, operation: OperationId | None) -> None:
    prepared = place.prepare(5, operation=operation)
    prepared.commit(place.committer())
    assert not prepared.abort(place.committer())
    assert place.values() == [0, 5]


def test_where_it_was_forgotten_vacuum_takes_its_files_and_it_can_be_committed_no_more(place: Place) -> None:
    before = place.data()
    prepared = place.prepare(5)
    place.world.wait(days=8)
    report = place.world.open().vacuum(timedelta(days=7), dry_run=False)
    assert {entry.path for entry in report.deleted} == set(prepared.files)
    assert {entry.reason for entry in report.deleted} == {"orphan"}
    assert place.data() == before
    with pytest.raises(CommitConflict, match="gone"):
        prepared.commit(place.committer())
    assert place.values() == [0]


def test_an_unknown_outcome_leaves_the_files_and_it_is_committed_once(place: Place) -> None:
    prepared = place.prepare(5)
    store = FaultyStore(place.world.store)
    committer = place.committer(store)
    store.after_put = lambda path: unavailable(path) if "_log/" in path else None
    store.before_get = lambda path: unavailable(path) if store.puts else None
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit(committer)
    assert set(prepared.files) <= place.data()
    again = prepared.commit(place.committer())
    assert (again.already, again.tally.rows) == (True, 1)
    assert place.values() == [0, 5]


def test_an_operation_that_another_applied_meanwhile_is_not_applied_again(place: Place) -> None:
    first, second = place.prepare(5), place.prepare(6)
    landed = first.commit(place.committer())
    known = second.commit(place.committer())
    assert (known.version, known.already) == (landed.version, True)
    assert place.values() == [0, 5]
    assert set(second.files) <= place.data(), "whose files they are only the caller knows"


# -- rows that another version judges differently --------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "rows"), [("skip", 1), ("reject", 0)])
def test_buckets_that_came_meanwhile_are_judged_when_it_is_committed(policy: OnOverlap, rows: int) -> None:
    place = Series()
    prepared = place.prepare(5, 6, policy=policy)
    place.world.append(5)
    before = place.data()
    if rows:
        outcome = prepared.commit(place.committer())
        assert (outcome.tally.rows, outcome.tally.skipped_rows) == (1, 1)
        assert place.values() == [0, 5, 6]
    else:
        with pytest.raises(CoverageOverlap):
            prepared.commit(place.committer())
        assert place.data() == before
    # What was prepared is there still; of what was filtered and written anew, only what landed.
    assert set(prepared.files) <= place.data()
    assert place.world.open().verify(deep=True).ok


def test_rules_that_came_meanwhile_are_asked_of_the_prepared_rows() -> None:
    place = Delta()
    prepared, wrong = place.prepare(5), place.prepare(6, operation=JobId("other"))
    place.world.open().alter.add_constraint("odd", "id % 2 = 1 OR id = 0")
    with pytest.raises(InvalidValue, match="odd"):
        wrong.commit(place.committer())
    assert wrong.abort(place.committer())
    before = place.data()
    outcome = prepared.commit(place.committer())
    assert outcome.tally.rows == 1
    assert place.values() == [0, 5]
    assert place.data() > before, "its rows were written anew, and what was prepared stays until it is aborted"
    assert not prepared.abort(place.committer()), "its operation was applied"


def test_rows_that_were_written_anew_are_committed_once_without_an_operation_id() -> None:
    place = Delta()
    prepared = place.prepare(5, operation=None)
    place.world.open().alter.add_constraint("positive", "id >= 0")
    assert not prepared.commit(place.committer()).already
    assert prepared.commit(place.committer()).already
    assert place.values() == [0, 5]
    assert not prepared.abort(place.committer()), "it is committed, in files written anew"


def test_rows_that_were_filtered_anew_are_committed_once_without_an_operation_id() -> None:
    place = Series()
    prepared = place.prepare(5, 6, operation=None, policy="skip")
    place.world.append(5)
    assert not prepared.commit(place.committer()).already
    assert prepared.commit(place.committer()).already
    assert place.values() == [0, 5, 6]
    assert not prepared.abort(place.committer())


@pytest.mark.parametrize("kind", [Series, Delta])
def test_what_lost_until_the_deadline_is_committed_when_it_is_asked_again(kind: type[Series | Delta]) -> None:
    place = kind()
    prepared = place.prepare(5)
    store = FaultyStore(place.world.store)
    committer = place.committer(store)
    hurried = replace(committer, env=replace(committer.env, deadline_s=0.0))
    store.before_put = once(lambda: place.world.append(9), lambda path: "_log/" in path and path.endswith(".json"))
    with contextlib.suppress(CommitConflict):
        prepared.commit(hurried)
    assert prepared.commit(place.committer()).tally.rows == 1
    assert sorted(place.values()) == [0, 5, 9]


def test_an_overwrite_is_prepared_from_segments_that_are_stored() -> None:
    place = Series()
    context = context_of(place.world.open())
    appender = Appender(context=context, on_overlap="allow")
    state = context.snapshot.state
    assert state.meta.schema is not None
    attempt = StagedWrite.begin(context.env)
    stager = appender.stager(context.snapshot)
    for run in stager.runs([as_batches(rows_at(7))], state.meta.schema):
        stager.write(run, attempt, entity_types(state.meta.schema, state.meta.index))
    prepared = Overwriter(context=context, operation=JOB).prepare(context.snapshot, state.meta.schema, attempt)
    place.world.append(8)
    outcome = prepared.commit(place.committer())
    assert (outcome.tally.rows, outcome.tally.removed_rows) == (1, 2)
    assert place.values() == [7]
    assert prepared.commit(place.committer()).already
