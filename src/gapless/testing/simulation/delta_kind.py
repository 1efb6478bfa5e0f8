"""Delta tables as a kind of table for the simulator: how each intent is carried out, and what is checked beside the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa

from gapless.errors import AccessDenied, CommitConflict, CorruptTable, InvalidOption, StorageFull, VersionNotFound
from gapless.runtime.environment import Environment
from gapless.tables.delta.files import open_file
from gapless.tables.delta.lifecycle import create_table, open_table
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared import duckdb_session
from gapless.testing.simulation.delta_draw import draw
from gapless.testing.simulation.delta_watch import DeltaWatch, read_ledger
from gapless.testing.simulation.draw import Scenario
from gapless.testing.simulation.process import Held, Kind
from gapless.testing.simulation.series import SCHEMA, rows_of, to_batch
from gapless.testing.simulation.tasks import (
    MARK,
    Appending,
    Deleting,
    Maintain,
    Maintenance,
    Merging,
    Replacing,
    Restoring,
    Updating,
)
from gapless.testing.simulation.watch import Ledger

INLINE_BYTES = (0, 34)
"""Up to which size deletion vectors lie in the log, in every other history: none, or those of one position. The others go into files."""


@contextmanager
def surroundings(seed: int) -> Iterator[None]:
    """Let deletion vectors of this process go into files, and every DuckDB run on its caller's thread.

    What threads of DuckDB's own pull from a table comes by no actor: without waits and faults, and at times that no seed decides.
    """
    inline_bytes, connect, shared = vars(open_file)["INLINE_BYTES"], duckdb.connect, duckdb_session.SHARED

    def connect_alone(database: str = ":memory:", *, config: dict[str, Any] | None = None) -> Any:
        return connect(database, config={**(config or {}), "threads": "1"})

    vars(open_file)["INLINE_BYTES"] = INLINE_BYTES[seed % len(INLINE_BYTES)]
    vars(duckdb_session)["SHARED"] = duckdb_session.SharedDuck()
    duckdb.connect = connect_alone  # type: ignore[assignment]  # it takes what we pass
    try:
        yield
    finally:
        vars(open_file)["INLINE_BYTES"] = inline_bytes
        vars(duckdb_session)["SHARED"] = shared
        duckdb.connect = connect


LOCATION = "memory://sim"
_REFUSALS = (CommitConflict, StorageFull, AccessDenied)


def _append(table: DeltaTable, intent: Appending) -> Any:
    return table.append(to_batch(intent.rows), operation_id=intent.operation_id)


def _merge(table: DeltaTable, intent: Merging) -> Any:
    source = pa.Table.from_batches([to_batch(intent.rows)])
    merge = table.merge(source, on="t.ts = s.ts and t.entity = s.entity")
    marking = {"number": f"s.number * {MARK} + t.number % {MARK}"}
    return merge.when_matched_update(marking).when_not_matched_insert_all().execute(operation_id=intent.operation_id)


def _where(intent: Deleting | Replacing | Updating) -> str:
    entity = "" if intent.entity is None else f" and entity = '{intent.entity}'"
    return f"ts >= {intent.start} and ts < {intent.end}{entity}"


def _update(table: DeltaTable, intent: Updating) -> Any:
    marking = {"number": f"{intent.mark * MARK} + number % {MARK}"}
    return table.update(marking, where=_where(intent), operation_id=intent.operation_id)


def _delete(table: DeltaTable, intent: Deleting) -> Any:
    below = "" if intent.below is None else f" and number < {intent.below}"
    return table.delete(_where(intent) + below, operation_id=intent.operation_id)


def _overwrite(table: DeltaTable, intent: Replacing) -> Any:
    return table.overwrite(to_batch(intent.rows), where=_where(intent), operation_id=intent.operation_id)


def _restore(table: DeltaTable, intent: Restoring) -> Any:
    return table.restore(version=intent.version)


def _care(table: DeltaTable, intent: Maintenance) -> Any:
    (amount,) = intent.detail
    match intent.care:
        case "compact":
            return table.compact()
        case "zorder":
            return table.zorder(["ts", "number"])
        case "checkpoint":
            return table.checkpoint()
        case "clean_log":
            return table.cleanup_log()
        case "vacuum":
            return table.vacuum(older_than=timedelta(seconds=amount), dry_run=False)
    raise AssertionError(intent.care)


def _maintain(_table: DeltaTable, task: Maintain) -> Maintenance:
    return Maintenance(care=task.care, detail=(task.amount,))


def _make(env: Environment, scenario: Scenario) -> None:
    partition_by = ["entity"] if scenario.typed else []
    create_table(env, LOCATION, SCHEMA, partition_by=partition_by, properties=scenario.properties)


def _open(env: Environment) -> DeltaTable:
    return DeltaTable(env, LOCATION, open_table(env, LOCATION))


def _look(table: DeltaTable) -> Callable[[], Held]:
    rows = table.scan()
    return lambda: (rows_of(rows.to_arrow()), None)


def _check_changes(table: DeltaTable, ledger: Ledger) -> list[str]:
    """The change feed of all that is kept, where there is one, replayed over the rows before it, gives the rows of the end."""
    first = max((version + 1 for version in ledger.commits if not ledger.commits[version].landed.keeps(version)), default=0)
    if table.properties.get("delta.enableChangeDataFeed") != "true" or first >= table.version:
        return []
    rows = Counter(ledger.rows_at(first))
    try:
        changes = table.changes(first + 1, table.version).to_arrow().to_pylist()
    except VersionNotFound as error:
        vacuumed = any(path.startswith("_change_data/") for path in ledger.gone)
        return [] if vacuumed else [f"the changes from version {first + 1} on cannot be read: {error}"]
    for change in changes:
        gone = change["_change_type"] in ("delete", "update_preimage")
        rows[change["ts"], change["entity"], change["number"]] += -1 if gone else 1
    wanted = Counter(ledger.rows_at(table.version))
    if rows == wanted:
        return []
    return [
        f"the changes from version {first + 1} on come to rows that are wrong by {dict(rows - wanted)}, {dict(wanted - rows)}"
    ]


DELTA_TABLE = Kind(
    name="delta",
    first=0,
    draw=draw,
    make=_make,
    open=_open,
    calls={
        Appending: _append,
        Merging: _merge,
        Updating: _update,
        Deleting: _delete,
        Replacing: _overwrite,
        Restoring: _restore,
        Maintenance: _care,
    },
    refusals=(*_REFUSALS, VersionNotFound, CorruptTable, InvalidOption),
    append_refusals=_REFUSALS,
    maintain=_maintain,
    look=_look,
    watch=DeltaWatch,
    read_ledger=read_ledger,
    after=_check_changes,
    surroundings=surroundings,
    stray=lambda table: table.append(to_batch(((10**6, "x", 10**9),))),
)
"""Delta tables."""
