"""Compaction by Spark's tasks does what `table.compact` does, whatever becomes of the tasks and whoever else writes."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, UnknownColumn
from gapless.spark.correct.compact import BinTask, compact
from gapless.spark.writing.encode import Outcome
from gapless.tables.shared.compaction import GivenUp
from gapless.tables.timeseries.care.compact_plan import Bin

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

JOB = import_module("gapless.spark.correct.compact")
"""The module, which the function of its name hides."""
START = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("a", "b", "c")


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def air(path: Path, days: int = 4) -> gl.TimeSeriesTable:
    """A table of a segment for each six hours of each day, three sites in each; `v` counts the rows."""
    table = gl.create(path, index="ts", entity=["site"], bucket="1h")
    for part in range(4 * days):
        table.append(six_hours(6 * part))
    return table


def six_hours(first: int) -> pa.Table:
    times = [START + timedelta(hours=first + hour) for hour in range(6) for _ in SITES]
    values = range(len(SITES) * first, len(SITES) * (first + 6))
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "site": [*SITES] * 6, "v": list(values)})


def counted(table: gl.TimeSeriesTable) -> tuple[Any, ...]:
    """Rows, sum and distinct values, by another reader."""
    files = [str(Path(table.url) / segment.path) for segment in table.segments()]
    found = duckdb.execute("select count(*), sum(v), count(distinct v) from read_parquet($1)", [files]).fetchone()
    assert found is not None
    return found


def whole(rows: int) -> tuple[int, int, int]:
    """What `counted` gives where all rows are there once."""
    return rows, sum(range(rows)), rows


def layout(table: gl.TimeSeriesTable) -> list[tuple[Any, ...]]:
    return [(s.rows, s.size, s.bounds, s.identity, s.sorted_by, s.clustered_by, s.data_change) for s in table.segments()]


def files_of(table: gl.TimeSeriesTable) -> set[str]:
    return {path.name for path in (Path(table.url) / "data").glob("*.parquet")}


def live_files(table: gl.TimeSeriesTable) -> set[str]:
    return {segment.path.rpartition("/")[2] for segment in table.segments()}


def day_bytes(table: gl.TimeSeriesTable) -> int:
    """A target size for which four segments make a bin."""
    return int(4.5 * max(segment.size or 0 for segment in table.segments()))


@pytest.mark.parametrize("options", [{}, {"window": "1d"}, {"cluster_by": ["v"]}, {"codec": "snappy", "resort": True}])
def test_it_lays_segments_out_as_the_table_itself_does(spark: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    one, other = air(tmp_path / "one"), air(tmp_path / "other")
    before = one.coverage().buckets()
    expected = one.compact(**options)
    report = compact(spark, other, **options)
    assert report == expected
    assert report.bins == (4 if "window" in options else 1)
    assert layout(other) == layout(one)
    assert counted(other) == whole(288)
    assert other.coverage().buckets() == before
    assert other.verify(deep=True).ok
    assert compact(spark, str(tmp_path / "other"), **options).bins == 0


def test_as_many_bins_as_tasks_run_at_once_share_a_commit(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", days=5)
    report = compact(spark, table, window="1d", target_size=day_bytes(table))
    assert (report.bins, report.segments_before, report.segments_after, report.rows) == (5, 20, 5, 360)
    commits = [entry for entry in table.history() if entry.operation == "compact"]
    assert sorted(str(entry.parameters["bins"]) for entry in commits) == ["1", "2", "2"], "the session runs two tasks at once"
    assert report.version == table.version == max(entry.version for entry in commits)
    assert counted(table) == whole(360)
    assert [row["v"] for row in table.at(version=6).scan(order="index").to_arrow().to_pylist()] == list(range(90))


def test_nothing_to_do_is_no_commit(spark: Any, tmp_path: Path) -> None:
    empty = gl.create(tmp_path / "empty", index="ts", bucket="1h")
    assert compact(spark, empty) == empty.compact()
    table = air(tmp_path / "t", days=1)
    table.compact()
    before = files_of(table)
    report = compact(spark, table)
    assert (report.bins, report.version, report.given_up) == (0, table.version, ())
    assert (table.refresh().version, files_of(table)) == (report.version, before)


def test_wrong_calls_are_typed_errors(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", days=1)
    with pytest.raises(InvalidOption, match="target_size=0"):
        compact(spark, table, target_size=0)
    with pytest.raises(UnknownColumn):
        compact(spark, table, cluster_by="nothing")
    with pytest.raises(InvalidOption, match="cannot be written to"):
        compact(spark, table.at(version=2))  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="memory"):
        compact(spark, gl.create("memory://spark-compact", index="ts", bucket="1h"))
    assert table.refresh().version == 5


# -- tasks that fail ---------------------------------------------------------------------------------------------------


class KilledOnce(BinTask):
    """Writes, and its process dies before it can say so: in its first attempt."""

    def write(self, one: Bin) -> Outcome | GivenUp:
        from pyspark import TaskContext

        found = BinTask.write(self, one)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            os._exit(1)
        return found


def test_a_task_that_is_killed_and_tried_again_leaves_each_row_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = air(tmp_path / "t", days=2)
    before = files_of(table)
    monkeypatch.setattr(JOB, "BinTask", KilledOnce)
    report = compact(spark, table, window="1d")
    assert (report.bins, report.segments_after, report.given_up) == (2, 2, ())
    assert counted(table) == whole(144)
    orphans = files_of(table) - before - live_files(table)
    assert len(orphans) == 2, "the lost attempts left no files, so none was lost"
    reasons = {entry.path.rpartition("/")[2]: entry.reason for entry in table.vacuum(dry_run=True).entries}
    assert {reasons[name] for name in orphans} == {"in-flight"}


class LostLater(BinTask):
    """Writes nothing of the third day on."""

    def write(self, one: Bin) -> Outcome | GivenUp:
        day = timedelta(days=2) // timedelta(microseconds=1)
        if one.segments[0].bounds.first >= (int(START.timestamp()) * 1_000_000 + day) * 1_000:
            raise OSError("lost")
        return BinTask.write(self, one)


def test_what_was_committed_before_a_job_failed_stands(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = air(tmp_path / "t")
    options: dict[str, Any] = {"window": "1d", "target_size": day_bytes(table)}
    with monkeypatch.context() as patched:
        patched.setattr(JOB, "BinTask", LostLater)
        with pytest.raises(Exception, match="lost"):
            compact(spark, table, **options)
    assert [segment.rows for segment in table.refresh().segments()].count(72) == 2
    assert counted(table) == whole(288)
    assert compact(spark, table, **options).bins == 2
    assert counted(table) == whole(288)
    assert table.verify(deep=True).ok


def test_a_damaged_segment_is_let_be_and_named(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", days=2)
    bad = table.segments()[1]
    file = Path(table.url) / bad.path
    data = bytearray(file.read_bytes())
    data[100] ^= 0xFF
    file.write_bytes(data)
    report = compact(spark, table, window="1d")
    assert [one.paths for one in report.given_up] == [(bad.path,)]
    assert "another checksum" in report.given_up[0].why
    assert (report.segments_before, report.segments_after, report.rows) == (7, 2, 126)
    assert bad.path in {segment.path for segment in table.segments()}


# -- beside other writers ----------------------------------------------------------------------------------------------


class Joined(BinTask):
    """Another writer appends while bins are written: an hour for each day's bin."""

    def write(self, one: Bin) -> Outcome | GivenUp:
        import gapless

        found = BinTask.write(self, one)
        day = one.segments[0].bounds.first // 86_400_000_000_000
        times = [datetime.fromtimestamp(0, UTC) + timedelta(days=day + 100)]
        gapless.open(self.store.url).append({"ts": times, "site": ["d"], "v": [-1]})
        return found


