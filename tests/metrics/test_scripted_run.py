"""Every counter equals what a scripted run did, as the log, the disk and the reports tell it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.errors import CommitConflict, CommitOutcomeUnknown, CoverageOverlap, StorageFull, StoreUnavailable
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta import lifecycle as delta_lifecycle
from gapless.tables.timeseries import lifecycle as series_lifecycle
from support.counted import counted, counting
from support.faulty_store import FaultyStore, PatientClock, once, unavailable
from support.pipelines import KINDS, SCHEMA, made, opened, rows


@pytest.fixture(autouse=True)
def counts() -> Iterator[None]:
    with counting(tables=True):
        yield


def faulty(kind: str, place: Path, *, deadline_s: float = 60.0) -> tuple[Any, FaultyStore]:
    """The table, by a store in which others may come first or answers get lost; waiting takes no time."""
    store = FaultyStore(open_store(place))
    env = Environment(store=store, clock=PatientClock(now_s=4_000_000_000.0), deadline_s=deadline_s)
    if kind == "delta":
        return gl.delta.DeltaTable(env, place.name, delta_lifecycle.open_table(env, str(place))), store
    return gl.TimeSeriesTable(env, place.name, series_lifecycle.open_table(env, str(place))), store


def is_commit(path: str) -> bool:
    return path.startswith(("_timeseries_log/", "_delta_log/")) and path.endswith(".json")


def data_files(*places: Path) -> dict[Path, int]:
    """The size of each file of rows on the disk."""
    return {
        path: path.stat().st_size
        for place in places
        for path in place.rglob("*.parquet")
        if not path.relative_to(place).parts[0].startswith(("_delta_log", "_timeseries_log", "_prepared", "_log_parts"))
    }


def logged(kind: str, place: Path) -> Counter[str]:
    """Commits of a table by operation, as its history tells."""
    names = Counter(str(entry.operation) for entry in opened(kind, place).history())
    if kind == "timeseries":
        return names
    appends = {"WRITE": "append"}
    return Counter({appends.get(name, name.lower()): count for name, count in names.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_over_two_tables(kind: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    table, other = made(kind, first), made(kind, second)
    for number in range(4):
        table.append(rows(10 * number, 5))
    other.append(rows(0, 7))
    sent = [table.append(rows(100, 3), operation_id=("job", 1)) for _ in range(3)]
    assert [one.already_applied for one in sent] == [False, True, True]
    table.append(rows(200, 2), operation_id="backfill")
    table.append(rows(200, 2), operation_id="backfill")
    deleted = table.delete("v < 2")
    assert counted("gapless.commits") == len(table.history()) + len(other.history())
    for place in (first, second):
        by_operation = {name: counted("gapless.commits", operation=name, table=str(place)) for name in logged(kind, place)}
        assert by_operation == logged(kind, place)
    assert counted("gapless.duplicates.skipped", kind=kind, operation="append", table=str(first)) == 3
    assert counted("gapless.duplicates.skipped") == 3
    assert counted("gapless.rows.written", operation="append") == 4 * 5 + 7 + 3 + 2
    assert counted("gapless.rows.written", operation="append", table=str(second)) == other.count() == 7
    assert counted("gapless.rows.removed") == deleted.removed_rows == 2
    assert counted("gapless.rows.skipped") == 0

    before = {*data_files(first)}
    assert counted("gapless.files.written") == len(data_files(first, second))
    assert counted("gapless.data.written") == sum(data_files(first, second).values())
    assert counted("gapless.data.written", table=str(second)) == sum(data_files(second).values())
    report = table.compact()
    assert report.bins == 1
    assert counted("gapless.compactions", kind=kind) == 1
    assert counted("gapless.compaction.files", kind=kind) == report.segments_before > 1
    assert counted("gapless.files.written", table=str(first)) == len(data_files(first)) == len(before) + report.segments_after
    assert counted("gapless.data.written", table=str(first)) == sum(data_files(first).values())
    assert table.compact().bins == 0
    assert counted("gapless.compactions") == 1

    everything = data_files(first)
    if kind == "timeseries":
        table.expire(keep_versions=1)
    table.vacuum(dry_run=True, older_than=timedelta(days=30))
    assert counted("gapless.vacuums") == counted("gapless.vacuum.files") == 0
    options = {"enforce_retention": False} if kind == "delta" else {}
    vacuumed = table.vacuum(timedelta(0), dry_run=False, **options)
    gone = everything.keys() - data_files(first).keys()
    assert counted("gapless.vacuums", kind=kind, table=str(first)) == 1
    assert counted("gapless.vacuum.files") == len(vacuumed.deleted) >= len(gone) >= report.segments_before
    assert counted("gapless.vacuum.data") == vacuumed.freed_bytes >= sum(everything[path] for path in gone)
    assert counted("gapless.commits", table=str(first)) == sum(logged(kind, first).values())
    assert counted("gapless.commit.conflicts") == counted("gapless.commit.unknown") == counted("gapless.retries") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_steps_over_anothers_is_a_retry_and_no_conflict(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path)
    table, store = faulty(kind, tmp_path)
    store.before_put = once(lambda: opened(kind, tmp_path).append(rows(50, 5)), is_commit)
    table.append(rows(0, 5))
    assert counted("gapless.retries", cause="race", table=str(tmp_path)) == counted("gapless.retries") == 1
    assert counted("gapless.commit.conflicts") == 0
    assert counted("gapless.commits", operation="append") == 2
    assert counted("gapless.rows.written") == opened(kind, tmp_path).count() == 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_that_is_made_again_is_one_conflict_and_one_retry(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path).append(rows(0, 4))
    table, store = faulty(kind, tmp_path)
    store.before_put = once(lambda: opened(kind, tmp_path).delete("v < 2"), is_commit)
    table.delete("v < 3")
    assert counted("gapless.commit.conflicts", kind=kind, operation="delete", table=str(tmp_path)) == 1
    assert counted("gapless.retries", cause="conflict") == counted("gapless.retries") == 1
    assert counted("gapless.commits", operation="delete") == 2
    assert counted("gapless.rows.removed") == 3
    assert counted("gapless.data.written") == sum(data_files(tmp_path).values())
    assert counted("gapless.files.written") == len(data_files(tmp_path))


def test_a_refused_overlap_is_a_conflict_and_rows_that_are_skipped_are_counted(tmp_path: Path) -> None:
    made("timeseries", tmp_path)
    stale = opened("timeseries", tmp_path)
    opened("timeseries", tmp_path).append(rows(0, 4))
    with pytest.raises(CoverageOverlap):
        stale.append(rows(2, 4))
    table = opened("timeseries", tmp_path)
    assert table.append(rows(2, 4), on_overlap="skip").skipped_rows == 2
    assert counted("gapless.rows.skipped", operation="append") == 2
    before = table.version
    table.append(rows(0, 4), on_overlap="skip")
    assert table.refresh().version == before
    assert counted("gapless.rows.skipped", operation="append") == 2 + 4
    assert counted("gapless.rows.written") == table.count() == 6
    assert counted("gapless.commit.conflicts") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_lost_answers(kind: str, tmp_path: Path) -> None:
    """A put that landed is one commit; one that did not is tried again; one of which nobody can tell is unknown, and a duplicate if sent again."""
    made(kind, tmp_path)
    table, store = faulty(kind, tmp_path)
    store.after_put = once(lambda: unavailable("the commit"), is_commit)
    table.append(rows(0, 1))
    assert counted("gapless.retries") == 0
    store.before_put = once(lambda: unavailable("the commit"), is_commit)
    table.append(rows(1, 1))
    assert counted("gapless.retries", cause="no_answer") == counted("gapless.retries") == 1
    assert counted("gapless.commits", operation="append") == 2

    def dark(path: str) -> None:
        if is_commit(path):
            store.before_get = unavailable
            raise StoreUnavailable("no answer", path=path)

    store.after_put = dark
    with pytest.raises(CommitOutcomeUnknown):
        table.append(rows(2, 1), operation_id=("job", 7))
    assert counted("gapless.commit.unknown", operation="append", kind=kind) == 1
    assert counted("gapless.commits", operation="append") == counted("gapless.rows.written") == 2
    assert opened(kind, tmp_path).append(rows(2, 1), operation_id=("job", 7)).already_applied
    assert counted("gapless.duplicates.skipped") == 1
    assert opened(kind, tmp_path).count() == 3


def test_appends_that_share_a_commit_count_each_row_once(tmp_path: Path) -> None:
    table, threads = made("timeseries", tmp_path), 8
    sending = [
        threading.Thread(target=table.append, args=(rows(n, 1),), kwargs={"operation_id": f"{n}"}) for n in range(threads)
    ]
    sending += [
        threading.Thread(target=table.append, args=(rows(n, 1),), kwargs={"operation_id": f"{n}"}) for n in range(threads)
    ]
    for one in sending:
        one.start()
    for one in sending:
        one.join()
    assert counted("gapless.rows.written") == opened("timeseries", tmp_path).count() == threads
    assert counted("gapless.duplicates.skipped") == threads
    assert counted("gapless.commits", operation="append") == len(opened("timeseries", tmp_path).history()) - 1


def test_a_commit_that_fails_for_good_is_counted_nowhere(tmp_path: Path) -> None:
    made("delta", tmp_path)
    table, store = faulty("delta", tmp_path)

    def full(path: str) -> None:
        if is_commit(path):
            raise StorageFull("full", path=path)

    store.before_put = full
    with pytest.raises(StorageFull):
        table.append(rows(0, 3))
    assert counted("gapless.rows.written") == counted("gapless.data.written") == 0
    assert counted("gapless.commits") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_who_gives_up_at_the_deadline_has_lost_to_conflicts(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path).append(rows(0, 40))
    table, store = faulty(kind, tmp_path, deadline_s=0.0)
    store.before_put = once(lambda: opened(kind, tmp_path).delete("v < 2"), is_commit)
    with pytest.raises(CommitConflict):
        table.delete("v < 3")
    assert counted("gapless.commit.conflicts") == 1
    assert counted("gapless.retries") == 0


def test_files_that_are_published_were_written_once(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", schema=SCHEMA, properties={"publish": ["delta"]})
    for number in range(3):
        table.append(rows(10 * number, 5))
    table.compact()
    table.delete("v = 20")
    described = gl.delta.open(tmp_path / "t")
    assert described.scan().count() == 14
    assert counted("gapless.commits", kind="delta") == len(described.history())
    for name in ("gapless.files.written", "gapless.data.written", "gapless.rows.written"):
        assert counted(name, kind="delta") == 0
    written = data_files(tmp_path / "t")
    assert counted("gapless.files.written") == len(written) == 5  # three appends, a compaction, what a deletion left
    assert counted("gapless.data.written") == sum(written.values())
