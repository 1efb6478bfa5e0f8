"""The stream reader, asked as Spark asks it, without Spark: positions, limits, restarts, and what was expired, changed or made anew."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    CorruptTable,
    InvalidOption,
    InvalidTime,
    LogWarning,
    NotSupported,
    SchemaMismatch,
    StoreUnavailable,
    VersionNotFound,
)
from gapless.formats.timeseries.actions import AddSegment
from gapless.log.stream_plan import Budget, Cursor
from gapless.model.instant import format_instant
from gapless.spark.setup.job_context import job_context
from gapless.spark.stream.series_stream import StreamPart
from gapless.tables.timeseries.care.expire import expire_versions, parse_expiry
from gapless.tables.timeseries.read.stream_log import StreamLog, StreamOptions
from spark.stream.reading import Query, short
from support.clocked_table import commit_actions
from support.faulty_store import is_commit, once, open_faulty, unavailable
from support.hourly import hours

pytestmark = pytest.mark.filterwarnings("ignore:this pyspark does not tell:gapless.errors.LogWarning")

APPENDS = StreamOptions(on_change="error", pass_missing=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(path: Path) -> gl.TimeSeriesTable:
    """Versions 2 to 4: values 2, 3 and 4 in hours 2, 3 and 4."""
    table = gl.create(path, index="ts", entity="sym", bucket="1h")
    for at in (2, 3, 4):
        table.append(hours(at, x=float(at)))
    return table


def value(x: float, sym: str = "A") -> tuple[str, float]:
    return sym, float(x)


def forget(table: gl.TimeSeriesTable, keep: int, *, clean: bool = True, vacuum: bool = False) -> int:
    """Let go of all versions but the newest `keep`, and of their commits; the earliest that stays."""
    report = expire_versions(table.refresh()._committer, parse_expiry(keep, None), clean_log=clean, horizon_ns=0)
    if vacuum:
        table.refresh().vacuum(older_than=timedelta(0), dry_run=False)
    return report.earliest


# -- where it begins ---------------------------------------------------------------------------------------------------


def test_without_options_all_rows_come_first_and_then_what_is_appended(path: Path, table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(3, x=30.0))  # what came before the stream is no change to it
    query = Query(path)
    assert query.batch() == [value(2), value(4), value(30)]
    assert query.batch() == []
    table.append(hours(5, x=5.0))
    assert query.batch() == [value(5)]
    assert query.restart().batch() == []


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"startingVersion": 1}, [2, 3, 4]),
        ({"startingVersion": "earliest"}, [2, 3, 4]),
        ({"startingVersion": 3}, [3, 4]),
        ({"startingVersion": 5}, []),
        ({"startingVersion": "latest"}, []),
    ],
)
def test_a_starting_version_is_inclusive(
    path: Path, table: gl.TimeSeriesTable, options: dict[str, object], given: list[int]
) -> None:
    query = Query(path, **options)
    assert query.batch() == [value(x) for x in given]
    table.append(hours(5, x=5.0))
    assert query.batch() == [value(5)]


@pytest.mark.parametrize("version", [6, 99])
def test_a_starting_version_that_is_not_there_is_refused(path: Path, table: gl.TimeSeriesTable, version: int) -> None:
    with pytest.raises(VersionNotFound, match=f"version {version} does not exist"):
        Query(path, startingVersion=version).batch()


def test_a_starting_time_means_the_first_version_committed_then_or_later(path: Path, table: gl.TimeSeriesTable) -> None:
    times = {entry.version: entry.time for entry in table.history()}
    for at, given in (
        (times[3], [3, 4]),
        (times[3] + timedelta(microseconds=1), [4]),
        (times[1] - timedelta(days=1), [2, 3, 4]),
        (times[4] + timedelta(microseconds=1), []),
    ):
        assert Query(path, startingTimestamp=at.isoformat()).batch() == [value(x) for x in given]
    with pytest.raises(InvalidTime, match="lies in the future"):
        Query(path, startingTimestamp=(datetime.now(UTC) + timedelta(days=1)).isoformat()).batch()
    with pytest.raises(InvalidTime, match="has no time zone"):
        Query(path, startingTimestamp="2026-01-01T00:00").batch()


def test_an_empty_table_gives_no_batch_until_it_has_rows(path: Path) -> None:
    table = gl.create(path, index="ts", entity="sym", bucket="1h", schema=hours(0).schema)
    query = Query(path)
    assert query.drain() == []
    table.append(hours(0, x=1.0))
    assert query.drain() == [[value(1)]]


def test_a_table_without_columns_is_refused(path: Path) -> None:
    gl.create(path, index="ts", entity="sym", bucket="1h")
    with pytest.raises(NotSupported, match="without columns cannot be streamed"):
        Query(path)


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}, {"startingVersion": "earliest"}])
def test_a_first_batch_that_is_planned_again_is_the_same_whatever_came_meanwhile(
    path: Path, table: gl.TimeSeriesTable, options: dict[str, object]
) -> None:
    query = Query(path, **options)
    assert query.start
    table.append(hours(5, x=5.0))
    assert query.plan()
    before = query.rows()
    table.append(hours(6, x=6.0))
    table.compact()
    query.restart()
    assert query.rows() == before, "Spark keeps the end of a batch and asks again where the stream begins"
    assert query.batch() == [value(6)]


# -- what it gives -----------------------------------------------------------------------------------------------------


def test_ss_01_an_offset_that_does_not_move_makes_no_batch_and_no_rows(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path)
    query.batch()
    at = json.loads(query.offsets[-1])
    assert query.reader.latestOffset() == query.reader.latestOffset() == at
    assert query.reader.partitions(at, at) == []


def test_compaction_and_settings_emit_nothing(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path)
    query.batch()
    table.compact()
    table.set_properties({"on_overlap": "skip"})
    table.tag("now")
    assert query.drain() == [[]]
    table.append(hours(5, x=5.0))
    assert query.drain() == [[value(5)]]


CHANGES: dict[str, Callable[[Any], object]] = {
    "upsert": lambda table: table.upsert(hours(3, x=9.0)),
    "delete": lambda table: table.delete("x = 3"),
    "drop_before": lambda table: table.drop_before("2024-01-01T03:00Z"),
    "append": lambda table: table.append(hours(3, x=9.0), on_overlap="replace"),
    "restore": lambda table: table.restore(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_rows_stops_a_stream_of_appends_until_it_is_told_what_to_do(
    path: Path, table: gl.TimeSeriesTable, change: str
) -> None:
    query = Query(path)
    query.batch()
    CHANGES[change](table)
    table.append(hours(7, x=7.0))
    for _ in range(2):
        with pytest.raises(InvalidOption, match=rf"version 5 \({change}\).*onDataChange") as stop:
            query.batch()
        assert stop.value.__notes__ == ["[invalid-option]"]
        query.restart()
    assert query.restart(on_data_change="skip").batch() == [value(7)], "the whole commit is passed over, and no more"


def test_a_restore_that_only_brings_rows_back_is_a_change_too(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path)
    query.batch()
    table.delete("x = 3")
    with pytest.raises(InvalidOption, match="version 5"):
        query.batch()
    query.restart(on_data_change="skip").batch()
    table.restore(4)
    with pytest.raises(InvalidOption, match=r"version 6 \(restore\)"):
        query.restart(on_data_change="error").batch()


def test_a_change_feed_is_what_changes_tells(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, changeFeed="true", startingVersion="earliest", maxFilesPerTrigger=1)
    found: list[dict[str, Any]] = []
    more: list[Callable[[Any], object]] = [lambda one: one.compact(), lambda one: one.append(hours(8, 9, x=8.0))]
    for change in [*CHANGES.values(), *more]:
        change(table)
        while query.plan():
            found += query.rows()
    expected = table.changes(1).to_arrow().to_pylist()
    assert {"insert", "delete", "update_preimage", "update_postimage"} == {row["_change_type"] for row in expected}
    assert Counter(map(repr, found)) == Counter(map(repr, expected))


def test_a_change_feed_without_a_start_tells_all_rows_as_inserts_first(path: Path, table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(3, x=30.0))
    query = Query(path, changeFeed="true")
    assert query.batch() == [(5, "insert", "A", 2.0), (5, "insert", "A", 4.0), (5, "insert", "A", 30.0)]
    table.delete("x = 30")
    assert query.batch() == [(6, "delete", "A", 30.0)]


def test_some_columns(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, columns="x,sym")
    assert query.plan()
    assert [tuple(row) for row in query.rows()] == [("x", "sym")] * 3
    table.add_column("y", pa.int64())  # none of those asked for
    assert query.drain() == [[]]


# -- how much of it ----------------------------------------------------------------------------------------------------


def test_limits_are_kept_from_batch_to_batch_and_over_a_restart(path: Path, table: gl.TimeSeriesTable) -> None:
    table.append(hours(5, x=5.0))
    query = Query(path, maxFilesPerTrigger=2)
    with pytest.warns(LogWarning, match="ends after one batch"):
        assert query.batch() == [value(2), value(3)]
    for at in (6, 7, 8):
        table.append(hours(at, x=float(at)))
    assert query.restart().drain() == [[value(4), value(5)], [value(6), value(7)], [value(8)]]


def test_a_batch_that_is_read_again_later_does_not_take_the_stream_back(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, maxFilesPerTrigger=1)
    for x in (2, 3):
        assert query.batch() == [value(x)]
    assert short(query.rows(0)) == [value(2)], "a function kept the DataFrame of an earlier batch"
    assert query.batch() == [value(4)]
    assert query.batch() == []


@pytest.mark.parametrize("backlog", [2, 70])
def test_what_a_trigger_reads_of_the_log_does_not_grow_with_the_table(path: Path, backlog: int) -> None:
    table = gl.create(path, index="ts", entity="sym", bucket="1h")
    for at in range(backlog):
        table.append(hours(at, x=float(at)))
    handle, store = open_faulty(str(path))
    known, asked = inside_of(handle), list[str]()
    store.before_get = asked.append
    log = StreamLog(env=known.env, newest=known.newest, follow=APPENDS)
    log.refresh()
    start = log.latest(Cursor(version=2), Budget(files=1))
    log.told(log.items(Cursor(version=2), start))
    assert start == Cursor(version=3)
    assert len(asked) <= 7
    asked.clear()
    log.refresh()
    log.latest(Cursor(version=log.newest.version + 1), Budget())
    assert len(asked) <= 3


def test_a_limit_of_bytes_admits_one_file_at_least(path: Path, table: gl.TimeSeriesTable) -> None:
    assert Query(path, maxBytesPerTrigger=1).drain() == [[value(2)], [value(3)], [value(4)]]
    size = sum(segment.size or 0 for segment in table.segments()[:2])
    assert Query(path, maxBytesPerTrigger=size, startingVersion=1).drain() == [[value(2), value(3)], [value(4)]]


def test_a_limit_divides_one_commit(path: Path, table: gl.TimeSeriesTable) -> None:
    segments = table.segments()
    table.delete("true")
    commit_actions(table, *map(AddSegment, segments))
    assert Query(path, startingVersion=6, maxFilesPerTrigger=2).drain() == [[value(2), value(3)], [value(4)]]


def test_as_spark_4_2_asks_a_batch_begins_where_it_says_and_takes_all_where_it_wants_all(
    path: Path, table: gl.TimeSeriesTable
) -> None:
    reader = Query(path, maxFilesPerTrigger=1).reader
    first = reader.initialOffset()
    kinds: dict[str, Any] = {name: type(name, (SimpleNamespace,), {}) for name in ("ReadAllAvailable", "ReadMaxFiles")}
    one, everything = (reader.latestOffset(first, kinds[name]()) for name in ("ReadMaxFiles", "ReadAllAvailable"))
    assert (one["version"], one["index"], one["whole"]) == (4, 1, True)
    assert (everything["version"], everything["index"], everything["whole"]) == (5, 0, False)
    reader.prepareForTriggerAvailableNow()
    table.append(hours(5, x=5.0))
    assert reader.latestOffset(first, kinds["ReadAllAvailable"]()) == everything
    assert reader.latestOffset(everything, kinds["ReadMaxFiles"]()) == everything


# -- what is gone ------------------------------------------------------------------------------------------------------


def test_ss_09_versions_past_the_cursor_that_were_cleaned_away_are_an_error_that_names_them(
    path: Path, table: gl.TimeSeriesTable
) -> None:
    query = Query(path, startingVersion=3, maxFilesPerTrigger=1)
    assert query.batch() == [value(3)]
    table.append(hours(5, x=5.0))
    assert forget(table, 2) == 5
    with pytest.raises(VersionNotFound, match=r"what version 4 changed can be told no longer.*begins with version 5") as stop:
        query.batch()
    assert stop.value.version == 4
    with pytest.raises(VersionNotFound, match="what version 4 changed"):
        query.restart().batch()
    query.restart(on_missing_versions="earliest")
    with pytest.warns(LogWarning, match=r"what version 4 changed can be told no longer.*goes on without"):
        assert query.batch() == [value(5)]


def test_ss_09_expired_versions_are_missing_though_their_commits_are_there_unless_they_only_laid_rows_out_anew(
    path: Path, table: gl.TimeSeriesTable
) -> None:
    query = Query(path)
    query.batch()
    table.compact()
    forget(table, 1, clean=False, vacuum=True)
    assert query.batch() == []
    table.append(hours(5, x=5.0))
    table.append(hours(6, x=6.0))
    forget(table, 1, clean=False)
    with pytest.raises(VersionNotFound, match="what versions 8 to 9 changed"):
        query.batch()


def test_ss_09_a_log_that_is_cleaned_while_the_stream_reads_it(path: Path, table: gl.TimeSeriesTable) -> None:
    handle, store = open_faulty(str(path))
    known = inside_of(handle)
    store.before_get = once(lambda: forget(table, 1), lambda name: name == "_timeseries_log/0000000002.json")
    log = StreamLog(env=known.env, newest=known.newest, follow=APPENDS)
    with pytest.raises(VersionNotFound, match="what versions 2 to 4 changed"):
        log.latest(Cursor(version=2), Budget())
    with pytest.warns(LogWarning, match="versions 2 to 4"):
        end = replace_follow(log, pass_missing=True).latest(Cursor(version=2), Budget())
    assert end == Cursor(version=6)


@pytest.mark.parametrize("policy", ["error", "earliest"])
def test_log_10_a_stream_never_jumps_a_gap_in_the_log(path: Path, table: gl.TimeSeriesTable, policy: str) -> None:
    query = Query(path, startingVersion=2, maxFilesPerTrigger=1, onMissingVersions=policy)
    query.batch()
    (path / "_timeseries_log" / "0000000003.json").unlink()
    for _ in range(2):
        with pytest.raises(CorruptTable, match="version 3 is lost"):
            query.batch()


def test_path_15_a_stream_writes_nothing_to_the_table_that_it_reads(path: Path, table: gl.TimeSeriesTable) -> None:
    def objects() -> dict[str, tuple[int, int]]:
        return {str(one): (one.stat().st_mtime_ns, one.stat().st_size) for one in path.rglob("*")}

    before = objects()
    query = Query(path, maxFilesPerTrigger=1)
    query.batch()
    query.restart().drain()
    Query(path, startingVersion="earliest", changeFeed="true").drain()
    assert objects() == before


def test_all_rows_of_a_version_that_expired_before_they_were_given(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, maxFilesPerTrigger=1)
    assert query.batch() == [value(2)]
    table.tag("mine", 4)
    table.append(hours(5, x=5.0))
    forget(table, 1, vacuum=True)
    assert query.restart().batch() == [value(3)], "a tag keeps it"
    table.untag("mine")
    forget(table, 1)
    with pytest.raises(VersionNotFound, match="the rows of version 4 from segment 3 on, and what versions 5 to"):
        query.restart().batch()
    with pytest.warns(LogWarning, match="the rows of version 4"):
        query.restart(on_missing_versions="earliest").drain()


def test_a_starting_version_that_expired(path: Path, table: gl.TimeSeriesTable) -> None:
    earliest = forget(table, 2, clean=False)
    assert earliest == 4
    with pytest.raises(VersionNotFound, match="what versions 2 to 3 changed"):
        Query(path, startingVersion=2).batch()
    with pytest.raises(VersionNotFound, match="what version 3 changed"):
        Query(path, startingTimestamp="2020-01-01T00:00Z").batch()
    assert Query(path, startingVersion="earliest").batch() == [value(4)]
    with pytest.warns(LogWarning, match="what versions 2 to 3 changed"):
        assert Query(path, startingVersion=2, onMissingVersions="earliest").batch() == [value(4)]


def test_a_feed_begins_after_a_change_whose_rows_before_are_gone(path: Path, table: gl.TimeSeriesTable) -> None:
    table.upsert(hours(3, x=30.0))
    table.append(hours(6, x=6.0))
    assert forget(table, 3, clean=False, vacuum=True) == 5
    query = Query(path, changeFeed="true", startingVersion="earliest")
    assert query.batch() == [(6, "insert", "A", 6.0)]
    with pytest.raises(VersionNotFound, match=r"what version 5 changed.*rows of version 4 are needed too"):
        Query(path, changeFeed="true", startingVersion=5).batch()


def test_files_that_went_while_a_batch_was_read_are_told_as_the_expiry_that_they_are(
    path: Path, table: gl.TimeSeriesTable
) -> None:
    query = Query(path)
    assert query.plan()
    parts = query.reader.partitions(query.reader.initialOffset(), json.loads(query.offsets[-1]))
    table.compact()
    forget(table, 1, vacuum=True)
    with pytest.raises(VersionNotFound, match=r"version 4 can be read no longer. It was expired") as stop:
        [list(query.reader.read(part)) for part in parts]
    assert stop.value.__notes__ == ["[version-not-found]"]


# -- other columns, another table --------------------------------------------------------------------------------------


def test_ss_11_each_change_of_columns_stops_once_and_nothing_is_shifted(path: Path) -> None:
    table = gl.create(path, index="n", index_type="int64", bucket=1)
    steps: list[Any] = [
        lambda: table.append({"n": [2], "sym": ["A"], "x": pa.array([2], pa.int32())}),
        lambda: table.add_column("y", pa.string()),
        lambda: table.append({"n": [4], "sym": ["A"], "x": pa.array([4], pa.int32()), "y": ["four"]}),
        lambda: table.rename_column("x", "z"),
        lambda: table.append({"n": [6], "sym": ["A"], "z": pa.array([6], pa.int32()), "y": ["six"]}),
        lambda: table.drop_column("sym"),
        lambda: table.widen_column("z", "int64"),
        lambda: table.append({"n": [9], "z": [9], "y": ["nine"]}),
    ]
    steps[0]()
    query, stops, given = Query(path, startingVersion="earliest", maxFilesPerTrigger=1), [], []
    for step in [lambda: None, *steps[1:]]:
        step()
        try:
            more = query.plan()
        except SchemaMismatch as stop:
            stops.append(stop.differences)
            more = query.restart().plan()
        while more:
            given += query.rows()
            more = query.plan()
    assert stops == [
        ("'y' was added",),
        ("'x' is 'z' now",),
        ("'sym' was dropped",),
        ("'z' was int32 and is int64",),
    ]
    assert given == [
        {"n": 2, "sym": "A", "x": 2},
        {"n": 4, "sym": "A", "x": 4, "y": "four"},
        {"n": 6, "sym": "A", "z": 6, "y": "six"},
        {"n": 9, "z": 9, "y": "nine"},
    ]
    # All of it again, under the columns of now.
    again = [row for query in [Query(path, startingVersion=1)] if query.plan() for row in query.rows()]
    assert again == [dict(row) for row in table.scan(order="index").to_arrow().to_pylist()]


def test_ss_11_a_backlog_of_changes_of_columns_is_read_without_a_stop(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, maxFilesPerTrigger=1)
    query.batch()
    table.rename_column("x", "z")
    table.append(hours(5, x=5.0).rename_columns(["ts", "sym", "z"]))
    table.rename_column("z", "x")
    query.restart()
    assert query.drain()[-1] == [value(5)]


@pytest.mark.parametrize("feed", ["false", "true"])
def test_ss_11_a_restore_to_a_narrower_type_stops_at_the_rows_that_it_does_not_hold(path: Path, feed: str) -> None:
    table = gl.create(path, index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "sym": ["A"], "x": pa.array([1], pa.int32())})
    table.widen_column("x", "int64")
    table.append({"n": [2], "sym": ["A"], "x": [2**40]})
    table.restore(2)
    query = Query(path, startingVersion=2, onDataChange="skip", changeFeed=feed)
    assert query.plan()
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match="narrower types: 'x' was int64 and is int32"):
            query.rows()
        query.restart()
    table.widen_column("x", "int64")
    assert [row["x"] for row in query.restart().rows()] == [1, 2**40, 2**40][: 2 + (feed == "true")]
    later = Query(path, startingVersion=5, onDataChange="skip", changeFeed=feed)
    later.drain()
    table.append({"n": [3], "sym": ["A"], "x": [3]})
    assert later.batch()[0][-2:] == ("A", 3)


def test_ss_11_names_that_changed_places_are_seen_though_they_look_alike(path: Path) -> None:
    table = gl.create(path, index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "a": [1.0], "b": [2.0]})
    query = Query(path)
    query.plan()
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.rename_column(old, new)
    table.reorder_columns(["n", "a", "b"])
    with pytest.raises(SchemaMismatch, match="'b' is 'a' now; 'a' is 'b' now"):
        query.plan()


def test_ss_11_columns_that_changed_between_the_dataframe_and_the_query(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path)
    table.add_column("y", pa.int64())
    with pytest.raises(SchemaMismatch, match=r"Spark was told \(ts timestamp, sym string, x double\)"):
        query.batch()
    assert query.restart().batch()


@pytest.mark.parametrize("appends", [0, 2, 3, 9])
@pytest.mark.parametrize("running", [True, False])
def test_a_table_that_was_made_anew_at_its_place_is_refused(
    path: Path, table: gl.TimeSeriesTable, appends: int, running: bool
) -> None:
    query = Query(path)
    query.batch()
    shutil.rmtree(path)
    new = gl.create(path, index="ts", entity="sym", bucket="1h", schema=hours(0).schema)
    for at in range(appends):
        new.append(hours(at, x=100.0))
    if not running:
        query.restart()
    for _ in range(2):
        with pytest.raises(VersionNotFound, match="not the one that the stream has read up to version 4"):
            query.batch()


def test_an_older_copy_of_the_table_is_refused(path: Path, table: gl.TimeSeriesTable, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "copy")
    table.append(hours(5, x=5.0))
    query = Query(path)
    query.batch()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    with pytest.raises(VersionNotFound, match=r"has read version 5 .* has versions 1 to 4"):
        query.restart().batch()


def test_an_offset_says_the_table_the_place_and_where_the_stream_began(path: Path, table: gl.TimeSeriesTable) -> None:
    query = Query(path, maxFilesPerTrigger=2)
    assert query.plan()
    made = format_instant(job_context(table).snapshot.state.meta.created_ns)
    begin = '"begin": {"version": 4, "whole": true}}'
    assert query.offsets == [f'{{"gapless": 1, "table": "{made}", "version": 4, "index": 2, "whole": true, {begin}']


@pytest.mark.parametrize("said", [{}, {"gapless": 2}, {"gapless": 1, "table": "x"}, {"logOffset": 3}])
def test_an_offset_that_is_not_ours_is_refused(path: Path, table: gl.TimeSeriesTable, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="offset that cannot be read"):
        Query(path).reader.partitions(said, said)


# -- a store that fails ------------------------------------------------------------------------------------------------


def inside_of(handle: gl.TimeSeriesTable) -> Any:
    known = job_context(handle)
    return SimpleNamespace(env=known.env, newest=known.snapshot)


def replace_follow(log: StreamLog, *, pass_missing: bool) -> StreamLog:
    return replace(log, follow=replace(log.follow, pass_missing=pass_missing))


@pytest.mark.parametrize("failures", [1, 3, 10_000])
def test_eo_11_a_version_that_cannot_be_read_is_tried_again_and_never_passed_over(path: Path, failures: int) -> None:
    table = gl.create(path, index="ts", entity="sym", bucket="1h")
    for at in range(9):
        table.append(hours(at, x=float(at)))
    handle, store = open_faulty(str(path))
    known, left, asked = inside_of(handle), [failures], list[str]()

    def fail(name: str) -> None:
        asked.append(name)
        if name.endswith("/0000000005.json") and left[0]:
            left[0] -= 1
            unavailable(name)

    store.before_get = fail
    log = StreamLog(env=known.env, newest=known.newest, follow=APPENDS)
    start = log.latest(Cursor(version=1), Budget(files=3), until=4)
    assert start == Cursor(version=5)
    if failures > 3:
        with pytest.raises(StoreUnavailable, match="0000000005"):
            log.latest(start, Budget())
        left[0] = 0  # the store is back: the stream goes on where it was
    end = log.latest(start, Budget())
    assert [item.version for item in log.items(start, end)] == [5, 6, 7, 8, 9, 10]
    read = [name for name in asked if is_commit(name)]
    five = "_timeseries_log/0000000005.json"
    tries = min(failures, 3) + 1
    assert read[read.index(five) :][:tries] == [five] * tries, "nothing else is read before it"


def test_eo_11_a_segment_that_cannot_be_read_fails_its_task_with_nothing_skipped(path: Path, table: gl.TimeSeriesTable) -> None:
    handle, store = open_faulty(str(path))
    known = inside_of(handle)
    log = StreamLog(env=known.env, newest=known.newest, follow=APPENDS)
    told = log.told(log.items(Cursor(version=1), Cursor(version=5)))
    meta = known.newest.state.meta
    part = StreamPart(store=store, meta=meta, declared=meta.schema, feed=False, told=tuple(told))
    store.before_get = lambda name: unavailable(name) if name == told[1].change.added[0].path else None
    with pytest.raises(StoreUnavailable):
        list(part.batches())
    store.before_get = lambda _name: None
    assert short(row for batch in part.batches() for row in batch.to_pylist()) == [value(2), value(3), value(4)]


def test_options_of_other_uses_are_refused(path: Path, table: gl.TimeSeriesTable) -> None:
    for name in ("version", "onOverlap", "maxFilePerTrigger"):
        with pytest.raises(InvalidOption, match=name):
            Query(path, **{name: "1"})
