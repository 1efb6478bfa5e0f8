"""Iceberg tables as sinks need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange, rows_schema
from gapless.connect.sinks.evolution import AddColumn, Step, carry_out, plan_evolution
from gapless.connect.sinks.resolved import resolve_counted, resolve_keyed
from gapless.connect.sinks.row_check import RowCheck, check_no_kind, check_whole
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.connect.sinks.table.opened import MadeTable, checked_by
from gapless.errors import InvalidOption
from gapless.formats.iceberg.partitioning import parse_partition_by
from gapless.model.operation import SequenceId, operation_key
from gapless.runtime.committer import nothing
from gapless.runtime.environment import Environment
from gapless.tables.iceberg import prepared as iceberg_prepared
from gapless.tables.iceberg.alter import add_column, widen_column
from gapless.tables.iceberg.columns import arrow_schema, column_ids
from gapless.tables.iceberg.commits import Change, land_change
from gapless.tables.iceberg.options import IcebergOptions
from gapless.tables.iceberg.row_changes import RowChange
from gapless.tables.iceberg.table import IcebergTable, create_iceberg_table, open_iceberg_table, partition_spec
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.landing import AppliedOperation, ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit, require_not_aborted


@dataclass(slots=True, kw_only=True)
class IcebergSinkTable(MadeTable):
    """An Iceberg table of a catalog, or in a directory."""

    kind: ClassVar[Kind] = "iceberg"

    options: IcebergOptions
    partition_by: object = None
    """How a missing table is partitioned, and one that is there must be."""
    _table: IcebergTable | None = None
    _check: Callable[[], None] = field(default=nothing, repr=False)
    """Within `while_prepared`: raises where a commit must not follow the known version."""

    @property
    def place(self) -> str:
        """See `SinkTable.place`."""
        return f"iceberg:{self.options.place}"

    @property
    def table(self) -> IcebergTable:
        """The table, opened."""
        if self._table is None:
            self._table = open_iceberg_table(self.options)
        return self._table

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`."""
        return self.table.env

    @property
    def version(self) -> int:
        """See `SinkTable.version`: the sequence number of the current snapshot."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return self.table.table_id

    @property
    def columns(self) -> TableColumns:
        """See `SinkTable.columns`."""
        schema = self.table.metadata.schema()
        return TableColumns(schema=arrow_schema(schema), ids=column_ids(schema), any_case=True)

    @property
    def _how_to_make(self) -> str:
        return 'Pass create={} or partition_by=["day(ts)"], or make it with the engine that owns it'

    def _refresh(self) -> object:
        found = self.table.refresh()
        self._check_partitions()
        return found

    def _make(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._table = create_iceberg_table(self.options, schema, {"partition_by": self.partition_by, **options})

    def _evolve(self, rows: pa.Schema) -> None:
        table = self.table

        def plan() -> list[Step]:
            metadata = table.refresh().metadata
            names = {one.field_id: one.name for one in metadata.schema().fields}
            parted = tuple(names[one.source_id] for one in metadata.spec().fields if one.source_id in names)
            return plan_evolution(table.schema, rows, self.evolution, any_case=True, fixed=parted)

        def apply(step: Step) -> None:
            change = add_column if isinstance(step, AddColumn) else widen_column
            change(table, step.path, step.type)

        if self.evolution != "refuse":
            carry_out(plan, apply)

    def _check_partitions(self) -> None:
        """Raise InvalidOption where the table is partitioned otherwise than is said."""
        if self.partition_by is None:
            return
        metadata = self.table.metadata
        wanted = partition_spec(metadata.schema(), parse_partition_by(self.partition_by))
        now = [(one.source_id, str(one.transform)) for one in metadata.spec().fields]
        if [(one.source_id, str(one.transform)) for one in wanted.fields] != now:
            raise InvalidOption(
                f"partition_by={self.partition_by!r} is not how {self.options.place} is partitioned",
                why=f"It is by {metadata.spec() if now else 'nothing'}",
                fix="Leave partition_by out: rows are written as the table is partitioned",
                option="partition_by",
                value=self.partition_by,
            )

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> iceberg_prepared.IcebergEpoch:  # noqa: ARG002
        """See `SinkTable.begin`."""
        return iceberg_prepared.IcebergEpoch.begin(
            self.table, schema, target_bytes=self.target_bytes, held_bytes=self.held_bytes
        )

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""
        mode, rows = change["mode"], rows_schema(schema, change)
        self.table.refresh()
        self.table.require_writable()
        epoch = None if mode == "delete" else self.begin(rows, change)
        if mode == "overwrite":
            assert epoch is not None
            return checked_by(epoch.fitter.rows)
        keyed, table = self._keyed(change, rows), self.table.schema
        if keyed.change_type is not None:
            check_no_kind(keyed.change_type, table)
        if epoch is not None:
            why = "A row takes the place of a whole row, so what the table holds in a missing column would be lost"
            check_whole(rows, table, why)
        return RowCheck.of(keyed, rows, table, fit=None if epoch is None else epoch.fitter.rows)

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """See `SinkTable.known`."""
        self.table.refresh()
        return self.table.known(operation, mode)

    def applied(self) -> Mapping[str, AppliedOperation]:
        """The last operation of each app in the newest version, by `operation_key`; moves to that version. Raises CorruptTable, StoreError."""
        self.table.refresh()
        return {operation_key(one.operation): one for one in self.table.applied()}

    def record(self, operation: SequenceId, mode: str) -> ChangeOutcome:
        """Commit an operation of this mode without rows, unless it is known. Raises as `apply`."""
        return land_change(self.table, lambda _: Change(), operation, mode, self._check)

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        self.table.refresh()
        return self.table.last(operation.app)

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """See `SinkTable.held`."""
        return iceberg_prepared.held(self.table, paths)

    def while_prepared(self, prepared: PreparedCommit, also: Callable[[], None] = nothing) -> AbstractContextManager[None]:
        """See `SinkTable.while_prepared`."""
        # Asked after the snapshot is read that the commit follows: an abort that is not seen then puts one after it, and the commit fails.
        return self.while_checked(partial(_check, self.env.store, prepared, also))

    @contextmanager
    def while_checked(self, check: Callable[[], None]) -> Iterator[None]:
        """Within it, `check` is called for each version that a commit is made to, and may raise."""
        self._check = check
        try:
            yield
        finally:
            self._check = nothing

    def give_up(self, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`."""
        iceberg_prepared.give_up(self.table, prepared)

    def was_given_up(self, prepared: PreparedCommit) -> bool:
        """See `SinkTable.was_given_up`."""
        return iceberg_prepared.was_given_up(self.table, prepared)

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return iceberg_prepared.finalize_append(self.table, prepared, self._check)

    def overwrite(self, prepared: PreparedCommit) -> ChangeOutcome:
        """Commit staged data files in the place of all that is there. Raises as `append`."""
        return iceberg_prepared.finalize_overwrite(self.table, prepared, self._check)

    def apply(self, staged: StagedRows) -> ChangeOutcome:
        """See `SinkTable.apply`."""
        prepared, change = staged.prepared, staged.change
        made = RowChange(
            table=self.table,
            operation=prepared.operation,
            kind=change["mode"],
            check=self._check,
            target_bytes=self.target_bytes,
        )
        if change["mode"] == "overwrite":
            return made.overwrite(lambda: (batch for rows in staged.tables() for batch in rows.to_batches()))
        keyed = KeyedChange.of(change, ())
        return made.keyed(resolve_keyed(staged, keyed)) if keyed.key else made.counted(resolve_counted(staged, keyed))

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        return self.table.time_of(version)

    def _keyed(self, change: Mapping[str, Any], rows: pa.Schema) -> KeyedChange:
        """Raises InvalidOption where no key is named."""
        return KeyedChange.with_key(change, rows.names, "an Iceberg table")


def _check(store: Any, prepared: PreparedCommit, also: Callable[[], None]) -> None:
    require_not_aborted(store, prepared)
    also()
