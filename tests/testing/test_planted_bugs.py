"""The simulator's worth: each known bug, planted from outside, falls within few histories."""

from __future__ import annotations

import pytest

from gapless.testing.simulation.simulation import simulate
from testing.broken import PLANTS, Plant, planted
from testing.seeds import first_wrong, one_arrow_thread

WITHIN = 1_000
"""Histories from seed 0; `make test-all` plays ten times as many."""
CAUGHT_BY = {
    "rebase_blindly": 63,
    "delete_on_unknown": 100,
    "refuse_members_for_what_did_not_land": 250,
    "compact_without_asking": 84,
    "compact_against_a_fresh_version": 84,
    "discard_what_landed": 341,
    "vacuum_what_is_in_flight": 908,
    "vacuum_by_an_old_log": 137,
    "clean_the_log_of_tagged_versions": 121,
    "checkpoint_without_expiry": 226,
}
"""By plants that many histories miss: a seed that does not. Only time depends on it."""


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant: Plant) -> None:
    with planted(plant), one_arrow_thread():
        run = first_wrong(simulate, WITHIN, CAUGHT_BY.get(plant.__name__))
    assert run is not None, f"{plant.__doc__} That went through {WITHIN} histories"
    print(f"\n{plant.__name__}: caught by --seed {run.seed}: {run.faults[0][-200:]}")


def test_nothing_is_caught_where_nothing_is_planted() -> None:
    assert not [run.faults for run in map(simulate, range(100)) if run.faults]


def test_at_least_ten_bugs_are_planted() -> None:
    assert len(PLANTS) >= 10
    assert all(plant.__doc__ for plant in PLANTS)
