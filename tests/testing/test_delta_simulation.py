"""Delta tables in the simulator: no history loses or doubles anything, and each planted bug falls."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from gapless.runtime.environment import Environment
from gapless.tables.delta.lifecycle import create_table, open_table
from gapless.tables.delta.table import DeltaTable
from gapless.testing.simulate import describe, main
from gapless.testing.simulation.delta_kind import DELTA_TABLE
from gapless.testing.simulation.delta_watch import DeltaWatch
from gapless.testing.simulation.series import SCHEMA, to_batch
from gapless.testing.simulation.simulation import Run, simulate
from gapless.testing.simulation.tasks import Appending, Deleting, Maintenance, Merging, Replacing, Restoring, Updating
from gapless.testing.simulation.timeline import SimClock, SimIds, Timeline
from gapless.testing.store.stores import DictStore
from testing.broken import planted
from testing.broken_talk import overlook_vacuums_that_came
from testing.delta_broken import DELTA_PLANTS, Plant
from testing.seeds import first_seed, first_wrong, one_arrow_thread, play, slices

SLICES = 5
SCHEDULES = 750 // SLICES
BUDGET_CPU_S = 75
"""Of one slice; 8 s were measured alone on a core."""
SOAK_SLICES, SOAK_SCHEDULES = 4, 5_000
WITHIN = 800
"""Histories from seed 0 within which each planted bug falls."""
CAUGHT_BY = {
    "remove_what_was_removed": 39,
    "vacuum_what_is_in_flight": 190,
    "checkpoint_without_operations": 42,
    "restore_what_was_vacuumed": 662,
}
"""By plants that many histories miss: a seed that does not. Only time depends on it."""
HUNG = 937933356833000713
"""A history in which a writer hangs for days after its last file."""
simulate_delta = partial(simulate, kind=DELTA_TABLE)


@pytest.mark.parametrize("part", slices(SLICES))
def test_no_history_of_a_delta_table_loses_or_doubles_anything(part: int) -> None:
    first = first_seed() + part * SCHEDULES
    wrong, seconds, calls = play(first, SCHEDULES, kind=DELTA_TABLE)
    print(f"\n{SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU")
    assert not wrong, "\n".join(wrong)
    assert seconds < BUDGET_CPU_S


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_SLICES))
def test_no_history_of_very_many_of_a_delta_table_loses_or_doubles_anything(part: int) -> None:
    first = Random().randrange(10**12) * 10**6
    wrong, seconds, calls = play(first, SOAK_SCHEDULES, kind=DELTA_TABLE)
    print(f"\n{part}: {SOAK_SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("plant", DELTA_PLANTS, ids=lambda plant: plant.__name__)
def test_a_bug_planted_in_delta_tables_is_caught(plant: Plant) -> None:
    with planted(plant), one_arrow_thread():
        run = first_wrong(simulate_delta, WITHIN, CAUGHT_BY.get(plant.__name__))
    assert run is not None, f"{plant.__doc__} That went through {WITHIN} histories"
    print(f"\n{plant.__name__}: caught by --seed {run.seed}: {run.faults[0][-200:]}")


def test_the_same_seed_gives_the_same_trace_of_a_delta_table() -> None:
    runs = [simulate_delta(seed) for seed in range(15) for _ in range(2)]
    for one, two in zip(runs[::2], runs[1::2], strict=True):
        assert describe(one) == describe(two)
    assert len({run.trace for run in runs}) == 15


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [simulate_delta(seed) for seed in range(200)]


@pytest.mark.long
def test_the_histories_of_delta_tables_hold_what_they_are_for(runs: list[Run]) -> None:
    """Every operation comes up and is acknowledged; what is written in each form is there, and is read."""
    sent = [one for run in runs for one in run.history.sent if one.outcome == "acknowledged"]
    assert {type(one.intent) for one in sent} == {Appending, Merging, Updating, Deleting, Replacing, Restoring, Maintenance}
    cares = {one.intent.care for one in sent if isinstance(one.intent, Maintenance)}
    assert cares == {"compact", "zorder", "vacuum", "checkpoint", "clean_log"}
    assert any(getattr(one.report, "already_applied", False) for one in sent)
    assert any(getattr(one.report, "updated_rows", 0) for one in sent)
    assert any(getattr(one.report, "deleted", ()) for one in sent)
    puts = {
        path for run in runs for _, _, call, path, outcome in run.trace if call in ("create", "overwrite") and outcome == "done"
    }
    for part in ("deletion_vector_", "_change_data/", "entity=x/", ".checkpoint.parquet"):
        assert any(part in path for path in puts), part
    gone = {path for run in runs for _, _, call, path, outcome in run.trace if call == "delete" and outcome == "done"}
    assert any("_delta_log/" in path for path in gone)
    assert any(path.endswith(".parquet") and "_delta_log" not in path for path in gone)
    assert {one.outcome for run in runs for one in run.history.sent} == {"acknowledged", "refused", "unknown", "killed"}
    assert not [run.faults for run in runs if run.faults]


def test_the_watch_sees_what_may_not_be_deleted_of_a_delta_table() -> None:
    """Deleting a file that the newest version needs, or one that was needed within the retention, is a fault; and so is a hole in the log."""
    timeline = Timeline()
    watch = DeltaWatch(DictStore(), lambda: timeline.now_ns)
    env = Environment(store=watch, clock=SimClock(timeline), ids=SimIds(Random(1)))
    create_table(env, "memory://watched", SCHEMA)
    table = DeltaTable(env, "memory://watched", open_table(env, "memory://watched"))
    for number in (1, 2):
        table.append(to_batch(((number, "x", number),)))
    table.delete("ts = 1")
    assert watch.newest == 3
    assert not watch.faults
    (old,) = watch.commits[1].files
    timeline.pause(60.0)
    watch.delete("_delta_log/00000000000000000001.json")
    assert watch.faults == [
        "_delta_log/00000000000000000001.json was deleted, without which versions [1, 2, 3] cannot be replayed"
    ]
    watch.delete(old)
    assert watch.faults[1:] == [f"{old} was deleted, which version 2 needs"]
    (live,) = watch.commits[3].files
    watch.delete(live)
    assert watch.faults[2:] == [f"{live} was deleted, which version 3 needs"]
    assert watch.recall(live) is not None


def test_a_commit_of_a_delta_table_that_comes_after_days_names_no_file_that_a_vacuum_deletes_meanwhile() -> None:
    """The vacuum's commit takes the writer's number, after the writer has seen its file."""
    assert not simulate_delta(HUNG).faults
    with planted(overlook_vacuums_that_came):
        assert "which is not there" in simulate_delta(HUNG).faults[0]


def test_the_command_plays_delta_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "delta", "--seed", "0", "--schedules", "3"]) == 0
    assert capsys.readouterr().out == "3 histories, 0 of them wrong\n"
    assert simulate_delta(0).command == "python -m gapless.testing.simulate --kind delta --seed 0"
