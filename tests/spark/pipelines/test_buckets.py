"""Sources, lookup tables and sinks of a pipeline in a bucket whose options only the pipeline says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless import connect

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


def test_tables_of_every_kind_are_read_from_a_bucket_by_options(
    spark: Any, tmp_path: Path, s3_options: tuple[str, dict[str, str]]
) -> None:
    place, options = s3_options
    storage = "".join(f", storage.{name}='{value}'" for name, value in options.items())
    made: dict[str, dict[str, Any]] = {"timeseries": {"index": "ts", "bucket": "1h"}, "delta": {}, "iceberg": {}, "hudi": {}}
    for kind, create in made.items():
        _commit(f"{kind}:{place}/{kind}", options, create)
    gl.delta.create(f"{place}/names", pa.schema([("id", pa.int64()), ("name", pa.string())]), storage_options=options).append(
        [{"id": 2, "name": "two"}]
    )
    sql = f"CREATE LOOKUP TABLE names (id BIGINT, name STRING, PRIMARY KEY (id)) WITH (type='delta', location='{place}/names'{storage});"
    for kind in made:
        sql += (
            f"CREATE SOURCE {kind}_in WITH (type='{kind}', location='{place}/{kind}'{storage});"
            f"CREATE SINK {kind}_out WITH (type='delta', location='{place}/{kind}_out'{storage}) AS"
            f" SELECT s.id, n.name FROM {kind}_in s LEFT JOIN names n ON s.id = n.id;"
        )
    gl.pipeline(sql=sql, name="p", checkpoints=str(tmp_path)).run(spark)
    for kind in made:
        rows = gl.delta.open(f"{place}/{kind}_out", storage_options=options).scan().to_arrow().sort_by("id")
        assert rows.to_pydict() == {"id": [1, 2], "name": [None, "two"]}, kind


def test_the_data_source_takes_options_of_the_store(spark: Any, tmp_path: Path, s3_options: tuple[str, dict[str, str]]) -> None:
    place, options = s3_options
    told = {f"storage.{name}": value for name, value in options.items()}
    frame = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS ts")
    new = {"index": "ts", "bucket": "1h"}
    frame.write.format("gapless").options(**told, **new).mode("append").save(f"{place}/t")
    assert spark.read.format("gapless").options(**told).load(f"{place}/t").count() == 3
    stream = spark.readStream.format("gapless").options(**told).load(f"{place}/t")
    writer = stream.writeStream.format("gapless").options(**told, **new, checkpointLocation=str(tmp_path))
    writer.trigger(availableNow=True).start(f"{place}/copy").awaitTermination()
    assert gl.open(f"{place}/copy", storage_options=options).scan().count() == 3
    assert spark.read.format("gapless").options(**told, version="1").load(f"{place}/copy").count() == 0


def _commit(url: str, options: dict[str, str], create: dict[str, Any]) -> None:
    into = connect.sink(url, pipeline="writer", name="w", create=create, storage_options=options)
    into.initialize(SCHEMA)
    into.write(pa.table({"id": [1, 2], "ts": [1_000_000, 2_000_000]}, schema=SCHEMA))
    into.finalize(into.prepare(1))
