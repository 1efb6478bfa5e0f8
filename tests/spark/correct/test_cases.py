"""Cases from the field that other parts pass, where Spark writes or reads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gapless as gl
from gapless.errors import CoverageOverlap, NullKey
from gapless.spark import batch_writer, read, upsert, write

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.mark.parametrize("spread", [False, True])
def test_cov_02_buckets_do_not_depend_on_the_zone_of_the_session(spark: Any, tmp_path: Path, spread: bool) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1d")
    at = pa.table({"ts": pa.array([datetime(2024, 1, 1, 20, tzinfo=UTC)], pa.timestamp("us", "UTC")), "v": [1.0]})
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        write(spark.createDataFrame(at), table, spread=spread)
        with pytest.raises(CoverageOverlap):
            write(spark.createDataFrame(at), table, spread=spread)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        with pytest.raises(CoverageOverlap):
            write(spark.createDataFrame(at), table, spread=spread)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    with pytest.raises(CoverageOverlap):
        table.append(at)
    (bucket,) = table.coverage().buckets()
    assert str(bucket.start).startswith("2024-01-01")


DAYS = [
    date(1, 1, 1),
    date(1001, 1, 1),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1677, 1, 1),
    date(2400, 1, 1),
    date(9999, 12, 31),
]
TIMES = [datetime(day.year, day.month, day.day, 23, 59, 59, 999_999, tzinfo=UTC) for day in DAYS]


def ancient() -> pa.Table:
    return pa.table({"n": range(len(DAYS)), "day": DAYS, "ts": pa.array(TIMES, pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize("rebase", ["CORRECTED", "EXCEPTION"])
def test_type_01_and_21_far_and_old_dates_go_through_spark_as_they_are(spark: Any, tmp_path: Path, rebase: str) -> None:
    """As days and microseconds since 1970, which no calendar of a language comes between."""
    one, other = (gl.create(tmp_path / name, index="n", index_type="int64", bucket=1) for name in ("one", "other"))
    one.append(ancient())
    for side in ("Read", "Write"):
        spark.conf.set(f"spark.sql.parquet.datetimeRebaseModeIn{side}", rebase)
    try:
        write(read(spark, one), other)
        told = read(spark, other).selectExpr("n", "unix_date(day) as days", "unix_micros(ts) as us").orderBy("n").toArrow()
    finally:
        for side in ("Read", "Write"):
            spark.conf.unset(f"spark.sql.parquet.datetimeRebaseModeIn{side}")
    assert other.scan(order="index").to_arrow().equals(one.scan(order="index").to_arrow())
    assert told.column("days").to_pylist() == [(day - date(1970, 1, 1)).days for day in DAYS]
    assert told.column("days")[1].as_py() == -353_920
    first = datetime(1970, 1, 1, tzinfo=UTC)
    assert told.column("us").to_pylist() == [(time - first).days * 86_400_000_000 + 86_399_999_999 for time in TIMES]


@pytest.mark.parametrize("way", ["write", "format", "foreachBatch", "upsert"])
def test_cov_15_a_null_key_is_refused_on_every_way_through_spark(spark: Any, tmp_path: Path, way: str) -> None:
    table = gl.create(tmp_path / "t", index="ts", entity=["site"], bucket="1h")
    table.append({"ts": [datetime(2026, 1, 1, tzinfo=UTC)], "site": ["a"], "v": [0.0]})
    ways: dict[str, Callable[[Any], object]] = {
        "write": lambda frame: write(frame, table),
        "format": lambda frame: frame.write.format("gapless").mode("append").save(table.url),
        "foreachBatch": lambda frame: batch_writer(table, app_id="app").write(frame, 0),
        "upsert": lambda frame: upsert(frame, table),
    }
    for ts, site in ((None, "a"), (datetime(2026, 1, 2, tzinfo=UTC), None)):
        rows = [(datetime(2026, 1, 3, tzinfo=UTC), "b", 1.0), (ts, site, 2.0)]
        frame = spark.createDataFrame(rows, "ts timestamp, site string, v double").coalesce(1)
        with pytest.raises(Exception, match="null") as refused:
            ways[way](frame)
        assert isinstance(refused.value, NullKey) or "[null-key]" in str(refused.value)
        assert "row 1" in str(refused.value)
    assert table.refresh().scan().count() == 1
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
