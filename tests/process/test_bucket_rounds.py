"""How many requests of an append to a bucket come one after the other, seen by a proxy that takes its time with each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

import gapless as gl
from gapless.tables.timeseries.write import stage
from process.slow_proxy import Log, Seen, rounds, slow_proxy

_SLOW_S = 0.06


@dataclass(frozen=True)
class Bucket:
    """A table behind a slow proxy."""

    table: gl.TimeSeriesTable
    options: dict[str, str]
    log: Log

    def append(self, rows: pa.Table) -> list[Seen]:
        """Append; the requests that were answered before the call returned."""
        begin = len(self.log.seen)
        self.table.append(rows)
        # A thread of the proxy notes a request just after its answer.
        until = time.monotonic()
        time.sleep(0.02)
        return [one for one in self.log.seen[begin:] if one.began <= until - _SLOW_S]


@pytest.fixture
def bucket(s3_options: tuple[str, dict[str, str]], s3_server: str) -> Iterator[Bucket]:
    url, options = s3_options
    with slow_proxy(s3_server, _SLOW_S) as (endpoint, log):
        slow = {**options, "endpoint": endpoint}
        table = gl.create(f"{url}/table", index="at", index_type="int64", bucket=1, entity="who", storage_options=slow)
        table.append(rows(0, 1))  # the first tries the store
        time.sleep(3 * _SLOW_S)
        yield Bucket(table, slow, log)


def rows(start: int, count: int, identities: int = 1) -> pa.Table:
    who = [f"w{number % identities}" for number in range(count)]
    return pa.table({"at": pa.array(range(start, start + count), pa.int64()), "who": who, "value": [0.5] * count})


def names(seen: list[Seen]) -> list[str]:
    return sorted(one.path.split("/table/")[1].split("/")[0] for one in seen if one.method == "PUT")


def test_an_append_is_two_requests_one_after_the_other(bucket: Bucket) -> None:
    for turn in range(1, 4):
        seen = bucket.append(rows(turn * 10, 10))
        puts = [one for one in seen if "CURRENT" not in one.path]
        assert names(puts) == ["_timeseries_log", "data"]
        assert rounds(puts) == 2
        assert len(puts) + len([one for one in seen if "CURRENT" in one.path]) == len(seen)
        assert not any(one.lists for one in seen)


def test_coverage_is_put_beside_its_segment(bucket: Bucket) -> None:
    """So many identities that their coverage does not fit into the commit."""
    seen = [one for one in bucket.append(rows(100, 400, identities=400)) if "CURRENT" not in one.path]
    assert names(seen) == ["_coverage", "_timeseries_log", "data"]
    assert rounds(seen) == 2


def test_segments_of_one_append_are_put_at_the_same_time(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "RUN_BYTES", 4_000)
    seen = [one for one in bucket.append(rows(1_000, 1_000)) if "CURRENT" not in one.path]
    segments = names(seen).count("data")
    assert segments >= 4
    assert rounds(seen) < 1 + segments
    assert gl.open(bucket.table.url, storage_options=bucket.options).scan().count() == 1_001


def test_the_hint_follows_by_and_by_and_names_the_newest_version(bucket: Bucket) -> None:
    for turn in range(1, 5):
        bucket.append(rows(turn * 10, 10))
    assert bucket.table._env.store.get("_timeseries_log/CURRENT") == b"6\n"
    deadline = time.monotonic() + 10
    while not bucket.log.seen[-1].path.endswith("CURRENT") and time.monotonic() < deadline:
        time.sleep(0.01)
    fresh = gl.open(bucket.table.url, storage_options=bucket.options)
    assert fresh.version == 6
    assert fresh._env.store.get("_timeseries_log/CURRENT") == b"6\n"
