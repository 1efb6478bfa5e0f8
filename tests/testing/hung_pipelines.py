"""Histories in which every process of a pipeline hangs for days in the middle of something, while others vacuum the sink."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from gapless.testing.simulation.delta_draw import RETENTION_S
from gapless.testing.simulation.draw import DAY_S
from gapless.testing.simulation.pipelines.draw import PipelineScenario, draw_pipelines
from gapless.testing.simulation.pipelines.play import simulate_pipelines
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.simulation import Run
from gapless.testing.simulation.tasks import Maintain, Pause, PauseUntil, Task


def hung_pipelines(seed: int) -> Run:
    """Play the history that a seed decides with hung coordinators."""
    return simulate_pipelines(seed, scenario=draw_hung_pipelines(seed))


def draw_hung_pipelines(seed: int) -> PipelineScenario:
    """A history as the simulator draws it, in which no one is killed, all hang, and two more vacuum the sink every morning."""
    random = Random(seed)
    drawn = draw_pipelines(random, seed)
    spared = 0 if drawn.sink is SERIES else RETENTION_S
    mornings: list[Task] = []
    for night in (1, 2, 3):
        mornings += [PauseUntil(2 * DAY_S * night + random.random() / 2)]
        mornings += [task for _ in range(3) for task in (Maintain("vacuum", spared), Pause(random.random() / 5))]
    calm: dict[str, Any] = {
        "outage_s": None,
        "deadline_s": 60.0,
        "kill_chance": 0.0,
        "stall_chance": 1.0,
        "stalls_s": (2.0 * DAY_S, 3.0 * DAY_S),
    }
    return replace(
        drawn,
        of_source=replace(drawn.of_source, **calm),
        of_sink=replace(drawn.of_sink, **calm, actors=drawn.of_sink.actors | {"eve": mornings, "fay": mornings}),
    )
