"""Tables that Spark wrote, by Delta's, Iceberg's and Hudi's own writers, become time-series tables with the rows that Spark reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from interop.delta.engines import HOMES, HUDI, HUDI_SPARK, Ask, counted
from support.folders import bytes_below

START = datetime(2026, 1, 5, tzinfo=UTC)


def rows(first: int, count: int, x: float = 0.5) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": pa.array([START + timedelta(minutes=number) for number in numbers], pa.timestamp("us", "UTC")),
            "site": [("north", "söuth")[number % 2] for number in numbers],
            "x": pa.array([None if number % 7 == 0 else x + number for number in numbers], pa.float64()),
        }
    )


def told(table: pa.Table) -> Any:
    return counted(table.select(["id", "ts", "site", "x"]).cast(rows(0, 1).schema))


def check_imported(source: Path, target: Path, theirs: pa.Table, **options: Any) -> gl.ImportReport:
    """Import a table, whose rows are `theirs`, and leave it as it was."""
    before = bytes_below(source)
    report = gl.import_table(source, target, index="ts", bucket="1h", entity="site", **options)
    assert told(gl.open(target).scan().to_arrow()) == told(theirs)
    assert gl.verify(target, deep=True).ok
    assert bytes_below(source) == before
    return report


@pytest.mark.parametrize("partition_by", [[], ["site"]])
def test_a_delta_table_of_spark(engine: Ask, tmp_path: Path, partition_by: list[str]) -> None:
    spark, path = engine("spark"), tmp_path / "source"
    configuration = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"} if partition_by else {}
    spark.do("create", rows(0, 200), path=str(path), partition_by=partition_by, configuration=configuration)
    spark.do("append", rows(200, 100), path=str(path))
    spark.do("delete", path=str(path), where="id % 10 = 3")
    report = check_imported(path, tmp_path / "t", spark.do("read", path=str(path)))
    # Spark's timestamps are INT96.
    why = "the partition column 'site' is not in the file" if partition_by else "ts: "
    assert all(file.outcome == "rewritten" and file.reason.startswith(why) for file in report.files)


def test_an_iceberg_table_of_spark_with_delete_files(engine: Ask, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="pip install 'gapless[iceberg]'")
    spark = engine("spark")
    spark.do("iceberg_catalog", name="imported", warehouse=str(tmp_path / "warehouse"))
    spark.do(
        "sql",
        text="create table imported.db.t (id bigint, ts timestamp, site string, x double) using iceberg partitioned by (site) "
        "tblproperties ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')",
    )
    spark.do("append_iceberg", rows(0, 200), path="imported.db.t")
    spark.do("sql", text="delete from imported.db.t where id % 10 = 3")
    spark.do("sql", text="alter table imported.db.t rename column x to y")
    spark.do("sql", text="alter table imported.db.t rename column y to x")
    path = tmp_path / "warehouse" / "db" / "t"
    report = check_imported(path, tmp_path / "t", spark.do("query", text="select * from imported.db.t"))
    assert report.format == "iceberg"
    assert any("delete file" in file.reason for file in report.files)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_hudi_table_of_spark(
    engine: Ask, require: Callable[[object, str], None], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = next((HOMES / HUDI).glob("lib/python3*/site-packages"), None)
    require(packages is not None, "hudi-rs is not installed: `make interop` does")
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    spark, path = engine(HUDI_SPARK), tmp_path / "source"
    options = {
        "hoodie.datasource.write.table.type": kind, "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    }  # fmt: skip
    spark.do("write", rows(0, 100), path=str(path), operation="upsert", key="id", **options)
    spark.do("write", rows(50, 100, x=100.0), path=str(path), operation="upsert", key="id", **options)
    report = check_imported(path, tmp_path / "t", spark.do("read", path=str(path)))
    assert (report.format, {file.outcome for file in report.files}) == ("hudi", {"rewritten"})
