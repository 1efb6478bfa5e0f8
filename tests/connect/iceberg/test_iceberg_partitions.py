"""Files of an Iceberg table are written by partition, with the values that pyiceberg itself computes, and found by readers that prune."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import InvalidOption
from support import iceberg_tables

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("naive", pa.timestamp("us")),
        ("day", pa.date32()),
        ("n", pa.int32()),
        ("text", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("raw", pa.binary()),
        ("yes", pa.bool_()),
        ("s", pa.struct([("x", pa.int64())])),
    ]
)
BY = [
    "day(ts)", "hour(ts)", "month(ts)", "year(ts)", "day(naive)", "months(day)", "DAYS(day)", "identity(day)", "ts",
    "bucket(7, k)", "bucket(7, ts)", "bucket(7, day)", "bucket(3, text)", "bucket(3, price)", "bucket(3, raw)",
    "truncate(10, k)", "truncate(2, text)", "truncate(50, price)", "truncate(2, raw)", "n", "text", "price", "raw", "yes", "s.x",
    "bucket(4, s.x)", "bucket(k, 7)",
]  # fmt: skip


def table_of(count: int, seed: int = 7) -> pa.Table:
    random = Random(seed)

    def some(make: Any) -> list[Any]:
        return [None if random.random() < 0.1 else make() for _ in range(count)]

    start = datetime(1969, 12, 25, tzinfo=UTC)
    return pa.table(
        {
            "k": range(-count // 2, count - count // 2),
            "ts": some(lambda: start + timedelta(microseconds=random.randrange(20 * 86_400_000_000))),
            "naive": some(lambda: (start + timedelta(hours=random.randrange(24 * 60))).replace(tzinfo=None)),
            "day": some(lambda: date(1969, 12, 1) + timedelta(days=random.randrange(60))),
            "n": some(lambda: random.randrange(-3, 3)),
            "text": some(
                lambda: random.choice(["", "a/b", "äöü", "a=b", "x" * 300, "%2F", "null", "__HIVE_DEFAULT_PARTITION__"])
            ),
            "price": some(lambda: Decimal(random.randrange(-500, 500)) / 100),
            "raw": some(lambda: random.choice([b"", b"\xff\x00", b"abc"])),
            "yes": some(lambda: random.random() < 0.5),
            "s": some(lambda: {"x": random.choice([None, 1, 2])}),
        },
        schema=SCHEMA,
    )


def value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = None if row is None else row[name]
    return row


def plain(value: Any) -> Any:
    """As the library's transforms take it."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


@pytest.mark.parametrize("by", BY)
def test_each_file_has_the_rows_of_one_partition(by: str, tmp_path: Path) -> None:
    sink = gl.connect.sink(f"iceberg:{tmp_path}/t", pipeline="orders", partition_by=by)
    sink.initialize(SCHEMA)
    given = table_of(120)
    sink.write(given)
    sink.finalize(sink.prepare(1))
    table = iceberg_tables.Handle(f"{tmp_path}/t", None).table
    (field,) = table.spec().fields
    path, type_ = str(table.schema().find_column_name(field.source_id)), table.schema().find_type(field.source_id)
    transform = field.transform.transform(type_)
    seen: list[Any] = []
    for task in table.scan().plan_files():
        told = task.file.partition[0]
        rows = pa.parquet.read_table(task.file.file_path.removeprefix("file://")).to_pylist()
        assert {repr(transform(plain(value_at(row, path)))) for row in rows} == {repr(told)}
        seen.append(repr(told))
    assert len(seen) == len(set(seen)) > 1
    found = table.scan().to_arrow().sort_by("k")
    assert found.to_pylist() == given.sort_by("k").to_pylist()


def test_readers_that_prune_find_their_rows(tmp_path: Path) -> None:
    sink = gl.connect.sink(f"iceberg:{tmp_path}/t", pipeline="orders", partition_by=["day(ts)", "bucket(4, k)", "text"])
    sink.initialize(SCHEMA)
    given = table_of(400)
    sink.write(given)
    sink.finalize(sink.prepare(1))
    table = iceberg_tables.Handle(f"{tmp_path}/t", None).table
    instant = datetime(1970, 1, 2, 3, tzinfo=UTC)
    for where, holds in (
        ("k = 17", lambda row: row["k"] == 17),
        (f"ts >= '{instant.isoformat()}'", lambda row: row["ts"] is not None and row["ts"] >= instant),
        ("ts is null", lambda row: row["ts"] is None),
        ("text = 'äöü'", lambda row: row["text"] == "äöü"),
    ):
        found = table.scan(row_filter=where)
        assert sorted(found.to_arrow()["k"].to_pylist()) == sorted(row["k"] for row in given.to_pylist() if holds(row))
        assert len(list(found.plan_files())) < len(list(table.scan().plan_files()))


