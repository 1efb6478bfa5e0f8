"""Ten thousand simulated histories, and that a seed decides all of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from random import Random

import pytest

from gapless.errors import ObjectExists, StoreUnavailable
from gapless.runtime.environment import Environment
from gapless.store.memory import MemoryStore
from gapless.tables.shared.compaction import CompactionReport
from gapless.tables.shared.restore import RestoreReport
from gapless.tables.shared.vacuum import VacuumReport
from gapless.tables.timeseries.care.expire import ExpireReport
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.simulate import describe, main
from gapless.testing.simulation.simulation import Run, simulate
from gapless.testing.simulation.tasks import Appending, Deleting, Maintenance, Replacing, Restoring, Upserting
from gapless.testing.simulation.timeline import START_NS, SimClock, SimIds, Timeline
from gapless.testing.simulation.watch import WatchedStore
from gapless.testing.store.stores import DictStore, Faults, Killed, SimStore
from testing.seeds import ROOT, first_seed, play, slices

SLICES = 10
SCHEDULES = 6_000 // SLICES
BUDGET_CPU_S = 200
"""Of one slice; 23 s were measured alone on a core, and 94 s beside Spark's many threads."""
SOAK_SLICES, SOAK_SCHEDULES = 8, 10_000


@pytest.mark.parametrize("part", slices(SLICES))
def test_no_history_loses_or_doubles_anything(part: int) -> None:
    first = first_seed() + part * SCHEDULES
    wrong, seconds, calls = play(first, SCHEDULES)
    print(
        f"\n{SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU, {SCHEDULES / seconds:.0f} a second"
    )
    assert not wrong, "\n".join(wrong)
    assert seconds < BUDGET_CPU_S


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_SLICES))
def test_no_history_of_very_many_loses_or_doubles_anything(part: int) -> None:
    first = Random().randrange(10**12) * 10**6
    wrong, seconds, calls = play(first, SOAK_SCHEDULES)
    print(f"\n{part}: {SOAK_SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU")
    assert not wrong, "\n".join(wrong)


def test_the_same_seed_gives_the_same_trace() -> None:
    runs = [simulate(seed) for seed in range(40) for _ in range(2)]
    for one, two in zip(runs[::2], runs[1::2], strict=True):
        assert one.trace == two.trace
        assert repr(one.history.sent) == repr(two.history.sent)
        assert one.history.seen == two.history.seen
    assert len({run.trace for run in runs}) == 40


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "1"}
    command = [sys.executable, *simulate(5).command.split()[1:]]
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert there == describe(simulate(5)) + "\n"


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [simulate(seed) for seed in range(450)]


@pytest.mark.long
def test_the_histories_hold_what_they_are_for(runs: list[Run]) -> None:
    """Every kind of fault and of answer comes up in a few hundred histories."""
    calls = {(call, outcome) for run in runs for _, _, call, _, outcome in run.trace}
    assert {outcome for _, outcome in calls} == {
        "done", "absent", "object-exists", "lost_request", "lost_reply", "late", "late effect", "sent_twice", "refused", "full",
        "denied", "killed", "stalled",
    }  # fmt: skip
    assert {call for call, _ in calls} == {"get", "create", "overwrite", "list", "delete", "head"}
    sent = [one for run in runs for one in run.history.sent]
    assert {one.outcome for one in sent} == {"acknowledged", "refused", "unknown", "killed"}
    errors = {type(one.error).__name__ for one in sent} - {"NoneType"}
    assert errors >= {"CoverageOverlap", "CommitOutcomeUnknown", "StoreUnavailable", "StorageFull", "AccessDenied"}
    assert any(getattr(one.report, "already_applied", False) for one in sent)
    assert any(getattr(one.report, "skipped_rows", 0) for one in sent)
    assert any("checkpoint" in path and call == "get" for run in runs for _, _, call, path, _ in run.trace)


@pytest.mark.long
def test_every_operation_is_in_the_histories(runs: list[Run]) -> None:
    """Each comes up, is acknowledged, and has something to do in some of them."""
    sent = [one for run in runs for one in run.history.sent if one.outcome == "acknowledged"]
    assert {type(one.intent) for one in sent} == {Appending, Upserting, Deleting, Replacing, Restoring, Maintenance}
    cares = {one.intent.care for one in sent if isinstance(one.intent, Maintenance)}
    assert cares == {"compact", "vacuum", "expire", "tag", "untag", "add_column"}
    reports = [one.report for one in sent]
    assert any(isinstance(report, CompactionReport) and report.bins for report in reports)
    assert any(isinstance(report, VacuumReport) and report.deleted for report in reports)
    assert any(isinstance(report, ExpireReport) and report.expired for report in reports)
    assert any(isinstance(report, ExpireReport) and report.removed for report in reports)
    assert any(isinstance(report, RestoreReport) and report.added_segments for report in reports)
    assert any(getattr(report, "updated_rows", 0) for report in reports)
    assert any(getattr(report, "replaced_buckets", 0) for report in reports)
    assert any(one.asked for run in runs for one in run.history.seen)
    assert any(run.history.missed for run in runs)


