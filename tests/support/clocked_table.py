"""A small table in a dict whose clock the test sets, with segments that can be taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from gapless.formats.timeseries.actions import Action, Commit, RemoveSegment, SetTag, TableState
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Snapshot
from gapless.model.instant import NS_PER, NS_PER_DAY
from gapless.model.protocols import Store
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment, RandomIds
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.testing.store.stores import DictStore

NOON_NS = 1_767_960_000 * NS_PER["s"]
"""2026-01-09T12:00Z: where such a clock starts."""
HOUR_NS = 3600 * NS_PER["s"]


@dataclass
class SetClock:
    """Time that passes when the test says so, and a little with each look, so that no two commits share a time."""

    ns: int = NOON_NS

    def now_ns(self) -> int:
        self.ns += 1_000_000
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


def stands(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
    yield from ()
    return Compatible(mine)


def commit_actions(table: TimeSeriesTable, *actions: Action) -> int:
    """Commit these actions from a handle as it stands, whatever came first; the version."""
    entry = Commit(id=RandomIds().uuid(), operation="test", actions=actions)
    landed = table._committer.commit(table._snapshot, Proposal(commit=entry, check_conflict=stands))
    assert isinstance(landed, Snapshot)
    return landed.version


def rows_at(hour: int, count: int = 1) -> pa.Table:
    """Hourly rows from an hour on, the hour as their value."""
    hours = range(hour, hour + count)
    times = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=one) for one in hours]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": pa.array([float(one) for one in hours])})


@dataclass
class Clocked:
    """A table with its clock and its store."""

    clock: SetClock = field(default_factory=SetClock)
    checkpoint_interval: int = 0
    store: DictStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = DictStore(self.clock.now_ns)
        properties = {"checkpoint_interval": self.checkpoint_interval}
        create_table(self.env(), "t", parse_index("ts", "timestamp", "1h", (), None), None, properties)
        self.table = self.open()

    def env(self, store: Store | None = None) -> Environment:
        """The world of the table, by another store where given."""
        return Environment(store=store or self.store, clock=self.clock, ids=RandomIds())

    def open(self, store: Store | None = None) -> TimeSeriesTable:
        """A new handle."""
        env = self.env(store)
        return TimeSeriesTable(env, "memory://t", open_table(env, "t"))

    def wait(self, *, days: float = 0, hours: float = 0) -> None:
        """Let time pass."""
        self.clock.ns += int(days * NS_PER_DAY + hours * HOUR_NS)

    def append(self, *hours: int) -> list[str]:
        """One append for each hour; the paths of the segments."""
        before = {segment.path for segment in self.table.segments()}
        for hour in hours:
            self.table.append(rows_at(hour))
        return [segment.path for segment in self.table.segments() if segment.path not in before]

    def commit(self, *actions: Action, table: TimeSeriesTable | None = None) -> int:
        """Commit these actions from a handle that is not refreshed, whatever came first; the version."""
        return commit_actions(table or self.table, *actions)

    def remove(self, *paths: str) -> int:
        """Take segments out of the table by one commit; the version."""
        return self.commit(*(RemoveSegment(path) for path in paths))

    def tag(self, name: str, version: int | None) -> int:
        """Name a version; the version that says so."""
        return self.commit(SetTag(name, version))

    @property
    def state(self) -> TableState:
        """The state of the newest version."""
        return self.open()._snapshot.state

    def names(self, folder: str = "") -> set[str]:
        """The paths that are stored."""
        return {info.path for info in self.store.list(folder)}

    def hours(self, table: TimeSeriesTable | None = None) -> list[float]:
        """The values of all rows."""
        found: Sequence[float] = (table or self.open()).scan().to_arrow().column("v").to_pylist()
        return sorted(found)
