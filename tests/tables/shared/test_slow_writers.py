"""Writers that hang for days with files that no version names, and vacuums that take these for left behind, of both kinds of table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

import pyarrow as pa
import pytest

from gapless.errors import CommitConflict
from gapless.formats.delta.actions import Commit as DeltaCommit
from gapless.formats.timeseries.actions import AddSegment, ForgetSegments
from gapless.formats.timeseries.actions import Commit as SeriesCommit
from gapless.log import versions
from gapless.log.commit import VACUUMED, Conflict
from gapless.log.format import Compatible, Conflicting
from gapless.model.segment import SidecarCoverage
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import RandomIds
from gapless.tables.delta.files import open_file
from gapless.tables.delta.write.append import Append
from gapless.tables.delta.write.landing import RowCommitter
from gapless.tables.shared.inputs.rows import as_batches
from gapless.tables.shared.landing import Prepared
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.write.append import Appender
from support.clocked_delta import ClockedDelta, numbered
from support.clocked_table import Clocked, rows_at, stands
from support.faulty_store import FaultyStore, once

WEEK = timedelta(days=7)


class Place(Protocol):
    """A table whose clock the test sets, and how it appends in two phases."""

    world: Any
    log: str

    def prepare(self, *values: int) -> Prepared[Any, Any]:
        """An append of these values, staged for the version that a fresh handle sees."""
        ...

    def committer(self, store: Any = None) -> Any:
        """That of a handle which begins anew."""
        ...

    def clean(self) -> None:
        """Remove all commits from the log that may go."""
        ...

    def values(self) -> list[float]:
        """Those of the newest version, which reads every file that the log names."""
        ...


class Series:
    log = "_timeseries_log/"

    def __init__(self) -> None:
        self.world = Clocked()
        self.world.append(0)

    def prepare(self, *values: int) -> Prepared[Any, Any]:
        context = context_of(self.world.open())
        rows = pa.concat_tables([rows_at(value) for value in values])
        return Appender(context=context, on_overlap="reject").prepare(context.snapshot, [as_batches(rows)])

    def committer(self, store: Any = None) -> Any:
        return context_of(self.world.open(store)).committer

    def clean(self) -> None:
        self.world.open().expire(keep_versions=1, clean_log=True)

    def values(self) -> list[float]:
        return self.world.hours()


class Delta:
    log = "_delta_log/"

    def __init__(self, **made: Any) -> None:
        self.world = ClockedDelta(**made)
        self.world.append(0)

    def prepare(self, *values: int) -> Prepared[Any, Any]:
        table = self.world.open()
        rows = RowCommitter(
            committer=table._committer,
            propose=Append(env=table._env, operation=None).propose,
            check_writable=table._check_writable,
            kind="append",
        )
        return rows.prepare(table._snapshot, [as_batches(numbered(*values))])

    def committer(self, store: Any = None) -> Any:
        return self.world.open(store)._committer

    def clean(self) -> None:
        self.world.open().cleanup_log()

    def values(self) -> list[float]:
        return list(self.world.ids())


@pytest.fixture(params=[Series, Delta])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.param()
    return made


def is_refused(place: Place, prepared: Prepared[Any, Any], *, match: str = r"gone|given up") -> None:
    """It can be committed neither from the version that it was staged for nor from the newest, as a writer that refreshed would."""
    for refreshed in (False, True):
        committer = place.committer()
        snapshot = committer.refresh(prepared.snapshot) if refreshed else prepared.snapshot
        with pytest.raises(CommitConflict, match=match if refreshed else r"gone|given up") as refused:
            replace(prepared, snapshot=snapshot).commit(committer)
        assert refused.value.facts["reason"] == VACUUMED


def vacuum_that_hangs(place: Place, meanwhile: Callable[[], object]) -> set[str]:
    """What a vacuum deletes, with which `meanwhile` comes between its commit and its first delete."""
    store = FaultyStore(place.world.store)
    store.before_delete = once(meanwhile)
    return {entry.path for entry in place.world.open(store).vacuum(WEEK, dry_run=False).deleted}


# -- the vacuum's commit comes first -----------------------------------------------------------------------------------


def test_a_file_that_a_vacuum_is_about_to_delete_is_committed_no_more_though_it_is_there(place: Place) -> None:
    """The writer knows the vacuum's version already, and sees its file."""
    prepared = place.prepare(5)
    place.world.wait(days=8)

    def commit() -> None:
        assert set(prepared.files) <= place.world.names()
        is_refused(place, prepared, match=r"is gone or about to go.*nothing was committed.*Make the change again from its data")

    assert vacuum_that_hangs(place, commit) == set(prepared.files)
    assert place.values() == [0]


