"""Jobs by their schedules, on a clock that only the tests move."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event

import pytest

import gapless as gl
from gapless.errors import InvalidOption
from gapless.runtime.schedule import Schedule
from gapless.runtime.scheduler import Scheduler

S = 10**9
LONG_S = 30.0
"""What a test waits at most for another thread."""


@dataclass
class HandClock:
    """Stands still until it is moved."""

    ns: int = 0

    def now_ns(self) -> int:
        return self.ns

    def monotonic(self) -> float:
        return self.ns / S

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * S)


@dataclass
class Recorder:
    """Work that notes when it is done."""

    clock: HandClock
    at_s: list[int] = field(default_factory=list)
    then: Schedule | None = None
    error: BaseException | None = None

    def __call__(self) -> Schedule | None:
        self.at_s.append(self.clock.ns // S)
        if self.error is not None:
            raise self.error
        return self.then


@dataclass
class Gate:
    """Work that says that it has begun, and waits to be let go."""

    begun: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)
    runs: int = 0

    def __call__(self) -> None:
        self.runs += 1
        self.begun.set()
        assert self.go_on.wait(LONG_S)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def every(text: str) -> Schedule:
    return Schedule.parse(text)


def test_each_job_runs_at_its_own_times(clock: HandClock) -> None:
    scheduler, often, seldom = Scheduler(clock), Recorder(clock), Recorder(clock)
    scheduler.add("often", every("10s"), often)
    scheduler.add("seldom", every("25s"), seldom)
    for _ in range(60):
        scheduler.run_due()
        clock.sleep(1)
    assert often.at_s == [10, 20, 30, 40, 50]
    assert seldom.at_s == [25, 50]


def test_times_that_were_missed_are_made_up_for_once(clock: HandClock) -> None:
    scheduler, work = Scheduler(clock), Recorder(clock)
    scheduler.add("job", every("10s"), work)
    clock.sleep(47)
    assert [scheduler.run_due() for _ in range(3)] == [1, 0, 0]
    clock.sleep(3)
    assert scheduler.run_due() == 1
    assert work.at_s == [47, 50]


def test_an_error_is_logged_and_counted_and_the_next_run_comes(clock: HandClock, caplog: pytest.LogCaptureFixture) -> None:
    scheduler, work = Scheduler(clock), Recorder(clock, error=RuntimeError("out of coffee"))
    scheduler.add("job", every("10s"), work)
    clock.sleep(10)
    with caplog.at_level(logging.ERROR, "gapless.runtime"):
        scheduler.run_due()
    assert "the job job failed" in caplog.text
    assert "out of coffee" in caplog.text
    status = scheduler.status["job"]
    assert (status.runs, status.failures, status.running, status.due_ns) == (1, 1, False, 20 * S)
    assert status.last_error is work.error
    work.error = None
    clock.sleep(10)
    scheduler.run_due()
    assert (scheduler.status["job"].failures, scheduler.status["job"].last_error) == (1, None)


def test_an_interrupt_ends_the_caller_and_leaves_the_job_to_its_next_time(clock: HandClock) -> None:
    scheduler, work = Scheduler(clock), Recorder(clock, error=KeyboardInterrupt())
    scheduler.add("job", every("10s"), work)
    clock.sleep(10)
    with pytest.raises(KeyboardInterrupt):
        scheduler.run_due()
    assert not scheduler.status["job"].running
    clock.sleep(10)
    work.error = None
    assert scheduler.run_due() == 1


def test_a_job_may_give_the_schedule_by_which_it_goes_on(clock: HandClock) -> None:
    scheduler, work = Scheduler(clock), Recorder(clock, then=every("40s"))
    scheduler.add("job", every("10s"), work)
    for _ in range(100):
        scheduler.run_due()
        clock.sleep(1)
    assert work.at_s == [10, 50, 90]


def test_a_clock_that_is_set_back_delays_no_interval(clock: HandClock) -> None:
    clock.ns = 1000 * S
    scheduler, work = Scheduler(clock), Recorder(clock)
    scheduler.add("job", every("10s"), work)
    clock.ns = 100 * S
    scheduler.run_due()
    clock.ns = 110 * S
    scheduler.run_due()
    assert work.at_s == [110]


def test_a_job_never_overlaps_itself_and_makes_up_once_for_what_came_meanwhile(clock: HandClock) -> None:
    scheduler, gate = Scheduler(clock), Gate()
    scheduler.add("job", every("10s"), gate)
    with scheduler:
        clock.sleep(10)
        scheduler.wake()
        assert gate.begun.wait(LONG_S)
        gate.begun.clear()
        clock.sleep(35)
        scheduler.wake()
        assert scheduler.run_due() == 0
        assert (gate.runs, scheduler.status["job"].running) == (1, True)
        gate.go_on.set()
        assert gate.begun.wait(LONG_S)  # what came meanwhile, once
    assert gate.runs == 2
    assert scheduler.status["job"].due_ns == 50 * S


def test_a_job_that_takes_long_delays_no_other(clock: HandClock) -> None:
    scheduler, slow, quick = Scheduler(clock), Gate(), Gate()
    scheduler.add("slow", every("10s"), slow)
    scheduler.add("quick", every("20s"), quick)
    quick.go_on.set()
    with scheduler:
        clock.sleep(10)
        scheduler.wake()
        assert slow.begun.wait(LONG_S)
        clock.sleep(10)
        scheduler.wake()
        assert quick.begun.wait(LONG_S)
        slow.go_on.set()


def test_stop_waits_for_what_runs_or_gives_up(clock: HandClock) -> None:
    scheduler, gate = Scheduler(clock), Gate()
    scheduler.add("job", every("10s"), gate)
    scheduler.start()
    scheduler.start()
    clock.sleep(10)
    scheduler.wake()
    assert gate.begun.wait(LONG_S)
    assert scheduler.stop(timeout_s=0) is False
    gate.go_on.set()
    assert scheduler.stop() is True
    clock.sleep(100)
    assert gate.runs == 1
    assert scheduler.stop() is True


def test_jobs_have_names_of_their_own_and_are_added_before_the_start(clock: HandClock) -> None:
    scheduler = Scheduler(clock)
    scheduler.add("job", every("10s"), Recorder(clock))
    with pytest.raises(InvalidOption, match="Another has its name"):
        scheduler.add("job", every("20s"), Recorder(clock))
    with scheduler, pytest.raises(InvalidOption, match="is started"):
        scheduler.add("other", every("20s"), Recorder(clock))


def test_the_scheduler_is_public_and_takes_schedules_as_texts() -> None:
    clock = HandClock()
    jobs = gl.Scheduler(clock)
    ran: list[str] = []
    jobs.add("first", "10 minutes", lambda: ran.append("first"))
    jobs.add("second", timedelta(minutes=5), lambda: "what a job gives is nothing to the scheduler")
    with pytest.raises(InvalidOption, match="schedule='now and then'"):
        jobs.add("third", "now and then", lambda: None)
    assert isinstance(jobs.status["first"], gl.JobStatus)
    assert jobs.status["first"].schedule == gl.Schedule.parse("10 minutes")
    clock.sleep(600)
    assert jobs.run_due() == 2
    assert ran == ["first"]
    assert [(one.runs, one.failures) for one in jobs.status.values()] == [(1, 0), (1, 0)]
