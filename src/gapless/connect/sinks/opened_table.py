"""A table of one kind, as a sink needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from gapless.connect.sinks.epoch import Epoch
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.model.operation import SequenceId
from gapless.runtime.committer import nothing
from gapless.runtime.environment import Environment
from gapless.tables.shared.handle import Kind
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit


class SinkTable(Protocol):
    """A table of one kind, as a sink needs it."""

    kind: ClassVar[Kind]
    stages_rows: ClassVar[bool]
    """Whether rows of an append are staged as those of other changes, since files of the table are made only when they are committed."""

    @property
    def place(self) -> str:
        """Its kind and where it lies, for messages; nothing is opened for that."""
        ...

    @property
    def env(self) -> Environment:
        """The environment that it is reached by."""
        ...

    @property
    def version(self) -> int:
        """The newest version that is known."""
        ...

    def open(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """Open the table for a change with rows of these columns, or make it where it is missing and the options say how. Raises TableNotFound,
        RetractingInput where it would write changes as rows, and what opening raises.
        """
        ...

    @property
    def table_id(self) -> str:
        """What tells it from a table made in its place; of the newest version that is known."""
        ...

    @property
    def columns(self) -> TableColumns:
        """The columns of the newest version that is known."""
        ...

    def begin(self, schema: pa.Schema, change: Mapping[str, Any]) -> Epoch:
        """An epoch of rows of these columns, to be appended. Raises SchemaMismatch and what writing raises."""
        ...

    def check(self, schema: pa.Schema, change: Mapping[str, Any]) -> None:
        """Raise what a change with rows of these columns deserves, before the first row."""
        ...

    def row_check(self, schema: pa.Schema, change: Mapping[str, Any]) -> Callable[[pa.Table], pa.Table]:
        """What a change other than an append stores of rows of these columns, which raises DataError for those that the table does not take.
        Raises as `check`.
        """
        ...

    def known(self, operation: SequenceId, mode: str) -> ChangeOutcome | None:
        """What the newest version tells of an operation of this mode; moves to that version. Raises OperationReused where it was a change of
        another kind, StoreError: a failed read is no answer.
        """
        ...

    def last(self, operation: SequenceId) -> int | None:
        """The highest checkpoint of the operation's app that the newest version knows; moves to that version. Raises StoreError."""
        ...

    def held(self, paths: Sequence[str]) -> frozenset[str]:
        """Which of these files the newest known version has, or keeps for older ones."""
        ...

    def while_prepared(self, prepared: PreparedCommit, also: Callable[[], None] = nothing) -> AbstractContextManager[None]:
        """Within it, `append` and `apply` commit only while the prepared commit is not aborted. `also` is called for each version that they
        are made to, once the table is at it and before the commit is put, and may raise.
        """
        ...

    def give_up(self, prepared: PreparedCommit) -> None:
        """Say in the log that no finalization of it follows, unless one came first. Raises CommitConflict, CommitOutcomeUnknown, StoreError."""
        ...

    def was_given_up(self, prepared: PreparedCommit) -> bool:
        """Whether the log says that, as far back as its commits go, and the time at which it was prepared. Raises CorruptTable, StoreError."""
        ...

    def append(self, prepared: PreparedCommit) -> ChangeOutcome:
        """Commit staged files as they are, or their rows."""
        ...

    def apply(self, staged: StagedRows) -> ChangeOutcome:
        """Commit another change of these rows; `skipped_rows` are those that were late. Raises SchemaMismatch for columns that it lacks."""
        ...

    def time_of(self, version: int) -> int | None:
        """When a version was committed (nanoseconds since 1970 UTC); None where the log does not say it any more."""
        ...
