"""Histories of pipelines drawn from a seed: what others do in the source's table and the sink's, which pipelines there are, who runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from gapless.testing.simulation.delta_kind import DELTA_TABLE
from gapless.testing.simulation.draw import Scenario
from gapless.testing.simulation.pipelines.tasks import SHIFT, Act, ByHand, Mode, Pipeline, RunPipeline
from gapless.testing.simulation.process import Kind
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.tasks import (
    AppendTogether,
    Deleting,
    Maintain,
    Pause,
    PauseUntil,
    Replacing,
    RestoreEarlier,
    Row,
    Submit,
    Task,
    Updating,
)

CLEANING = ("expire", "clean_log", "vacuum")
"""What takes versions away that a source may not have read."""
CLEANED_CHANCE = 0.2
"""Of how many sources versions are taken away."""
_MODES: tuple[Mode, ...] = ("append", "append", "upsert")
_CHANGES: Mapping[Mode, tuple[Mode, ...]] = {"append": ("overwrite",), "upsert": ("cdc", "delete")}
_CHANGES_EVERY = 4
"""Of so many seeds, one has pipelines that overwrite, delete or apply changes in the place of others."""
_ACTS: tuple[Act, ...] = ("finalize", "abort")
HAND_LANE = 9
"""Marks the rows that are prepared by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineScenario:
    """What a seed decides beforehand."""

    source: Kind
    sink: Kind
    of_source: Scenario
    of_sink: Scenario
    runs: dict[str, list[Any]]
    """What is done by the actors that run pipelines, or prepare and finalize by hand."""
    cleaned: bool
    """Whether versions of the source may go before they were read."""

    @property
    def pipelines(self) -> list[Pipeline]:
        """Each once, in the order of their lanes."""
        found = {task.pipeline for tasks in self.runs.values() for task in tasks if isinstance(task, RunPipeline)}
        return sorted(found, key=lambda pipeline: pipeline.lane)

    def coordinators(self, pipeline: Pipeline) -> int:
        """How many actors run it."""
        return sum(
            any(isinstance(task, RunPipeline) and task.pipeline == pipeline for task in tasks) for tasks in self.runs.values()
        )


def draw_pipelines(random: Random, seed: int) -> PipelineScenario:
    """Two tables, up to three pipelines between them, and the faults of all stores."""
    source, sink = random.choice((SERIES, DELTA_TABLE)), random.choice((SERIES, DELTA_TABLE))
    cleaned = random.random() < CLEANED_CHANCE
    of_source, of_sink = source.draw(random, seed), sink.draw(random, seed + 1)
    nights = _nights(of_source, of_sink)
    actors = {name: _unrestored(tasks, cleaned=cleaned) for name, tasks in of_source.actors.items()}
    others = {f"{name}-beside": _apart(tasks, sink) for name, tasks in list(of_sink.actors.items())[: random.choice((1, 2))]}
    shared = {name: getattr(of_source, name) for name in ("faults", "deadline_s", "kill_chance", "stall_chance", "stalls_s")}
    return PipelineScenario(
        source=source,
        sink=sink,
        of_source=replace(of_source, actors=actors, typed=_typed(source, of_source)),
        of_sink=replace(of_sink, actors=others, typed=_typed(sink, of_sink), outage_s=of_source.outage_s, **shared),
        runs={**_runs(random, seed, nights), **_hands(random)},
        cleaned=cleaned,
    )


def _typed(kind: Kind, scenario: Scenario) -> bool:
    """A time-series table has its columns from the beginning; a Delta table has partitions, or not."""
    return kind is SERIES or scenario.typed


def _nights(*scenarios: Scenario) -> list[float]:
    tasks = (task for one in scenarios for tasks in one.actors.values() for task in tasks)
    return sorted({task.until_s for task in tasks if isinstance(task, PauseUntil)})


