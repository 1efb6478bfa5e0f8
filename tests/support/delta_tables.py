"""Small Delta tables for tests, and what is told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from gapless.model.protocols import PutMode
from gapless.runtime.environment import Environment
from gapless.store.open import open_store
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.view import DeltaView
from gapless.tables.delta.table import DeltaTable
from gapless.testing.store.stores import OuterStore
from support.delta_rows import counted, counted_table

LAYOUTS: dict[str, dict[str, str]] = {
    "copies": {},
    "vectors": {"delta.enableDeletionVectors": "true"},
    "copies and feed": {"delta.enableChangeDataFeed": "true"},
    "vectors and feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "mapped": {"delta.columnMapping.mode": "name"},
}
"""Properties that decide how row changes are written."""
WAYS = {
    "copies": (LAYOUTS["copies"], ()),
    "copies by day": (LAYOUTS["copies"], ("day",)),
    "vectors": (LAYOUTS["vectors"], ()),
    "copies and feed": (LAYOUTS["copies and feed"], ()),
    "vectors and feed by day": (LAYOUTS["vectors and feed"], ("day",)),
    "mapped by day": (LAYOUTS["mapped"], ("day",)),
}
"""Properties and partition columns, so that each of either meets some of the other."""


def made(
    path: Path | str, rows: pa.Table, properties: Mapping[str, str] | None = None, partition_by: tuple[str, ...] = ()
) -> DeltaTable:
    """A table of one append."""
    table = DeltaTable.create(path, rows.schema, properties=properties or {}, partition_by=partition_by)
    table.append(rows)
    return table


def rows_of(table: DeltaView) -> Counter[str]:
    return counted_table(table.scan().to_arrow())


def ordered(table: DeltaTable, *by: str) -> list[dict[str, Any]]:
    return list(table.scan().to_arrow().sort_by([(name, "ascending") for name in by or ("id",)]).to_pylist())


class FirstStore(OuterStore):
    """Before the first put of a commit, something else happens."""

    def __init__(self, location: str, act: Callable[[], object]) -> None:
        super().__init__(open_store(location, None))
        self.act: Callable[[], object] | None = act

    def put(self, path: str, data: bytes | memoryview, *, mode: PutMode = "create", durable: bool = True) -> None:
        if path.startswith("_delta_log/") and path.endswith(".json") and self.act is not None:
            act, self.act = self.act, None
            act()
        super().put(path, data, mode=mode, durable=durable)


def racing(path: Path | str, act: Callable[[], object]) -> DeltaTable:
    """A handle whose next change finds, just before its commit, that `act` was done first."""
    env = Environment(store=FirstStore(str(path), act))
    return DeltaTable(env, str(path), open_table(env, str(path)))


def replayed(table: DeltaTable) -> Counter[str]:
    """The table's rows as its change feed makes them, from nothing; fails where a version of it is not the table's."""
    held: Counter[str] = Counter()
    for version in range(table.version + 1):
        for row in table.changes(version, version).to_arrow().to_pylist():
            change = row.pop("_change_type")
            del row["_commit_version"], row["_commit_timestamp"]
            (key,) = counted([row])
            held[key] += 1 if change in ("insert", "update_postimage") else -1
        there = counted_table(table.at(version).scan().to_arrow())
        assert +held == there, f"version {version}"
        assert not -held, f"version {version} takes away what was not there"
    return +held
