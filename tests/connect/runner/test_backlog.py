"""A sink, or the checkpoint store, has no room for a while: what waits for it is bounded, said and told, and is committed in order."""

from __future__ import annotations

import logging
import re
import uuid
from typing import Any

import pyarrow as pa
import pytest

from gapless.connect import Checkpoint, CheckpointStore, Runner, RunnerReport, sink, source
from gapless.errors import CommitConflict, PreparedFilesMissing, StorageFull
from gapless.store.open import open_store
from gapless.testing.store.stores import Killed
from support.dying_store import DyingStore, Life
from support.faulty_store import CountingIds
from support.full_disk import Disks, ScriptedClock, disks
from support.pipelines import SINK_KINDS, added_by_commit, made, opened, rows

__all__ = ["disks"]


COMMIT = re.compile(r"(_timeseries_log|_delta_log)/.*\.json|metadata/v\d+\.metadata\.json|\.hoodie/timeline/.*commit")
"""What is put to commit: of Hudi the instant that is completed, and not what says that it was begun."""


def is_commit(path: str) -> bool:
    return COMMIT.fullmatch(path) is not None


@pytest.fixture(params=SINK_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str) -> str:
    """With a feed without rows, and two empty tables for them."""
    found = f"memory://{uuid.uuid4()}"
    made("timeseries", f"{found}-feed")
    for name in ("out", "beside"):
        made(kind, f"{found}-{name}")
    return found


def runner(kind: str, place: str, *names: str, **options: Any) -> Runner:
    sinks = {name: sink(f"{kind}:{place}-{name}", pipeline="orders", name=name) for name in names or ("out",)}
    feed = source(f"timeseries:{place}-feed", start="earliest")
    return Runner(
        feed, options.pop("transform", None), sinks, CheckpointStore(f"{place}-checkpoints"), ids=CountingIds(), **options
    )


def found(kind: str, place: str, name: str = "out") -> list[int]:
    table = opened(kind, f"{place}-{name}")
    assert table.verify(deep=True).ok
    return sorted(table.scan().to_arrow()["v"].to_pylist())


def by_commit(kind: str, place: str) -> list[list[int]]:
    return added_by_commit(kind, f"{place}-out")


def feeding(place: str, count: int, each_s: float) -> list[tuple[float, Any]]:
    """A row every so many seconds."""
    return [
        (each_s * (number + 1), lambda number=number: opened("timeseries", f"{place}-feed").append(rows(number, 1)))
        for number in range(count)
    ]