def test_the_watch_sees_what_may_not_be_deleted() -> None:
    """Deleting any file of the log or of a version that is kept is a fault."""
    run = WatchedStore(DictStore(), lambda: 0)
    env = Environment(store=run, clock=SimClock(), ids=SimIds(Random(1)))
    create_table(env, "memory://watched", parse_index("ts", "int64", 10, (), None), None, {})
    table = TimeSeriesTable(env, "memory://watched", open_table(env, "memory://watched"))
    table.append({"ts": [1]})
    table.delete(start=0)
    assert run.newest == 3
    assert not run.faults
    (path,) = (info.path for info in run.list("data"))
    run.delete(path)
    run.delete("_timeseries_log/0000000001.json")
    assert run.faults == [
        f"{path} was deleted, which versions [2] need",
        "_timeseries_log/0000000001.json was deleted, without which versions [1, 2, 3] cannot be replayed",
    ]
    assert run.recall(path) is not None


def test_a_store_of_ones_own_can_stand_behind_the_faults() -> None:
    run = simulate(3, make_store=lambda: MemoryStore("simulated-by-a-test"))
    assert run.faults == ()
    assert run.trace == simulate(3).trace


def test_the_command_reports_what_it_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--schedules", "3"]) == 0
    assert capsys.readouterr().out == "3 histories, 0 of them wrong\n"


def test_a_wrong_history_names_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from testing.broken import report_the_version_aimed_at

    report_the_version_aimed_at(monkeypatch)
    assert main(["--seed", "0", "--schedules", "10"]) == 1
    printed = re.findall(r"^(python -m gapless\.testing\.simulate --seed (\d)): ", capsys.readouterr().out, re.MULTILINE)
    assert printed
    assert main(["--seed", printed[0][1]]) == 1
    assert "WRONG: " in capsys.readouterr().out


def test_actors_take_turns_by_simulated_time() -> None:
    timeline, heard = Timeline(), []

    def actor(name: str, pause_s: float) -> None:
        for turn in range(3):
            heard.append(f"{name}{turn}")
            timeline.pause(pause_s)

    timeline.spawn("a", lambda: actor("a", 2.0))
    timeline.spawn("b", lambda: actor("b", 3.0))
    timeline.later(4.5, lambda: heard.append("late"))
    timeline.run()
    assert heard == ["a0", "b0", "a1", "b1", "a2", "late", "b2"]
    assert timeline.now_ns == START_NS + 9_000_000_000


def test_what_an_actor_raises_ends_the_run() -> None:
    timeline = Timeline()
    timeline.spawn("a", lambda: timeline.pause(1.0))
    timeline.spawn("b", lambda: pytest.fail("on purpose"))
    with pytest.raises(pytest.fail.Exception, match="on purpose"):
        timeline.run()


def test_a_late_put_lands_after_its_caller_was_told_nothing() -> None:
    store = SimStore(random=Random(1), faults=Faults(late=1.0, late_s=2.0))
    with pytest.raises(StoreUnavailable):
        store.put("a", b"1")
    store.timeline.pause(60.0)
    assert store.inner.get("a") == b"1"
    assert [outcome for *_, outcome in store.trace] == ["late", "late effect"] or "late effect" in str(store.trace)


@pytest.mark.parametrize(("fault", "error", "stored"), [
    ("lost_request", StoreUnavailable, False), ("lost_reply", StoreUnavailable, True),
    ("sent_twice", ObjectExists, True), ("refused", ObjectExists, False),
])  # fmt: skip
def test_each_fault_does_what_it_says(fault: str, error: type[Exception], stored: bool) -> None:
    store = SimStore(random=Random(1), faults=Faults(**{fault: 1.0}))
    with pytest.raises(error):
        store.put("a", b"1")
    assert bool(list(store.inner.list())) is stored


def test_nothing_that_a_killed_actor_does_has_an_effect() -> None:
    store = SimStore(random=Random(1))
    store.dies_at = 2
    store.put("a", b"1")
    with pytest.raises(Killed):
        store.get("a")
    for act in (lambda: store.delete("a"), lambda: store.put("b", b""), lambda: store.get("a"), lambda: list(store.list())):
        with pytest.raises(Killed):
            act()
    assert [info.path for info in store.inner.list()] == ["a"]


def test_a_listing_holds_all_that_was_there_when_it_was_asked_for() -> None:
    inner = DictStore()
    store = SimStore(inner, random=Random(4))
    for turn in range(20):
        inner.put(f"a/{turn:02}", b"")
        store.timeline.later(0.004, partial(inner.put, f"b/{turn:02}", b""))
        paths = {info.path for info in store.list()}
        assert paths >= {f"a/{n:02}" for n in range(turn + 1)}
        store.timeline.pause(1.0)


def test_ids_and_clock_repeat() -> None:
    one, two = SimIds(Random(3)), SimIds(Random(3))
    assert [one.uuid(), one.uuid(), one.jitter()] == [two.uuid(), two.uuid(), two.jitter()]
    clock = SimClock(skew_ns=5)
    clock.sleep(1.5)
    assert clock.now_ns() == START_NS + 1_500_000_005
    assert clock.monotonic() == clock.timeline.now_ns / 1e9
