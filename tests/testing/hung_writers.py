"""Histories in which every actor hangs for days in the middle of something, and goes on while others vacuum."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gapless.testing.simulation.delta_draw import RETENTION_S
from gapless.testing.simulation.draw import DAY_S, Scenario
from gapless.testing.simulation.process import Kind
from gapless.testing.simulation.series import SERIES
from gapless.testing.simulation.simulation import Run, simulate
from gapless.testing.simulation.tasks import Maintain, Pause, PauseUntil, Task


def hung_writers(seed: int, kind: Kind = SERIES) -> Run:
    """Play the history that a seed decides with hung writers."""
    return simulate(seed, kind=kind, scenario=draw_hung(seed, kind))


def draw_hung(seed: int, kind: Kind) -> Scenario:
    """An eventful history as the simulator draws it, in which no one is killed, all hang, and two more vacuum every morning, when the others go on."""
    random = Random(seed)
    while not (scenario := kind.draw(random, seed)).stall_chance:
        pass
    days = random.choice((2, 9))
    spared = 0 if kind is SERIES else RETENTION_S
    mornings: list[Task] = []
    for night in (1, 2):
        mornings += [PauseUntil(days * DAY_S * night + random.random() / 4)]
        mornings += [task for _ in range(3) for task in (Maintain("vacuum", spared), Pause(random.random() / 5))]
    return replace(
        scenario,
        actors=scenario.actors | {"eve": mornings, "fay": mornings},
        outage_s=None,
        deadline_s=60.0,
        kill_chance=0.0,
        stall_chance=1.0,
        stalls_s=(days * DAY_S, days * DAY_S, 0.5),
    )
