"""A table as it was: by version, by time, by tag, whatever is committed meanwhile."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidTime, VersionNotFound
from gapless.formats.timeseries.actions import Commit, ExpireVersions
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.effects import Conversation
from gapless.log.format import Compatible
from gapless.runtime.committer import Committer, Proposal
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from support.faulty_store import PatientClock

START = datetime(2024, 1, 1, tzinfo=UTC)
TEN = datetime(2026, 1, 5, 10, tzinfo=UTC)
_counter = itertools.count()


def hour(at: int, value: float = 0.0) -> dict[str, object]:
    return {"ts": START + timedelta(hours=at), "sym": "A", "x": value}


@pytest.fixture
def table() -> gl.TimeSeriesTable:
    """Version 1 is empty, and each version after it has one hour more; 6 is the newest."""
    table = gl.create(f"memory://at-{next(_counter)}", index="ts", entity="sym", bucket="1h")
    for at in range(5):
        table.append([hour(at)])
    return table


def expire(table: gl.TimeSeriesTable, before: int) -> None:
    """As expiry commits it."""

    def check_conflict(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
        yield from ()
        return Compatible(mine)

    commit = Commit(id=f"expire-{next(_counter)}", operation="expire", actions=(ExpireVersions(before),))
    Committer(table_format=TIME_SERIES, env=table._env, moved=lambda _: None).land(
        gl.open(table.url)._snapshot, lambda _: Proposal(commit=commit, check_conflict=check_conflict)
    )


def made_at(place: Path, clock: PatientClock) -> gl.TimeSeriesTable:
    """An empty table by this clock."""
    env = Environment(store=open_store(str(place), None), clock=clock)
    spec = parse_index("ts", "timestamp", "1h", "sym", None)
    return gl.TimeSeriesTable(env, str(place), create_table(env, str(place), spec, None, {}))


def test_every_version_reads_as_it_was(table: gl.TimeSeriesTable) -> None:
    for version in range(1, 7):
        view = table.at(version)
        assert (view.version, view.scan().count(), len(view.segments())) == (version, version - 1, version - 1)
        assert len(view.history()) == version
    assert table.version == 6


def test_an_old_version_has_its_own_schema_and_coverage(table: gl.TimeSeriesTable) -> None:
    assert table.at(1).schema is None
    view = table.at(3)
    assert view.schema == table.schema
    assert (view.coverage().covered, table.coverage().covered) == (2, 5)
    assert view.coverage(START, START + timedelta(hours=5)).gaps()[0].buckets == 3
    assert view.sql("select count(*) as n, max(ts) as last from this").to_arrow().to_pylist() == [
        {"n": 2, "last": START + timedelta(hours=1)}
    ]


def test_a_view_does_not_move(table: gl.TimeSeriesTable) -> None:
    view, rows = table.at(3), table.at(3).scan()
    table.append([hour(9)])
    assert (view.version, view.scan().count(), rows.count()) == (3, 2, 2)
    assert not hasattr(view, "append")


def test_a_view_looks_further_back_and_ahead(table: gl.TimeSeriesTable) -> None:
    assert table.at(2).at(5).scan().count() == 4


def test_a_handle_that_lags_knows_of_newer_versions(table: gl.TimeSeriesTable) -> None:
    lagging = gl.open(table.url)
    table.append([hour(9)])
    assert lagging.at(7).scan().count() == 6
    assert lagging.version == 6


@pytest.mark.parametrize("version", [0, -1, 7, 2**40])
def test_a_version_that_is_none_says_which_there_are(table: gl.TimeSeriesTable, version: int) -> None:
    with pytest.raises(VersionNotFound, match="The table has versions 1 to 6") as caught:
        table.at(version)
    assert caught.value.version == version


@pytest.mark.parametrize(
    "arguments", [{}, {"version": 1, "tag": "a"}, {"version": 1, "time": START}, {"tag": "a", "time": START}]
)
def test_exactly_one_argument_says_which_version(table: gl.TimeSeriesTable, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="One of version, time and tag"):
        table.at(**arguments)


@pytest.mark.parametrize("version", ["3", 3.0, True])
def test_a_version_is_a_whole_number(table: gl.TimeSeriesTable, version: Any) -> None:
    with pytest.raises(InvalidOption, match="is no version"):
        table.at(version)


def test_every_commit_time_finds_its_version(table: gl.TimeSeriesTable) -> None:
    for entry in table.history():
        assert table.at(time=entry.time).version == entry.version
        assert table.at(time=entry.time + timedelta(microseconds=0.5)).version == entry.version
        if entry.version > 1:
            assert table.at(time=entry.time - timedelta(microseconds=1)).version == entry.version - 1


def test_times_come_in_every_form_that_says_its_zone(table: gl.TimeSeriesTable) -> None:
    time = table.history()[2].time
    west = time.astimezone(timezone(timedelta(hours=-5)))
    for same in (west, time.isoformat(), west.isoformat(), pd.Timestamp(time), pd.Timestamp(west)):
        assert table.at(time=same).version == 3
    assert table.at(time=pd.Timestamp(table.history()[3].time) - pd.Timedelta(1, "ns")).version == 3


@pytest.mark.parametrize(
    "naive",
    [datetime(2030, 1, 1), "2030-01-01T00:00:00", "2030-01-01", datetime(2030, 1, 1).date(), pd.Timestamp("2030-01-01")],
)
def test_a_naive_time_says_what_to_pass(table: gl.TimeSeriesTable, naive: object) -> None:
    with pytest.raises(InvalidTime, match=r"has no time zone.*'2030-01-01T00:00:00Z'"):
        table.at(time=naive)


@pytest.mark.parametrize("wrong", [1_700_000_000, 1.5, "yesterday", pd.NaT])
def test_what_is_no_time_is_refused(table: gl.TimeSeriesTable, wrong: object) -> None:
    with pytest.raises(InvalidTime):
        table.at(time=wrong)


def test_a_time_after_the_last_commit_is_the_newest_version(table: gl.TimeSeriesTable) -> None:
    lagging = gl.open(table.url)
    table.append([hour(9)])
    assert lagging.at(time=datetime(2999, 1, 1, tzinfo=UTC)).version == 7


def test_a_time_before_the_first_commit_names_that(table: gl.TimeSeriesTable) -> None:
    first = table.history()[0].time
    with pytest.raises(InvalidTime, match="before the table's first commit") as caught:
        table.at(time=first - timedelta(microseconds=1))
    assert f"Version 1 was committed at {first:%Y-%m-%dT%H:%M:%S}" in str(caught.value)


def test_time_01_the_time_of_a_version_is_in_its_commit_and_no_files(tmp_path: Path) -> None:
    clock = PatientClock(now_s=TEN.timestamp())
    place = tmp_path / "t"
    table = made_at(place, clock)
    for at in range(4):
        clock.now_s += 60
        table.append([hour(at)])
    copied, reversed_ = shutil.copytree(place, tmp_path / "copied"), shutil.copytree(place, tmp_path / "reversed")
    for age, path in enumerate(sorted((reversed_ / "_timeseries_log").glob("*.json"))):
        os.utime(path, (TEN.timestamp() - 100_000 * age,) * 2)
    for tree in (place, copied, reversed_):
        view = gl.open(tree).at(time=TEN + timedelta(minutes=2, seconds=30))
        assert (view.version, view.scan().count()) == (3, 2)


def test_time_03_a_clock_that_stands_still_makes_no_two_ids_alike(tmp_path: Path) -> None:
    made_at(tmp_path / "t", PatientClock(now_s=TEN.timestamp()))

    def write(writer: int) -> None:
        env = Environment(store=open_store(str(tmp_path / "t"), None), clock=PatientClock(now_s=TEN.timestamp()))
        table = gl.TimeSeriesTable(env, str(tmp_path / "t"), open_table(env, str(tmp_path / "t")))
        for at in range(25):
            table.append([hour(100 * writer + at)])

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    table = gl.open(tmp_path / "t")
    entries = table.history()
    assert len({entry.commit_id for entry in entries}) == len({entry.time for entry in entries}) == 51
    assert len({segment.path for segment in table.segments()}) == table.scan().count() == 50
    assert [table.at(time=entry.time).version for entry in entries] == list(range(1, 52))


def test_a_clock_that_is_set_back_leaves_times_in_order(tmp_path: Path) -> None:
    clock = PatientClock(now_s=TEN.timestamp())
    table = made_at(tmp_path / "t", clock)
    for at in range(3):
        clock.now_s -= 3_600
        table.append([hour(at)])
    times = [entry.time for entry in table.history()]
    assert times == sorted(set(times))
    assert [table.at(time=time).version for time in times] == [1, 2, 3, 4]


def test_duckdb_reads_the_files_of_an_old_version_while_newer_commits_land(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity="sym", bucket="1h")
    for at in range(4):
        table.append([hour(at, float(at))])
    view, landed, stop = gl.open(tmp_path / "t").at(4), threading.Semaphore(0), threading.Event()

    def write() -> None:
        for at in range(10, 1_000):
            table.append([hour(at, -1.0)])
            landed.release()
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert landed.acquire(timeout=60)
        files = [str(tmp_path / "t" / segment.path) for segment in view.segments()]
        theirs = duckdb.connect().execute("select x from read_parquet(?) order by x", [files]).fetchall()
        ours = sorted(view.scan(columns=["x"]).to_arrow()["x"].to_pylist())
        assert [x for (x,) in theirs] == ours == [0.0, 1.0, 2.0]
        assert view.sql("select x from this order by x").to_arrow()["x"].to_pylist() == ours
    finally:
        stop.set()
        writer.join()


# -- expired versions ----------------------------------------------------------------------------------------------------


def test_maint_04_an_expired_version_is_refused_before_anything_is_read(table: gl.TimeSeriesTable) -> None:
    lagging = gl.open(table.url)
    table.tag("kept", 2)
    expire(table, before=5)
    for handle in (table, lagging, gl.open(table.url), table.at(6)):
        with pytest.raises(VersionNotFound, match=r"begins with version 5, and the tag 'kept' \(2\)"):
            handle.at(3)
        assert [handle.at(one).version for one in (5, 2)] == [5, 2]
        assert handle.at(tag="kept").scan().count() == 1
    with pytest.raises(VersionNotFound, match="begins with version 5"):
        gl.open_at(table.url, 4)


def test_maint_04_a_time_that_falls_on_an_expired_version_is_refused(table: gl.TimeSeriesTable) -> None:
    times = {entry.version: entry.time for entry in table.history()}
    expire(table, before=4)
    with pytest.raises(VersionNotFound, match=r"Versions before 4.*are expired"):
        table.at(time=times[4] - timedelta(microseconds=1))
    assert table.at(time=times[4]).version == 4
    assert table.at(time=times[5]).version == 5


def test_maint_04_after_expiry_vacuum_and_a_cleaned_log_all_that_is_kept_reads(tmp_path: Path) -> None:
    """By the real thing, as an operator does it, with a handle that was opened long before."""
    clock = PatientClock(now_s=TEN.timestamp())
    table = made_at(tmp_path / "t", clock)
    for at in range(6):
        table.append([hour(at)])
    lagging = gl.open(tmp_path / "t")
    table.tag("kept", 4)
    table.upsert([hour(0, 5.0)])
    table.delete(start=START + timedelta(hours=1), end=START + timedelta(hours=3))
    clock.now_s += 3 * 86_400
    for at in range(6, 12):
        table.append([hour(at)])
    expired = table.expire(keep_versions=3, clean_log=True)
    assert not table.vacuum(timedelta(0), dry_run=False).dry_run
    log = tmp_path / "t" / "_timeseries_log"
    assert not (log / "0000000001.json").exists()
    kept = [4, *range(expired.earliest, table.version + 1)]
    for handle in (lagging, gl.open(tmp_path / "t"), lagging.at(4)):
        for version in range(1, table.version + 1):
            if version in kept:
                view = handle.at(version)
                assert view.scan().count() == sum(segment.rows for segment in view.segments())
            else:
                with pytest.raises(VersionNotFound, match=rf"begins with version {expired.earliest}.*'kept' \(4\)"):
                    handle.at(version)
    assert [row["x"] for row in gl.open_at(tmp_path / "t", tag="kept").scan().to_arrow().to_pylist()] == [0.0] * 3
    assert lagging.version == 7
    assert lagging.refresh().version == table.version
    versions = [entry.version for entry in table.history()]
    assert versions == list(range(versions[0], table.version + 1))
    assert 1 < versions[0] <= expired.earliest + 1
    with pytest.raises(VersionNotFound):
        table.changes(expired.earliest - 1)
    assert table.changes(expired.earliest + 1).count() == table.scan().count() - table.at(expired.earliest).scan().count()


def test_an_unknown_tag_says_which_there_are(table: gl.TimeSeriesTable) -> None:
    with pytest.raises(VersionNotFound, match="There are none"):
        table.at(tag="v1")
    table.tag("v1.0", 3)
    with pytest.raises(VersionNotFound, match=r"Did you mean 'v1\.0'"):
        table.at(tag="v10")


def test_open_at_reads_a_version_and_knows_no_writing(table: gl.TimeSeriesTable) -> None:
    table.tag("a", 4)
    views = [gl.open_at(table.url, 4), gl.open_at(table.url, tag="a"), gl.open_at(table.url, time=table.history()[3].time)]
    assert [view.version for view in views] == [4, 4, 4]
    assert all(type(view) is gl.TableView for view in views)
    assert pa.table(views[0].scan()).num_rows == 3


def test_open_at_of_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(gl.errors.TableNotFound):
        gl.open_at(tmp_path / "none", 1)