def test_a_vacuum_that_begins_between_the_look_at_the_file_and_the_commit_wins(place: Place) -> None:
    """It takes the writer's number, and deletes after the writer has seen the file."""
    prepared = place.prepare(5)
    place.world.wait(days=8)
    store = FaultyStore(place.world.store)

    def vacuum() -> None:
        assert {entry.path for entry in place.world.open().vacuum(WEEK, dry_run=False).deleted} == set(prepared.files)

    store.before_put = once(vacuum, lambda path: path.startswith(place.log))
    with pytest.raises(CommitConflict, match=r"vacuum|gone"):
        prepared.commit(place.committer(store))
    assert place.values() == [0]


def test_a_vacuum_that_hangs_for_weeks_before_it_deletes_is_heeded_all_the_while(place: Place) -> None:
    prepared = place.prepare(5)
    place.world.wait(days=8)

    def commit() -> None:
        for value in (1, 2, 3):
            place.world.wait(days=5)
            place.world.append(value)
        is_refused(place, prepared)

    vacuum_that_hangs(place, commit)
    assert place.values() == [0, 1, 2, 3]


def test_a_vacuum_is_found_behind_many_commits_and_a_log_checkpoint(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "BATCH", 2)
    prepared = place.prepare(50)
    place.world.wait(days=8)

    def commit() -> None:
        place.world.append(*range(1, 8))
        if isinstance(place, Delta):
            place.world.open().checkpoint()
        is_refused(place, prepared)

    vacuum_that_hangs(place, commit)
    assert place.values() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_where_the_log_was_cleaned_of_the_commits_that_would_tell_the_file_is_given_up(place: Place) -> None:
    prepared = place.prepare(5)
    place.world.append(1)
    place.world.wait(days=40)
    place.world.append(2, 3)
    place.clean()
    newest = replace(prepared, snapshot=place.committer().refresh(prepared.snapshot))
    with pytest.raises(CommitConflict, match="It is older than the log, which was cleaned of commits that could say so"):
        newest.commit(place.committer())
    assert place.values() == [0, 1, 2, 3]


def test_cleaning_the_log_while_a_vacuum_hangs_brings_no_file_back(place: Place) -> None:
    prepared = place.prepare(5)
    place.world.wait(days=8)

    def commit() -> None:
        place.world.wait(days=40)
        place.world.append(1, 2)
        place.clean()
        is_refused(place, prepared)

    vacuum_that_hangs(place, commit)
    assert place.values() == [0, 1, 2]


# -- no vacuum deletes it ----------------------------------------------------------------------------------------------


def test_a_file_that_waited_for_weeks_is_committed_where_no_vacuum_came(place: Place) -> None:
    prepared = place.prepare(5)
    for value in (1, 2):
        place.world.wait(days=9)
        place.world.append(value)
    assert prepared.commit(place.committer()).tally.rows == 1
    assert place.values() == [0, 1, 2, 5]


def test_a_vacuum_that_spares_the_file_does_not_keep_it_away(place: Place) -> None:
    """One that deletes something else, which was removed or left behind long before."""
    place.prepare(7)
    place.world.wait(days=8)
    prepared = place.prepare(5)
    place.world.wait(days=2)
    report = place.world.open().vacuum(WEEK, dry_run=False)
    assert report.deleted
    assert not set(prepared.files) & {entry.path for entry in report.deleted}
    prepared.commit(place.committer())
    assert place.values() == [0, 5]


