"""Delta tables given to `gl.spark`: refused with what to call instead, which works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import NotSupported, TableNotFound

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("names", pa.list_(pa.string()))])
WRITES: dict[str, Callable[[Any, Any], object]] = {
    "write": gl.spark.write,
    "overwrite": gl.spark.overwrite,
    "upsert": gl.spark.upsert,
    "replace": lambda frame, table: gl.spark.replace(frame, table, (None, None)),
    "delete": lambda frame, table: gl.spark.delete(frame.sparkSession, table, "id = 1"),
    "compact": lambda frame, table: gl.spark.compact(frame.sparkSession, table),
    "backfill": lambda frame, table: gl.spark.backfill(frame.sparkSession, table, lambda *_: None),
    "batch_writer": lambda frame, table: gl.spark.batch_writer(table, app_id="one").write(frame, 0),
}


@pytest.fixture
def frame(spark: Any) -> Any:
    return spark.sql("select id, timestamp'2026-01-05 12:00:00' as ts, array('a', null) as names from range(3)")


@pytest.mark.parametrize("way", WRITES)
def test_writes_name_the_ways_that_there_are(frame: Any, tmp_path: Path, way: str) -> None:
    table = gl.delta.create(tmp_path / "t", SCHEMA)
    for given in (table, str(tmp_path / "t"), tmp_path / "t"):
        with pytest.raises(NotSupported, match="is a Delta table") as caught:
            WRITES[way](frame, given)
        assert f'gl.delta.open("{table.url}").append(frame.toArrow())' in str(caught.value)
        assert 'frame.write.format("delta")' in str(caught.value)


def test_reads_name_the_ways_that_there_are(spark: Any, tmp_path: Path) -> None:
    table: Any = gl.delta.create(tmp_path / "t", SCHEMA)
    for given in (table, table.at(0), str(tmp_path / "t")):
        with pytest.raises(NotSupported, match="is a Delta table") as caught:
            gl.spark.read(spark, given)
        assert f'spark.createDataFrame(gl.delta.open("{table.url}").scan().to_arrow())' in str(caught.value)
    with pytest.raises(Exception, match="is a Delta table"):
        spark.read.format("gapless").load(table.url)
    with pytest.raises(TableNotFound):
        gl.spark.read(spark, tmp_path / "nothing")


def test_the_ways_that_are_named_do_it(spark: Any, frame: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    gl.delta.create(url, SCHEMA)
    gl.delta.open(url).append(frame.toArrow())
    back = spark.createDataFrame(gl.delta.open(url).scan().to_arrow())
    assert back.orderBy("id").collect() == frame.orderBy("id").collect()
