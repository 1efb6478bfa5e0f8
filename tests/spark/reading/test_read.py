"""What Spark reads is what was written, what DuckDB reads from the same files, and what our own scan gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, UnknownColumn, UnsupportedType, VersionNotFound
from gapless.spark import read

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

D = Decimal
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows_of(frame: Any, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    """A DataFrame's rows, in the types of `schema`, in no order that matters."""
    table = frame.toArrow()
    return sorted((table if schema is None else table.cast(schema)).to_pylist(), key=repr)


def scanned(table: Any, **request: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(**request).to_arrow().to_pylist(), key=repr)


def raw(unit: Callable[[int], pa.DataType], *counts: int | None) -> pa.Array:
    type_: Any = unit
    return pa.array(counts, pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)


COLUMNS = {
    "flag": pa.array([True, None, False]),
    "i8": pa.array([-(2**7), None, 2**7 - 1], pa.int8()),
    "i16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "i32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "u8": pa.array([0, None, 2**8 - 1], pa.uint8()),
    "u16": pa.array([0, None, 2**16 - 1], pa.uint16()),
    "u32": pa.array([0, None, 2**32 - 1], pa.uint32()),
    "u64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "f32": pa.array([1.5, None, float("-inf")], pa.float32()),
    "f64": pa.array([-0.0, None, 5e-324], pa.float64()),
    "text": pa.array(["", None, "ü\x00\n"]),
    "large": pa.array(["a", None, "b"], pa.large_string()),
    "code": pa.array(["x", None, "x"]).dictionary_encode(),
    "bytes": pa.array([b"", None, b"\xff\x00"]),
    "fixed": pa.array([b"abc", None, b"\x00\x00\x00"], pa.binary(3)),
    "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    "day64": pa.array([date(1582, 10, 14), None, date(1582, 10, 15)], pa.date64()),
    "clock_s": raw(pa.time32("s"), 0, None, 86_399),
    "clock_ms": raw(pa.time32("ms"), 1, None, 86_399_999),
    "clock_us": raw(pa.time64("us"), 1, None, 86_399_999_999),
    "span_s": raw(pa.duration("s"), -1, None, 9_000_000_000_000),
    "span_ms": raw(pa.duration("ms"), -1, None, 9_000_000_000_000_000),
    "span_us": raw(pa.duration("us"), -(2**63), None, 2**63 - 1),
    "utc_us": raw(pa.timestamp("us", "UTC"), -62_135_596_800_000_000, None, 253_402_300_799_999_999),
    "paris_ms": raw(pa.timestamp("ms", "Europe/Paris"), -1, None, 1),
    "naive_s": raw(pa.timestamp("s"), -1, None, 1),
    "naive_us": raw(pa.timestamp("us"), -62_135_596_800_000_000, None, 1_774_747_800_000_001),
    "price": pa.array([D("1.50"), None, D("-0.01")], pa.decimal128(9, 2)),
    "huge": pa.array([D("9" * 33 + ".99999"), None, D("-1")], pa.decimal128(38, 5)),
    "numbers": pa.array([[1, None], None, []], pa.list_(pa.int8())),
    "spans": pa.array([[1, None], None, []], pa.list_(pa.duration("s"))),
    "unsigned": pa.array([[2**64 - 1], None, []], pa.large_list(pa.uint64())),
    "pair": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2)),
    "map": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.uint32())),
    "point": pa.array([{"x": 1, "y": "b"}, None, {"x": None, "y": None}], pa.struct([("x", pa.uint16()), ("y", pa.string())])),
    "nested": pa.array(
        [[{"when": 1, "tags": ["t"]}], None, [None]],
        pa.list_(pa.struct([("when", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])),
    ),
    "nothing": pa.nulls(3),
    'a.`b` "c"': pa.array([1, None, 2]),
}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> gl.TimeSeriesTable:
    table = gl.create(tmp_path_factory.mktemp("wide") / "wide", index="n", index_type="int64", bucket=1)
    table.append({"n": [1, 2, 3], **COLUMNS})
    return table


@pytest.fixture(scope="module")
def wide_rows(spark: Any, wide: gl.TimeSeriesTable) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        return read(spark, wide).orderBy("n").toArrow()


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_comes_back_exactly(wide_rows: pa.Table, name: str) -> None:
    found = wide_rows.column(name)
    expected = pa.chunked_array([COLUMNS[name]])
    if pa.types.is_dictionary(expected.type):
        expected = expected.cast(pa.string())
    assert _counts(found.cast(expected.type)) == _counts(expected)


