"""Segments large enough that their encodings are chosen by their values, read by others than `pyarrow`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.model.properties import CODECS

ROWS = 40_000


def rows() -> pa.Table:
    """Columns that get a dictionary, differences and neither; null values in each of them."""
    dice = np.random.default_rng(9)
    some = dice.random(ROWS) < 0.1
    far = dice.integers(-(2**62), 2**62, ROWS)
    return pa.table(
        {
            "ts": pa.array(np.cumsum(dice.integers(1, 90, ROWS)) * 1_000_003, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("s", (np.arange(ROWS) % 7).astype(str))),
            "n": pa.array(np.arange(ROWS)),
            "price": pa.array(np.round(dice.normal(100, 1, ROWS), 2), mask=some),
            "noise": pa.array(dice.normal(0, 1, ROWS), mask=some),
            "short": pa.array(dice.normal(0, 1, ROWS).astype(np.float32), mask=some),
            "text": pa.array([f"line {number:05}, with one beginning" for number in range(ROWS)], mask=some),
            "near": pa.array(dice.integers(-5_000, 5_000, ROWS), mask=some),
            "far": pa.array(far, mask=some),
            "count": pa.array(dice.integers(0, 9_000, ROWS).astype(np.int32), mask=some),
        }
    )


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_is_what_every_reader_finds(tmp_path: Path, query_there: Callable[..., pa.Table], codec: str) -> None:
    data = rows()
    table = gl.create(tmp_path / "t", index="ts", entity="symbol", bucket="1s", properties={"codec": codec})
    table.append(data)
    (segment,) = table.segments()
    file = str(tmp_path / "t" / segment.path)
    footer = pq.read_metadata(file).row_group(0)
    encodings = {name: footer.column(at).encodings for at, name in enumerate(data.column_names)}
    differences = {name for name, kinds in encodings.items() if "DELTA_BINARY_PACKED" in kinds}
    # What is smallest may be plain; for the fastest, an index of so few rows is, and small ranges have a dictionary.
    wanted = {"fastest": {"n", "far"}, "smallest": {"ts", "n", "near", "count"}}
    assert differences >= wanted.get(codec, {"ts", "n", "near", "count", "far"}), "else this test shows nothing"
    assert ("DELTA_BYTE_ARRAY" in encodings["text"]) is (codec == "smallest")

    assert query_there(tmp_path / "t", "select * from t order by n").cast(data.schema).equals(data)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        assert (
            connection.sql(f"select * from read_parquet('{file}') order by n").to_arrow_table().cast(data.schema).equals(data)
        )
    assert pl.read_parquet(file).sort("n").to_arrow().cast(data.schema).equals(data)
    assert table.scan().to_arrow().sort_by("n").cast(data.schema).equals(data)
