"""What sinks need of a table of any kind: it is opened, or made, when the first rows are announced."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from gapless.connect.location import without_secrets
from gapless.connect.sinks.change import rows_schema
from gapless.connect.sinks.epoch import SPILL_BYTES, Epoch
from gapless.connect.sinks.evolution import Policy
from gapless.connect.sinks.refusals import check_retracting
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.errors import TableExists, TableNotFound, VersionNotFound
from gapless.log.versions import read_back, read_range
from gapless.model.instant import NS_PER
from gapless.model.operation import SequenceId
from gapless.runtime.committer import nothing
from gapless.runtime.condition import Condition
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import AtVersion, Kind, TableContext, committing_on, table_id
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit, require_not_aborted

_ABORT = "abort"
"""What logs call an entry that says that no finalization of a prepared commit follows."""
_LOOKS_BACK = 1_000
"""At most so many commits are read to find out whether a prepared commit was aborted, which only an older checkpoint than the last needs."""
_SKEW_NS = 24 * 3600 * NS_PER["s"]
"""Clocks of writers differ by less."""
Handle = TypeVar("Handle", bound=AtVersion[Any])
Opened_contra = TypeVar("Opened_contra", bound=AtVersion[Any], contravariant=True)


class TwoPhases(Protocol[Opened_contra]):
    """Commits what was prepared to a table of one kind; a module is one."""

    def finalize_append(self, table: Opened_contra, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        ...

    def give_up(self, table: Opened_contra, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`."""
        ...


@dataclass(slots=True, kw_only=True)
class MadeTable(ABC):
    """What a sink does before the first row, into a table of any kind: its class says how that kind is opened, made and changed."""

    kind: ClassVar[Kind]
    stages_rows: ClassVar[bool] = False

    create: Mapping[str, Any] | None = None
    """How a missing table is made: the arguments of `gl.create` or `gl.delta.create` but path and schema; None for not at all."""
    target_bytes: int | None = None
    """About how large data files become on disk; what the table says, or 128 MiB, where None."""
    held_bytes: int = SPILL_BYTES
    """What files in the making may hold in memory together."""
    evolution: Policy = "refuse"
    """What becomes of columns that the table lacks."""

    @abstractmethod
    def _refresh(self) -> object:
        """Open the table, or move to its newest version. Raises TableNotFound, and what opening raises."""

    @abstractmethod
    def _make(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        """Make the table. Raises TableExists, and what making one raises."""

    @abstractmethod
    def _evolve(self, rows: pa.Schema) -> None:
        """Change the table's columns by the policy, so that it takes rows of these."""

    @property
    @abstractmethod
    def _how_to_make(self) -> str:
        """What to do where a table is missing, for a message."""

    @property
    @abstractmethod
    def place(self) -> str:
        """See `SinkTable.place`."""

    @property
    @abstractmethod
    def columns(self) -> TableColumns:
        """See `SinkTable.columns`."""

    @abstractmethod
    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> Epoch:
        """See `SinkTable.begin`."""

    @abstractmethod
    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """See `SinkTable.row_check`."""

    def open(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.open`."""
        rows = rows_schema(schema, change)
        try:
            self._refresh()
        except TableNotFound as error:
            if self.create is None:
                why = "A sink makes it only where it is told how"
                raise TableNotFound(error.what, why=why, fix=self._how_to_make, path=str(error.facts["path"])) from error
            check_retracting(rows, change, ())
            try:
                self._make(rows, self.create)
            except TableExists:  # another sink made it a moment ago
                self._refresh()
        check_retracting(rows, change, self.columns.schema.names)
        if change["mode"] != "delete":
            self._evolve(rows)

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """See `SinkTable.check`."""
        if change["mode"] == "append":
            self.begin(schema, change)
        else:
            self.row_check(schema, change)


@dataclass(slots=True, kw_only=True)
class OpenedTable(MadeTable, Generic[Handle]):
    """What a sink needs of a table with a log of ours; its class says how that kind is opened and made."""

    location: str
    storage_options: Mapping[str, str] | None = None
    _table: Handle | None = None

    @abstractmethod
    def _opened(self) -> Handle:
        """The table that lies there. Raises TableNotFound, and what opening raises."""

    @abstractmethod
    def _made(self, schema: pa.Schema, options: Mapping[str, Any]) -> Handle:
        """A new table. Raises TableExists, and what making one raises."""

    @property
    @abstractmethod
    def _phases(self) -> TwoPhases[Handle]:
        """How this kind of table commits what was prepared."""

    @property
    @abstractmethod
    def _context(self) -> TableContext[Any, Any]:
        """The opened table, for a call that begins now."""

    def _refresh(self) -> object:
        return self._context.refresh()

    def _make(self, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._table = self._made(schema, options)

    @property
    def place(self) -> str:
        """See `SinkTable.place`."""
        return f"{self.kind}:{without_secrets(os.fspath(self.location))}"

    @property
    def table(self) -> Handle:
        """The table, opened."""
        if self._table is None:
            self._table = self._opened()
        return self._table

    @property
    def env(self) -> Environment:
        """See `SinkTable.env`."""
        return self._context.env

    @property
    def version(self) -> int:
        """See `SinkTable.version`."""
        return self.table.version

    @property
    def table_id(self) -> str:
        """See `SinkTable.table_id`."""
        return table_id(self.table)

    def while_prepared(self, prepared: PreparedCommit, also: Callable[[], None] = nothing) -> AbstractContextManager[None]:
        """See `SinkTable.while_prepared`."""

        def check() -> None:
            require_not_aborted(self.env.store, prepared)
            also()

        return committing_on(self.table, Condition(check=check, is_given_up=partial(_gives_up, prepared=prepared)))

    def give_up(self, prepared: PreparedCommit) -> None:
        """See `SinkTable.give_up`."""
        self._phases.give_up(self.table, prepared)

    def was_given_up(self, prepared: PreparedCommit) -> bool:
        """See `SinkTable.was_given_up`."""
        context, since_ns = self._context, prepared.prepared_ns - _SKEW_NS
        read = read_back(context.committer.table_format, context.snapshot.version, _LOOKS_BACK, since_ns=since_ns)
        return any(_gives_up(entry, prepared) for _, entry, _ in context.env.drive(read))

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """See `SinkTable.append`."""
        return self._phases.finalize_append(self.table, prepared)

    def last(self, operation: SequenceId) -> int | None:
        """See `SinkTable.last`."""
        known = self._context.refresh().state.recognise(operation)
        return known.operation.sequence if known is not None and isinstance(known.operation, SequenceId) else None

    def time_of(self, version: int) -> int | None:
        """See `SinkTable.time_of`."""
        context = self._context
        try:
            ((_, _, time_ns),) = context.env.drive(read_range(context.committer.table_format, version, version + 1))
        except VersionNotFound:
            return None
        return time_ns


def _gives_up(entry: Any, prepared: PreparedCommit) -> bool:
    """Whether an entry of a table's log says that no finalization of a prepared commit follows; Delta's log has the word in capitals."""
    return bool(entry.operation.lower() == _ABORT and entry.parameters.get("prepared") == prepared.path)


def checked_by(fit: Callable[[pa.Table], object]) -> Callable[[pa.Table], pa.Table]:
    """A check that stores rows as they came; it travels where `fit` does."""
    return partial(_checked, fit)


def _checked(fit: Callable[[pa.Table], object], rows: pa.Table) -> pa.Table:
    fit(rows)
    return rows


def operation_of(prepared: PreparedCommit) -> tuple[str, int]:
    """The operation id of a prepared commit, as tables take it."""
    return prepared.operation.app, prepared.operation.sequence