def _counts(column: pa.ChunkedArray) -> list[Any]:
    """Values with all their digits: Python's datetime does not hold every duration."""
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return [repr(value) for value in column.to_pylist()]


def test_the_types_spark_shows(spark: Any, wide: gl.TimeSeriesTable) -> None:
    types = {field.name: field.dataType.simpleString() for field in read(spark, wide).schema}
    assert list(types) == ["n", *COLUMNS]
    assert types["u64"] == "decimal(20,0)"
    assert (types["paris_ms"], types["naive_s"]) == ("timestamp", "timestamp_ntz")
    assert (types["clock_s"], types["span_s"]) == ("time(6)", "interval day to second")
    assert (types["point"], types["nothing"]) == ("struct<x:int,y:string>", "void")


@pytest.mark.parametrize(
    "column",
    [
        raw(pa.timestamp("ns"), 1),
        raw(pa.time64("ns"), 1),
        raw(pa.duration("ns"), 1),
        pa.array([1.5], pa.float16()),
        pa.array([D("1")], pa.decimal256(39, 0)),
        pa.array([[{"deep": 1.5}]], pa.list_(pa.struct([("deep", pa.float16())]))),
    ],
    ids=lambda column: str(column.type),
)
def test_a_type_that_spark_cannot_hold_is_refused_by_name(spark: Any, tmp_path: Path, column: pa.Array) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "odd": column})
    with pytest.raises(UnsupportedType, match=r"'odd(\.element\.deep)?' has type") as refused:
        read(spark, table)
    assert refused.value.column.startswith("odd")
    assert rows_of(read(spark, table, columns=["n"])) == [{"n": 1}]


def hours(count: int, site: str, value: int = 0) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([START + timedelta(hours=h) for h in range(count)], pa.timestamp("us", "UTC")),
            "site": [site] * count,
            "v": pa.array([value + h for h in range(count)], pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> gl.TimeSeriesTable:
    table = gl.create(tmp_path_factory.mktemp("air") / "air", index="ts", entity=["site"], bucket="1h")
    for number, site in enumerate(("north", "south", "it's")):
        table.append(hours(48, site, 100 * number))
    return table


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"start": "2026-01-01T05:00:00Z", "end": "2026-01-01T07:00:00.000001Z"},
        {"start": START + timedelta(hours=47, microseconds=1)},
        {"start": "2026-01-01T05:00:00.000000001Z", "end": "2026-01-01T07:00:00.000000001Z"},
        {"end": START},
        {"entity": {"site": "it's"}},
        {"entity": {"site": ["north", "south"]}, "end": date(2026, 1, 2), "columns": ["v"]},
        {"entity": {"site": []}},
        {"columns": ["v", "ts"]},
    ],
    ids=str,
)
def test_a_part_is_the_part_that_scan_gives(spark: Any, air: gl.TimeSeriesTable, request_: dict[str, Any]) -> None:
    found = read(spark, air, **request_)
    assert found.columns == air.scan(**request_).schema.names
    assert rows_of(found) == scanned(air, **request_)


def test_segments_without_a_wanted_row_are_not_opened(spark: Any, air: gl.TimeSeriesTable) -> None:
    assert len(read(spark, air).inputFiles()) == 3
    assert len(read(spark, air, entity={"site": "south"}).inputFiles()) == 1
    assert read(spark, air, start=START + timedelta(days=9)).inputFiles() == []


def test_no_columns_still_count_rows(spark: Any, air: gl.TimeSeriesTable) -> None:
    assert read(spark, air, columns=[]).count() == 144
    assert read(spark, air, columns=[], entity={"site": "north"}, start="2026-01-02T00:00Z").count() == 24


def test_duckdb_reads_the_same_from_the_files(spark: Any, air: gl.TimeSeriesTable) -> None:
    files = [str(Path(air.url) / segment.path) for segment in air.segments()]
    query = "select site, count(*), sum(v), max(epoch_us(ts)) from read_parquet($1) group by site order by site"
    read(spark, air).createOrReplaceTempView("air")
    answer = spark.sql("select site, count(*), sum(v), max(unix_micros(ts)) from air group by site order by site").collect()
    assert [tuple(row) for row in answer] == duckdb.execute(query, [files]).fetchall()


def test_self_joins_and_repeated_counts(spark: Any, air: gl.TimeSeriesTable) -> None:
    frame = read(spark, air)
    assert frame.where("v < 10").count() == 10
    assert frame.count() == 144
    assert frame.alias("a").join(frame.where("v < 10").alias("b"), ["ts", "site"]).count() == 10