def test_a_stalled_sink_builds_a_backlog_of_few_checkpoints_that_are_committed_in_order(
    kind: str, place: str, disks: Disks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gapless.connect")
    clock = ScriptedClock()
    pipeline = runner(kind, place, clock=clock)
    most = 0

    def watch(report: RunnerReport) -> None:
        nonlocal most
        most = max(most, report.backlog)

    pipeline.progress = watch
    seen: list[int] = []
    disks.full = {"-out": is_commit}
    script = [*feeding(place, 60, 5.0), (301.0, lambda: seen.append(len(found(kind, place)))), (302.0, disks.mend)]
    clock.script = sorted([*script, (400.0, pipeline.stop)], key=lambda one: one[0])
    report = pipeline.run(follow=True)
    assert seen == [0]
    assert (report.rows, report.backlog, report.stalls) == (60, 0, 1)
    assert found(kind, place) == list(range(60))
    commits = by_commit(kind, place)
    assert [v for added in commits for v in added] == list(range(60))
    # Each holds about as many rows as all before it.
    assert len(commits) == report.checkpoints <= 10
    assert 2 < most <= 9
    said = [record.getMessage() for record in caplog.records]
    assert any("the sink 'out' stands still, 1 checkpoint waits: no room for" in text for text in said)
    assert any("the sink 'out' goes on after 3" in text for text in said)


def test_a_full_backlog_holds_the_source_until_the_sink_is_back(kind: str, place: str, disks: Disks) -> None:
    opened("timeseries", f"{place}-feed").append(rows(0, 20))
    clock = ScriptedClock()
    pipeline = runner(kind, place, clock=clock, checkpoint_rows=2, max_backlog=3)
    polled: list[tuple[int, int]] = []
    pipeline.progress = lambda report: polled.append((report.rows, report.backlog))
    disks.full = {"-out": is_commit}
    clock.script = [(1000.0, disks.mend), (1100.0, pipeline.stop)]
    report = pipeline.run(follow=True)
    assert max(backlog for _, backlog in polled) == 3
    assert max(rows_ for rows_, backlog in polled if backlog == 3) == 6
    # Half a minute between two attempts in the end.
    assert 30 < disks.refused < 80
    assert (report.rows, report.checkpoints, report.backlog) == (20, 10, 0)
    assert by_commit(kind, place) == [[n, n + 1] for n in range(0, 20, 2)]


def test_what_waits_when_a_run_gives_up_is_committed_by_the_next_one(kind: str, place: str, disks: Disks) -> None:
    opened("timeseries", f"{place}-feed").append(rows(0, 9))
    clock = ScriptedClock()
    disks.full = {"-out": is_commit}
    for patience, waited in ((None, 60.0), (5.0, 65.0)):
        with pytest.raises(StorageFull, match="no room for"):
            runner(kind, place, clock=clock, checkpoint_rows=2, max_backlog=3, stall_seconds=patience).run()
        assert clock.passed == pytest.approx(waited)
        assert len(CheckpointStore(f"{place}-checkpoints").recover().unfinished) == 3
    disks.mend()
    stopped = runner(kind, place, clock=clock)
    stopped.stop()
    assert stopped.run().checkpoints == 3
    assert found(kind, place) == list(range(6))
    report = runner(kind, place, clock=clock).run()
    assert (report.rows, report.checkpoints) == (3, 1)
    assert by_commit(kind, place) == [[0, 1], [2, 3], [4, 5], [6, 7, 8]]


def test_a_run_that_finds_its_sink_still_standing_goes_on_with_the_backlog_that_it_found(
    kind: str, place: str, disks: Disks
) -> None:
    opened("timeseries", f"{place}-feed").append(rows(0, 8))
    clock = ScriptedClock()
    disks.full = {"-out": is_commit}
    with pytest.raises(StorageFull):
        runner(kind, place, clock=clock, checkpoint_rows=2, max_backlog=2).run()
    with pytest.raises(StorageFull):
        runner(kind, place, clock=clock, checkpoint_rows=2, max_backlog=3).run()
    waiting = CheckpointStore(f"{place}-checkpoints").recover().unfinished
    assert [one.unfinished for one in waiting] == [(), (waiting[0].id,), (waiting[0].id, waiting[1].id)]
    disks.mend()
    runner(kind, place, clock=clock, checkpoint_rows=2).run()
    assert by_commit(kind, place) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_sink_that_stands_still_does_not_hold_up_the_others(kind: str, place: str, disks: Disks) -> None:
    clock = ScriptedClock()
    pipeline = runner(kind, place, "beside", "out", clock=clock)
    disks.full = {"-out": is_commit}
    seen: list[tuple[int, int]] = []
    look = (110.0, lambda: seen.append((len(found(kind, place, "beside")), len(found(kind, place)))))
    clock.script = sorted([*feeding(place, 20, 5.0), look, (200.0, disks.mend), (300.0, pipeline.stop)], key=lambda one: one[0])
    report = pipeline.run(follow=True)
    assert report.backlog == 0
    (beside, out) = seen[0]
    assert beside > 10
    assert out == 0
    assert found(kind, place) == found(kind, place, "beside") == list(range(20))


def test_a_certain_error_of_one_sink_comes_after_the_commits_of_the_others(kind: str, place: str) -> None:
    opened("timeseries", f"{place}-feed").append(rows(0, 4))
    pipeline = runner(kind, place, "beside", "out")
    original, own = pipeline.store.decide, "/.hoodie/gapless" if kind == "hudi" else ""
    store = open_store(f"{place}-beside{own}")

    def decide(checkpoint: Checkpoint) -> None:
        """Another engine takes the files of one between the two phases."""
        original(checkpoint)
        for path in checkpoint.prepared["beside"].data_files:
            store.delete(path)

    pipeline.store.decide = decide  # type: ignore[method-assign]  # that moment
    with pytest.raises(PreparedFilesMissing):
        pipeline.run()
    assert found(kind, place) == [0, 1, 2, 3]
    assert found(kind, place, "beside") == []


@pytest.mark.parametrize("suffix", [".json", ".decided", ".done"])
def test_a_checkpoint_store_without_room_keeps_nobody_from_getting_there(
    kind: str, place: str, disks: Disks, suffix: str
) -> None:
    """Neither for a while, nor for longer than a run waits: what was polled goes into the checkpoint that can be made."""
    opened("timeseries", f"{place}-feed").append(rows(0, 5))
    clock = ScriptedClock()

    def filling_up(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            disks.full = {"-checkpoints": lambda path: path.endswith(suffix)}
        return batch

    clock.script = [(20.0, disks.mend)]
    report = runner(kind, place, clock=clock, transform=filling_up).run()
    assert (report.rows, report.checkpoints) == (5, 1)
    assert found(kind, place) == list(range(5))
    for first in (5, 7):
        opened("timeseries", f"{place}-feed").append(rows(first, 2))
        with pytest.raises(StorageFull):
            runner(kind, place, clock=clock, transform=filling_up).run()
        disks.mend()
    runner(kind, place, clock=clock).run()
    assert found(kind, place) == list(range(9))


def test_another_coordinators_decision_is_no_stall(kind: str, place: str) -> None:
    opened("timeseries", f"{place}-feed").append(rows(0, 3))
    clock = ScriptedClock()
    pipeline = runner(kind, place, clock=clock)
    original = pipeline.store.record

    def record(checkpoint: Checkpoint) -> None:
        original(checkpoint)
        CheckpointStore(f"{place}-checkpoints").recover()

    pipeline.store.record = record  # type: ignore[method-assign]  # the other one's moment
    with pytest.raises(CommitConflict, match="another coordinator"):
        pipeline.run()
    assert clock.passed == 0
    runner(kind, place).run()
    assert found(kind, place) == [0, 1, 2]


@pytest.mark.parametrize("mended", [False, True], ids=["while it stands still", "while it catches up"])
def test_log_15_killed_with_a_backlog_at_any_call_and_run_again_each_row_is_there_once(
    mended: bool, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that dies finds three checkpoints decided, or makes them; the next one may do all."""
    dies_at, finished = 0, False
    while not finished:
        dies_at += 1
        place = f"memory://{uuid.uuid4()}"
        made("timeseries", f"{place}-feed").append(rows(0, 8))
        made("delta", f"{place}-out")
        disks.full = {"-out": is_commit}
        if mended:
            with pytest.raises(StorageFull):
                runner("delta", place, clock=ScriptedClock(), checkpoint_rows=2, max_backlog=3).run()
            disks.mend()
        with monkeypatch.context() as patched:
            life = Life(dies_at=dies_at, after=bool(dies_at % 2))
            for module in ("gapless.tables.shared.handle", "gapless.connect.checkpoint_store"):
                patched.setattr(f"{module}.open_store", lambda *place, life=life: DyingStore(disks.opened(*place), life))
            try:
                runner("delta", place, clock=ScriptedClock(), checkpoint_rows=2, max_backlog=3, stall_seconds=0.2).run()
                finished = True
            except StorageFull:
                finished = True
            except Killed:
                pass
        disks.mend()
        runner("delta", place, clock=ScriptedClock(), checkpoint_rows=2).run()
        assert [v for added in by_commit("delta", place) for v in added] == list(range(8)), f"killed at call {dies_at}"
        assert not [info.path for info in open_store(f"{place}-out").list("_prepared") if info.path.endswith(".json")]
    assert dies_at > 15
