"""Runs of a lake on Spark: executors store the files of a run, and its manifest is put last."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.errors import InvalidOption, NotSupported, NullKey, ObjectNotFound, SchemaMismatch, StoreError, UnreadableInput
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return init(tmp_path / "lake")


def ticks(first: int, rows: int) -> pa.Table:
    ids = list(range(first, first + rows))
    return pa.table({"id": ids, "ts": [START + timedelta(minutes=one) for one in ids], "price": [one / 4 for one in ids]})


def rows_of(lake: Lake, table: str = "t", columns: str = "id, ts, price") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.query(f"SELECT {columns} FROM {table} ORDER BY id").to_arrow().to_pylist()
    return found


def test_executors_store_what_a_run_without_spark_would_have(spark: Any, lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("t", key=["id"])
    lake.create_table("plain", key=["id"])
    told = list[gl.lake.RunProgress]()
    frame = spark.createDataFrame(ticks(0, 1000)).repartition(3, "id")
    report = lake.run("t", gl.lake.spark_source(frame), cursor=gl.lake.Monotonic(column="ts"), progress=told.append)
    lake.run("plain", ticks(0, 1000), cursor=gl.lake.Monotonic(column="ts"))
    assert (report.rows, report.files, report.cursor) == (1000, 3, "2026-01-01T16:39:00Z")
    assert (table.schema, table.cursor()) == (lake.table("plain").schema, lake.table("plain").cursor())
    assert rows_of(lake) == rows_of(lake, "plain")
    (manifest,) = table.manifests()
    assert (manifest.source, manifest.operation) == ("spark:DataFrame", None)
    assert [(one.rows, one.pages, one.files) for one in told] == [(1000, 3, 3)]
    assert lake.doctor(deep=True) == ()
    assert {one["source"] for one in table.lineage()} == {"spark:DataFrame"}
    # Newest of a key wins, whoever wrote it.
    lake.run("t", gl.lake.spark_source(spark.createDataFrame(ticks(10, 1).append_column("more", pa.array(["x"])))))
    lake.run("t", [{"id": 11, "more": "y"}], pipeline="other")
    assert rows_of(lake, columns="id, more")[9:13] == [
        {"id": 9, "more": None}, {"id": 10, "more": "x"}, {"id": 11, "more": "y"}, {"id": 12, "more": None},
    ]  # fmt: skip
    assert table.compact().rows == 1000


def test_partitions_with_the_same_rows_count_each(spark: Any, lake: Lake) -> None:
    lake.create_table("t")
    one = spark.createDataFrame(ticks(0, 4)).coalesce(1)
    assert lake.run("t", gl.lake.spark_source(one.union(one))).rows == 8
    assert [row["id"] for row in rows_of(lake)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_rows_that_a_table_refuses_are_refused_and_nothing_counts(spark: Any, lake: Lake) -> None:
    table = lake.create_table("t", key=["id"])
    lake.run("t", ticks(0, 2), pipeline="before")
    nulls = spark.createDataFrame(pa.table({"id": pa.array([5, None], pa.int64())}))
    with pytest.raises(NullKey, match="partition"):
        lake.run("t", gl.lake.spark_source(nulls))
    lake.set_drift("t", {"add": "refuse"})
    odd = spark.createDataFrame(pa.table({"id": [5, 6], "odd": pa.array(["x", None])}))
    with pytest.raises(SchemaMismatch):
        lake.run("t", gl.lake.spark_source(odd))
    lake.set_drift("t", {"add": "quarantine"})
    report = lake.run("t", gl.lake.spark_source(odd))
    assert (report.rows, report.quarantined_rows, len(table.manifests())) == (1, 1, 2)
    assert [row["id"] for row in rows_of(lake)] == [0, 1, 6]
    lake.run("t", gl.lake.spark_source(lambda saved: odd.where(f"{saved is None}")), pipeline="function")
    assert table.manifests()[-1].source.startswith("spark:test_rows")


def test_a_pipeline_on_spark_goes_on_behind_its_cursor(spark: Any, lake: Lake, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    pq.write_table(ticks(0, 10), landing / "a.parquet")
    with (tmp_path / "lake/lake.toml").open("a") as config:
        config.write(f"""