def test_older_versions_by_number_and_time_and_path(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["site"], bucket="1h")
    table.append(hours(3, "a"))
    old = table.at(version=table.version)
    table.append(hours(4, "b"))
    assert read(spark, table, version=2).count() == 3
    assert read(spark, old).count() == 3
    assert read(spark, table, time=table.history()[1].time).count() == 3
    assert read(spark, str(tmp_path / "t")).count() == 7
    assert read(spark, tmp_path / "t", version=1).count() == 0
    with pytest.raises(VersionNotFound):
        read(spark, table, version=9)


def test_a_frame_keeps_its_version(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["site"], bucket="1h")
    table.append(hours(3, "a"))
    frame = read(spark, table)
    table.delete(where="v < 2")
    assert rows_of(frame.select("v")) == [{"v": 0}, {"v": 1}, {"v": 2}]
    assert rows_of(read(spark, table, columns=["v"])) == [{"v": 2}]


def test_zero_segments_have_the_tables_columns(spark: Any, tmp_path: Path) -> None:
    bare = gl.create(tmp_path / "bare", index="ts", bucket="1h")
    assert read(spark, bare).columns == []
    schema = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), False), ("u", pa.uint64())])
    empty = gl.create(tmp_path / "empty", index="ts", bucket="1h", schema=schema)
    frame = read(spark, empty, start="2026-01-01T00:00Z")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("ts", "timestamp"),
        ("u", "decimal(20,0)"),
    ]
    assert frame.collect() == []


@pytest.mark.parametrize("index_type", ["int64", "uint64"])
def test_integer_indexes_reach_to_their_ends(spark: Any, tmp_path: Path, index_type: Any) -> None:
    last = 2**63 - 1 if index_type == "int64" else 2**64 - 1
    table = gl.create(tmp_path / "t", index="n", index_type=index_type, bucket=10)
    table.append({"n": pa.array([0, 5, last], index_type)})
    assert [int(row.n) for row in read(spark, table, start=5, end=last + 1).orderBy("n").collect()] == [5, last]
    assert [int(row.n) for row in read(spark, table, start=5, end=last).collect()] == [5]


def test_naive_times_and_dates_as_entities(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["day", "ok"], bucket="1d")
    times = [datetime(2026, 3, 29, 2, 30, 0, 1), datetime(1899, 12, 31, 23, 59, 59, 999_999)]
    table.append({"ts": times, "day": [date(2026, 3, 29), date(1899, 12, 31)], "ok": [True, False]})
    spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")  # where the first of them does not exist
    try:
        assert rows_of(read(spark, table)) == scanned(table)
        part: dict[str, Any] = {"start": "2026-03-29T02:30:00.000001", "entity": {"day": date(2026, 3, 29), "ok": True}}
        assert [row.ts for row in read(spark, table, **part).collect()] == [times[0]]
        assert read(spark, table, end="1899-12-31T23:59:59.999999").count() == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# -- columns that changed ----------------------------------------------------------------------------------------------


def test_columns_that_were_added_renamed_dropped_widened_and_came_back(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    struct = pa.struct([("a", pa.int32()), ("b", pa.string())])
    first = {"u": pa.array([1, None], pa.uint32()), "f": pa.array([0.5, None], pa.float32()), "x": ["old", None]}
    table.append({"n": [1, 2], **first, "s": pa.array([{"a": 1, "b": "p"}, None], struct), "ts": raw(pa.timestamp("s"), 1, 2)})
    table.rename_column("x", "y")
    table.add_column("x", pa.string(), default="it's new")
    table.widen_column("u", "uint64")
    table.widen_column("f", "float64")
    table.widen_column("ts", pa.timestamp("us"))
    table.widen_column("s.a", "int64")
    table.rename_column("s.a", "b2")
    table.add_column("s.a", "float64", default=0.5)
    table.drop_column("s.b")
    second = {"u": pa.array([2**64 - 1], pa.uint64()), "f": [0.1], "y": ["why"], "x": pa.array([None], pa.string())}
    new = pa.array([{"b2": 2**40, "a": None}], pa.struct([("b2", pa.int64()), ("a", pa.float64())]))
    table.append({"n": [3], **second, "s": new, "ts": raw(pa.timestamp("us"), 3)})
    frame = read(spark, table)
    assert frame.columns == list(table.schema.names) if table.schema is not None else None
    assert rows_of(frame, table.schema) == scanned(table)
    assert rows_of(read(spark, table, version=2)) == rows_of(read(spark, table.at(version=2)))
    assert {row.n: (row.x, row.y) for row in frame.collect()} == {
        1: ("it's new", "old"),
        2: ("it's new", None),
        3: (None, "why"),
    }


DEFAULTS: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), -5),
    (pa.uint64(), 2**64 - 1),
    (pa.float32(), 0.1),
    (pa.float64(), float("nan")),
    (pa.bool_(), True),
    (pa.string(), "a'b"),
    (pa.binary(), b"\x00\xff"),
    (pa.date32(), date(1, 1, 1)),
    (pa.timestamp("us", "UTC"), datetime(1, 1, 1, tzinfo=UTC)),
    (pa.timestamp("us"), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    (pa.duration("s"), timedelta(days=-3)),
    (pa.time64("us"), datetime(1, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC).time()),
    (pa.decimal128(5, 2), D("-1.25")),
]


