"""A write of Spark into a Delta table is an append or overwrite of its own: the same rows, checks and refusals, one commit."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import (
    InvalidOption,
    InvalidValue,
    NotSupported,
    OperationReused,
    SchemaMismatch,
    UnsupportedTable,
    UnsupportedType,
)
from gapless.spark import overwrite, read, write
from gapless.spark.writing.delta_encode import DeltaEncoding, DeltaOutcome
from gapless.spark.writing.staging import append_outcomes, begin
from gapless.spark.writing.target import Delivery
from spark.kinds import Delta

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

SCHEMA = pa.schema([("p", pa.string()), ("n", pa.int64()), ("s", pa.struct([("x", pa.int32())]))])
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture(scope="module", autouse=True)
def _shipped(spark: Any) -> None:
    """Workers cannot import this module: what it defines goes to them by value."""
    import_module("pyspark.cloudpickle").register_pickle_by_value(sys.modules[__name__])


def numbers(spark: Any, count: int, tasks: int = 3) -> Any:
    return spark.range(0, count, 1, tasks).selectExpr(
        "concat('p', id % 3) as p", "id as n", "named_struct('x', cast(id as int)) as s"
    )


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.refresh().scan().to_arrow().to_pylist(), key=repr)


def stored(table: Any) -> set[str]:
    return {
        path.relative_to(table.url).as_posix() for path in Path(table.url).rglob("*.parquet") if "_delta_log" not in str(path)
    }


def live(table: Any) -> set[str]:
    return Delta().live(table.refresh())


def test_rows_files_and_statistics_are_those_of_an_append(spark: Any, tmp_path: Path) -> None:
    one, other = (gl.delta.create(tmp_path / name, SCHEMA, partition_by="p", properties=MAPPED) for name in ("one", "other"))
    frame = numbers(spark, 3000)
    expected = one.append(frame.toArrow())
    report = write(frame, other)
    assert (report.rows, report.version) == (expected.rows, expected.version)
    assert rows_of(other) == rows_of(one)
    assert stored(other) == live(other)
    assert report.segments == len(live(other)) == 9, "a file for each partition that each task had rows of"
    assert other.verify(deep=True).ok
    for file in other.files():
        part = file.partition_values["p"]
        held = other.scan(where=f"p = '{part}' AND n BETWEEN {file.stats['n'].min!r} AND {file.stats['n'].max!r}").to_arrow()
        assert file.rows == held.num_rows
    spread = gl.delta.create(tmp_path / "spread", SCHEMA, partition_by="p")
    assert write(frame, spread, spread=True).segments == 3
    with pytest.raises(InvalidOption, match="without partition columns"):
        write(frame, gl.delta.create(tmp_path / "flat", SCHEMA), spread=True)


def test_rules_of_the_table_hold_and_what_is_refused_leaves_nothing(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(
        tmp_path / "t",
        pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("v", pa.int64())]),
        properties={"delta.constraints.small": "n < 100", "delta.enableChangeDataFeed": True},
    )
    assert write(spark.range(100).toDF("n"), table).rows == 100
    assert rows_of(table)[0] == {"n": 0, "v": None}
    for frame, error, message in (
        (spark.range(0, 101, 1, 4).toDF("n"), InvalidValue, "n=100"),
        (spark.sql("select cast(null as bigint) n"), InvalidValue, "null"),
        (spark.sql("select 'a' n"), SchemaMismatch, "n: int64 in the table"),
        (spark.sql("select 1L n, 2L w"), SchemaMismatch, "w: not in the table"),
        (spark.sql("select 1L n, time'12:00' w"), UnsupportedType, "w"),
        (spark.sql("select 1L n, parse_json('1') v"), UnsupportedType, "variant"),
    ):
        with pytest.raises(error, match=message):
            write(frame, table, schema_mode="merge" if "time" in str(frame.schema).lower() else "strict")
    assert (table.refresh().version, len(rows_of(table))) == (1, 100)
    assert stored(table) == live(table)


def test_generated_and_char_columns_are_filled_and_held_to_their_lengths(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(
        tmp_path / "t",
        pa.schema(
            [
                pa.field("n", pa.int64()),
                pa.field("double", pa.int64(), metadata={"delta.generationExpression": "n * 2"}),
                pa.field("code", pa.string(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
            ]
        ),
    )
    fields = {one.name: one.metadata for one in table.at(0)._state.metadata.schema.fields}  # what others read
    write(spark.sql("select 4L n, 'abc' code"), table)
    if "delta.generationExpression" in fields["double"]:
        assert rows_of(table) == [{"code": "abc", "double": 8, "n": 4}]
        with pytest.raises(InvalidValue):
            write(spark.sql("select 4L n, 9L double"), table)
    if "__CHAR_VARCHAR_TYPE_STRING" in fields["code"]:
        with pytest.raises(InvalidValue, match="abcd"):
            write(spark.sql("select 4L n, 'abcd' code"), table)
    assert stored(table) == live(table)


def test_new_columns_come_with_the_rows_where_that_is_said(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, properties=MAPPED)
    write(numbers(spark, 10), table)
    wider = numbers(spark, 5).selectExpr("*", "cast(n as double) as w")
    before = stored(table)
    with pytest.raises(SchemaMismatch):
        write(wider, table)
    report = write(wider, table, schema_mode="merge")
    assert (report.rows, report.version) == (5, 2)
    assert table.refresh().schema.names == ["p", "n", "s", "w"]
    assert stored(table) == live(table), "what executors wrote was committed, and not written again"
    assert len(stored(table) - before) == 3
    assert sum(row["w"] is not None for row in rows_of(table)) == 5
    empty = gl.delta.create(tmp_path / "empty")
    assert write(numbers(spark, 4), empty).rows == 4
    assert empty.refresh().schema.names == ["p", "n", "s"]
    overwrite(spark.sql("select 1 as only"), table, schema_mode="overwrite")
    assert (table.refresh().schema.names, rows_of(table)) == (["only"], [{"only": 1}])


def test_an_overwrite_takes_the_place_of_all_rows_or_of_a_part(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, partition_by="p", properties={"delta.enableChangeDataFeed": True})
    write(numbers(spark, 30), table)
    report = overwrite(numbers(spark, 9).where("p = 'p1'"), table, partitions="dynamic")
    assert (report.rows, report.removed_rows) == (3, 10)
    assert {row["n"] for row in rows_of(table) if row["p"] == "p1"} == {1, 4, 7}
    report = overwrite(numbers(spark, 30).where("n >= 20 and p = 'p0'"), table, where="p = 'p0' AND n >= 20")
    assert (report.rows, report.removed_rows) == (3, 3)
    with pytest.raises(InvalidValue, match="does not satisfy where"):
        overwrite(numbers(spark, 30), table, where="p = 'p0'")
    assert overwrite(numbers(spark, 2), table, operation_id="job").rows == 2
    again = overwrite(numbers(spark, 2), table, operation_id="job")
    assert (again.rows, again.already_applied, len(rows_of(table))) == (2, True, 2)
    with pytest.raises(OperationReused):
        write(numbers(spark, 1), table, operation_id="job")
    assert sum(row["_change_type"] == "delete" for row in table.changes(2, 2).to_arrow().to_pylist()) == 10
    with pytest.raises(InvalidOption, match="both say"):
        overwrite(numbers(spark, 1), table, where="n = 1", partitions="dynamic")


def test_an_operation_that_is_sent_twice_is_done_once(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    computed = spark.sparkContext.accumulator(0)

    def seen(batches: Any) -> Any:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    frame = numbers(spark, 10).mapInArrow(seen, "p string, n bigint, s struct<x:int>")
    first = write(frame, table, operation_id=("app", 1))
    again = write(frame, gl.delta.open(table.url), operation_id=("app", 1))
    assert (first.rows, again.rows, again.already_applied) == (10, 10, True)
    assert (computed.value, len(rows_of(table))) == (10, 10)
    assert gl.delta.open(table.url).append(frame.toArrow(), operation_id=("app", 1)).already_applied, "gl.delta knows it too"


def test_a_column_renamed_or_added_meanwhile_has_the_rows_values(tmp_path: Path) -> None:
    """Executors are played here: the driver reads their files back where the columns changed since."""
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64()), ("v", pa.int64())]), properties=MAPPED)
    given = pa.schema([("n", pa.int64()), ("v", pa.int64())])
    encoding: DeltaEncoding = begin(table, given)
    outcome: Any = encoding.outcome([pa.record_batch([pa.array([1]), pa.array([2])], schema=given)])
    assert isinstance(outcome, DeltaOutcome)
    gl.delta.open(table.url).alter.rename_column("v", "w")
    gl.delta.open(table.url).alter.add_column("v", pa.string())
    report = append_outcomes(gl.delta.open(table.url), Delivery(), encoding, [outcome])
    assert report.rows == 1
    assert rows_of(table) == [{"n": 1, "v": None, "w": 2}]
    assert stored(table) == live(table), "what was staged first is gone"


def test_a_task_that_is_tried_again_leaves_each_row_once(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64())]))
    marks = tmp_path / "marks"
    marks.mkdir()

    def dies_once(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        mark = marks / str(TaskContext.get().partitionId())  # type: ignore[union-attr]  # in a task there is one
        if not mark.exists():
            mark.touch()
            raise RuntimeError("the executor dies")

    frame = spark.range(0, 40, 1, 4).toDF("n").mapInArrow(dies_once, "n bigint")
    report = write(frame, table)
    assert (report.rows, report.segments) == (40, 4)
    assert [row["n"] for row in rows_of(table)] == sorted(range(40), key=lambda n: repr({"n": n}))
    assert len(list(marks.iterdir())) == 4
    assert stored(table) >= live(table)
    assert table.verify(deep=True).ok


def test_identity_columns_and_append_only_tables(spark: Any, tmp_path: Path) -> None:
    only = gl.delta.create(tmp_path / "t", pa.schema([("n", pa.int64())]), properties={"delta.appendOnly": True})
    write(spark.range(3).toDF("n"), only)
    with pytest.raises(NotSupported, match="append-only"):
        overwrite(spark.range(3).toDF("n"), only)
    assert stored(only) == live(only)
    log = tmp_path / "t" / "_delta_log" / "00000000000000000000.json"
    text = log.read_text()
    assert '\\"metadata\\":{}' in text
    log.write_text(
        text.replace('\\"metadata\\":{}', '\\"metadata\\":{\\"delta.identity.start\\":1,\\"delta.identity.step\\":1}')
    )
    with pytest.raises(UnsupportedTable, match="IDENTITY"):
        write(spark.range(3).toDF("n"), str(tmp_path / "t"))


def test_the_format_writes_delta_tables(spark: Any, tmp_path: Path) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA, partition_by="p")

    def save(frame: Any, mode: str, **options: str) -> None:
        frame.write.format("gapless").mode(mode).options(**options).save(table.url)

    save(numbers(spark, 6), "append", operationId="one")
    save(numbers(spark, 6), "append", operationId="one")
    assert len(rows_of(table)) == 6
    save(numbers(spark, 9).selectExpr("*", "1 as w"), "append", mergeSchema="true")
    save(numbers(spark, 3).where("p = 'p0'").selectExpr("*", "2 as w"), "overwrite", replaceWhere="p = 'p0'")
    assert sorted(row["n"] for row in rows_of(table) if row["p"] == "p0") == [0]
    save(spark.sql("select 'x' as p, 5L as n"), "overwrite", overwriteSchema="true")
    assert rows_of(table) == [{"n": 5, "p": "x"}]
    for mode, options in (
        ("append", {"onOverlap": "skip"}),
        ("append", {"replaceWhere": "n = 1"}),
        ("append", {"index": "n", "bucket": "1"}),
    ):
        with pytest.raises(Exception, match=r"\[invalid-option\]"):
            save(numbers(spark, 1), mode, **options)
    assert read(spark, table).count() == 1
