"""`verify` and `repair` on tables of timeseries-table-format, and its reader on tables that were repaired."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl

START = datetime(2024, 1, 1)


def rows(first: int) -> pa.Table:
    hours = range(first, first + 6)
    times = pa.array([START + timedelta(hours=hour) for hour in hours], pa.timestamp("us"))
    return pa.table({"ts": times, "sym": [f"s{hour % 2}" for hour in hours], "x": [0.5 * hour for hour in hours]})


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Three appends of 0.9.0."""
    table = ttf.TimeSeriesTable.create(
        table_root=str(tmp_path / "t"),
        index_column="ts",
        index_type="timestamp",
        index_granularity="1h",
        entity_columns=["sym"],
    )
    for first in (0, 10, 20):
        table.append(rows(first))
    return tmp_path / "t"


def count_by_ttf(path: Path) -> int:
    session = ttf.Session()
    session.register_tstable("t", str(path))
    return int(pa.table(session.sql("select count(*) as n from t")).column("n")[0].as_py())


@pytest.mark.parametrize("optimized", [False, True])
def test_a_table_of_theirs_is_sound(theirs: Path, optimized: bool) -> None:
    if optimized:
        ttf.TimeSeriesTable.open(str(theirs)).optimize()
    report = gl.verify(theirs, deep=True)
    assert report.findings == ()
    assert report.unchecked == report.segments > 0


def test_their_torn_segment_is_found(theirs: Path) -> None:
    segment = next((theirs / "data").rglob("*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-20])
    assert [finding.code for finding in gl.verify(theirs).problems] == ["segment-altered"]


def test_their_sidecar_is_made_again_byte_for_byte(theirs: Path) -> None:
    sidecars = {path: path.read_bytes() for path in (theirs / "_coverage" / "segments").iterdir()}
    for path in sidecars:
        path.unlink()
    assert [finding.code for finding in gl.verify(theirs).problems] == ["coverage-missing"] * 3
    assert gl.repair(theirs, apply=True).ok
    assert {path: path.read_bytes() for path in (theirs / "_coverage" / "segments").iterdir()} == sidecars
    ttf.TimeSeriesTable.open(str(theirs)).append(rows(30))
    assert count_by_ttf(theirs) == 24


def test_a_torn_commit_of_theirs_is_given_up_and_they_go_on(theirs: Path) -> None:
    """0.9.0 writes commits in place: kill -9 leaves one that is empty, after which it never writes again."""
    (theirs / "_timeseries_log" / "0000000005.json").write_bytes(b"")
    (finding,) = gl.verify(theirs).problems
    assert (finding.code, finding.mend) == ("commit-damaged", "accept-loss")
    assert gl.repair(theirs, apply=True, accept_loss=True).ok
    table = ttf.TimeSeriesTable.open(str(theirs))
    assert table.version() == 5
    table.append(rows(30))
    assert count_by_ttf(theirs) == 24
    assert gl.verify(theirs, deep=True).ok


def test_they_read_a_table_of_ours_that_lost_a_commit(tmp_path: Path) -> None:
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity="sym")
    for first in (0, 10, 20):
        table.append(rows(first))
    (tmp_path / "t" / "_timeseries_log" / "0000000003.json").unlink()
    assert gl.repair(tmp_path / "t", apply=True, accept_loss=True).ok
    assert count_by_ttf(tmp_path / "t") == 12
