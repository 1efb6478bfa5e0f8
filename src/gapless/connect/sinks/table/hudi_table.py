"""Copy-on-write Hudi tables as sinks need them: all rows are staged beside the table, and become files of it when they are committed.

Files that lay in the table before would be taken for committed by readers, once their instants come before the timeline's first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.location import without_secrets
from gapless.connect.sinks.change import ALL_COLUMNS, KeyedChange, names_of, rows_schema
from gapless.connect.sinks.epoch import Epoch
from gapless.connect.sinks.evolution import AddColumn, Step, plan_evolution
from gapless.connect.sinks.resolved import resolve_keyed
from gapless.connect.sinks.row_check import RowCheck, check_no_kind
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.connect.sinks.table.opened import MadeTable, checked_by
from gapless.errors import InvalidOption
from gapless.formats.hudi.schema import widening_problem
from gapless.model.column_ids import PLAIN
from gapless.model.operation import SequenceId, Tally, operation_key
from gapless.runtime.committer import nothing
from gapless.runtime.environment import Environment
from gapless.tables.hudi.changes import Base, Change, append_rows, change_rows, overwrite_rows
from gapless.tables.hudi.commit import commit_change, evolve_table, under_lock
from gapless.tables.hudi.data_files import TARGET_BYTES
from gapless.tables.hudi.lock import HeldLock
from gapless.tables.hudi.rows import check_columns, check_names, stored_rows
from gapless.tables.hudi.table import HudiTable, instant_time
from gapless.tables.hudi.timeline import HudiState
from gapless.tables.shared.handle import Kind, is_stored
from gapless.tables.shared.landing import AppliedOperation, ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit, forget_abandoned, require_not_aborted

_ABORTED = "aborted"
"""An object for each prepared commit that was taken back, below what is ours in a table."""
_OPERATIONS = {"upsert": "UPSERT", "delete": "DELETE", "cdc": "UPSERT"}


@dataclass(slots=True, kw_only=True)
class HudiSinkTable(MadeTable):
    """A copy-on-write Hudi table."""

    kind: ClassVar[Kind] = "hudi"
    stages_rows: ClassVar[bool] = True

    location: str
    storage_options: Mapping[str, str] | None = None
    _table: HudiTable | None = None
    _asked: Mapping[str, Any] = field(default_factory=dict)
    """The change that it was opened for."""
    _check: Callable[[], None] = nothing
    """What is asked once a commit is to be made to the newest state."""

    @property
    def table(self) -> HudiTable:
        """The table, opened."""
        if self._table is None:
            self._table = HudiTable.open(self.location, self.storage_options)
        return self._table

    @property
    def place(self) -> str:
        """See `SinkTable.place`."""
        return f"{self.kind}:{without_secrets(os.fspath(self.location))}"

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`: that of what is ours in the table."""
        return self.table.own_env

    @property
    def version(self) -> int:
        """See `SinkTable.version`."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return self.table.id

    @property
    def columns(self) -> TableColumns:
        """See `SinkTable.columns`."""
        return TableColumns(schema=self.table.state.schema, ids=PLAIN, any_case=False)

    def open(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.open`; what dead writers staged goes when it is opened first."""
        first, self._asked = not self._asked, change
        MadeTable.open(self, schema, change)
        if first:
            store, marks = self.env.store, self.table.state.marks
            forget_abandoned(store, self.env.clock.now_ns(), lambda one: marks.recognise(one) is not None)

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.check`."""
        self.row_check(schema, change)

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> Epoch:
        """Not called: `stages_rows`."""
        raise AssertionError(schema, change)

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        rows, mode, table = rows_schema(schema, change), change["mode"], self.columns.schema
        if mode != "delete":
            check_columns(table)
            check_names(rows, table)
            stored_rows(self.table.state.config, table, rows.empty_table())
        fit: Callable[[pa.Table], object] | None = partial(stored_rows, self.table.state.config, table)
        if mode in ("append", "overwrite"):
            assert fit is not None
            return checked_by(fit)
        keyed = self._keyed(change, rows)
        if keyed.change_type is not None:
            check_no_kind(keyed.change_type, table)
        fit = None if mode == "delete" else fit
        return RowCheck.of(keyed, rows, table, filled=self.table.state.config.record_key, fit=fit)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        return self.table.known(operation, mode)

    def applied(self) -> Mapping[str, AppliedOperation]:
        """The last operation of each app in the newest version, by `operation_key`; moves to that version. Raises StoreError."""
        marks = self.table.refresh().marks.by_app.values()
        return {operation_key(one.operation): one for one in marks}

    def record(self, operation: SequenceId, mode: str) -> ChangeOutcome:
        """Commit an operation of this mode without rows, unless it is known. Raises as `apply`."""
        said = Change(operation=_OPERATIONS.get(mode, "INSERT"), tally=Tally())
        outcome = commit_change(self.table.timeline, operation, mode, lambda _: said, check=self._at)
        self.table.refresh()
        return outcome

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        return self.table.refresh().marks.last(operation.app)

    def held(self, paths: Sequence[str]) -> frozenset[str]:  # noqa: ARG002  # rows are written anew as files of the table
        """See `SinkTable.held`: none of them ever is."""
        return frozenset()

    def while_prepared(self, prepared: PreparedCommit, also: Callable[[], None] = nothing) -> AbstractContextManager[None]:
        """See `SinkTable.while_prepared`."""

        def check() -> None:
            require_not_aborted(self.env.store, prepared)
            also()

        return self.while_checked(check)

    @contextmanager
    def while_checked(self, check: Callable[[], None]) -> Iterator[None]:
        """Within it, `check` is called for each version that a commit is made to, and may raise."""
        self._check = check
        try:
            yield
        finally:
            self._check = nothing

    def give_up(self, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`: under the lock, so that who was at work on it has committed it, or commits it no more."""

        def said(_lock: HeldLock, state: HudiState) -> None:
            if state.recognise(prepared.operation) is None:
                self.env.store.put(f"{_ABORTED}/{prepared.path}", b"{}", mode="overwrite")

        under_lock(self.table.timeline, said)

    def was_given_up(self, prepared: PreparedCommit) -> bool:
        """See `SinkTable.was_given_up`."""
        return is_stored(self.env.store, f"{_ABORTED}/{prepared.path}")

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return self.apply(StagedRows.of(self.env.store, prepared, self.columns))

    def apply(self, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        outcome = commit_change(
            self.table.timeline,
            staged.prepared.operation,
            staged.change["mode"],
            partial(self._decided, staged),
            check=self._at,
            target_bytes=self.target_bytes or TARGET_BYTES,
        )
        self.table.refresh()
        return outcome

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        return instant_time(version)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _refresh(self) -> object:
        return self.table.refresh()

    def _make(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        # Its key and order are those of the sink, where none are said.
        key = [name for name in names_of(self._asked.get("key")) if name != ALL_COLUMNS]
        said = {"record_key": key, "order_by": self._asked.get("order_by")}
        made = {**{name: value for name, value in said.items() if value}, **options}
        self._table = HudiTable.create(self.location, schema, made, self.storage_options)

    @property
    def _how_to_make(self) -> str:
        return "Pass create={}, or make it by Hudi"

    def _evolve(self, rows: pa.Schema) -> None:
        """Change the table's columns by the policy, so that it takes rows of these. What is left is refused where the rows are checked."""
        config = self.table.state.config
        fixed = (*config.record_key, *config.partition_by, *config.order_by)

        def plan(state: HudiState) -> list[Step]:
            return plan_evolution(state.schema, rows, self.evolution, fixed=fixed)

        if not self.columns.schema.names or plan(self.table.state):
            evolve_table(self.table.timeline, lambda state: evolved(state.schema, rows, plan(state)))
            self.table.refresh()

    def _at(self, state: HudiState) -> None:
        self.table.state = state
        self._check()

    def _decided(self, staged: StagedRows, base: Base) -> Change:
        change = staged.change
        mode = change["mode"]
        if mode == "append":
            return append_rows(base, staged.tables())
        if mode == "overwrite":
            return overwrite_rows(base, staged.tables(), dynamic=change.get("partition_overwrite") == "dynamic")
        rows = next(staged.tables()).schema
        return change_rows(base, resolve_keyed(staged, self._keyed(change, rows)), _OPERATIONS[mode])

    def _keyed(self, change: Mapping[str, Any], rows: pa.Schema) -> KeyedChange:
        """Raises InvalidOption for a key that is not the table's."""
        config = self.table.state.config
        asked = names_of(change.get("key"))
        least, most = set(config.record_key), {*config.record_key, *config.partition_by}
        if asked == (ALL_COLUMNS,) or not (asked or least):
            raise InvalidOption(
                f"mode={change['mode']!r} into a Hudi table has no key",
                why="It finds rows by key, and the table names no record key"
                if not least
                else "Rows of a Hudi table have keys, and are not told apart by all their values",
                fix=f"Pass key={[*config.record_key]!r}" if least else 'Pass key="id" or key=["site", "id"]',
                option="key",
                value=change.get("key"),
            )
        if least and asked and not least <= set(asked) <= most:
            raise InvalidOption(
                f"key={[*asked]!r} is not the record key of the Hudi table, {[*config.record_key]!r}",
                why="Hudi finds rows by that; with the partition columns beside it, rows of one key in several partitions are different ones",
                fix=f"Pass key={[*config.record_key]!r}, or leave it out",
                option="key",
                value=change.get("key"),
            )
        keyed = KeyedChange.of(change, config.record_key)
        if not keyed.order_by and change["mode"] != "delete" and set(config.order_by) <= set(rows.names):
            keyed = replace(keyed, order_by=config.order_by)
        return keyed


def evolved(table: pa.Schema, rows: pa.Schema, steps: Sequence[Step]) -> pa.Schema:
    """The columns after these steps, as far as readers of Hudi follow them: whole columns are added, and types widened that Spark reads in the
    files of before. A table without columns takes those of its first rows.
    """
    if not table.names:
        return rows
    found = table
    for step in steps:
        if len(step.path) > 1:
            continue
        (name,) = step.path
        if isinstance(step, AddColumn):
            found = found.append(pa.field(name, step.type))
        elif widening_problem(table.field(name).type, step.type) is None:
            found = found.set(found.get_field_index(name), found.field(name).with_type(step.type))
    return found
