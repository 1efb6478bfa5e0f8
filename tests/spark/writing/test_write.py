"""A write from Spark is an append: the same rows, coverage, checks and refusals, whatever becomes of its tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CoverageOverlap, DuplicateKey, InvalidOption, InvalidValue, NotSupported, NullKey, SchemaMismatch
from gapless.spark import overwrite, read, upsert, write
from gapless.spark.writing.encode import Encoding, Outcome

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def hours(first: int, count: int, site: str = "a") -> pa.Table:
    times = [START + timedelta(hours=first + h) for h in range(count)]
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "site": [site] * count, "v": list(range(first, first + count))}
    return pa.table(columns)


def air(path: Path, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(path, index="ts", entity=["site"], bucket="1h", properties=properties)


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=repr)


def files_of(table: gl.TimeSeriesTable) -> set[str]:
    return {path.name for path in (Path(table.url) / "data").glob("*.parquet")}


def test_rows_coverage_and_report_are_those_of_an_append(spark: Any, tmp_path: Path) -> None:
    data = pa.concat_tables([hours(0, 500, "a"), hours(20, 300, "b"), hours(5, 100, "a")])
    one, other = air(tmp_path / "one"), air(tmp_path / "other")
    expected = one.append(data)
    frame = spark.createDataFrame(data).repartition(5)
    report = write(frame, other)
    assert (report.rows, report.buckets, report.version) == (expected.rows, expected.buckets, 2)
    assert report.segments == len(other.segments()) == len(files_of(other))
    assert rows_of(other) == rows_of(one)
    assert other.schema == one.schema
    assert other.coverage().buckets() == one.coverage().buckets()
    assert other.verify(deep=True).ok
    files = [str(Path(other.url) / segment.path) for segment in other.segments()]
    query = "select site, count(*), sum(v), min(epoch_us(ts)) from read_parquet($1) group by site order by site"
    assert duckdb.execute(query, [files]).fetchall() == [
        ("a", 600, sum(range(500)) + sum(range(5, 105)), 1_767_225_600_000_000),
        ("b", 300, sum(range(20, 320)), 1_767_225_600_000_000 + 20 * 3_600_000_000),
    ]
    assert spark.read.parquet(*files).count() == 900


def test_a_bucket_goes_to_one_task(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        minutes = spark.range(6_000).selectExpr(
            "timestamp_micros(1767225600000000 + id * 60000000) as ts", "concat('s', id % 7) as site", "id as v"
        )
        report = write(minutes, table, spread=True)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert report.segments >= 3
    assert table.coverage().covered == report.buckets == 700
    spans = sorted((segment.bounds.first, segment.bounds.last) for segment in table.segments())
    hour = 3_600_000_000_000
    assert all(first[1] // hour <= second[0] // hour for first, second in pairwise(spans))
    assert rows_of(table) == sorted(minutes.toArrow().to_pylist(), key=repr)


def test_what_was_read_of_every_type_is_written_again(spark: Any, tmp_path: Path) -> None:
    struct = pa.struct([("x", pa.uint16()), ("y", pa.list_(pa.uint8(), 2))])
    columns = {
        "u8": pa.array([0, 255], pa.uint8()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "i8": pa.array([-128, None], pa.int8()),
        "fixed": pa.array([b"abc", None], pa.binary(3)),
        "clock": pa.array([1, None], pa.int32()).cast(pa.time32("s")),
        "fine": pa.array([86_399_999_999, None], pa.int64()).cast(pa.time64("us")),
        "span": pa.array([-5, None], pa.int64()).cast(pa.duration("s")),
        "paris": pa.array([1_000, None], pa.int64()).cast(pa.timestamp("ms", "Europe/Paris")),
        "naive": pa.array([-1, None], pa.int64()).cast(pa.timestamp("us")),
        "price": pa.array(["1.25", None]).cast(pa.decimal128(9, 2)),
        "deep": pa.array([[{"x": 2**16 - 1, "y": [1, 2]}, None], None], pa.list_(struct)),
        "map": pa.array([[("k", 2**32 - 1)], []], pa.map_(pa.string(), pa.uint32())),
        "nothing": pa.nulls(2),
    }
    one = gl.create(tmp_path / "one", index="n", index_type="uint64", bucket=1)
    one.append({"n": pa.array([1, 2**64 - 1], pa.uint64()), **columns})
    other = gl.create(tmp_path / "other", index="n", index_type="uint64", bucket=1, schema=one.schema)
    write(read(spark, one), other)
    assert other.schema == one.schema
    assert repr(rows_of(other)) == repr(rows_of(one))


def test_partitions_as_they_are_may_share_buckets(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")

    def halves(hour: str) -> Any:
        ts = f"timestamp_micros(1767225600000000 + ({hour}) * 3600000000) as ts"
        return spark.range(0, 50, 1, 2).selectExpr(ts, "'a' as site", "id as v")

    report = write(halves("id"), table)
    assert (report.segments, report.buckets) == (2, 50)
    report = write(halves("100 + id div 2"), table)
    assert (report.rows, report.segments, report.buckets) == (50, 2, 25)
    assert table.verify(deep=True).ok
    with pytest.raises(CoverageOverlap):
        write(halves("124 + id"), table)


def test_a_dataframe_takes_the_place_of_all_rows(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 5))
    frame = spark.createDataFrame(hours(3, 4))
    report = overwrite(frame, table, operation_id="again")
    assert (report.rows, report.removed_rows, report.version) == (4, 5, 3)
    assert rows_of(table) == sorted(hours(3, 4).to_pylist(), key=repr)
    assert overwrite(frame, table, operation_id="again").already_applied
    assert overwrite(spark.createDataFrame([], frame.schema), table).removed_rows == 4
    assert rows_of(table) == []


def test_a_table_whose_columns_changed_is_written_by_its_names_of_now(spark: Any, tmp_path: Path) -> None:
    made = []
    for name in ("one", "other"):
        table = gl.create(tmp_path / name, index="n", index_type="int64", bucket=1)
        table.append({"n": [0], "x": ["old"], "s": [{"a": 1, "b": 2}]})
        table.rename_column("x", "y")
        table.add_column("x", "string", default="-")
        table.rename_column("s.a", "c")
        made.append(table)
    new = pa.table({"n": [1, 2], "y": ["why", None], "s": [{"b": 3, "c": 4}, None]})
    made[0].append(new)
    write(spark.createDataFrame(new), made[1])
    assert rows_of(made[1]) == rows_of(made[0])
    assert sorted(read(spark, made[1]).toArrow().to_pylist(), key=repr) == rows_of(made[0])


def test_values_that_a_type_does_not_hold_are_refused(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), False), ("u", pa.uint8())])
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, schema=schema)
    frame = spark.createDataFrame([(1, 5), (2, 300)], "n bigint, u smallint").coalesce(1)
    with pytest.raises(
        InvalidValue, match=r"partition 0 of the DataFrame: column 'u' cannot keep the value 300 of row 1"
    ) as refused:
        write(frame, table)
    assert (refused.value.column, refused.value.value) == ("u", 300)
    assert (table.refresh().version, files_of(table)) == (1, set())


def test_wrong_rows_and_columns_are_typed_errors_and_leave_nothing(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 1))
    before = files_of(table)
    with pytest.raises(SchemaMismatch, match="V: not in the table"):
        write(spark.createDataFrame(hours(5, 2)).withColumnRenamed("v", "V"), table)
    with pytest.raises(NullKey, match=r"partition \d+ of the DataFrame: the index column 'ts' is null"):
        write(spark.createDataFrame(hours(5, 50)).selectExpr("if(v = 30, null, ts) as ts", "site", "v"), table)
    with pytest.raises(InvalidOption, match="cannot be written to"):
        write(spark.createDataFrame(hours(5, 2)), table.at(version=2))  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match="memory"):
        write(spark.createDataFrame(hours(5, 2)), air("memory://spark-write"))  # type: ignore[arg-type]
    assert (table.refresh().version, files_of(table)) == (2, before)


# -- overlap -----------------------------------------------------------------------------------------------------------


def test_overlap_is_refused_and_nothing_is_committed(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 10))
    before = files_of(table)
    with pytest.raises(CoverageOverlap) as refused:
        write(spark.createDataFrame(hours(8, 10)), table)
    assert (refused.value.buckets, refused.value.version) == (2, 2)
    assert (table.refresh().version, files_of(table)) == (2, before)


@pytest.mark.parametrize("policy", ["skip", "allow", "replace"])
def test_policies_do_what_an_append_does(spark: Any, tmp_path: Path, policy: Any) -> None:
    one, other = air(tmp_path / "one"), air(tmp_path / "other")
    late = pa.concat_tables([hours(8, 10), hours(0, 3, "b")])
    late = late.set_column(2, "v", pa.array([-value for value in late.column("v").to_pylist()]))
    one.append(hours(0, 10))
    other.append(hours(0, 10))
    expected = one.append(late, on_overlap=policy)
    report = write(spark.createDataFrame(late), other, on_overlap=policy)
    counted = ("rows", "buckets", "skipped_rows", "skipped_buckets", "removed_rows", "replaced_buckets", "version")
    assert [getattr(report, name) for name in counted] == [getattr(expected, name) for name in counted]
    assert rows_of(other) == rows_of(one)
    assert {segment.path.rpartition("/")[2] for segment in other.segments()} <= files_of(other)


def test_the_policy_of_the_table_is_the_newest_whatever_the_handle_saw(spark: Any, tmp_path: Path) -> None:
    stale = air(tmp_path / "t", on_overlap="allow")
    stale.append(hours(0, 2))
    gl.open(tmp_path / "t").set_properties({"on_overlap": "reject"})
    with pytest.raises(CoverageOverlap):
        write(spark.createDataFrame(hours(1, 2)), stale)
    assert len(rows_of(stale.refresh())) == 2


def test_a_unique_table_refuses_duplicate_keys(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", unique=True)
    table.append(hours(0, 2))
    twice = pa.concat_tables([hours(5, 2), hours(5, 1)])
    with pytest.raises(DuplicateKey):
        write(spark.createDataFrame(twice), table)
    with pytest.raises(DuplicateKey):
        write(spark.createDataFrame(hours(1, 2)), table, on_overlap="allow")
    assert table.refresh().version == 2
    assert write(spark.createDataFrame(hours(5, 2)), table).rows == 2


def test_an_empty_frame_adds_nothing(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 2))
    report = write(spark.createDataFrame(hours(0, 2)).where("v > 9"), table)
    assert (report.version, report.rows, report.segments) == (2, 0, 0)


# -- exactly once ------------------------------------------------------------------------------------------------------


def test_an_operation_that_is_sent_twice_is_done_once(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    first = write(spark.createDataFrame(hours(0, 5)), str(tmp_path / "t"), operation_id="day 1")

    def fail(_: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        raise AssertionError("computed again")

    frame = spark.createDataFrame(hours(0, 5))
    again = write(frame.mapInArrow(fail, frame.schema), table, operation_id="day 1")
    assert (again.already_applied, again.rows, again.version) == (True, first.rows, first.version)
    assert table.refresh().version == 2
    assert write(frame, table, on_overlap="skip", operation_id=("app", 1)).skipped_rows == 5
    assert write(frame, table, on_overlap="allow", operation_id=("app", 1)).already_applied
    assert len(rows_of(table)) == 5


class LostOnce(Encoding):
    """Writes, and is lost before it can say so: in its first attempt."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        from pyspark import TaskContext

        found = Encoding.outcome(self, batches)
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise OSError("lost after it wrote")
        return found


