"""`format("gapless")`: what Spark reads and writes through the Python data source, held against scans and plain Python."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, InvalidValue, UnsupportedType
from gapless.model.operation import JobId, SequenceId
from gapless.model.segment import Bounds, Segment
from gapless.spark.reading.arrow_columns import shown_batch, shown_schema
from gapless.spark.reading.columns import ddl, spark_type
from gapless.spark.setup.options import KNOWN_OPTIONS, NewTable, Use, parse_options
from gapless.spark.setup.packs import packs_of

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def all_types() -> dict[str, pa.Array]:
    """The columns with which native reads are tested."""
    spec = importlib.util.spec_from_file_location("spark_read_cases", Path(__file__).parent.joinpath("reading", "test_read.py"))
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    columns: dict[str, pa.Array] = module.COLUMNS
    return columns


COLUMNS = all_types()


def hours(first: int, count: int, site: str = "a") -> pa.Table:
    times = pa.array([START + timedelta(hours=h) for h in range(first, first + count)], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "site": [site] * count, "v": list(range(first, first + count))})


def air(path: Path, **properties: Any) -> gl.TimeSeriesTable:
    return gl.create(path, index="ts", entity=["site"], bucket="1h", properties=properties)


def load(spark: Any, path: object, **options: object) -> Any:
    return spark.read.format("gapless").options(**{name: str(value) for name, value in options.items()}).load(str(path))


def save(frame: Any, path: object, mode: str = "append", **options: str) -> None:
    frame.write.format("gapless").mode(mode).options(**options).save(str(path))


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=repr)


def scanned(table: Any, **request: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**request).to_arrow().to_pylist(), key=repr)


def counts(column: Any) -> list[Any]:
    """Values with all their digits, of a column or its counterpart from Spark."""
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return [repr(value) for value in column.to_pylist()]


def opened(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


# -- without Spark: types, options, packs ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
def test_shown_values_are_the_same_ones(name: str) -> None:
    batch = pa.record_batch({name: COLUMNS[name]})
    shown = shown_batch(batch, shown_schema(batch.schema))
    shown.validate(full=True)
    assert shown.schema == shown_schema(batch.schema)
    assert counts(shown.column(0).cast(opened(COLUMNS[name]).type)) == counts(opened(COLUMNS[name]))
    assert shown_batch(batch.slice(1), shown.schema).equals(shown.slice(1))


def test_shown_columns_are_taken_by_name_and_may_be_none() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2], pa.uint8()), "b": ["x", "y"]})
    assert shown_batch(batch, shown_schema(batch.schema.remove(0))).to_pydict() == {"b": ["x", "y"]}
    assert shown_batch(batch, pa.schema([])).num_rows == 2


def test_a_value_that_spark_cannot_hold_is_refused_by_name() -> None:
    batch = pa.record_batch({"d": pa.array([2**62], pa.int64()).cast(pa.duration("s"))})
    with pytest.raises(InvalidValue, match="column 'd' has a value that Spark cannot hold"):
        shown_batch(batch, shown_schema(batch.schema))
    with pytest.raises(UnsupportedType, match=r"'x\.element'"):
        shown_schema(pa.schema([("x", pa.list_(pa.float16()))]))


def test_options_are_read_once_whatever_their_case() -> None:
    found = parse_options(
        {"PATH": "file:/a", "version": " 3 ", "columns": "a, b", "entity": '{"n": [1, 2], "s": "x"}', "owner": "me"}, "read"
    )
    assert (found.path, found.version, found.columns, found.entity) == ("file:/a", 3, ("a", "b"), {"n": [1, 2], "s": "x"})
    assert parse_options({"path": "p", "columns": '["a, b"]', "Entity": "s = x=y"}, "read").entity == {"s": ["x=y"]}
    assert parse_options({"path": "p", "columns": '["a, b"]'}, "read").columns == ("a, b",)
    written = parse_options(
        {"path": "p", "ONOVERLAP": "SKIP", "operationid": '["app", 4]', "index": "ts", "bucket": "1h", "entity": "s,t"}, "write"
    )
    assert (written.on_overlap, written.operation) == ("skip", SequenceId("app", 4))
    assert written.new_table == NewTable(index="ts", bucket="1h", entity=("s", "t"))
    assert parse_options({"path": "p", "operationId": "day 1"}, "write").operation == JobId("day 1")
    stream = parse_options(
        {"path": "p", "startingversion": "LATEST", "changefeed": "true", "maxfilespertrigger": "7", "ondatachange": "Skip"},
        "stream read",
    )
    assert (stream.starting_version, stream.change_feed, stream.max_files_per_trigger) == ("latest", True, 7)
    assert stream.on_data_change == "skip"
    sink = parse_options({"path": "p", "appid": "a", "checkpointlocation": "/c", "queryname": "q"}, "stream write")
    assert (sink.app_id, sink.checkpoint_location, sink.query_name) == ("a", "/c", "q")


@pytest.mark.parametrize(
    ("given", "use", "message"),
    [
        ({"startingVersoin": "1"}, "stream read", "Did you mean 'startingVersion'"),
        ({"startingversion": "1"}, "read", r"no option 'startingVersion' in a read\. It is an option of a stream read"),
        ({"onOverlap": "skip"}, "read", "It is an option of a stream write and a write"),
        ({"paths": '["a", "b"]'}, "read", "Did you mean 'path'"),
        ({"version": "1.5"}, "read", "version='1.5' cannot be read"),
        ({"version": "1", "timestamp": "2026-01-01T00:00Z"}, "read", "version and timestamp are both given"),
        ({"entity": "site"}, "read", "Write symbol=NVDA"),
        ({"entity": '{"site": '}, "read", "It is no JSON"),
        ({"columns": "[1]"}, "read", "no list of texts"),
        ({"onOverlap": "skp"}, "write", "Did you mean 'skip'"),
        ({"operationId": '["app"]'}, "write", "names no operation"),
        ({"index": "ts"}, "write", "the option 'bucket' is missing"),
        ({"entity": "s"}, "write", "the option 'index' is missing"),
        ({"changeFeed": "yes"}, "stream read", "It is true or false"),
        ({"onDataChange": "skp"}, "stream read", "Did you mean 'skip'"),
        ({"maxFilesPerTrigger": "0"}, "stream read", "a whole number from 1 up"),
    ],
)
def test_options_that_are_wrong_are_refused(given: dict[str, str], use: Use, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_options({"path": "p", **given}, use)


def test_a_path_is_needed() -> None:
    with pytest.raises(InvalidOption, match="needs to be told where the table is"):
        parse_options({}, "read")


def test_no_option_is_read_two_ways_in_one_use() -> None:
    uses: tuple[Use, ...] = ("read", "write", "stream read", "stream write")
    for use in uses:
        names = [one.name.lower() for one in KNOWN_OPTIONS if use in one.uses]
        assert len(set(names)) == len(names)


def segment(number: int, size: int | None) -> Segment:
    bounds = Bounds(first=number, last=number)
    return Segment(path=f"data/{number}.parquet", rows=1, size=size, bounds=bounds, coverage=None)


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("sizes", [[], [None], [1000] * 2000, [300 << 20] * 5, [1, 500 << 20, 1, 64 << 20, 64 << 20]])
def test_packs_hold_each_segment_once_in_order(sizes: list[int | None], cores: int) -> None:
    segments = [segment(number, size) for number, size in enumerate(sizes)]
    packs = packs_of(segments, cores)
    assert [one for pack in packs for one in pack] == segments
    assert all(packs)
    for pack in packs:
        assert len(pack) == 1 or sum(one.size or 0 for one in pack) <= 128 << 20
    assert len(packs) <= 2 * max(cores, -(-sum(size or 0 for size in sizes) // (64 << 20)), len(sizes) // 64)


# -- reads -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> gl.TimeSeriesTable:
    table = gl.create(tmp_path_factory.mktemp("wide") / "wide", index="n", index_type="int64", bucket=1)
    table.append({"n": [1, 2, 3], **COLUMNS})
    return table


def test_shown_types_are_those_of_spark(spark: Any) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    given = pa.schema([(name, column.type) for name, column in COLUMNS.items()])
    theirs = spark.createDataFrame([], ddl((field.name, spark_type(field.type, field.name)) for field in given)).schema
    assert shown_schema(given) == to_arrow_schema(theirs)


def test_every_type_goes_both_ways(spark: Any, wide: gl.TimeSeriesTable, tmp_path: Path) -> None:
    frame = load(spark, wide.url)
    assert frame.schema == gl.spark.read(spark, wide).schema
    found = frame.toArrow()
    assert found.column("n").to_pylist() == [1, 2, 3], "one segment comes in its order"
    # A table made from Spark's types, and one that declares them as they were.
    save(frame, tmp_path / "new", index="n", bucket="1")
    declared = gl.create(tmp_path / "same", index="n", index_type="int64", bucket=1, schema=wide.schema)
    save(frame.drop("nothing"), declared.url)
    written = [gl.open(tmp_path / name).scan().to_arrow() for name in ("new", "same")]
    assert written[1].schema == wide.schema
    for name, column in COLUMNS.items():
        expected = counts(opened(column))
        for rows in (found, *written):
            assert counts(rows.column(name).cast(opened(column).type)) == expected, name
    assert load(spark, tmp_path / "new").schema == frame.schema
    assert all(field.nullable for field in written[0].schema if field.name != "n")


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> gl.TimeSeriesTable:
    """Versions 2 to 4: hours of a, of b, then more of a."""
    table = air(tmp_path_factory.mktemp("sites") / "a b%20ü")
    table.append(hours(0, 10))
    table.append(hours(0, 10, "b"))
    table.append(hours(10, 10))
    return table


def test_options_say_what_is_read(spark: Any, sites: gl.TimeSeriesTable) -> None:
    begin, end = START + timedelta(hours=3), START + timedelta(hours=12)
    options = {"start": begin.isoformat(), "end": end.isoformat(), "entity": "site=a", "columns": "v,ts"}
    part = load(spark, sites.url, **options)
    assert part.columns == ["v", "ts"]
    assert rows_of(part) == scanned(sites, start=begin, end=end, entity={"site": "a"}, columns=["v", "ts"])
    assert rows_of(load(spark, sites.url, entity='{"site": ["b"]}', version=3)) == scanned(sites.at(3), entity={"site": "b"})
    moment = sites.history()[1].time
    assert moment is not None
    assert load(spark, sites.url, timestamp=moment.isoformat()).count() == 10
    assert load(spark, Path(sites.url).as_uri()).count() == 30
    assert load(spark, sites.url, start=(START + timedelta(days=9)).isoformat()).toArrow().num_rows == 0


def test_sql_reads_it(spark: Any, sites: gl.TimeSeriesTable) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW sites USING gapless OPTIONS (path '{sites.url}', entity 'site=b')")
    found = spark.sql("SELECT count(*) AS n, sum(v) AS v FROM sites WHERE v >= 3").collect()[0]
    assert (found.n, found.v) == (7, sum(range(3, 10)))


def test_counts_and_self_joins_of_one_frame_are_right(spark: Any, sites: gl.TimeSeriesTable) -> None:
    frame = load(spark, sites.url)
    assert (frame.where("v > 15").count(), frame.count(), frame.where("site = 'b'").count()) == (4, 30, 10)
    low, high = frame.where("site = 'b'").alias("low"), frame.where("site = 'a'").alias("high")
    assert low.join(high, "ts").selectExpr("sum(low.v * high.v) as s").collect()[0].s == sum(n * n for n in range(10))


def test_a_frame_keeps_its_version(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 5))
    frame = load(spark, table.url)
    table.append(hours(5, 5))
    table.add_column("note", pa.string())
    assert (frame.count(), frame.columns) == (5, ["ts", "site", "v"])
    assert (frame.count(), load(spark, table.url).count()) == (5, 10)


def test_columns_that_changed_come_as_they_are_now(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 5).append_column("gone", pa.array(["x"] * 5)).append_column("small", pa.array([1] * 5, pa.int32())))
    table.rename_column("v", "value")
    table.drop_column("gone")
    table.widen_column("small", pa.int64())
    table.add_column("rate", pa.float64(), default=0.5)
    table.append({**hours(5, 3).rename_columns(["ts", "site", "value"]).to_pydict(), "small": [2**40] * 3, "rate": [None] * 3})
    frame = load(spark, table.url)
    assert rows_of(frame) == scanned(table)
    assert {row["rate"] for row in rows_of(frame)} == {0.5, None}


def test_many_small_files_are_read_by_few_tasks(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t", auto_compact_segments=0)
    for first in range(0, 500, 2):
        table.append(hours(first, 2))
    assert len(table.segments()) == 250
    frame = load(spark, table.url)
    assert frame.rdd.getNumPartitions() <= 4 * (os.cpu_count() or 1)
    found = frame.selectExpr("count(*) as n", "sum(v) as v", "max(ts) as ts").collect()[0]
    files = f"read_parquet('{table.url}/data/**/*.parquet')"
    assert (found.n, found.v) == duckdb.connect().execute(f"SELECT count(*), sum(v) FROM {files}").fetchone()


def test_large_row_groups_come_in_parts(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1000)
    table.append({"n": range(200_000)})
    found = load(spark, table.url).selectExpr("count(*) as n", "sum(n) as s").collect()[0]
    assert (found.n, found.s) == (200_000, sum(range(200_000)))


def test_a_table_without_columns_or_rows_has_none(spark: Any, tmp_path: Path) -> None:
    air(tmp_path / "t")
    assert load(spark, tmp_path / "t").collect() == []
    gl.create(tmp_path / "u", index="n", index_type="int64", bucket=1, schema=pa.schema([("n", pa.int64())]))
    assert load(spark, tmp_path / "u").count() == 0


def test_entity_texts_are_read_by_the_type_of_their_column(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1, entity=["day", "id"])
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    table.append({"n": [1, 2], "day": days, "id": pa.array([7, 8], pa.int32())})
    assert rows_of(load(spark, table.url, entity="id=8")) == scanned(table, entity={"id": 8})
    assert rows_of(load(spark, table.url, entity='{"day": "2026-01-01", "id": [7, 8]}')) == scanned(table, entity={"id": 7})


def test_a_schema_that_is_said_picks_columns_and_must_fit(spark: Any, sites: gl.TimeSeriesTable) -> None:
    reader = spark.read.format("gapless")
    assert reader.schema("v bigint, site string").load(sites.url).agg({"v": "sum"}).collect()[0][0] == 190 + 45
    for schema, message in (("v int", "v: bigint in version 4"), ("w int", "there is no column 'w'")):
        with pytest.raises(Exception, match=message):
            reader.schema(schema).load(sites.url).count()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"colums": "v"}, "invalid-option", "Did you mean 'columns'"),
        ({"columns": "w"}, "unknown-column", "there is no column 'w'"),
        ({"columns": ""}, "invalid-option", "names no column"),
        ({"version": "99"}, "version-not-found", "99"),
        ({"start": "soon"}, "invalid-time", "start='soon' cannot be read"),
        ({"entity": "v=1"}, "unknown-column", "names no entity column"),
        ({"path": "/nowhere/at all"}, "table-not-found", "there is no table at /nowhere/at all"),
        ({"path": "memory://source"}, "table-not-found", "there is no table at memory://source"),
    ],
)
def test_errors_keep_their_code_and_message(
    spark: Any, sites: gl.TimeSeriesTable, options: dict[str, str], code: str, message: str
) -> None:
    with pytest.raises(Exception) as raised:
        spark.read.format("gapless").options(**{"path": sites.url, **options}).load()
    assert f"[{code}]" in str(raised.value)
    assert message in str(raised.value)


def test_a_type_that_spark_cannot_hold_can_be_left_out(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append({"ts": pa.array([1, 2], pa.timestamp("ns", "UTC")), "v": [1, 2]})
    with pytest.raises(Exception, match=r"column 'ts' has type timestamp\[ns"):
        load(spark, table.url)
    rest = load(spark, table.url, columns="v", start="1970-01-01T00:00:00.000000002Z")
    assert rows_of(rest) == [{"v": 2}]


def test_what_tasks_get_is_small(sites: gl.TimeSeriesTable) -> None:
    from gapless.spark.source import Reader, scan_of

    reader = Reader(scan_of(parse_options({"path": sites.url}, "read")))
    copy = pickle.loads(pickle.dumps(reader))
    with pytest.raises(AttributeError):
        copy.partitions()
    rows = [row for part in reader.partitions() for batch in copy.read(part) for row in batch.to_pylist()]
    assert sorted(rows, key=repr) == scanned(sites)


# -- writes ------------------------------------------------------------------------------------------------------------


def test_appends_and_overwrites(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    save(spark.createDataFrame(hours(0, 10)), table.url)
    save(spark.createDataFrame(hours(10, 5)), table.url)
    assert scanned(table.refresh()) == sorted(hours(0, 15).to_pylist(), key=repr)
    assert table.version == 3
    save(spark.createDataFrame(hours(3, 4, "b")), table.url, "overwrite")
    assert scanned(table.refresh()) == sorted(hours(3, 4, "b").to_pylist(), key=repr)
    assert table.version == 4
    assert scanned(table.at(3)) == sorted(hours(0, 15).to_pylist(), key=repr)
    # The same buckets once more, which an append would be refused.
    save(spark.createDataFrame(hours(3, 4, "b")), table.url, "overwrite")
    assert len(scanned(table.refresh())) == 4
    assert table.verify(deep=True).findings == ()


def test_options_of_a_write(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    save(spark.createDataFrame(hours(0, 4)), table.url, operationId="day 1")
    save(spark.createDataFrame(hours(9, 4)), table.url, operationId="day 1")
    save(spark.createDataFrame(hours(2, 4)), table.url, onOverlap="skip", operationId='["app", 3]')
    save(spark.createDataFrame(hours(7, 4)), table.url, operationId='["app", 3]')
    save(spark.createDataFrame(hours(7, 4)), table.url, "overwrite", operationId='["app", 2]')
    assert scanned(table.refresh()) == sorted(hours(0, 6).to_pylist(), key=repr)
    with pytest.raises(Exception, match=r"already covers [\s\S]*\[coverage-overlap\]"):
        save(spark.createDataFrame(hours(5, 4)), table.url)
    with pytest.raises(Exception, match=r"nothing to overlap with[\s\S]*\[invalid-option\]"):
        save(spark.createDataFrame(hours(5, 4)), table.url, "overwrite", onOverlap="skip")
    assert table.refresh().version == 3


def test_a_missing_table_is_made_where_options_say_how(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(hours(0, 4))
    with pytest.raises(Exception, match=r"there is no table [\s\S]*index and bucket[\s\S]*\[table-not-found\]"):
        save(frame, tmp_path / "t")
    assert not (tmp_path / "t").exists()
    save(frame, tmp_path / "t", index="ts", bucket="1h", entity="site")
    table = gl.open(tmp_path / "t")
    assert (table.index.column, table.entity, len(table.coverage().buckets())) == ("ts", ("site",), 4)
    save(spark.range(5), tmp_path / "n", "overwrite", index="id", bucket="10")
    assert scanned(gl.open(tmp_path / "n")) == [{"id": n} for n in range(5)]


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_other_modes_are_refused_by_spark(spark: Any, sites: gl.TimeSeriesTable, mode: str) -> None:
    with pytest.raises(Exception, match='Please use either the "Append" or "Overwrite" mode'):
        save(spark.createDataFrame(hours(40, 1)), sites.url, mode)


def test_partitions_that_share_a_bucket_are_one_commit(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=100)
    save(spark.range(0, 100, 1, 4).selectExpr("id as n"), table.url)
    table.refresh()
    assert (table.version, len(table.coverage().buckets())) == (2, 1)
    assert [row["n"] for row in scanned(table, order="index")] == sorted(range(100), key=lambda n: repr({"n": n}))


def test_a_frame_without_rows_or_partitions_adds_nothing(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 2))
    empty = spark.createDataFrame(hours(0, 2)).where("v > 9")
    save(empty, table.url)
    save(empty.coalesce(1).limit(0), table.url)
    assert len(scanned(table.refresh())) == 2
    save(empty, table.url, "overwrite")
    assert scanned(table.refresh()) == []


def test_wrong_rows_leave_the_table_as_it_was(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    frame = spark.createDataFrame(hours(0, 50))
    for wrong, code in (
        (frame.selectExpr("if(v = 30, null, ts) as ts", "site", "v"), "null-key"),
        (frame.withColumnRenamed("site", "place"), "schema-mismatch"),
    ):
        with pytest.raises(Exception, match=rf"\[{code}\]"):
            save(wrong, table.url)
    assert table.refresh().version == 1


def lost_source() -> Any:
    """The source with writers whose first attempts write, and are lost before they can say so."""
    from gapless.spark.source import GaplessSource, Writer

    class LostOnce(Writer):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
            from pyspark import TaskContext

            found = Writer.write(self, iterator)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                raise OSError("lost after it wrote")
            return found

    class LostSource(GaplessSource):
        @classmethod
        def name(cls) -> str:
            return "gapless_lost"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made = GaplessSource.writer(self, schema, overwrite)
            made.__class__ = LostOnce
            return made

    return LostSource


def test_a_task_that_is_tried_again_leaves_each_row_once(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10)
    spark.dataSource.register(lost_source())
    spark.range(0, 100, 1, 2).selectExpr("id as n").write.format("gapless_lost").mode("append").save(table.url)
    assert sorted(row["n"] for row in scanned(table.refresh())) == list(range(100))
    live = {one.path.rpartition("/")[2] for one in table.segments()}
    files = {path.name for path in (Path(table.url) / "data").rglob("*.parquet")}
    assert live < files, "the lost attempts left no orphans, so none was lost"
    assert {entry.reason for entry in table.vacuum(dry_run=True).entries if not entry.path.endswith(tuple(live))} == {
        "in-flight"
    }


def test_eo_10_a_write_that_fails_commits_nothing_and_its_retry_all(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=10)

    def fail_late(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 99 in batch.column(0).to_pylist():
                raise OSError("no more rows")

    frame = spark.range(0, 100, 1, 4).selectExpr("id as n")
    with pytest.raises(Exception, match="no more rows"):
        save(frame.mapInArrow(fail_late, "n bigint"), table.url, operationId='["job", 7]')
    assert table.refresh().version == 1
    save(spark.range(0, 100, 1, 3).selectExpr("id as n"), table.url, operationId='["job", 7]')
    assert sorted(row["n"] for row in scanned(table.refresh())) == list(range(100))
    assert table.version == 2


def test_columns_of_a_table_that_a_write_makes_may_be_null(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id as n", "'x' as s", "array(1) as l", "time'01:02:03.000004' as t")
    assert not frame.schema["s"].nullable
    save(frame, tmp_path / "t", index="n", bucket="1")
    save(spark.sql("SELECT 9L AS n, CAST(NULL AS string) AS s, array(NULL, 1) AS l, CAST(NULL AS time) AS t"), tmp_path / "t")
    table = gl.open(tmp_path / "t")
    assert table.schema is not None
    assert table.schema.field("t").type == pa.time64("us")
    assert scanned(table)[-1] == {"n": 9, "s": None, "l": [None, 1], "t": None}
    assert rows_of(load(spark, tmp_path / "t")) == scanned(table)


def test_sql_writes_and_reads_a_table_of_the_catalog_where_it_is_told_the_path(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 3))
    spark.sql(f"CREATE TABLE aired USING gapless OPTIONS (path '{table.url}')")
    try:
        assert spark.sql(f"SELECT sum(v) FROM aired WITH (path='{table.url}', entity='site=a')").collect()[0][0] == 3
        later = f"SELECT ts + INTERVAL 9 HOURS AS ts, site, v FROM aired WITH (path='{table.url}')"
        spark.sql(f"INSERT INTO aired WITH (path='{table.url}') {later}")
        with pytest.raises(Exception, match=r"needs to be told where the table is[\s\S]*SELECT … FROM t WITH"):
            spark.sql("SELECT * FROM aired").collect()
    finally:
        spark.sql("DROP TABLE aired")
        with contextlib.suppress(OSError):  # Spark makes this folder for any table of its catalog
            Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")).rmdir()
    assert len(scanned(table.refresh())) == 6


def test_a_mode_must_be_said(spark: Any, tmp_path: Path) -> None:
    table = air(tmp_path / "t")
    with pytest.raises(Exception, match=r"(?i)errorifexists|save mode|mode"):
        spark.createDataFrame(hours(0, 2)).write.format("gapless").save(table.url)
    assert table.refresh().version == 1


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE made USING gapless OPTIONS (path '{url}') AS SELECT 1 AS v",
        "DELETE FROM told WHERE v = 1",
        "UPDATE told SET v = 2",
        "MERGE INTO told t USING (SELECT 1 AS v) s ON t.v = s.v WHEN MATCHED THEN DELETE",
        "SELECT * FROM told VERSION AS OF 1",
        "SELECT * FROM told TIMESTAMP AS OF '2026-01-05'",
        "SELECT * FROM told",
    ],
)
def test_sql_that_the_page_says_does_not_work_is_refused(spark: Any, tmp_path: Path, sql: str) -> None:
    table = air(tmp_path / "t")
    table.append(hours(0, 2))
    spark.sql("DROP TABLE IF EXISTS told")
    spark.sql(f"CREATE TABLE told USING gapless OPTIONS (path '{table.url}')")
    try:
        with pytest.raises(Exception, match=r"(?i)unsupported|not support|needs to be told|cannot"):
            spark.sql(sql.format(url=table.url)).collect()
        assert table.refresh().version == 2
    finally:
        spark.sql("DROP TABLE told")
        spark.sql("DROP TABLE IF EXISTS made")
