"""Segments that timeseries-table-format wrote, with times in milliseconds: behind Iceberg they would be read as 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import timeseries_table_format as ttf
from pyiceberg.table import StaticTable

import gapless as gl
from gapless.errors import UnsupportedType
from interop.delta.engines import Ask

START = datetime(2026, 1, 5, tzinfo=UTC)


def written_there(root: Path, unit: str, seen: str) -> None:
    """A table of its making: one segment of an append, and those that its own writer made of one."""
    table = ttf.TimeSeriesTable.create(
        table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h", entity_columns=["site"]
    )
    for part in range(2):
        moments = [START + timedelta(hours=part * 6 + n) for n in range(6)]
        rows = {
            "ts": pa.array(moments, pa.timestamp(unit, "UTC")),
            "site": ["ab"[n % 2] for n in range(6)],
            "seen": pa.array(moments, pa.timestamp(seen, "UTC")),
        }
        table.append(pa.table(rows))
        if part == 0:
            table.optimize()  # writes a file for each site


@pytest.mark.parametrize(("unit", "seen", "column"), [("ms", "us", "ts"), ("us", "ms", "seen"), ("ms", "ms", "ts")])
def test_milliseconds_are_refused_or_written_anew(engine: Ask, tmp_path: Path, unit: str, seen: str, column: str) -> None:
    written_there(tmp_path / "t", unit, seen)
    table = gl.open(tmp_path / "t", upgrade=True)
    held = [pq.read_schema(tmp_path / "t" / segment.path) for segment in table.segments()]
    assert len(held) == 3
    assert {schema.field(column).type.unit for schema in held} == {"ms"}
    mine = table.scan().to_arrow().sort_by([("ts", "ascending")])
    with pytest.raises(UnsupportedType, match=f"column '{column}' .*Iceberg"):
        table.set_properties({"publish": ["iceberg"]})
    assert not (tmp_path / "t" / "_iceberg").exists()
    table.set_properties({"publish": ["iceberg"]}, rewrite=True)
    place = str(tmp_path / "t" / "_iceberg")
    for found in (StaticTable.from_metadata(place).scan().to_arrow(), engine("spark").do("read_iceberg", path=place)):
        told = found.sort_by([("ts", "ascending")])
        for name in ("ts", "seen", "site"):
            assert told[name].to_pylist() == mine[name].to_pylist()