def test_ups_05_a_key_that_moves_to_another_partition_is_there_once(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
    day = datetime(2026, 1, 5, tzinfo=UTC)
    place = f"{tmp_path}/t"
    sink = gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode="upsert", key="k", partition_by="day(ts)")
    sink.initialize(schema)
    sink.write(pa.table({"k": ["a", "b"], "ts": [day, day]}, schema=schema))
    sink.finalize(sink.prepare(1))
    sink.write(pa.table({"k": ["a"], "ts": [day + timedelta(days=1)]}, schema=schema))
    sink.finalize(sink.prepare(2))
    found = iceberg_tables.Handle(place, None).table.scan().to_arrow()
    assert sorted(zip(found["k"].to_pylist(), [ts.day for ts in found["ts"].to_pylist()], strict=True)) == [("a", 6), ("b", 5)]


def test_ups_06_and_07_nulls_stay_and_a_file_without_rows_goes(tmp_path: Path) -> None:
    schema, place = pa.schema([("x", pa.int64())]), f"{tmp_path}/t"
    first = gl.connect.sink(f"iceberg:{place}", pipeline="orders", create={})
    first.initialize(schema)
    for checkpoint, values in enumerate([[1, 2, None], [5]]):
        first.write(pa.table({"x": values}, schema=schema))
        first.finalize(first.prepare(checkpoint))
    delete = gl.connect.sink(f"iceberg:{place}", pipeline="gone", mode="delete", key="x")
    delete.initialize(schema)
    for checkpoint, (values, left, files) in enumerate(
        [([2], [1, 5, None], 2), ([5], [1, None], 1), ([None], [1], 1), ([1], [], 0)]
    ):
        delete.write(pa.table({"x": values}, schema=schema))
        delete.finalize(delete.prepare(checkpoint))
        table = iceberg_tables.Handle(place, None).table
        assert sorted(table.scan().to_arrow()["x"].to_pylist(), key=str) == left
        assert len(list(table.scan().plan_files())) == files


def test_stat_02_a_nan_takes_no_other_row_with_it(tmp_path: Path) -> None:
    schema, place = pa.schema([("x", pa.float64()), ("s", pa.string())]), f"{tmp_path}/t"
    sink = gl.connect.sink(f"iceberg:{place}", pipeline="orders", create={})
    sink.initialize(schema)
    parts = [range(10), range(100, 110), range(200, 210), [300.0, float("nan")]]
    for checkpoint, values in enumerate(parts):
        sink.write(pa.table({"x": pa.array(values, pa.float64()), "s": [f"{checkpoint}"] * len(values)}, schema=schema))
        sink.finalize(sink.prepare(checkpoint))
    table = iceberg_tables.Handle(place, None).table
    for text, wanted in (("x > 250", 300.0), ("x >= 300", 300.0), ("s = '3'", 300.0)):
        assert wanted in table.scan(row_filter=text).to_arrow()["x"].to_pylist()
    assert table.scan(row_filter="x < 5").to_arrow().num_rows == 5
    files = [task.file for task in table.scan().plan_files()]
    assert [sorted(one.upper_bounds) for one in files if one.record_count == 2] == [[2]]


NAMES = ["TEST:A1.RAW-1", "$data", "my/col", "#event", "a b", "päivä", "x`y", 'a"b', "1st"]


def test_type_19_names_with_odd_characters(tmp_path: Path) -> None:
    place = f"{tmp_path}/t"
    schema = pa.schema([(name, pa.int64()) for name in NAMES])
    sink = gl.connect.sink(f"iceberg:{place}", pipeline="orders", mode="upsert", key=["a b", "#event"], create={})
    sink.initialize(schema)
    for checkpoint, value in enumerate((1, 2)):
        sink.write(pa.table({name: [0 if name in ("a b", "#event") else value] for name in NAMES}, schema=schema))
        sink.finalize(sink.prepare(checkpoint))
    found = iceberg_tables.Handle(place, None).table.scan().to_arrow()
    assert found.to_pylist() == [{name: 0 if name in ("a b", "#event") else 2 for name in NAMES}]


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("day(k)", "which has no day"),
        ("day(when)", "no such column"),
        (["k", "k"], "comes twice"),
        ("s", "has no identity"),
    ],
)
def test_partitions_that_cannot_be(by: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=told):
        gl.connect.sink(f"iceberg:{tmp_path}/t", pipeline="orders", partition_by=by).initialize(SCHEMA)
    assert not (tmp_path / "t").exists()