def test_a_task_that_is_tried_again_leaves_each_row_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = air(tmp_path / "t")
    monkeypatch.setattr("gapless.spark.writing.series_target.Encoding", LostOnce)
    report = write(spark.createDataFrame(hours(0, 100)), table)
    assert rows_of(table) == sorted(hours(0, 100).to_pylist(), key=repr)
    live = {segment.path.rpartition("/")[2] for segment in table.segments()}
    assert report.segments == len(live) < len(files_of(table)), "the lost attempts left no orphans, so none was lost"


class HalfLost(Encoding):
    """The first two partitions write; the others never do."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() >= 2:
            time.sleep(1)  # so that the first two are done
            raise OSError("lost")
        return Encoding.outcome(self, batches)


def test_eo_10_only_the_whole_batch_counts(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = air(tmp_path / "t")
    batch = "timestamp_micros(1767225600000000 + id * 3600000000) as ts", "'a' as site", "id as v"
    with monkeypatch.context() as patched:
        patched.setattr("gapless.spark.writing.series_target.Encoding", HalfLost)
        with pytest.raises(Exception, match="lost"):
            write(spark.range(0, 120, 1, 4).selectExpr(*batch), table, operation_id=("job", 7))
    orphans = files_of(table)
    assert len(orphans) == 2, "the half that was written is what this test is about"
    assert rows_of(table.refresh()) == []
    report = write(spark.range(0, 120, 1, 3).selectExpr(*batch), table, operation_id=("job", 7))
    assert (report.rows, report.version) == (120, 2)
    assert [row["v"] for row in table.scan(order="index").to_arrow().to_pylist()] == list(range(120))
    assert not orphans & {segment.path.rpartition("/")[2] for segment in table.segments()}
    reasons = {entry.path.rpartition("/")[2]: entry.reason for entry in table.vacuum(dry_run=True).entries}
    assert {reasons[name] for name in orphans} == {"in-flight"}


class Overtaken(Encoding):
    """Another writer commits while the rows are being written: hours 3 and 4, in another range of versions."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        import gapless

        found = Encoding.outcome(self, batches)
        if found.segments:
            gapless.open(self.store.url).append({"ts": [found_time(3), found_time(4)], "site": ["a", "a"], "v": [-3, -4]})
        return found


