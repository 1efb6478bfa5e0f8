"""Pipelines by their schedules, on a clock that only the tests move."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gapless.errors import InvalidOption, LeaseRefused, ReadOnlyReplica
from gapless.lake.catalog.sqlite import FILE, SqliteCatalog
from gapless.lake.lake import Lake
from gapless.lake.opening import init, open_lake, pull
from gapless.tables.shared.handle import open_environment

MIN = 60 * 10**9
HALF_PAST = 1_767_227_400 * 10**9
"""2026-01-01T00:30Z."""


@dataclass
class HandClock:
    """Stands still until it is moved."""

    ns: int = HALF_PAST

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 10**9

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 10**9)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def opened(place: Path, clock: HandClock) -> Lake:
    """The lake as a process of its own would open it."""
    env = open_environment(place / "lake", None)
    path = env.store.local_path(FILE)
    assert path is not None
    return Lake(replace(env, clock=clock), SqliteCatalog(path))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lake with the pipelines `often`, `hourly` and `never`, each of a folder of its name."""
    init(tmp_path / "lake")
    times = {"often": 'schedule = "every 15m"', "hourly": 'schedule = "0 * * * *"\ntimezone = "Asia/Kolkata"', "never": ""}
    with (tmp_path / "lake/lake.toml").open("a") as config:
        for name, line in times.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "1.csv").write_text("id\n1\n")
            config.write(f'[[pipeline]]\nname = "{name}"\ntable = "{name}"\nsource = "files:{tmp_path}/{name}/*.csv"\n{line}\n')
    return tmp_path


def test_each_runs_at_its_times_whichever_process_ran_it_last(place: Path, clock: HandClock) -> None:
    lake = opened(place, clock)
    scheduler = lake.scheduler()
    assert sorted(scheduler.status) == ["hourly", "often"]
    assert (scheduler.run_due(), scheduler.run_due()) == (2, 0)  # neither ever ran
    assert lake.tables() == ["hourly", "often"]
    clock.ns += 15 * MIN
    assert scheduler.run_due() == 1
    # In Kolkata, 5:30 ahead, an hour begins at half past in UTC.
    clock.ns += 45 * MIN
    assert scheduler.run_due() == 2
    other = opened(place, clock).scheduler()
    assert other.run_due() == 0
    (place / "often/2.csv").write_text("id\n2\n")
    clock.ns += 14 * MIN
    assert other.run_due() == 0
    clock.ns += MIN
    assert other.run_due() == 1
    assert lake.table("often").count() == 2
    assert len(lake.table("hourly").manifests()) == 2


def test_a_failed_one_holds_up_no_other_and_is_tried_at_its_next_time(place: Path, clock: HandClock) -> None:
    lake = opened(place, clock)
    (place / "often/1.csv").write_text('id\n"torn\n')
    scheduler = lake.scheduler()
    assert scheduler.run_due() == 2
    failed = scheduler.status["often"]
    assert (failed.failures, type(failed.last_error).__name__, scheduler.status["hourly"].failures) == (1, "UnreadableInput", 0)
    (place / "often/1.csv").write_text("id\n1\n")
    assert scheduler.run_due() == 0
    clock.ns += 15 * MIN
    assert scheduler.run_due() == 1
    assert (scheduler.status["often"].last_error, lake.table("often").count()) == (None, 1)


def test_each_runs_under_its_own_lease(place: Path, clock: HandClock) -> None:
    lake = opened(place, clock)
    scheduler = lake.scheduler()
    assert scheduler.run_due() == 2
    catalog = SqliteCatalog(str(place / "lake" / FILE))
    lease = catalog.acquire("often", "often", "another process", clock.ns, 3600 * 24)
    clock.ns += 60 * MIN
    assert scheduler.run_due() == 2
    assert isinstance(scheduler.status["often"].last_error, LeaseRefused)
    assert scheduler.status["hourly"].last_error is None
    catalog.release(lease)
    clock.ns += 15 * MIN
    assert scheduler.run_due() == 1
    assert scheduler.status["often"].last_error is None


def test_there_is_nothing_to_schedule(place: Path, tmp_path: Path) -> None:
    init(tmp_path / "none")
    with pytest.raises(InvalidOption, match="has a schedule"):
        open_lake(tmp_path / "none").scheduler()
    pull(str(place / "lake"), tmp_path / "copy")
    with pytest.raises(ReadOnlyReplica):
        open_lake(tmp_path / "copy").scheduler()
