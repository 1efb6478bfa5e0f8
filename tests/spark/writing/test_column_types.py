"""Columns of Spark's own types: each keeps its type and values in a table, or is refused by name, in every way of writing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidValue, UnsupportedType

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

TS = "timestamp'2026-01-05' as ts"
HOUR = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
REFUSED = {
    "variant": ("parse_json('{}')", "variant", "to_json(`x`)"),
    "variant in a list": ("array(parse_json('1'))", "variant", "to_json"),
    "variant in a struct": ("named_struct('v', parse_json('1'))", "variant", "to_json"),
    "variant in a map": ("map('k', parse_json('1'))", "variant", "to_json"),
    "geometry": ("st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')", "geometry", "st_asbinary(`x`)"),
    "geography": ("st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')", "geography", "st_asbinary(`x`)"),
    "geometry in a list": ("array(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040'))", "geometry", "st_asbinary"),
    "collated text": ("'a' collate UNICODE_CI", "collate", "CAST(`x` AS STRING)"),
    "collated text in a list": ("array('a' collate UTF8_LCASE)", "collate", "CAST(`x` AS STRING)"),
    "collated text as a key": ("map('a' collate UNICODE_CI, 1)", "collate", "CAST(`x` AS STRING)"),
    "interval of months": (
        "interval '1-2' year to month",
        "interval year to month",
        "CAST(CAST(`x` AS INTERVAL MONTH) AS INT)",
    ),
    "interval of years in a struct": ("named_struct('i', interval '1' year)", "interval year", "INTERVAL MONTH"),
    "calendar interval": ("make_interval(1, 2, 3)", "interval", "extract(DAY FROM `x`)"),
    "array()": ("array()", "void", "CAST(`x` AS ARRAY<INT>)"),
    "map()": ("map()", "void", "CAST(`x` AS"),
    "array() in a list": ("array(named_struct('a', array()))", "void", "CAST(`x` AS"),
}
"""SQL, the type that is named, and the remedy."""


@pytest.fixture(scope="module", autouse=True)
def _geospatial(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.geospatial.enabled", "false")
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    yield
    spark.conf.set("spark.sql.geospatial.enabled", before)


def air(path: Path, schema: pa.Schema | None = None) -> gl.TimeSeriesTable:
    return gl.create(path, index="ts", bucket="1h", schema=schema)


CALLS: dict[str, Callable[[Any, gl.TimeSeriesTable], object]] = {
    "write": gl.spark.write,
    "overwrite": gl.spark.overwrite,
    "upsert": gl.spark.upsert,
    "replace": lambda frame, table: gl.spark.replace(frame, table, (None, None)),
    "foreachBatch": lambda frame, table: gl.spark.batch_writer(table, app_id="one").write(frame, 0),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_that_no_table_keeps_is_refused_by_name_in_every_call(spark: Any, tmp_path: Path, kind: str) -> None:
    sql, type_, remedy = REFUSED[kind]
    frame, table = spark.sql(f"select {TS}, {sql} as x"), air(tmp_path / "t")
    for way, call in CALLS.items():
        with pytest.raises(UnsupportedType, match="no table keeps") as caught:
            call(frame, table)
        assert caught.value.column.split(".")[0] == "x", way
        assert type_ in caught.value.type.lower()
        assert remedy in str(caught.value)
    table.refresh()
    assert (table.version, list((tmp_path / "t" / "data").glob("*"))) == (1, [])


@pytest.mark.parametrize("kind", ["variant in a map", "geography", "collated text", "interval of months", "array()"])
def test_it_is_refused_by_name_in_a_write_of_the_format(spark: Any, tmp_path: Path, kind: str) -> None:
    sql, type_, _ = REFUSED[kind]
    writer = spark.sql(f"select {TS}, {sql} as x").write.format("gapless").mode("append")
    with pytest.raises(Exception, match=r"\[unsupported-type\]") as caught:
        writer.option("index", "ts").option("bucket", "1h").save(str(tmp_path / "t"))
    assert "column 'x" in str(caught.value)
    assert type_ in str(caught.value).lower()
    assert not (tmp_path / "t").exists()


def test_a_stream_of_such_a_type_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"select {TS}").write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("ts timestamp").parquet(str(tmp_path / "in")).selectExpr("ts", "parse_json('1') as x")
    sink = rows.writeStream.format("gapless").option("index", "ts").option("bucket", "1h").trigger(availableNow=True)
    with pytest.raises(Exception, match="column 'x' of the DataFrame has type variant"):
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "t")).awaitTermination()


def test_types_of_users_are_refused_by_name(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(HOUR, Vectors.dense([1.0, 2.0]))], ["ts", "x"])
    with pytest.raises(UnsupportedType, match=r"'x' of the DataFrame has type vector.*vector_to_array\(`x`\)"):
        gl.spark.write(frame, air(tmp_path / "t"))


REMEDIES = {
    "to_json(parse_json('{\"a\":1}'))": '{"a":1}',
    "cast('a' collate UNICODE_CI as string)": "a",
    "cast(array('a' collate UNICODE_CI) as array<string>)": ["a"],
    "cast(cast(interval '1-2' year to month as interval month) as int)": 14,
    "cast(make_interval(1) as string)": "1 years",
    "extract(day from make_interval(0, 0, 0, 3))": 3,
    "cast(array() as array<int>)": [],
    "cast(map() as map<string, int>)": [],
    "st_asbinary(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040'))": bytes.fromhex(
        "0101000000000000000000F03F0000000000000040"
    ),
}
KEPT = {
    "time'12:00:01.5'": dt.time(12, 0, 1, 500_000),
    "cast('12:00:00' as time(0))": dt.time(12),
    "interval '1 02' day to hour": dt.timedelta(days=1, hours=2),
    "timestamp_ntz'2026-01-05'": dt.datetime(2026, 1, 5),
    "1.50bd": Decimal("1.50"),
    "X'00'": b"\x00",
    "named_struct('a', array(1S, null))": {"a": [1, None]},
    "cast(null as void)": None,
}


def test_what_the_messages_advise_is_taken_and_other_types_keep_their_values(spark: Any, tmp_path: Path) -> None:
    wanted = {**REMEDIES, **KEPT}
    columns = ", ".join(f"{sql} as c{place}" for place, sql in enumerate(wanted))
    table = air(tmp_path / "t")
    assert gl.spark.write(spark.sql(f"select {TS}, {columns}"), table).rows == 1
    row = table.scan().to_arrow().to_pylist()[0]
    assert [row[f"c{place}"] for place in range(len(wanted))] == list(wanted.values())
    assert table.schema is not None
    types = [table.schema.field(f"c{len(REMEDIES) + place}").type for place in range(4)]
    assert types == [pa.time64("us"), pa.time64("us"), pa.duration("us"), pa.timestamp("us")]


NESTED = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("fixed", pa.list_(pa.float32(), 3)),
        ("fixed_texts", pa.list_(pa.string(), 2)),
        ("in_struct", pa.struct([("f", pa.list_(pa.float32(), 2)), ("s", pa.string())])),
        ("in_list", pa.list_(pa.list_(pa.int64(), 2))),
        ("in_map", pa.map_(pa.string(), pa.list_(pa.uint8(), 2))),
        ("structs", pa.list_(pa.struct([("a", pa.uint16()), ("b", pa.binary(2))]))),
        ("large", pa.large_list(pa.float64())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("small", pa.list_(pa.uint64())),
    ]
)
VALUES: dict[str, Any] = {
    "fixed": [1.0, None, 3.0],
    "fixed_texts": ["a", None],
    "in_struct": {"f": [1.0, 2.0], "s": None},
    "in_list": [[1, 2], None],
    "in_map": [("k", [1, 2]), ("n", None)],
    "structs": [{"a": 1, "b": b"xy"}, None],
    "large": [1.0],
    "map": [("k", None)],
    "small": [2**64 - 1],
}
EMPTY: dict[str, Any] = {"in_list": [], "in_map": [], "structs": [], "large": [], "map": [], "small": []}


@pytest.mark.parametrize("rows", [[{}], [EMPTY], [VALUES], [{}, VALUES, EMPTY, {}]], ids=["nulls", "empty", "values", "all"])
def test_nulls_and_empty_values_of_nested_types_go_through_spark_and_back(spark: Any, tmp_path: Path, rows: list[Any]) -> None:
    """Arrow's cast of a list without any child to a fixed-size list ended the executor's process."""
    blank = dict.fromkeys(NESTED.names)
    expected = [{**blank, **row, "ts": HOUR + dt.timedelta(hours=n)} for n, row in enumerate(rows)]
    source, table = air(tmp_path / "source", NESTED), air(tmp_path / "t", NESTED)
    source.append(pa.Table.from_pylist(expected, NESTED))
    frame = gl.spark.read(spark, source)
    gl.spark.write(frame, table)
    assert table.scan().to_arrow().to_pylist() == expected
    gl.spark.upsert(frame, table)
    assert table.scan().to_arrow().to_pylist() == expected
    frame.write.format("gapless").mode("overwrite").save(table.url)
    table.refresh()
    assert table.scan().to_arrow().to_pylist() == expected
    by_format = spark.read.format("gapless").load(table.url).orderBy("ts").toArrow().to_pylist()
    assert by_format == gl.spark.read(spark, table).orderBy("ts").toArrow().to_pylist()


def test_a_list_of_the_wrong_size_is_named_with_its_row(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.list_(pa.float32(), 3))])
    table = air(tmp_path / "t", schema)
    frame = spark.sql(f"select {TS}, x from values (array(1f, 2f, 3f)), (null), (array(1f, 2f)) as t(x)").coalesce(1)
    with pytest.raises(InvalidValue, match="2 values, not 3") as caught:
        gl.spark.write(frame, table)
    assert (caught.value.column, caught.value.row, caught.value.value) == ("x", 2, [1.0, 2.0])
