"""Iceberg tables that a sink of ours and Spark write turn by turn, in a Hadoop catalog; read by Spark, DuckDB and our source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import UnsupportedTable
from interop.delta.engines import Ask

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("text", pa.string())])
START = datetime(2026, 1, 5, tzinfo=UTC)


def rows(*numbers: int, text: str = "ours") -> pa.Table:
    columns = {"ts": [START + timedelta(hours=7 * n) for n in numbers], "id": list(numbers), "text": [text] * len(numbers)}
    return pa.table(columns, schema=SCHEMA)


def finalized(place: Path, number: int, given: pa.Table, **options: Any) -> None:
    sink = gl.connect.sink(f"iceberg:{place}", pipeline=f"p{number}", **options)
    sink.initialize(given.schema)
    sink.write(given)
    prepared = sink.prepare(number)
    for _ in range(2):
        sink.finalize(prepared)


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def test_turn_by_turn_with_spark(engine: Ask, tmp_path: Path) -> None:
    place, name = tmp_path / "warehouse" / "db" / "t", "turns.db.t"
    finalized(place, 1, rows(*range(12)), partition_by=["day(ts)", "bucket(4, id)"])
    spark = engine("spark")
    spark.do("iceberg_catalog", name="turns", warehouse=str(tmp_path / "warehouse"))

    def everywhere(*wanted: int) -> None:
        assert ids(spark.do("query", text=f"select * from {name}")) == sorted(wanted)
        reader = gl.connect.source(f"iceberg:{place}", mode="batch")
        reader.start()
        assert sorted(value for batch in reader.poll() for value in batch["id"].to_pylist()) == sorted(wanted)

    everywhere(*range(12))
    feed = gl.connect.source(f"iceberg:{place}", on_change="tell", start="latest")
    feed.start()

    def told() -> list[tuple[str, int]]:
        return sorted((row["_change_type"], row["id"]) for batch in feed.poll() for row in batch.to_pylist())

    spark.do("sql", text=f"alter table {name} set tblproperties ('write.delete.mode'='merge-on-read')")
    spark.do("append_iceberg", rows(20, 21, text="spark"), path=name)
    spark.do("sql", text=f"delete from {name} where id in (3, 20)")
    assert told() == [("delete", 3), ("delete", 20), ("insert", 20), ("insert", 21)]
    everywhere(0, 1, 2, *range(4, 12), 21)
    finalized(place, 2, rows(3, 4, text="again"), mode="upsert", key="id")
    assert told() == [("delete", 4), ("insert", 3), ("insert", 4)]
    everywhere(*range(12), 21)
    spark.do("sql", text="call turns.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    spark.do("sql", text="call turns.system.rewrite_manifests(table => 'db.t')")
    assert told() == []
    spark.do("sql", text=f"alter table {name} rename column text to label")
    spark.do("sql", text=f"alter table {name} replace partition field ts_day with month(ts)")
    finalized(place, 3, rows(30).rename_columns(["ts", "id", "label"]), mode="append")
    finalized(place, 4, rows(0).select(["id"]), mode="delete", key="id")
    everywhere(*range(1, 12), 21, 30)
    found = engine("duckdb-1.5.5").do("read_iceberg", path=str(place))
    assert ids(found) == [*range(1, 12), 21, 30]
    assert set(found["label"].to_pylist()) == {"ours", "spark", "again"}
    hit = spark.do("query", text=f"select * from {name} where ts = timestamp '2026-01-05 07:00:00 UTC' and id = 1")
    assert ids(hit) == [1]
    spark.do(
        "sql",
        text="call turns.system.expire_snapshots(table => 'db.t', older_than => timestamp '2100-01-01', retain_last => 1)",
    )
    waiting = gl.connect.sink(f"iceberg:{place}", pipeline="late")
    waiting.initialize(rows().rename_columns(["ts", "id", "label"]).schema)
    waiting.write(rows(40).rename_columns(["ts", "id", "label"]))
    prepared = waiting.prepare(1)
    always = "older_than => timestamp '2020-01-01'"
    spark.do("sql", text=f"call turns.system.remove_orphan_files(table => 'db.t', {always})")
    waiting.finalize(prepared)
    everywhere(*range(1, 12), 21, 30, 40)


def test_deletion_vectors_are_applied_and_version_3_is_not_written(engine: Ask, tmp_path: Path) -> None:
    place, name = tmp_path / "warehouse" / "db" / "t", "vectors.db.t"
    spark = engine("spark")
    spark.do("iceberg_catalog", name="vectors", warehouse=str(tmp_path / "warehouse"))
    spark.do(
        "sql",
        text=f"create table {name} (ts timestamp, id bigint, text string) using iceberg "
        "tblproperties ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')",
    )
    spark.do("append_iceberg", rows(*range(6)), path=name)
    feed = gl.connect.source(f"iceberg:{place}", on_change="tell")
    feed.start()
    assert len(feed.poll().batches[0]) == 6
    spark.do("sql", text=f"delete from {name} where id in (1, 4)")
    assert sorted((row["_change_type"], row["id"]) for batch in feed.poll() for row in batch.to_pylist()) == [
        ("delete", 1),
        ("delete", 4),
    ]
    with pytest.raises(UnsupportedTable, match="version 3"):
        gl.connect.sink(f"iceberg:{place}", pipeline="orders").initialize(SCHEMA)