def test_appends_meanwhile_are_kept_and_left_to_the_next_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = air(tmp_path / "t", days=2)
    monkeypatch.setattr(JOB, "BinTask", Joined)
    report = compact(spark, table, window="1d")
    assert (report.bins, report.segments_before, report.segments_after, report.given_up) == (2, 8, 2, ())
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(row["v"] for row in rows) == [-1, -1, *range(144)]
    assert sorted(segment.rows for segment in table.segments()) == [1, 1, 72, 72]


class Overtaken(BinTask):
    """Another writer takes rows away from the first day, while its bin is written."""

    def write(self, one: Bin) -> Outcome | GivenUp:
        import gapless

        found = BinTask.write(self, one)
        if one.segments[0].bounds.first == int(START.timestamp()) * 1_000_000_000:
            gapless.open(self.store.url).delete("v < 10")
        return found


def test_a_bin_that_another_change_overtook_is_given_up(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = air(tmp_path / "t", days=2)
    monkeypatch.setattr(JOB, "BinTask", Overtaken)
    report = compact(spark, table, window="1d")
    assert [one.overtaken for one in report.given_up] == [True]
    assert "another change removed 1 of its 4 segments first" in report.given_up[0].why
    assert (counted(table)[:2], table.verify(deep=True).ok) == ((134, sum(range(10, 144))), True)
    commits = [str(entry.parameters["bins"]) for entry in table.history() if entry.operation == "compact"]
    assert commits == ["1", "1"], "the bin that was not overtaken, and then what was left of the other"
    assert sorted(segment.rows for segment in table.segments()) == [8, 54, 72]