def test_defaults_of_every_type(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1]})
    for place, (type_, default) in enumerate(DEFAULTS):
        table.add_column(f"c{place}", type_, default=default)
    assert repr(rows_of(read(spark, table), table.schema)) == repr(scanned(table))
    assert repr(rows_of(read(spark, table, end=1), table.schema)) == "[]"


def test_lists_and_maps_of_changed_structs(spark: Any, tmp_path: Path) -> None:
    item = pa.struct([("a", pa.int16()), ("b", pa.string())])
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    lists = pa.array([[{"a": 1, "b": "x"}, None], None], pa.list_(item))
    maps = pa.array([[("k", {"a": 2, "b": None})], []], pa.map_(pa.string(), item))
    table.append({"n": [1, 2], "l": lists, "m": maps})
    for path in ("l.element", "m.value"):
        table.widen_column(f"{path}.a", "int64")
        table.rename_column(f"{path}.b", "c")
        table.add_column(f"{path}.b", "int32", default=7)
    assert rows_of(read(spark, table)) == scanned(table)


def test_a_new_column_does_not_need_footers(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1]})
    table.add_column("later", "int8")
    table.append({"n": [2], "later": pa.array([5], pa.int8())})
    monkeypatch.setattr("gapless.spark.reading.frame.open_segment", None)
    assert rows_of(read(spark, table)) == scanned(table)


# -- places and sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a [1]", "we ird{a,b}*?%20 é\\x=1]}", "year=2026", "_hidden", "**", "q'#;:,(x)^$|.+~"])
def test_any_path_is_read_as_it_is(spark: Any, tmp_path: Path, name: str) -> None:
    for folder in (name, "a 1", "a 11"):  # what a pattern could match too
        table = gl.create(tmp_path / folder, index="n", index_type="int64", bucket=1)
        for number in range(3):
            table.append({"n": [number]})
    assert rows_of(read(spark, tmp_path / name)) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_many_small_files_come_in_few_tasks_and_are_listed_without_a_job(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    for number in range(100):
        table.append({"n": [number]})
    context = spark.sparkContext
    context.setJobGroup("listing", "look at paths")
    frame = read(spark, table)
    assert list(context.statusTracker().getJobIdsForGroup("listing")) == []
    context.setJobGroup("reading", "read")
    assert sorted(row.n for row in frame.collect()) == list(range(100))
    assert frame.rdd.getNumPartitions() <= 10
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == "32"


def test_a_missing_file_is_an_error_whatever_the_session_says(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1]})
    table.append({"n": [2]})
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        frame = read(spark, table)
        path = Path(table.url) / table.segments()[0].path
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(Exception, match="parquet"):
            frame.collect()
        path.unlink()
        with pytest.raises(Exception, match=r"(?i)not exist|not found"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_names_that_differ_by_case_alone(spark: Any, tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1], "Price": [1.0], "price": [2.0]})
    with pytest.raises(InvalidOption, match="'Price', 'price' differ by case alone"):
        read(spark, table)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert rows_of(read(spark, table)) == [{"n": 1, "Price": 1.0, "price": 2.0}]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_table_in_memory_and_unknown_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    table = gl.create("memory://spark-read", index="n", index_type="int64", bucket=1)
    table.append({"n": [1]})
    with pytest.raises(NotSupported, match="memory://spark-read"):
        read(spark, table)
    table = gl.create(tmp_path / "t", index="n", index_type="int64", bucket=1)
    table.append({"n": [1]})
    with pytest.raises(UnknownColumn):
        read(spark, table, columns=["m"])


def test_without_the_jars_for_s3_the_error_says_how_to_get_them(spark: Any, s3_options: tuple[str, dict[str, str]]) -> None:
    url, options = s3_options
    table = gl.create(url, index="n", index_type="int64", bucket=1, storage_options=options)
    assert read(spark, table).collect() == []
    table.append({"n": [1]})
    with pytest.raises(NotSupported, match=r"session\(s3=True\)"):
        read(spark, table)
