"""`gl.Maintenance`: compaction, expiry and vacuum of a table on a schedule, beside whoever writes to it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from gapless.errors import CommitConflict, InvalidOption
from gapless.model.instant import NS_PER
from gapless.model.time.duration import parse_duration
from gapless.runtime.schedule import Schedule
from gapless.runtime.scheduler import JobStatus, Scheduler
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.compaction import CompactionReport
from gapless.tables.shared.handle import AtVersion, environment_of
from gapless.tables.shared.vacuum import VacuumReport
from gapless.tables.timeseries.care.expire import ExpireReport
from gapless.tables.timeseries.table import TimeSeriesTable

_LOGGER = logging.getLogger("gapless.tables")

BATCH_FILES = 32
"""A compaction that replaces more small files than this comes again in half the time."""
MOST = 8
"""An interval becomes so many times as long or as short as was asked, at most."""
VACUUM_AFTER = timedelta(days=7)
"""How long ago a file of a time-series table must have been removed; a Delta table says it itself."""


def adapted(interval_ns: int, asked_ns: int, *, files: int, overtaken: bool) -> int:
    """How long to wait after a compaction, in nanoseconds, where it was `interval_ns` and `asked_ns` was asked for. Pure.

    Half as long where it replaced more `files` than a batch, twice as long where other changes came first (`overtaken`) or nothing was to
    be done, else what was asked; at most 8 times as long as that or an 8th of it, and a second at least.

    >>> adapted(600, 600, files=0, overtaken=False), adapted(4800, 600, files=40, overtaken=True)
    (1200, 4800)
    """
    if overtaken or not files:
        return min(2 * interval_ns, MOST * asked_ns)
    if files > BATCH_FILES:
        return max(interval_ns // 2, asked_ns // MOST, NS_PER["s"])
    return asked_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What one run of all tasks did; None for a task that is not asked for."""

    compaction: CompactionReport | None = None
    expiry: ExpireReport | None = None
    vacuum: VacuumReport | None = None


Report = CompactionReport | ExpireReport | VacuumReport


@dataclass(slots=True, kw_only=True)
class _Task:
    """One thing that is done again and again."""

    name: str
    asked: Schedule
    act: Callable[[], Report]
    every_ns: int = 0
    """How long to wait now, where that follows the load; 0 before the first time."""

    def run(self) -> Schedule | None:
        """Do it, and say when to do it again, where that changes."""
        try:
            report = self.act()
        except CommitConflict as error:
            _LOGGER.info("%s is left for later: %s", self.name, error.what)
            return None
        _LOGGER.info("%s: %s", self.name, _said(report))
        return self._follow(report) if isinstance(report, CompactionReport) else None

    def _follow(self, report: CompactionReport) -> Schedule | None:
        for one in report.given_up:
            level = logging.INFO if one.overtaken else logging.WARNING
            _LOGGER.log(level, "%s gave up %d files: %s", self.name, len(one.paths), one.why)
        if not self.asked.every_ns:
            return None
        overtaken = any(one.overtaken for one in report.given_up)
        before_ns = self.every_ns or self.asked.every_ns
        self.every_ns = adapted(before_ns, self.asked.every_ns, files=report.segments_before, overtaken=overtaken)
        return replace(self.asked, every_ns=self.every_ns)


def _said(report: Report) -> str:
    match report:
        case CompactionReport():
            return f"{report.segments_before} files became {report.segments_after}; the table is at version {report.version}"
        case VacuumReport():
            return f"{len(report.deleted)} files of {report.freed_bytes:,} bytes deleted"
        case ExpireReport():
            return f"{report.expired} versions expired; the earliest that is kept is {report.earliest}"


