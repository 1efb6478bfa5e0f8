"""Tables of either kind that are published, with a clock that the test sets: what publishes them is one code, and so is what tests it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.runtime.environment import Environment
from gapless.tables.delta import lifecycle as delta
from gapless.tables.delta.table import DeltaTable
from gapless.tables.timeseries.lifecycle import create_table, open_table, parse_index
from gapless.tables.timeseries.table import TimeSeriesTable
from support.clocked_table import NOON_NS, SetClock, rows_at

AnyTable = TimeSeriesTable | DeltaTable


@dataclass(frozen=True)
class SourceKind:
    """A kind of table."""

    name: str
    log: str
    """The folder of its log."""
    hudi: str
    """The base path of its Hudi table."""
    made: Callable[[Environment, Mapping[str, object]], AnyTable]
    opened: Callable[[Environment], AnyTable]
    change: Callable[[Any], None]
    """Upserts, compacts, adds a column and deletes, after an append."""

    def table_in(self, store: object, clock: SetClock | None = None, **properties: object) -> Any:
        """A new table."""
        return self.made(Environment(store=store, clock=clock or SetClock()), properties)  # type: ignore[arg-type]

    def again(self, store: object, clock: SetClock | None = None) -> Any:
        """A handle of another process, later."""
        return self.opened(Environment(store=store, clock=clock or SetClock(NOON_NS * 2)))  # type: ignore[arg-type]

    def life(self, table: Any) -> None:
        """Changes of each sort."""
        table.append(rows_at(0, 5))
        table.append(rows_at(10, 5))
        self.change(table)

    def __str__(self) -> str:
        """For the names of tests."""
        return self.name


def _series(env: Environment, properties: Mapping[str, object]) -> TimeSeriesTable:
    made = create_table(env, "t", parse_index("ts", "timestamp", "1h", (), None), None, dict(properties))
    return TimeSeriesTable(env, "memory://t", made)


def _series_life(table: TimeSeriesTable) -> None:
    table.upsert(rows_at(2, 5))
    table.compact()
    table.add_column("note", "string")
    table.delete("v = 3")


def _delta(env: Environment, properties: Mapping[str, object]) -> DeltaTable:
    made = DeltaTable(env, "memory://t", delta.create_table(env, "t", rows_at(0).schema, properties=properties))
    made._follow(made._snapshot)
    return made


def _delta_life(table: DeltaTable) -> None:
    table.update({"v": "v + 1"}, where="v >= 2 AND v < 5")
    table.compact()
    table.alter.add_column("note", pa.string())
    table.delete("v = 3")


SERIES = SourceKind(
    "timeseries",
    "_timeseries_log",
    "data",
    _series,
    lambda env: TimeSeriesTable(env, "memory://t", open_table(env, "t")),
    _series_life,
)
DELTA = SourceKind(
    "delta", "_delta_log", "_hudi", _delta, lambda env: DeltaTable(env, "memory://t", delta.open_table(env, "t")), _delta_life
)
KINDS = [SERIES, DELTA]