def found_time(hour: int) -> datetime:
    return START + timedelta(hours=hour)


@pytest.mark.parametrize(("policy", "first"), [("reject", 10), ("reject", 4), ("skip", 4), ("allow", 4)])
def test_a_writer_that_came_first(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any, first: int) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 1))
    monkeypatch.setattr("gapless.spark.writing.series_target.Encoding", Overtaken)
    frame = spark.createDataFrame(hours(first, 2)).coalesce(1)
    if (policy, first) == ("reject", 4):
        with pytest.raises(CoverageOverlap):
            write(frame, table, on_overlap=policy)
        assert [row["v"] for row in rows_of(table.refresh())] == [0, -3, -4]
        return
    report = write(frame, table, on_overlap=policy)
    assert (report.version, report.skipped_rows) == (4, int(policy == "skip"))
    mine = [first, first + 1][report.skipped_rows :]
    assert sorted(row["v"] for row in rows_of(table)) == sorted([0, -3, -4, *mine])


@pytest.mark.parametrize(
    ("bucket", "timezone"), [("1d", "America/New_York"), ("1mo", None), ("3mo", "Europe/Berlin"), ("7m", None)]
)
def test_every_kind_of_bucket_is_covered_as_by_an_append(spark: Any, tmp_path: Path, bucket: str, timezone: str | None) -> None:
    count = [START + timedelta(hours=5 * h, minutes=7 * h) for h in range(-400, 400)]
    data = pa.table({"ts": pa.array(count, pa.timestamp("us", "UTC")), "v": list(range(800))})
    made = [gl.create(tmp_path / name, index="ts", bucket=bucket, timezone=timezone) for name in "ab"]
    made[0].append(data)
    write(spark.createDataFrame(data), made[1], spread=True)
    assert made[1].coverage().buckets() == made[0].coverage().buckets()
    assert rows_of(made[1]) == rows_of(made[0])


SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}


def test_what_a_session_is_set_to_changes_nothing(spark: Any, tmp_path: Path) -> None:
    # The night in which New York has no 02:00.
    night = pa.array(
        [datetime(2026, 3, 8, tzinfo=UTC) + timedelta(minutes=40 * n) for n in range(20)], pa.timestamp("us", "UTC")
    )
    data = pa.table({"ts": night, "site": ["a", "b"] * 10, "v": list(range(20))})
    table, naive = air(tmp_path / "t"), air(tmp_path / "naive")
    before = {name: spark.conf.get(name) for name in SETTINGS}
    frame = spark.createDataFrame(data)
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        write(frame, table, spread=True)
        write(frame.selectExpr("timestamp_ntz'2026-03-08' + (v * interval '40' minute) as ts", "site", "v"), naive, spread=True)
        start, end = "2026-03-08T02:00:00Z", "2026-03-08T03:00:00Z"
        native = read(spark, table, start=start, end=end).toArrow()
        python = spark.read.format("gapless").options(start=start, end=end).load(table.url).toArrow()
        assert upsert(read(spark, table), table).version == table.version  # not a value is another one
        assert upsert(read(spark, table).selectExpr("ts", "site", "v + 0L as v"), table).rows == 0
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert rows_of(table) == sorted(data.to_pylist(), key=repr)
    assert table.schema == data.schema.set(0, data.field(0).with_nullable(False)).set(1, data.field(1).with_nullable(False))
    assert rows_of(naive) == sorted(data.set_column(0, "ts", night.cast(pa.timestamp("us"))).to_pylist(), key=repr)
    for found in (native, python):
        assert sorted(found["v"].to_pylist()) == [3, 4]
        assert found["ts"].type.tz is not None
