"""A runner that follows its source: when it makes a checkpoint, and how it ends."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import CheckpointStore, Runner, sink, source
from support.full_disk import ScriptedClock
from support.interrupts import interrupts
from support.pipelines import KINDS, added_by_commit, made, opened, rows

__all__ = ["interrupts"]


@pytest.fixture
def place() -> str:
    """With a feed without rows, and an empty table for them."""
    found = f"memory://{uuid.uuid4()}"
    made("timeseries", f"{found}-feed")
    made("delta", f"{found}-out")
    return found


def append(place: str, first: int, count: int = 1) -> None:
    opened("timeseries", f"{place}-feed").append(rows(first, count))


def runner(place: str, **options: Any) -> Runner:
    transform = options.pop("transform", None)
    return Runner(
        source(f"timeseries:{place}-feed", start="earliest"),
        transform,
        {"out": sink(f"delta:{place}-out", pipeline="orders", name="out")},
        CheckpointStore(f"{place}-checkpoints"),
        **options,
    )


def found(place: str) -> list[int]:
    return sorted(opened("delta", f"{place}-out").scan().to_arrow()["v"].to_pylist())


def sizes(place: str) -> list[int]:
    """Rows of each commit."""
    return list(map(len, added_by_commit("delta", f"{place}-out")))


def test_rows_are_committed_as_they_come_and_the_source_is_asked_each_interval(place: str) -> None:
    clock = ScriptedClock()
    pipeline = runner(place, clock=clock)
    clock.script = [
        (5.0, lambda: append(place, 0, 2)),
        (5.5, lambda: append(place, 2)),
        (13.0, lambda: append(place, 3)),
        (14.0, pipeline.stop),
    ]
    committed: list[float] = []
    pipeline.progress = lambda report: committed.append(clock.passed) if report.checkpoints else None
    report = pipeline.run(follow=True, poll_interval=4.0)
    assert sizes(place) == [3]
    assert (report.rows, report.checkpoints) == (3, 1)
    assert committed == [pytest.approx(8.0)]
    # What came after the last look is the next run's.
    assert runner(place).run().rows == 1
    assert found(place) == [0, 1, 2, 3]


def test_with_checkpoint_seconds_rows_wait_for_others_that_long_and_not_longer(place: str) -> None:
    clock = ScriptedClock()
    pipeline = runner(place, clock=clock, checkpoint_seconds=60.0)
    clock.script = [(10.0 * n, lambda n=n: append(place, n)) for n in range(1, 20)] + [(195.0, pipeline.stop)]
    assert pipeline.run(follow=True).backlog == 0
    found_sizes = sizes(place)  # the last one at the stop, not lost
    assert len(found_sizes) == 3
    assert all(6 <= size <= 7 for size in found_sizes)
    assert found(place) == list(range(1, 20))


def test_a_checkpoint_is_full_by_rows_or_by_bytes(place: str) -> None:
    append(place, 0, 1000)
    runner(place, checkpoint_rows=300).run()
    assert sizes(place) == [300, 300, 300, 100]
    append(place, 1000, 1000)
    (batch,) = rows(0, 1000).to_batches()
    pipeline = runner(place, checkpoint_bytes=batch.nbytes // 4, checkpoint_rows=200)
    pipeline.run()
    assert sizes(place)[4:] == [200] * 5
    append(place, 2000, 200_000)
    (batch,) = rows(0, 200_000).to_batches()
    runner(place, checkpoint_bytes=batch.nbytes // 2).run()
    first, *others = sizes(place)[9:]
    assert first == pytest.approx(100_000, rel=0.05)
    assert max(others) <= first * 1.01
    assert first + sum(others) == 200_000


def test_stopped_from_another_thread_it_ends_with_what_it_polled(place: str) -> None:
    append(place, 0, 3)
    pipeline = runner(place, checkpoint_seconds=3600.0)
    polled = threading.Event()
    pipeline.progress = lambda _report: polled.set()

    def stop() -> None:
        polled.wait(60)
        pipeline.stop()

    other = threading.Thread(target=stop)
    other.start()
    report = pipeline.run(follow=True, poll_interval=3600.0)
    other.join()
    assert (report.rows, report.checkpoints) == (3, 1)
    assert found(place) == [0, 1, 2]
    # That ended one run; the next one is not stopped by it.
    append(place, 3)
    assert pipeline.run().rows == 1


def test_the_first_signal_stops_at_a_checkpoint_and_the_second_at_once(place: str, interrupts: None) -> None:
    append(place, 0, 3)
    times = 0

    def interrupted(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal times
        if batch.num_rows:
            times += 1
            os.kill(os.getpid(), signal.SIGINT)
        return batch

    pipeline = runner(place, transform=interrupted, checkpoint_rows=2)
    with pipeline.stopping_on():
        assert pipeline.run(follow=True).rows == 2
        assert found(place) == [0, 1]
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(follow=True)
    assert times == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert runner(place).run().rows == 1
    assert found(place) == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_compaction_of_the_feed_is_passed_without_a_commit(kind: str) -> None:
    place, clock = f"memory://{uuid.uuid4()}", ScriptedClock()
    feed = made(kind, f"{place}-feed")
    made("delta", f"{place}-out")
    feed.append(rows(0, 1))
    feed.append(rows(1, 1))
    pipeline = Runner(
        source(f"{kind}:{place}-feed", start="earliest"),
        None,
        {"out": sink(f"delta:{place}-out", pipeline="orders", name="out")},
        CheckpointStore(f"{place}-checkpoints"),
        clock=clock,
    )
    clock.script = [(5.0, feed.compact), (20.0, pipeline.stop)]
    assert pipeline.run(follow=True).checkpoints == 1
    assert sizes(place) == [2]
    decided = CheckpointStore(f"{place}-checkpoints").recover().decided
    assert decided is not None
    assert decided.cursor.table_version == opened(kind, f"{place}-feed").version + 1
