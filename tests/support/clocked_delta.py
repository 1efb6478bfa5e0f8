"""A small Delta table in a dict whose clock the test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from gapless.formats.delta.actions import Action, Commit, Json, TableState
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Snapshot
from gapless.model.instant import NS_PER, NS_PER_DAY
from gapless.model.protocols import Store
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment, RandomIds
from gapless.tables.delta.lifecycle import create_table, open_table
from gapless.tables.delta.table import DeltaTable
from gapless.testing.store.stores import DictStore
from support.clocked_table import HOUR_NS, SetClock

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def numbered(*ids: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """A row for each id; texts say it in words."""
    rows = [{"id": one, "v": f"v{one}", "day": f"d{one % 2}"} for one in ids]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema)


def at(ns: int) -> datetime:
    """A time as a datetime in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // NS_PER["us"])


def _stands(mine: Commit, _version: int, _theirs: Commit) -> Conversation[Compatible[Commit]]:
    yield from ()
    return Compatible(mine)


@dataclass
class ClockedDelta:
    """A table with its clock and its store."""

    properties: Mapping[str, str] = field(default_factory=dict)
    partition_by: Sequence[str] = ()
    schema: pa.Schema = SCHEMA
    clock: SetClock = field(default_factory=SetClock)
    store: DictStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = DictStore(self.clock.now_ns)
        create_table(self.env(), "t", self.schema, partition_by=self.partition_by, properties=self.properties)
        self.table = self.open()

    def env(self, store: Store | None = None) -> Environment:
        """The world of the table, by another store where given."""
        return Environment(store=store or self.store, clock=self.clock, ids=RandomIds())

    def open(self, store: Store | None = None) -> DeltaTable:
        """A new handle."""
        env = self.env(store)
        return DeltaTable(env, "memory://t", open_table(env, "t"))

    def wait(self, *, days: float = 0, hours: float = 0) -> None:
        """Let time pass."""
        self.clock.ns += int(days * NS_PER_DAY + hours * HOUR_NS)

    def append(self, *ids: int) -> list[str]:
        """One append for each id; the paths of the files."""
        before = {file.path for file in self.table.files()}
        for one in ids:
            self.table.append(numbered(one, schema=self.schema))
        return [file.path for file in self.table.files() if file.path not in before]

    def commit(self, *actions: Action, operation: str = "TEST", parameters: Mapping[str, Json] | None = None) -> int:
        """Commit these actions from a handle that is not refreshed, whatever came first; the version."""
        entry = Commit(id=RandomIds().uuid(), operation=operation, actions=actions, parameters=parameters or {})
        landed = self.table._committer.commit(self.table._snapshot, Proposal(commit=entry, check_conflict=_stands))
        assert isinstance(landed, Snapshot)
        return landed.version

    @property
    def state(self) -> TableState:
        """The state of the newest version."""
        return self.open()._snapshot.state

    def ids(self, version: int | None = None) -> list[int]:
        """The ids that the table has, sorted."""
        view = self.open() if version is None else self.open().at(version)
        found: list[int] = sorted(view.scan().to_arrow().column("id").to_pylist())
        return found

    def names(self, folder: str = "") -> set[str]:
        """The paths that are stored."""
        return {info.path for info in self.store.list(folder)}

    def data_files(self) -> set[str]:
        """The paths that are stored outside the log."""
        return {name for name in self.names() if not name.startswith("_delta_log/")}
