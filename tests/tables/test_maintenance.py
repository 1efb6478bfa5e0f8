"""Maintenance by schedules: what is done when, how its interval follows the load, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.errors import CommitConflict, InvalidOption
from gapless.runtime.environment import Environment
from gapless.tables.maintenance import BATCH_FILES, adapted
from gapless.tables.shared.handle import environment_of
from support.pipelines import KINDS, made, opened, rows

S = 10**9
MINUTE = 60 * S


@dataclass
class HandClock:
    """Stands still until it is moved."""

    ns: int = 1_800_000_000 * S

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / S

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * S)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def table_of(tmp_path: Path, clock: HandClock) -> Callable[[str], Any]:
    """A table of a kind, by that clock."""

    def make(kind: str) -> Any:
        table = made(kind, tmp_path / kind)
        return type(table)(Environment(store=environment_of(table).store, clock=clock), "t", table._snapshot)

    return make


def add_files(table: Any, number: int) -> None:
    for first in range(number):
        table.append(rows(first + 1000 * table.version, 1))


def files(table: Any) -> int:
    return len(table.refresh().segments()) if hasattr(table, "segments") else len(table.refresh().files())


@pytest.mark.parametrize("kind", KINDS)
def test_each_task_is_done_at_its_times(kind: str, table_of: Callable[[str], Any], clock: HandClock) -> None:
    table = table_of(kind)
    maintenance = gl.Maintenance(table, compact="10 minutes", vacuum="0 3 * * *")
    add_files(table, 3)
    assert maintenance.run_due() == 0
    clock.sleep(600)
    assert maintenance.run_due() == 1
    assert opened(kind, table.url.removeprefix("file://")).compact().bins == 0
    clock.sleep(86_400)
    assert maintenance.run_due() == 2
    status = maintenance.status
    assert {name: (one.runs, one.failures) for name, one in status.items()} == {"compact": (2, 0), "vacuum": (1, 0)}


@pytest.mark.parametrize("kind", KINDS)
def test_all_tasks_once_whatever_the_schedule_says(kind: str, table_of: Callable[[str], Any], clock: HandClock) -> None:
    table = table_of(kind)
    add_files(table, 3)
    expiry = {"expire": "1d", "expire_older_than": "1 day"} if kind == "timeseries" else {}
    maintenance = gl.Maintenance(table, compact="10 minutes", vacuum="@daily", **expiry)
    first = maintenance.run_once()
    assert first.compaction is not None
    assert first.compaction.segments_before == 3
    assert first.vacuum is not None
    assert first.vacuum.deleted == ()
    clock.sleep(10 * 86_400)
    second = maintenance.run_once()
    assert second.vacuum is not None
    assert {one.reason for one in second.vacuum.deleted} == {"expired"}
    assert (second.expiry is not None) == (kind == "timeseries")
    assert gl.Maintenance(table, compact="1h").run_once().vacuum is None


def test_an_age_of_zero_is_one(table_of: Callable[[str], Any], clock: HandClock) -> None:
    table = table_of("timeseries")
    add_files(table, 3)
    options = {"expire": "1d", "expire_older_than": "0", "vacuum": "1d", "vacuum_older_than": "0"}
    maintenance = gl.Maintenance(table, compact="1h", **options)
    maintenance.run_once()
    clock.sleep(1)
    report = maintenance.run_once()
    assert report.vacuum is not None
    assert len([one for one in report.vacuum.deleted if one.path.startswith("data/")]) == 3


def test_the_handle_that_was_given_stays_at_its_version(table_of: Callable[[str], Any]) -> None:
    table = table_of("timeseries")
    add_files(table, 3)
    version = table.version
    gl.Maintenance(table, compact="1h").run_once()
    assert table.version == version
    assert table.refresh().version == version + 1


def test_the_interval_of_compaction_follows_the_load(table_of: Callable[[str], Any], clock: HandClock) -> None:
    table = table_of("delta")
    maintenance = gl.Maintenance(table, compact="10 minutes", vacuum="1h")

    def every() -> float:
        return maintenance.status["compact"].schedule.every_ns / MINUTE

    add_files(table, BATCH_FILES + 1)
    clock.sleep(600)
    maintenance.run_due()
    assert every() == 5
    seen = []
    for _ in range(6):
        clock.sleep(every() * 60)
        maintenance.run_due()
        seen.append(every())
    assert seen == [10, 20, 40, 80, 80, 80]
    add_files(table, 3)
    clock.sleep(80 * 60)
    maintenance.run_due()
    assert every() == 10
    assert maintenance.status["vacuum"].schedule.every_ns == 60 * MINUTE


@given(
    asked=st.integers(S, 10**6 * S),
    runs=st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=30),
)
def test_an_interval_stays_within_its_bounds(asked: int, runs: list[tuple[int, bool]]) -> None:
    interval = asked
    for number, overtaken in runs:
        before, interval = interval, adapted(interval, asked, files=number, overtaken=overtaken)
        assert min(max(asked // 8, S), asked) <= interval <= 8 * asked
        if overtaken or not number:
            assert interval == min(2 * before, 8 * asked)
        elif number > BATCH_FILES:
            assert interval <= before
        else:
            assert interval == asked


def test_what_loses_to_another_change_is_left_for_later(
    table_of: Callable[[str], Any], clock: HandClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of("delta")

    def lose(*_: object, **__: object) -> None:
        raise CommitConflict("version 7 came first", version=7, reason="same files")

    monkeypatch.setattr(type(table), "vacuum", lose)
    maintenance = gl.Maintenance(table, vacuum="10 minutes")
    clock.sleep(600)
    with caplog.at_level(logging.INFO, "gapless.tables"):
        maintenance.run_due()
    assert "is left for later: version 7 came first" in caplog.text
    assert maintenance.status["vacuum"].failures == 0


def test_an_error_is_counted_and_the_next_run_comes(table_of: Callable[[str], Any], clock: HandClock, tmp_path: Path) -> None:
    table = table_of("timeseries")
    add_files(table, 3)
    maintenance = gl.Maintenance(table, compact="10 minutes")
    log = tmp_path / "timeseries" / "_timeseries_log"
    log.rename(tmp_path / "gone")
    clock.sleep(600)
    maintenance.run_due()
    failed = maintenance.status["compact"]
    assert (failed.runs, failed.failures) == (1, 1)
    assert isinstance(failed.last_error, gl.errors.GaplessError)
    (tmp_path / "gone").rename(log)
    clock.sleep(600)
    maintenance.run_due()
    assert (maintenance.status["compact"].failures, maintenance.status["compact"].last_error) == (1, None)
    assert files(table) == 1


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("timeseries", {}, "nothing is to be done"),
        ("timeseries", {"compact": "10 parsecs"}, "Did you mean 'secs'?"),
        ("timeseries", {"compact": ""}, "compact='' is no length of time"),
        ("timeseries", {"compact": "1h", "timezone": "Mars/Olympus"}, "timezone"),
        ("timeseries", {"expire": "1d"}, "go together"),
        ("timeseries", {"vacuum": "1d", "expire_older_than": "30d"}, "go together"),
        ("delta", {"expire": "1d", "expire_older_than": "30d"}, "delta.logRetentionDuration"),
        ("delta", {"vacuum": "1d", "vacuum_older_than": "soon"}, "vacuum_older_than='soon' is no length of time"),
    ],
)
def test_what_cannot_be_done_is_refused(kind: str, options: dict[str, Any], said: str, table_of: Callable[[str], Any]) -> None:
    with pytest.raises(InvalidOption) as refused:
        gl.Maintenance(table_of(kind), **options)
    assert said in str(refused.value)


def test_only_a_table_is_looked_after() -> None:
    with pytest.raises(InvalidOption, match="no table that is written"):
        gl.Maintenance("orders", compact=timedelta(hours=1))  # type: ignore[arg-type]  # that is the point
