"""A table whose rows may lie in commits: 0.9.0 refuses it and names the feature, from the moment the property is set."""

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


def hours(*which: int) -> dict[str, Any]:
    return {"ts": [START + timedelta(hours=at) for at in which], "n": list(which)}


def refuse(root: Path, query_there: Query) -> None:
    with pytest.raises(Exception, match="gapless_inline"):
        query_there(root)
    with pytest.raises(Exception, match="gapless_inline"):
        ttf.TimeSeriesTable.open(str(root))


def test_a_table_that_was_made_so_is_refused_there(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", properties={"inline_bytes": 4_096})
    refuse(tmp_path / "t", query_there)
    table.append(hours(0))
    refuse(tmp_path / "t", query_there)


def test_one_that_becomes_so_is_refused_there_and_stays_refused(tmp_path: Path, query_there: Query) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h")
    table.append(hours(0))
    assert query_there(tmp_path / "t").num_rows == 1
    table.set_properties({"inline_bytes": 4_096})
    refuse(tmp_path / "t", query_there)
    table.append(hours(1))
    table.set_properties({"inline_bytes": 0})
    refuse(tmp_path / "t", query_there)
    table.compact()
    refuse(tmp_path / "t", query_there)
    assert table.scan().count() == 2


def test_a_table_of_0_9_0_may_become_one(tmp_path: Path, query_there: Query) -> None:
    theirs = ttf.TimeSeriesTable.create(
        table_root=str(tmp_path / "t"), index_column="ts", index_type="timestamp", index_granularity="1h"
    )
    rows = hours(0)
    theirs.append(pa.table({"ts": pa.array(rows["ts"], pa.timestamp("us", "UTC")), "n": rows["n"]}))
    table = gl.open(tmp_path / "t", upgrade=True)
    table.set_properties({"inline_bytes": 4_096})
    table.append(hours(1))
    assert [segment.data is not None for segment in table.segments()] == [False, True]
    refuse(tmp_path / "t", query_there)
    assert sorted(row["n"] for row in gl.open(tmp_path / "t").scan().to_arrow().to_pylist()) == [0, 1]
