"""The simulator's worth: each known bug, planted from outside, falls within few histories."""

from __future__ import annotations

import pytest

from gapless.testing.simulation.simulation import simulate
from testing.broken import PLANTS, Plant, planted
from testing.seeds import one_arrow_thread

WITHIN = 1_000
"""Histories from seed 0; CI plays ten times as many."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant: Plant) -> None:
    with planted(plant), one_arrow_thread():
        run = next((run for run in map(simulate, range(WITHIN)) if run.faults), None)
    assert run is not None, f"{plant.__doc__} That went through {WITHIN} histories"
    print(f"\n{plant.__name__}: caught by history {run.seed + 1} (--seed {run.seed}): {run.faults[0][-200:]}")


def test_nothing_is_caught_where_nothing_is_planted() -> None:
    assert not [run.faults for run in map(simulate, range(100)) if run.faults]


def test_at_least_ten_bugs_are_planted() -> None:
    assert len(PLANTS) >= 10
    assert all(plant.__doc__ for plant in PLANTS)
