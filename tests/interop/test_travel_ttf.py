"""Restored versions, tags and what 0.9.0 makes of them; older versions of a table that 0.9.0 wrote."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl

Query = Callable[..., pa.Table]
START = datetime(2024, 1, 1, tzinfo=UTC)


def hours(*which: int, x: float = 0.0) -> pa.Table:
    times = pa.array([START + timedelta(hours=at) for at in which], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "n": pa.array(which, pa.int64()), "x": [x] * len(which)})


def values(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["n"], row["x"]) for row in rows.to_pylist())


def test_a_restored_table_reads_the_same_there(tmp_path: Path, query_there: Query) -> None:
    """Segments that went and came back, under tags that 0.9.0 does not know."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(hours(0, 1))
    table.append(hours(2))
    table.upsert(hours(1, x=5.0))
    table.tag("corrected")
    table.restore(2)
    assert values(query_there(tmp_path / "t")) == values(table.scan().to_arrow()) == [(0, 0.0), (1, 0.0)]
    table.restore(tag="corrected")
    assert values(query_there(tmp_path / "t")) == values(table.scan().to_arrow()) == [(0, 0.0), (1, 5.0), (2, 0.0)]


def test_going_back_before_a_column_is_refused_there_and_not_read_wrong(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(hours(0))
    table.add_column("note", pa.string())
    assert values(query_there(tmp_path / "t")) == [(0, 0.0)]
    table.restore(2)
    with pytest.raises(Exception, match="gapless_columns"):
        query_there(tmp_path / "t")
    assert values(table.scan().to_arrow()) == [(0, 0.0)]


def test_a_table_that_goes_back_to_no_columns_is_refused_there(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(hours(0))
    table.restore(1)
    with pytest.raises(Exception, match="gapless_columns"):
        query_there(tmp_path / "t")


def test_versions_and_changes_of_a_table_that_0_9_0_wrote(tmp_path: Path) -> None:
    theirs = ttf.TimeSeriesTable.create(
        table_root=str(tmp_path / "t"), index_column="ts", index_type="timestamp", index_granularity="1h"
    )
    theirs.append(hours(0, 1))
    theirs.append(hours(2))
    theirs.update_rows(hours(1, x=5.0).drop(["n"]), columns=["x"], expected_version=theirs.version())
    table = gl.open(tmp_path / "t")
    assert [values(table.at(version).scan().to_arrow()) for version in range(1, table.version)][:3] == [
        [],
        [(0, 0.0), (1, 0.0)],
        [(0, 0.0), (1, 0.0), (2, 0.0)],
    ]
    told = [(row["_change_type"], row["n"], row["x"]) for row in table.changes(4).to_arrow().to_pylist()]
    assert told == [("update_preimage", 1, 0.0), ("update_postimage", 1, 5.0)]
    assert table.history()[-1].duration is None
    assert [table.at(time=entry.time).version for entry in table.history()] == list(range(1, table.version + 1))
