"""Compacted tables, read by timeseries-table-format 0.9.0; and its tables, compacted here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl
from gapless.errors import UpgradeNeeded

Query = Callable[..., pa.Table]
HOUR = timedelta(hours=1)
START = datetime(2024, 1, 1, tzinfo=UTC)


def rows(*numbers: int | None, **columns: Any) -> pa.Table:
    """Rows at these hours."""
    times = [None if number is None else START + number * HOUR for number in numbers]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def covered(table: gl.TimeSeriesTable) -> set[tuple[Any, ...]]:
    return {(*bucket.identity, bucket.start) for bucket in table.coverage().buckets()}


@pytest.mark.parametrize(
    "options",
    [{}, {"window": "1d"}, {"codec": "snappy"}, {"cluster_by": ["v", "sym"]}, {"target_size": 5_000}, {"resort": True}],
)
def test_a_compacted_table_is_read_there_with_the_same_rows(
    tmp_path: Path, query_there: Query, options: dict[str, Any]
) -> None:
    root = tmp_path / "t"
    table = gl.create(root, index="ts", entity=["sym"], bucket="1h")
    for day in range(3):
        for hour in range(0, 24, 4):
            for sym in "AB":
                v = [float(hour), None]
                table.append(rows(24 * day + hour, 24 * day + hour + 1, sym=[sym] * 2, v=pa.array(v, pa.float64())))
    before, there = table.scan().to_arrow(), query_there(root)
    report = table.compact(**options)
    assert report.segments_before == 36
    assert report.segments_after < 12
    assert ttf.TimeSeriesTable.open(str(root)).version() == table.version
    assert rows_of(query_there(root)) == rows_of(there) == rows_of(before)
    hours = query_there(root, "select distinct sym, date_trunc('hour', ts) as h from t").to_pylist()
    assert covered(table) == covered(gl.open(root)) == {(row["sym"], row["h"].replace(tzinfo=UTC)) for row in hours}
    picked = query_there(root, "select v from t where sym = 'B' and ts >= timestamp '2024-01-03T20:00:00Z' order by ts")
    assert picked["v"].to_pylist() == [20.0, None]


def test_a_table_of_its_own_is_claimed_and_compacted_in_one_commit(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    theirs = ttf.TimeSeriesTable.create(
        table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h", entity_columns=["sym"]
    )
    for hour in range(6):
        theirs.append(rows(hour, sym=["AB"[hour % 2]], v=[float(hour)]))
    theirs.append(rows(90, None, None, sym=["A"] * 3, v=[7.0, 8.0, 9.0]))
    before, version = query_there(root), theirs.version()
    with pytest.raises(UpgradeNeeded):
        gl.open(root).compact()
    table = gl.open(root, upgrade=True)
    report = table.compact()
    assert report.version == version + 1 or report.given_up
    assert rows_of(query_there(root)) == rows_of(before) == rows_of(gl.open(root).scan().to_arrow())


def test_rows_without_an_index_value_stay_where_they_are(tmp_path: Path, query_there: Query) -> None:
    """What 0.9.0 stored without an index value has no place in a sort: its segments are named, and the others go on."""
    root = tmp_path / "t"
    theirs = ttf.TimeSeriesTable.create(table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h")
    for hour in range(4):
        theirs.append(rows(hour, v=[float(hour)]))
    theirs.append(rows(90, None, None, v=[7.0, 8.0, 9.0]))
    before = query_there(root)
    table = gl.open(root, upgrade=True)
    report = table.compact()
    (given_up,) = report.given_up
    assert "is null" in given_up.why
    assert rows_of(query_there(root)) == rows_of(before)
    assert len(table.segments()) == 2, "the four others were merged"
