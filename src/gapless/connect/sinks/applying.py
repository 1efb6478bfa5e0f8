"""Staged rows of a change other than an append, committed to the newest version under the names that their columns have in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.staged_columns import TableColumns
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.errors import CommitConflict, SchemaMismatch, UnknownColumn
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit

Checked = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Within it a check is called for each version that a commit is made to, and may raise."""
_TRIES = 5
"""How often staged rows are brought to the table's columns, where another process changes those meanwhile."""


class _ColumnsChanged(Exception):
    """The version that a change was made to has other columns than those that its rows were read for."""


def apply_staged(table: SinkTable, prepared: PreparedCommit, checked: Checked) -> ChangeOutcome:
    """Commit staged rows; what they come to. Raises CommitConflict where the columns are changed again and again, SchemaMismatch, UnknownColumn,
    and as `SinkTable.apply`.
    """
    for _ in range(_TRIES):
        columns = table.columns
        staged = StagedRows.of(table.env.store, prepared, columns)

        def check_columns(known: TableColumns = columns) -> None:
            if table.columns != known:
                raise _ColumnsChanged

        try:
            with checked(check_columns):
                return table.apply(staged)
        except _ColumnsChanged:
            continue
        except (SchemaMismatch, UnknownColumn):
            table.last(prepared.operation)  # moves to the newest version
            if table.columns == columns:
                raise
    raise CommitConflict(
        f"checkpoint {prepared.checkpoint_id} of {prepared.operation.app} met other columns {_TRIES} times",
        why="Another process changes the table's columns again and again; nothing was committed",
        fix="Finalize it again",
        version=table.version,
        reason="columns",
    )
