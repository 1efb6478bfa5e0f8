"""Counters of sinks, sources and pipelines equal what these did: killed and resumed, late rows, a sink that stands still, and lag."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapless as gl
from gapless.connect import CheckpointStore, Runner, RunnerReport, Source, sink, source
from support.counted import counted, counting, pipeline
from support.faulty_store import CountingIds
from support.full_disk import Disks, ScriptedClock, disks
from support.pipelines import KINDS, SCHEMA, START, made, opened, rows

__all__ = ["disks"]


@pytest.fixture(autouse=True)
def counts() -> Iterator[None]:
    with counting(tables=True):
        yield


KILLED = """
import os, signal, sys
from pathlib import Path
from gapless.connect import CheckpointStore
from gapless.connect.backlog import Backlog
from support.counted import pipeline
kind, place, step = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
owner = {"_finalize": Backlog, "decide": CheckpointStore}[step]
setattr(owner, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
pipeline(kind, place).run()
"""


def killed(kind: str, place: Path, step: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, kind, str(place), step]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_that_was_killed_and_goes_on(kind: str, tmp_path: Path) -> None:
    feed = made(kind, tmp_path / "feed")
    for number in range(3):
        feed.append(rows(4 * number, 4))
    made(kind, tmp_path / "sink")
    place = str(tmp_path / "checkpoints")

    killed(kind, tmp_path, "decide")
    report = pipeline(kind, tmp_path).run(checkpoints=1)
    assert counted("gapless.pipeline.checkpoints", outcome="aborted", table=place) == 1
    assert counted("gapless.pipeline.checkpoints", outcome="committed", table=place) == report.checkpoints == 1
    assert counted("gapless.sink.aborted") == 1
    assert counted("gapless.pipeline.rows") == counted("gapless.source.rows", source=kind) == report.rows == 4

    killed(kind, tmp_path, "_finalize")
    report = pipeline(kind, tmp_path).run()
    assert counted("gapless.pipeline.resumed", table=place) == 1
    assert counted("gapless.pipeline.checkpoints", outcome="aborted") == 1
    assert counted("gapless.pipeline.checkpoints", outcome="committed") == 1 + report.checkpoints == 3
    assert counted("gapless.pipeline.backlog") == counted("gapless.pipeline.stalls") == 0
    # The four rows of the checkpoint that was decided were polled by the process that died.
    assert counted("gapless.pipeline.rows") == counted("gapless.sink.rows", kind=kind, mode="append") == 12 - 4
    assert counted("gapless.sink.finalized") == 3
    assert counted("gapless.sink.prepared") == 2
    # Those that died committed nothing; what was taken back is a commit of its own.
    assert counted("gapless.commits", table=str(tmp_path / "sink")) == len(opened(kind, tmp_path / "sink").history())
    assert counted("gapless.rows.written", table=str(tmp_path / "sink")) == opened(kind, tmp_path / "sink").count() == 12
    assert counted("gapless.duplicates.skipped") == 0

    resumed = pipeline(kind, tmp_path)
    assert resumed.run().rows == 0
    last = resumed.store.recover().decided
    assert last is not None
    again = sink(f"{kind}:{tmp_path / 'sink'}", pipeline="p", name="main")
    assert again.finalize(last.prepared["main"]).already_committed
    assert counted("gapless.duplicates.skipped", operation="append") == 1
    assert counted("gapless.sink.finalized") == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_lag_of_a_source_is_the_versions_that_it_has_not_read_to_their_end(kind: str, tmp_path: Path) -> None:
    feed, other = made(kind, tmp_path / "feed"), made(kind, tmp_path / "other")
    other.append(rows(0, 1))
    for number in range(5):
        feed.append(rows(4 * number, 4))

    def lag(name: str = "feed") -> int:
        return counted("gapless.source.lag", source=kind, table=str(tmp_path / name))

    reading: Source = source(f"{kind}:{tmp_path / 'feed'}", start="earliest")
    found = []
    for limit in (2, 2, 4, 5):
        reading.poll(limit)
        found.append(lag())
    assert found == [5, 4, 3, 2]
    feed.append(rows(100, 1))
    reading.poll(1)
    assert lag() == 2  # it has not looked again: it is in the middle of a version
    assert (reading.poll().rows, lag()) == (6, 0)
    assert (reading.poll().rows, lag()) == (1, 0)
    feed.delete("v = 0")
    with pytest.raises(gl.CallError, match="changed rows"):
        reading.poll()
    feed.append(rows(200, 1))
    with pytest.raises(gl.CallError, match="changed rows"):
        reading.poll()
    assert lag() == 2
    source(f"{kind}:{tmp_path / 'other'}").poll()
    assert (lag("other"), lag()) == (0, 2)
    assert counted("gapless.source.rows", table=str(tmp_path / "feed")) == 21


@pytest.mark.parametrize("kind", KINDS)
def test_late_rows_of_a_sink_are_skipped_rows(kind: str, tmp_path: Path) -> None:
    made(kind, tmp_path)
    mine = sink(f"{kind}:{tmp_path}", pipeline="p", name="main", mode="upsert", key="id", order_by="ts")
    mine.initialize(SCHEMA)
    late = 0
    for number, hours in enumerate([(5, 3), (4, 6), (2, 1)]):
        mine.write(pa.Table.from_pylist([{"ts": START + timedelta(hours=hour), "id": 0, "v": hour} for hour in hours], SCHEMA))
        late += mine.finalize(mine.prepare(number)).late_rows
    # Hour 4 gave way to hour 6, which came after it.
    assert late == 3
    assert counted("gapless.rows.skipped", table=str(tmp_path)) == late
    assert counted("gapless.rows.written", table=str(tmp_path)) == 2
    assert counted("gapless.sink.rows", mode="upsert", kind=kind) == 6


def test_a_source_of_files_counts_its_rows(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(rows(4 * number, 4), tmp_path / f"{number}.parquet")
    reading = source(f"files:{tmp_path}/*.parquet")
    taken = [reading.poll(limit).rows for limit in (5, None, None)]
    assert taken == [5, 7, 0]
    assert counted("gapless.source.rows", source="files") == 12
    assert counted("gapless.source.lag") == 0


def test_a_sink_that_stands_still_is_one_stall_and_a_backlog_that_goes_up_and_down(disks: Disks) -> None:
    place = f"memory://{uuid.uuid4()}"
    made("timeseries", f"{place}-feed")
    made("delta", f"{place}-out")
    clock, store = ScriptedClock(), CheckpointStore(f"{place}-checkpoints")
    feed = source(f"timeseries:{place}-feed", start="earliest")
    sinks = {"out": sink(f"delta:{place}-out", pipeline="p", name="out")}
    running = Runner(feed, None, sinks, store, clock=clock, ids=CountingIds())
    seen: list[tuple[int, int]] = []

    def watch(report: RunnerReport) -> None:
        seen.append((report.backlog, counted("gapless.pipeline.backlog", table=store.url)))

    running.progress = watch
    disks.full = {"-out": lambda path: path.startswith("_delta_log/")}
    script = [(5.0 * n, lambda n=n: opened("timeseries", f"{place}-feed").append(rows(n, 1))) for n in range(1, 20)]
    clock.script = [*script, (101.0, disks.mend), (200.0, running.stop)]
    report = running.run(follow=True)
    assert max(told for told, _ in seen) > 1
    assert [one for one in seen if one[0] != one[1]] == []
    assert counted("gapless.pipeline.backlog") == report.backlog == 0
    assert counted("gapless.pipeline.stalls", table=store.url) == report.stalls == 1
    assert counted("gapless.pipeline.checkpoints", outcome="committed") == report.checkpoints > 1
    assert counted("gapless.pipeline.rows") == report.rows == opened("delta", f"{place}-out").count() == 19