def test_a_commit_that_lands_while_a_vacuum_decides_keeps_its_file(place: Place) -> None:
    """The vacuum has listed the file and read the log; its own commit finds the writer's before it, and is decided anew."""
    prepared = place.prepare(5)
    place.world.wait(days=8)
    store = FaultyStore(place.world.store)
    store.before_put = once(lambda: prepared.commit(place.committer()), lambda path: path.startswith(place.log))
    assert place.world.open(store).vacuum(WEEK, dry_run=False).deleted == ()
    assert place.values() == [0, 5]


def test_what_is_young_asks_the_log_for_nothing_more(place: Place) -> None:
    """No commit before the newest is read for a file that was just written, nor for one that is live since a year."""
    place.world.append(1, 2, 3)
    store = FaultyStore(place.world.store)
    table = place.world.open(store)
    reads: list[str] = []
    store.before_get = reads.append
    place.world.wait(days=300)
    rows = rows_at(7) if isinstance(place, Series) else numbered(7)
    table.append(rows)
    old = [path for path in reads if path.startswith(place.log) and path.endswith(".json")]
    assert not [path for path in old if int(path.removesuffix(".json").rpartition("/")[2]) < table.version - 1]


# -- what is Delta's alone ---------------------------------------------------------------------------------------------


def start_of_another(world: ClockedDelta, retention: timedelta, engine: str = "Apache-Spark/4.0.1 Delta-Lake/4.0.0") -> int:
    """The commit that Spark makes before a vacuum deletes files, whose parameters are texts; its version."""
    table = world.open()
    said = {"retentionCheckEnabled": "true", "specifiedRetentionMillis": str(int(retention.total_seconds() * 1_000))}
    entry = DeltaCommit(id=RandomIds().uuid(), operation="VACUUM START", parameters=said, engine=engine)

    def follows(mine: DeltaCommit, _version: int, _theirs: DeltaCommit) -> Any:
        yield from ()
        return Compatible(mine)

    landed: Any = table._committer.commit(table._snapshot, Proposal(commit=entry, check_conflict=follows))
    return int(landed.version)


def test_a_vacuum_of_spark_is_heeded_by_the_retention_that_it_says() -> None:
    place = Delta()
    late, early = place.prepare(5), place.prepare(6)
    place.world.wait(days=3)
    start_of_another(place.world, timedelta(days=7))
    early.commit(place.committer())
    place.world.wait(days=5)
    start_of_another(place.world, timedelta(days=7))
    is_refused(place, late)
    assert place.values() == [0, 6]


def test_a_vacuum_of_spark_without_any_retention_wins_over_what_is_under_way() -> None:
    """It deletes what was written just now, unless that is in the log: what is staged for an older version is written anew."""
    world = ClockedDelta()
    store = FaultyStore(world.store)
    staged: list[str] = []

    def vacuum() -> None:
        staged.extend(world.data_files())
        start_of_another(world, timedelta(0))

    store.before_put = once(vacuum, lambda path: path.startswith("_delta_log/"))
    world.open(store).append(numbered(1))
    assert world.ids() == [1]
    assert not set(staged) & world.data_files(), "written anew from what was staged"


