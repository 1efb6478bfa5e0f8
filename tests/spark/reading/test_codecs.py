"""Spark's own Parquet reader finds in a segment what was written, whichever codec wrote it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gapless as gl
from gapless.model.properties import CODECS

# pyspark leaves sockets of collected answers to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*unclosed.*:ResourceWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)

ROWS = 20_000


def rows() -> pa.Table:
    """Columns for each encoding and compression that a codec may choose."""
    dice = np.random.default_rng(4)
    some = dice.random(ROWS) < 0.1
    return pa.table(
        {
            "i": np.arange(ROWS),
            "k": pa.array(np.char.add("key ", (np.arange(ROWS) % 5).astype(str))),
            "noise": pa.array(dice.normal(0, 1, ROWS), mask=some),
            "price": pa.array(np.round(dice.normal(100, 1, ROWS), 2), mask=some),
            "short": pa.array(dice.normal(0, 1, ROWS).astype(np.float32), mask=some),
            "near": pa.array(dice.integers(0, 9_000, ROWS).astype(np.int32), mask=some),
            "nothing": pa.nulls(ROWS, pa.string()),
            "range": pa.array(dice.integers(-500, 500, ROWS), mask=some),
            "steps": pa.array(np.arange(ROWS) // 5_000 * 10**12 + np.arange(ROWS) * 60, pa.timestamp("us", "UTC")),
            "far": pa.array(dice.integers(-(2**62), 2**62, ROWS), mask=some),
            "text": pa.array([f"line {number:05}, with one beginning" for number in range(ROWS)], mask=some),
            "raw": pa.array([number.to_bytes(3, "big") for number in range(ROWS)], mask=some),
            "yes": pa.array(dice.random(ROWS) < 0.5, mask=some),
            "money": pa.array([Decimal(number) / 100 for number in range(ROWS)], pa.decimal128(12, 2)),
        }
    )


@pytest.mark.parametrize("codec", CODECS)
def test_spark_reads_what_a_codec_writes(spark: Any, tmp_path: Path, codec: str) -> None:
    assert spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "true"
    data = rows()
    table = gl.create(tmp_path / "t", index="i", index_type="int64", entity="k", bucket=1_000, properties={"codec": codec})
    table.append(data)
    (segment,) = table.segments()
    found = spark.read.parquet(str(tmp_path / "t" / segment.path)).orderBy("i").toArrow()
    assert found.cast(data.schema).equals(data)
