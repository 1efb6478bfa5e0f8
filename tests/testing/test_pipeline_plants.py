"""The simulator's worth for pipelines: each known bug, planted from outside, falls within few histories."""

from __future__ import annotations

import pytest

from gapless.testing.simulation.pipelines.play import simulate_pipelines
from testing.broken import planted
from testing.broken_pipelines import PIPELINE_PLANTS, Plant
from testing.hung_pipelines import hung_pipelines
from testing.seeds import first_seed, first_wrong, one_arrow_thread, play_each

WITHIN = 120
"""Histories from seed 0 within which each planted bug falls, but one that takes a day in which the right process hangs in the right place."""
CAUGHT_BY = {
    "rows_in_memory_only": 2,
    "decide_before_the_rows_are_stored": 2,
    "take_a_read_error_for_no_decision": 24,
    "forget_the_rows_of_a_failed_checkpoint": 7,
    "keep_rows_that_were_given_up": 4,
    "abort_what_was_decided": 8,
    "decide_by_overwriting": 8,
    "recover_without_a_fence": 4,
    "vacuum_what_is_prepared": 1,
    "abort_without_a_word": 223,
    "abort_without_a_mark": 246,
    "read_what_is_passing_as_lost": 6,
}
"""By plants that the first histories miss: a seed that does not. Only time depends on it."""
AMONG_HUNG = ("vacuum_what_is_prepared", "abort_without_a_mark")
"""What falls where processes hang for days beside vacuums."""
HUNG = 30


@pytest.mark.parametrize("plant", PIPELINE_PLANTS, ids=lambda plant: plant.__name__)
def test_a_bug_planted_in_pipelines_is_caught(plant: Plant) -> None:
    play_one = hung_pipelines if plant.__name__ in AMONG_HUNG else simulate_pipelines
    known = CAUGHT_BY.get(plant.__name__)
    within = max(WITHIN, (known or 0) + 1)
    with planted(plant), one_arrow_thread():
        run = first_wrong(play_one, within, known)
    assert run is not None, f"{plant.__doc__} That went through {within} histories"
    print(f"\n{plant.__name__}: caught by --seed {run.seed}: {run.faults[0][-200:]}")


def test_at_least_ten_bugs_are_planted_in_pipelines() -> None:
    assert len(PIPELINE_PLANTS) >= 10
    assert all(plant.__doc__ for plant in PIPELINE_PLANTS)


def test_pipelines_that_hang_for_days_beside_vacuums_lose_and_double_nothing() -> None:
    wrong, _, _ = play_each(hung_pipelines, first_seed(), HUNG)
    assert not wrong, "\n".join(wrong)