def _unrestored(tasks: list[Task], *, cleaned: bool) -> list[Task]:
    """The same without what brings rows back, which would come a second time, or changes columns; and versions stay, unless `cleaned`.

    No commit has two rows of one key, of which an upsert into the sink would take either.
    """
    found: list[Task] = []
    for task in tasks:
        match task:
            case RestoreEarlier() | Maintain(care="add_column"):
                continue
            case Maintain(care=care) if care in CLEANING and not cleaned:
                continue
            case AppendTogether(intents=(intent, *_)) | Submit(intent=intent):
                found.append(Submit(replace(intent, rows=tuple({row[:2]: row for row in intent.rows}.values()))))
            case _:
                found.append(task)
    return found


def _apart(tasks: list[Task], kind: Kind) -> list[Task]:
    """The same, of rows of their own alone: those of pipelines are of other entities."""
    found: list[Task] = []
    for task in tasks:
        match task:
            case Submit(intent=Deleting(by_age=True)) | RestoreEarlier() | Maintain(care="add_column"):
                continue
            case Submit(intent=Deleting(entity=None) | Replacing(entity=None) | Updating(entity=None) as intent):
                rows = tuple(row for row in intent.rows if row[1] == "x")
                found.append(Submit(replace(intent, entity="x", rows=rows)))
            case AppendTogether() if kind is DELTA_TABLE:
                continue
            case _:
                found.append(task)
    return found


def _runs(random: Random, seed: int, nights: list[float]) -> dict[str, list[Any]]:
    """One or two pipelines, of which each is run by one actor or two, and some are made anew."""
    lanes = count(1)
    runs: dict[str, list[Any]] = {}
    for name in ("p", "q")[: random.choice((1, 1, 2))]:
        mode = random.choice(_MODES)
        start = "earliest" if mode == "upsert" else random.choice((None, None, "earliest", "latest"))
        if seed % _CHANGES_EVERY == 1:
            mode, start = _CHANGES[mode][seed // _CHANGES_EVERY % len(_CHANGES[mode])], "earliest"
        pipeline = Pipeline(
            name=name,
            lane=next(lanes),
            mode=mode,
            start=start,
            checkpoint_rows=random.choice((1, 2, 3, 5, 1_000)),
            spill_bytes=random.choice((1, 1 << 20)),
            max_backlog=random.choice((1, 2, 4)),
        )
        for number in range(random.choice((1, 1, 2))):
            runs[f"{name}{number}"] = _coordinate(random, pipeline, nights)
        if random.random() < 0.25:
            anew = replace(pipeline, generation=2, lane=next(lanes), start=start if start == "earliest" else None)
            runs[f"{name}-anew"] = [Pause(random.random() * 2), *_coordinate(random, anew, nights)]
    return runs


def _coordinate(random: Random, pipeline: Pipeline, nights: list[float]) -> list[Any]:
    tasks: list[Any] = []
    for night in (0.0, *nights):
        tasks += [PauseUntil(night)] if night else []
        for _ in range(random.choice((1, 2, 3))):
            tasks.append(RunPipeline(pipeline=pipeline, checkpoints=random.choice((None, None, 1, 2))))
            tasks.append(Pause(random.choice((0.0, random.random() / 5, random.random()))))
    return tasks


def _hands(random: Random) -> dict[str, list[Any]]:
    """Commits that are prepared by hand in one process, and finalized and aborted by others at once."""
    if random.random() < 0.5:
        return {}
    numbers = _numbers()
    mode = random.choice(_MODES)
    prepares = [ByHand(act="prepare", number=n, mode=mode, rows=_rows(random, n, numbers)) for n in (1, 2)]
    acts: dict[str, list[Any]] = {"hand": prepares}
    for actor in ("left", "right"):
        tasks = acts[actor] = []
        for n in (1, 2):
            tasks.append(Pause(random.random() / 20))
            tasks.append(ByHand(act=random.choice(_ACTS), number=n, mode=mode))
    return acts


def _rows(random: Random, number: int, numbers: Iterator[int]) -> tuple[Row, ...]:
    return tuple((10 * at + number, f"{HAND_LANE}{number}", next(numbers)) for at in range(random.choice((1, 2))))


def _numbers() -> Iterator[int]:
    """Numbers of rows that are prepared by hand."""
    return count(HAND_LANE * SHIFT)
