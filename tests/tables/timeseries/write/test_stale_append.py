"""An append through a handle that lags: what it saw covered may have been deleted since."""

from __future__ import annotations

import itertools

import pytest

import gapless as gl
from gapless.model.properties import OnOverlap

_names = itertools.count()


def two_handles() -> tuple[gl.TimeSeriesTable, gl.TimeSeriesTable]:
    url = f"memory://stale-append-{next(_names)}"
    table = gl.create(url, index="ts", index_type="int64", bucket=10)
    table.append({"ts": [1, 21]})
    return table, gl.open(url)


@pytest.mark.parametrize("policy", ["reject", "skip"])
def test_rows_of_buckets_that_were_deleted_are_written(policy: OnOverlap) -> None:
    table, lagging = two_handles()
    table.delete(start=0, end=10)
    report = lagging.append({"ts": [2]}, on_overlap=policy)
    assert (report.rows, report.skipped_rows) == (1, 0)
    assert sorted(table.refresh().scan().to_arrow()["ts"].to_pylist()) == [2, 21]


def test_what_is_covered_still_is_left_out_or_refused() -> None:
    table, lagging = two_handles()
    table.delete(start=0, end=10)
    assert lagging.append({"ts": [2, 22]}, on_overlap="skip").skipped_rows == 1
    with pytest.raises(gl.CoverageOverlap):
        two_handles()[1].append({"ts": [2]}, on_overlap="reject")


def test_a_bucket_that_was_covered_and_freed_since_is_free() -> None:
    """Among the commits that came first one covers the bucket, and a later one deletes it again."""
    table, lagging = two_handles()
    table.append({"ts": [31]})
    table.delete(start=30, end=40)
    assert lagging.append({"ts": [32]}, on_overlap="reject").rows == 1