[[pipeline]]
name = "ticks"
table = "t"
engine = "spark"
source = {{ format = "parquet", path = "{landing}", sql = "SELECT id, ts, price * 4 AS price FROM {{source}} WHERE id <> 3" }}
options = {{ mergeSchema = true }}
cursor = "ts"
key = ["id"]
""")
    assert lake.run_pipeline("ticks").rows == 9
    assert lake.run_pipeline("ticks").rows == 0
    pq.write_table(ticks(8, 5), landing / "b.parquet")
    report = lake.run_pipeline("ticks")
    assert (report.rows, report.cursor) == (3, "2026-01-01T00:12:00Z")
    assert [(row["id"], row["price"]) for row in rows_of(lake)] == [(one, float(one)) for one in range(13) if one != 3]
    assert lake.table("t").manifests()[0].source == f"spark:parquet:{landing}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"engine": "spork"}, "Did you mean 'spark'"),
        ({"source": "files:in/*.csv"}, "format = 'parquet'"),
        ({"source": {"path": "in"}}, "lacks 'format'"),
        ({"source": {"format": "parquet", "pat": "in"}}, "Did you mean 'path'"),
        ({"source": {"format": "parquet", "path": 3}}, "no text"),
        ({"cursor": "price"}, "whole numbers, dates or timestamps"),
        ({"cursor": "when"}, "no column of the rows"),
    ],
)
def test_what_a_pipeline_on_spark_has_not_is_refused(
    spark: Any, lake: Lake, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    pq.write_table(ticks(0, 2), tmp_path / "a.parquet")
    plan = {"name": "p", "table": "t", "engine": "spark", "source": {"format": "parquet", "path": str(tmp_path / "a.parquet")}}
    with pytest.raises(InvalidOption) as caught:
        lake.run_plan(gl.lake.parse_plan(json.dumps(plan | change), "plan.json"))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"path": "/nowhere/hunter2"}, "PATH_NOT_FOUND"),
        ({"sql": "SELECT no_such FROM {source}"}, "UNRESOLVED_COLUMN"),
        ({"sql": "SELECT raise_error('hunter2') AS id FROM {source}"}, "raised"),
    ],
)
def test_what_spark_cannot_compute_is_an_error_of_ours(
    spark: Any, lake: Lake, tmp_path: Path, change: dict[str, str], told: str
) -> None:
    pq.write_table(ticks(0, 2), tmp_path / "a.parquet")
    source = {"format": "parquet", "path": str(tmp_path / "a.parquet")} | change
    plan = {"name": "p", "table": "t", "engine": "spark", "source": source}
    with pytest.raises(UnreadableInput, match="Spark cannot compute") as caught:
        lake.run_plan(gl.lake.parse_plan(json.dumps(plan), "plan.json"))
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value).replace("/nowhere/hunter2", "")
    assert lake.table("t").manifests() == ()


def test_a_cursor_without_an_engine_is_refused(lake: Lake) -> None:
    plan = {"name": "p", "table": "t", "source": "files:in/*.csv", "cursor": "ts"}
    with pytest.raises(InvalidOption, match="cursor and no engine"):
        gl.lake.parse_plan(json.dumps(plan), "plan.json")


def test_what_a_run_on_spark_cannot_do_is_refused(spark: Any, lake: Lake) -> None:
    frame = gl.lake.spark_source(spark.createDataFrame(ticks(0, 2)))
    lake.create_table("d", kind="delta")
    with pytest.raises(NotSupported, match="does not write into"):
        lake.run("d", frame)
    lake.create_table("t")
    with pytest.raises(InvalidOption, match="without an order"):
        lake.run("t", frame, cursor="opaque")
    with pytest.raises(InvalidOption, match="no DataFrame"):
        gl.lake.spark_source(3)  # type: ignore[arg-type]


def test_files_on_the_disk_of_another_machine_are_missed(spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from gapless.store.local.store import LocalStore

    table = lake.create_table("t")

    def elsewhere(_self: object, path: str) -> None:
        raise ObjectNotFound("there is nothing", path=path)

    monkeypatch.setattr(LocalStore, "head", elsewhere)
    with pytest.raises(StoreError, match="disk of its own machine"):
        lake.run("t", gl.lake.spark_source(spark.createDataFrame(ticks(0, 2))))
    assert table.manifests() == ()


VICTIM = """
import os, signal, sys
import gapless as gl, gapless.lake.commits
root, point = sys.argv[1:]
spark = gl.spark.session("victim", master="local[2]", quick=True)
frame = spark.range(0, 1000, numPartitions=4)
def die(*_args, **_named):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(gapless.lake.commits, point, die)
gl.lake.open(root).run("t", gl.lake.spark_source(frame), cursor=gl.lake.Monotonic(column="id"))
"""


@pytest.mark.parametrize(("point", "there"), [("create_once", False), ("record_manifest", True)])
def test_a_driver_that_is_killed_leaves_all_or_nothing(spark: Any, lake: Lake, tmp_path: Path, point: str, there: bool) -> None:
    lake.create_table("t", key=["id"])
    ended = subprocess.run([sys.executable, "-c", VICTIM, str(tmp_path / "lake"), point], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(list((tmp_path / "lake").rglob("part-*.parquet"))) == 4
    after = open_lake(tmp_path / "lake")
    assert after.table("t").cursor() == (999 if there else None)
    assert after.table("t").schema.names == ["id"]
    assert after.query("SELECT count(*) AS n FROM t").to_arrow().column("n").to_pylist() == [1000 if there else 0]
    frame = spark.range(0, 1000, numPartitions=4)
    report = after.run(
        "t",
        gl.lake.spark_source(lambda saved: frame.where(f"id > {-1 if saved is None else saved}")),
        cursor=gl.lake.Monotonic(column="id"),
    )
    assert (report.rows, after.table("t").count(), after.table("t").cursor()) == (0 if there else 1000, 1000, 999)