class Maintenance:
    """Looks after a table on a schedule, beside whoever writes to it, in threads of this process.

    Compaction puts small files together; a sink's appends go through beside it, and its upserts are decided again where a compaction
    came first. A compaction or vacuum that loses to another change is left for later. A task never overlaps itself; times that were missed
    are made up for once; an error is logged, and the next run comes. An interval of compaction follows the load: half as long after a
    compaction of more than 32 files, twice as long after one that found nothing or lost to others, within an 8th and 8 times of what was
    asked. Other intervals and cron expressions stay what they are.

    Several processes may look after one table: they lose work to each other, and no rows.

    Args:
        table: A table of either kind. Its handle stays at its version: tasks have their own.
        compact: How often small files are compacted: an interval, such as "10 minutes" (counted from the start), or a cron expression
            of five fields, such as "0 3 * * *"; see `timezone`. None for not at all, as for the others.
        expire: How often old versions of a time-series table are let go of. Without it all versions are kept, and `vacuum` only deletes
            what interrupted writes left. A Delta table keeps what its properties say.
        vacuum: How often files are deleted that no version needs which is kept.
        expire_older_than: Let go of versions that ceased to be the newest longer ago than this, such as "30 days".
        vacuum_older_than: How long ago a file must have been removed: 7 days where not given, and of a Delta table what its
            `delta.deletedFileRetentionDuration` says, which is also the least.
        timezone: Of cron expressions, by its IANA name. A time that a clock change skips is due right after the change, one that is
            repeated the first time.
        jitter: Tasks are due later by up to this; by how much depends on the table's place alone.

    Raises InvalidOption.
    """

    def __init__(
        self,
        table: TimeSeriesTable | DeltaTable,
        *,
        compact: str | timedelta | None = None,
        expire: str | timedelta | None = None,
        vacuum: str | timedelta | None = None,
        expire_older_than: str | timedelta | None = None,
        vacuum_older_than: str | timedelta | None = None,
        timezone: str = "UTC",
        jitter: str | timedelta | None = None,
    ) -> None:
        """See the class. Raises InvalidOption."""
        _check(table, compact=compact, expire=expire, vacuum=vacuum, expire_older_than=expire_older_than)
        self._url = table.url
        series = isinstance(table, TimeSeriesTable)
        given = VACUUM_AFTER if vacuum_older_than is None and series else vacuum_older_than
        removed_for = None if given is None else parse_duration(given, "vacuum_older_than")
        kept_for = None if expire_older_than is None else parse_duration(expire_older_than, "expire_older_than")
        acts: dict[str, tuple[object, Callable[[Any], Report]]] = {
            "compact": (compact, lambda mine: mine.compact()),
            "expire": (expire, lambda mine: mine.expire(older_than=kept_for)),
            "vacuum": (vacuum, lambda mine: mine.vacuum(removed_for, dry_run=False)),
        }
        self._tasks: dict[str, _Task] = {}
        for name, (asked, act) in acts.items():
            if asked is not None:
                schedule = Schedule.parse(asked, name, timezone=timezone, jitter=jitter)
                self._tasks[name] = _Task(name=f"{name} of {self._url}", asked=schedule, act=_on_own_handle(table, act))
        self._scheduler = Scheduler(environment_of(table).clock)
        for task in self._tasks.values():
            self._scheduler.add(task.name, task.asked, task.run)

    def run_once(self) -> MaintenanceReport:
        """Do all that is asked for now, one after the other, whatever the schedule says: compaction, expiry, vacuum.

        Raises what these raise.
        """
        reports: dict[str, Any] = {name: task.act() for name, task in self._tasks.items()}
        return MaintenanceReport(compaction=reports.get("compact"), expiry=reports.get("expire"), vacuum=reports.get("vacuum"))

    def run_due(self) -> int:
        """Do what is due by now, in this thread; how many tasks ran. For programs with a loop of their own."""
        return self._scheduler.run_due()

    def start(self) -> None:
        """Have threads do it from now on, until `stop` or the end of the process."""
        self._scheduler.start()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Begin nothing more, and wait for what is at work, or for so many seconds; whether all of it has ended."""
        return self._scheduler.stop(timeout_s)

    @property
    def status(self) -> Mapping[str, JobStatus]:
        """How each task fares, by "compact", "expire" and "vacuum"."""
        found = self._scheduler.status
        return {name: found[task.name] for name, task in self._tasks.items()}

    def __enter__(self) -> Self:
        """As `start`."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """As `stop`, which waits."""
        self.stop()


def _on_own_handle(table: AtVersion[Any], act: Callable[[Any], Report]) -> Callable[[], Report]:
    """The act on a handle of its own, which no other thread moves."""
    own = copy.copy(table)
    return lambda: act(own)


def _check(table: object, *, expire_older_than: object, **asked: object) -> None:
    """Raise InvalidOption for what cannot be done to the table, or by no rule."""
    if not isinstance(table, TimeSeriesTable | DeltaTable):
        raise InvalidOption(
            f"a {type(table).__name__} is no table that is written",
            why="A table of either kind at its newest version is looked after",
            fix="Pass what gl.open or gl.delta.open gives",
            option="table",
            value=table,
        )
    if all(one is None for one in asked.values()):
        raise InvalidOption(
            "nothing is to be done",
            why="Each task is done at the times that its argument says",
            fix=f'Pass such as compact="10 minutes"; there are {", ".join(asked)}',
            option="compact",
            value=None,
        )
    if isinstance(table, DeltaTable) and (asked["expire"] is not None or expire_older_than is not None):
        raise InvalidOption(
            "versions of a Delta table do not expire by themselves",
            why="It keeps them for delta.deletedFileRetentionDuration, and its log for delta.logRetentionDuration",
            fix="Leave expire out, and set these properties",
            option="expire",
            value=asked["expire"],
        )
    if (asked["expire"] is None) != (expire_older_than is None):
        raise InvalidOption(
            "expire and expire_older_than go together",
            why="One says how often versions are let go of, the other which",
            fix='Pass such as expire="1 day", expire_older_than="30 days"',
            option="expire",
            value=asked["expire"],
        )
