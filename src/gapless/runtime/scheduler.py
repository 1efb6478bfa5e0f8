"""Runs jobs by their schedules: a thread for each, so that none delays another, and none overlaps itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from gapless.errors import InvalidOption
from gapless.model.instant import NS_PER
from gapless.model.protocols import Clock
from gapless.runtime.environment import SystemClock
from gapless.runtime.schedule import Schedule

_LOGGER = logging.getLogger("gapless.runtime")

Work = Callable[[], object]
"""What a job does; it may give a `Schedule` by which it goes on: whatever else it gives, it keeps the one that it has."""

_LOOK_S = 60.0
"""So often a thread that waits looks at the clock, which a machine that slept, or an operator, may have set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How a job fares."""

    runs: int
    """How often it ran to its end, or failed."""
    failures: int
    """How many of those raised an error."""
    last_error: BaseException | None
    """The error of the last run; None where that ended well, or there was none."""
    running: bool
    schedule: Schedule
    due_ns: int
    """When it is due next, in nanoseconds since 1970 UTC."""


@dataclass(slots=True, kw_only=True)
class _Job:
    name: str
    schedule: Schedule
    work: Work
    due_ns: int
    runs: int = 0
    failures: int = 0
    last_error: BaseException | None = None
    running: bool = False


class Scheduler:
    """Jobs by name, each by its schedule.

    A job that is due while it runs, or was while nothing ran here, runs once more and no oftener, however many times were missed. An error
    is logged and counted, and the next run comes at its time. `start` has threads do it; without them `run_due` does what is due.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        """By this clock; the system's where None."""
        self._clock = clock or SystemClock()
        self._jobs: dict[str, _Job] = {}
        self._threads: list[Thread] = []
        self._changed = Condition()  # of a lock that its holder may take again
        self._stopping = False

    def add(self, name: str, schedule: Schedule | str | timedelta, work: Work, *, last_ns: int | None = None) -> None:
        """Add a job: a function without arguments. An interval begins now, or at `last_ns` (nanoseconds since 1970 UTC), when it ran last elsewhere.

        `schedule` is what `Schedule.parse` takes, or a schedule, which may have a time zone and a jitter. Raises InvalidOption where it is none,
        where another job has the name, or the scheduler is started.
        """
        parsed = Schedule.parse(schedule)
        with self._changed:
            if name in self._jobs or self._threads:
                raise InvalidOption(
                    f"the job {name!r} cannot be added",
                    why="Another has its name" if name in self._jobs else "The scheduler is started",
                    fix="Choose another name, and add all jobs before start()",
                    option="name",
                    value=name,
                )
            delayed = parsed.delayed(name)
            due_ns = delayed.first_after(self._clock.now_ns() if last_ns is None else last_ns)
            self._jobs[name] = _Job(name=name, schedule=delayed, work=work, due_ns=due_ns)

    @property
    def status(self) -> Mapping[str, JobStatus]:
        """Of each job, by name."""
        with self._changed:
            return {
                name: JobStatus(
                    runs=job.runs,
                    failures=job.failures,
                    last_error=job.last_error,
                    running=job.running,
                    schedule=job.schedule,
                    due_ns=job.due_ns,
                )
                for name, job in self._jobs.items()
            }

    def run_due(self) -> int:
        """Run what is due, one job after the other, in this thread; how many ran. Those that run elsewhere are left out."""
        return sum(self._take(job) and self._run(job) for job in self._jobs.values())

    def start(self) -> None:
        """Have threads run the jobs until `stop`, or until the process ends. Started already, it stays as it is."""
        with self._changed:
            if self._threads:
                return
            self._stopping = False
            self._threads = [
                Thread(target=self._serve, args=(job,), name=f"gapless-{job.name}", daemon=True) for job in self._jobs.values()
            ]
            for thread in self._threads:
                thread.start()

    def wake(self) -> None:
        """Have threads that wait look at the clock."""
        with self._changed:
            self._changed.notify_all()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Begin nothing more, and wait for the jobs that run, or for so many seconds; whether all have ended.

        Asked again it waits again for those that have not.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            threads = list(self._threads)
        until = None if timeout_s is None else self._clock.monotonic() + timeout_s
        for thread in threads:
            thread.join(None if until is None else max(0.0, until - self._clock.monotonic()))
        with self._changed:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            return not self._threads

    def __enter__(self) -> Self:
        """As `start`."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """As `stop`, which waits."""
        self.stop()

    # -- one job ---------------------------------------------------------------------------------------------------------

    def _serve(self, job: _Job) -> None:
        while self._await(job):
            self._run(job)

    def _await(self, job: _Job) -> bool:
        """Wait until a job is due, and take it; False where there is no more to run."""
        with self._changed:
            while not self._stopping:
                if self._take(job):
                    return True
                left_s = (job.due_ns - self._clock.now_ns()) / NS_PER["s"]
                self._changed.wait(_LOOK_S if job.running else min(max(left_s, 0.0), _LOOK_S))
            return False

    def _take(self, job: _Job) -> bool:
        """Take a job that is due; False where it is not, or runs already."""
        with self._changed:
            now_ns = self._clock.now_ns()
            job.due_ns = job.schedule.awaited(job.due_ns, now_ns)
            if job.running or now_ns < job.due_ns:
                return False
            job.running = True
            return True

    def _run(self, job: _Job) -> bool:
        """Run a job that was taken; True."""
        began_ns = self._clock.now_ns()
        failed: BaseException | None = None
        schedule: object = None
        try:
            schedule = job.work()
        except Exception as error:  # the next run comes
            failed = error
            _LOGGER.exception("the job %s failed; it is tried again at its next time", job.name)
        finally:
            with self._changed:
                job.running = False
                job.runs += 1
                job.failures += failed is not None
                job.last_error = failed
                job.schedule = schedule.delayed(job.name) if isinstance(schedule, Schedule) else job.schedule
                job.due_ns = job.schedule.following(job.due_ns, began_ns)
                self._changed.notify_all()
        return True
