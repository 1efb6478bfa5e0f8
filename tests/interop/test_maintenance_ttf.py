"""timeseries-table-format 0.9.0 on tables that were vacuumed, expired and cleaned; its own files, vacuumed by us."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import timeseries_table_format as ttf

import gapless as gl
from gapless.tables.timeseries.care.expire import expire_versions, parse_expiry
from gapless.tables.timeseries.care.vacuum import vacuum_table

START = datetime(2024, 1, 1)
Query = Callable[..., pa.Table]


def rows(first: int) -> pa.Table:
    hours = range(first, first + 6)
    times = pa.array([START + timedelta(hours=hour) for hour in hours], pa.timestamp("us"))
    return pa.table({"ts": times, "sym": [f"s{hour % 2}" for hour in hours], "x": [0.5 * hour for hour in hours]})


def count(query_there: Query, root: Path) -> int:
    return int(query_there(root, "select count(*) as n from t").column("n")[0].as_py())


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """Three appends of ours, compacted, so that their segments are needed by old versions only."""
    table = gl.create(tmp_path / "t", index="ts", bucket="1h", entity="sym")
    for first in (0, 10, 20):
        table.append(rows(first))
    table.compact()
    assert len(table.segments()) == 1
    return tmp_path / "t"


def test_they_read_a_table_that_was_expired_and_vacuumed(ours: Path, query_there: Query) -> None:
    table = gl.open(ours)
    table.expire(keep_versions=1)
    report = table.vacuum(timedelta(0), dry_run=False)
    assert len(report.deleted) == 3
    assert count(query_there, ours) == 18
    assert ttf.TimeSeriesTable.open(str(ours)).version() == table.version


def test_they_refuse_a_table_whose_log_was_cleaned(ours: Path, query_there: Query) -> None:
    """They replay from commit 1, and stop at it or at the feature; rows they give none."""
    table = gl.open(ours)
    report = expire_versions(table._committer, parse_expiry(1, None), clean_log=True, horizon_ns=0)
    assert report.removed
    with pytest.raises(Exception, match=r"gapless_log_cleanup|0000000001\.json"):
        ttf.TimeSeriesTable.open(str(ours))
    with pytest.raises(Exception, match=r"gapless_log_cleanup|0000000001\.json"):
        count(query_there, ours)
    assert gl.open(ours).scan().to_arrow().num_rows == 18


def test_they_refuse_it_from_the_commit_on_that_comes_before_the_first_delete(ours: Path) -> None:
    """A log of which nothing is gone yet, though the commit says that it may be."""
    table = gl.open(ours)
    log = {path: path.read_bytes() for path in (ours / "_timeseries_log").iterdir()}
    expire_versions(table._committer, parse_expiry(1, None), clean_log=True, horizon_ns=0)
    for path, data in log.items():
        if path.name[0] == "0":
            path.write_bytes(data)
    assert (ours / "_timeseries_log" / "0000000001.json").exists()
    with pytest.raises(Exception, match="gapless_log_cleanup"):
        ttf.TimeSeriesTable.open(str(ours))
    assert gl.verify(ours).ok


def test_their_files_go_once_only_expired_versions_have_them(tmp_path: Path, query_there: Query) -> None:
    root = tmp_path / "t"
    theirs = ttf.TimeSeriesTable.create(
        table_root=str(root), index_column="ts", index_type="timestamp", index_granularity="1h", entity_columns=["sym"]
    )
    for first in (0, 10, 20):
        theirs.append(rows(first))
    stray = root / "data" / "_managed" / "append" / "stray.parquet"
    stray.write_bytes(b"theirs, from a crash")
    table = gl.open(root, upgrade=True)
    before = {segment.path for segment in table.segments()}
    table.compact()
    table.expire(keep_versions=1)
    report = vacuum_table(table._committer, older_than=timedelta(0), dry_run=False)
    assert {entry.path for entry in report.deleted if entry.path.startswith("data/")} == before
    assert {entry.reason for entry in report.deleted} == {"expired"}
    assert len([entry for entry in report.deleted if entry.path.startswith("_coverage/segments/")]) == 3
    assert stray.exists(), "no name of ours"
    assert count(query_there, root) == 18
    assert gl.verify(root, deep=True).ok
