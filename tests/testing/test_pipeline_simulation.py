"""Pipelines in the simulator: no history loses or doubles a row, or leaves a file behind."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from gapless.connect import RunnerReport
from gapless.errors import CommitConflict, InvalidOption, PreparedFilesMissing
from gapless.testing.simulate import describe, main
from gapless.testing.simulation.pipelines.draw import PipelineScenario, draw_pipelines
from gapless.testing.simulation.pipelines.play import simulate_pipelines
from gapless.testing.simulation.pipelines.tasks import ByHand, PipelineHistory, RunPipeline
from gapless.testing.simulation.simulation import Run
from gapless.testing.simulation.tasks import Maintenance
from gapless.testing.store.stores import Killed
from testing.seeds import first_seed, play_each, slices

SLICES = 4
SCHEDULES = 320 // SLICES
BUDGET_CPU_S = 300
"""Of one slice; 36 s were measured beside other work."""
SOAK_SLICES, SOAK_SCHEDULES = 4, 2_000


@pytest.mark.parametrize("part", slices(SLICES))
def test_no_history_of_pipelines_loses_or_doubles_anything(part: int) -> None:
    first = first_seed() + part * SCHEDULES
    wrong, seconds, calls = play_each(simulate_pipelines, first, SCHEDULES)
    print(f"\n{SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU")
    assert not wrong, "\n".join(wrong)
    assert seconds < BUDGET_CPU_S


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_SLICES))
def test_no_history_of_very_many_of_pipelines_loses_or_doubles_anything(part: int) -> None:
    first = Random().randrange(10**12) * 10**6
    wrong, seconds, calls = play_each(simulate_pipelines, first, SOAK_SCHEDULES)
    print(f"\n{part}: {SOAK_SCHEDULES} schedules from seed {first}: {calls} store calls, {seconds:.1f} s of CPU")
    assert not wrong, "\n".join(wrong)


def test_the_same_seed_gives_the_same_trace_of_pipelines() -> None:
    runs = [simulate_pipelines(seed) for seed in range(8) for _ in range(2)]
    for one, two in zip(runs[::2], runs[1::2], strict=True):
        assert describe(one) == describe(two)
    assert len({run.trace for run in runs}) == 8


def test_the_command_plays_pipelines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "pipeline", "--seed", "0", "--schedules", "3"]) == 0
    assert capsys.readouterr().out == "3 histories, 0 of them wrong\n"
    assert simulate_pipelines(0).command == "python -m gapless.testing.simulate --kind pipeline --seed 0"


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [simulate_pipelines(seed) for seed in range(200)]


def histories(runs: list[Run]) -> Iterator[PipelineHistory]:
    for run in runs:
        assert isinstance(run.history, PipelineHistory)
        yield run.history


@pytest.mark.long
def test_the_histories_of_pipelines_hold_what_they_are_for(runs: list[Run]) -> None:
    """Coordinators die, lose to others, recover, and finish what others decided; commits by hand go both ways."""
    ran = [one for history in histories(runs) for one in history.ran]
    of_pipelines = [one for one in ran if isinstance(one.task, RunPipeline)]
    errors = {type(one.error) for one in of_pipelines}
    assert {Killed, CommitConflict, InvalidOption} <= errors
    reports = [one.answer for one in of_pipelines if isinstance(one.answer, RunnerReport)]
    infos = [info for report in reports for info in report.commits.values()]
    assert {info.already_committed for info in infos} == {True, False}
    by_hand = {(one.task.act, one.answer) for one in ran if isinstance(one.task, ByHand) and isinstance(one.answer, bool)}
    assert by_hand == {("prepare", True), ("abort", True), ("abort", False)}
    assert any(isinstance(one.error, PreparedFilesMissing) for one in ran if isinstance(one.task, ByHand))
    sent = [one.intent for history in histories(runs) for one in history.sent]
    cares = {intent.care for intent in sent if isinstance(intent, Maintenance)}
    assert {"compact", "vacuum", "checkpoint", "clean_log", "expire", "abort"} <= cares
    assert any(
        "rows-" in path for run in runs for _, _, call, path, outcome in run.trace if (call, outcome) == ("delete", "done")
    )
    assert not [run.faults for run in runs if run.faults]


def test_what_is_drawn_is_of_every_kind() -> None:
    drawn: list[PipelineScenario] = [draw_pipelines(Random(seed), seed) for seed in range(300)]
    assert {(one.source.name, one.sink.name) for one in drawn} == {
        (a, b) for a in ("series", "delta") for b in ("series", "delta")
    }
    pipelines = [(one, pipeline) for one in drawn for pipeline in one.pipelines]
    assert {pipeline.mode for _, pipeline in pipelines} == {"append", "upsert", "cdc", "delete", "overwrite"}
    assert {pipeline.generation for _, pipeline in pipelines} == {1, 2}
    assert {pipeline.start for _, pipeline in pipelines} == {None, "earliest", "latest"}
    assert {one.coordinators(pipeline) for one, pipeline in pipelines} == {1, 2}