@pytest.mark.parametrize("feed", ["false", "true"])
def test_deletion_vectors_and_change_files_that_a_vacuum_takes_are_not_committed(
    feed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say no time of their own: that of the change does."""
    monkeypatch.setattr(open_file, "INLINE_BYTES", 0)
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": feed}
    world = ClockedDelta(properties=properties)
    world.table.append(numbered(1, 2, 3))
    store = FaultyStore(world.store)
    staged: set[str] = set()

    def vacuum() -> None:
        staged.update(world.data_files())
        world.wait(days=8)
        assert world.open().vacuum(dry_run=False).deleted

    store.before_put = once(vacuum, lambda path: path.startswith("_delta_log/"))
    live, table = world.data_files(), world.open(store)
    with pytest.raises(CommitConflict) as refused:
        table.delete("id = 2")
    assert refused.value.facts["reason"] == VACUUMED
    assert staged > live
    assert (world.data_files(), world.ids()) == (live, [1, 2, 3])
    version = table.delete("id = 2").version
    assert world.ids() == [1, 3]
    if feed == "true":
        changes = world.open().changes(version).to_arrow().to_pylist()
        assert [(row["id"], row["_change_type"]) for row in changes] == [(2, "delete")]


def test_change_files_that_land_while_a_vacuum_decides_stay() -> None:
    """The vacuum has listed them and read the log; the commit that names them comes before its own."""
    world = ClockedDelta(properties={"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"})
    world.table.append(numbered(1, 2, 3))
    slow, cleaner = FaultyStore(world.store), FaultyStore(world.store)
    deleting = threading.Thread(target=lambda: world.open(slow).delete("id = 2"))
    staged, planned = threading.Event(), threading.Event()

    def wait_for_the_plan() -> None:
        staged.set()
        planned.wait()

    def let_it_commit() -> None:
        planned.set()
        deleting.join()

    slow.after_put = once(wait_for_the_plan, lambda path: path.startswith("_change_data/"))
    deleting.start()
    staged.wait()
    world.wait(days=8)
    cleaner.before_put = once(let_it_commit, lambda path: path.startswith("_delta_log/"))
    assert world.open(cleaner).vacuum(dry_run=False).deleted == ()
    changes = world.open().changes(2).to_arrow().to_pylist()
    assert [(row["id"], row["_change_type"]) for row in changes] == [(2, "delete")]


def test_a_restore_is_not_kept_away_by_vacuums_of_other_times() -> None:
    """Its files were written long before vacuums that spared them, since they were live then."""
    world = ClockedDelta()
    world.table.append(numbered(1))
    world.wait(days=100)
    start_of_another(world, timedelta(days=7))
    world.wait(days=2)
    world.open().overwrite(numbered(2))
    world.wait(days=2)
    world.open().restore(1)
    assert world.ids() == [1]


def test_old_files_that_get_a_deletion_vector_are_not_looked_for() -> None:
    world = ClockedDelta(properties={"delta.enableDeletionVectors": "true"})
    world.table.append(numbered(1, 2, 3))
    world.wait(days=300)
    start_of_another(world, timedelta(days=7))
    store = FaultyStore(world.store)
    table = world.open(store)
    reads: list[str] = []
    store.before_get = reads.append
    table.delete("id = 2")
    assert world.ids() == [1, 3]
    assert not [path for path in reads if path.endswith("00.json")]


# -- what is of time-series tables alone --------------------------------------------------------------------------------


def test_coverage_that_lies_alone_is_named_before_it_goes() -> None:
    """Its writer may hang between the coverage and the segment, or its segment's name be one that vacuum does not know."""
    place = Series()
    file_id = "12345678-1234-4234-8234-123456789abc"
    lone = f"_coverage/segments/{file_id}.roar"
    place.world.store.put(lone, b"coverage")
    place.world.wait(days=8)
    before = place.world.open().version
    seen: list[int] = []
    assert vacuum_that_hangs(place, lambda: seen.append(place.world.open().version)) == {lone}
    assert seen == [before + 1]


@pytest.mark.parametrize("file", ["coverage", "index", "segment"])
def test_a_segment_of_which_a_vacuum_names_any_file_is_not_committed(file: str) -> None:
    place = Series()
    (live,) = place.world.table.segments()
    file_id = "12345678-1234-4234-8234-123456789abc"
    coverage = SidecarCoverage(f"_coverage/segments/{file_id}.roar", index_checksum="0" * 64)
    late = replace(live, path=f"data/{file_id}-0_0-0-0_20260109120000000.parquet", coverage=coverage)
    writer = place.world.open()
    named = {"coverage": coverage.path, "index": coverage.index_path, "segment": late.path}[file]
    place.world.commit(ForgetSegments((named,)), table=place.world.open())
    entry = SeriesCommit(id=RandomIds().uuid(), operation="test", actions=(AddSegment(late),))
    for path in late.files:
        place.world.store.put(path, b"")
    outcome = writer._committer.commit(writer._snapshot, Proposal(commit=entry, check_conflict=stands))
    assert outcome == Conflict(writer.version + 1, Conflicting(VACUUMED, named))
    assert place.values() == [0]
