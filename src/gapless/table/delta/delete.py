"""Deleting rows of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from gapless.dialects.delta.actions import Json, TableState
from gapless.errors import InvalidOption
from gapless.model.report import ChangeReport
from gapless.scan.opaque import expression_text
from gapless.table.delta.rewrite import Before, Decision, OperationArgument, RowChanging, reads_of
from gapless.table.delta.row_condition import RowCondition
from gapless.table.delta.row_edit import Touch
from gapless.table.delta.scan import Candidate, select_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The deletion of the rows that a condition keeps."""

    where: str | pc.Expression
    operation: str = "DELETE"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it, as Delta does: a list of conditions, as JSON text."""
        return said_condition(self.where)

    def fit(self, state: TableState) -> TableState:
        """The version itself: it writes no rows of its own."""
        return state

    def decide(self, before: Before) -> Decision:
        """Which files lose which rows. Raises InvalidFilter, UnknownColumn, InvalidTime, InvalidQuery."""
        condition = RowCondition.parse(self.where, before.schema)
        found = select_files(before.state, condition.near)
        return Decision(
            touches=self._touches(before, condition, found),
            reads=reads_of(before.state, condition.near, [one.file for one in found]),
        )

    def _touches(self, before: Before, condition: RowCondition, found: list[Candidate]) -> Iterator[Touch]:
        for one in found:
            if condition.takes_whole(one):
                yield Touch(file=one.file)
                continue
            positions = condition.positions(before, one)
            if len(positions):
                yield Touch(file=one.file, positions=positions)


def said_condition(where: str | pc.Expression | None) -> dict[str, Json]:
    """A condition as Delta's logs say it."""
    return {} if where is None else {"predicate": json.dumps([expression_text(where)])}


class Deleting(RowChanging):
    """`delete`."""

    def delete(self, where: str | pc.Expression | None = None, *, operation_id: OperationArgument = None) -> ChangeReport:
        """Delete the rows for which the condition is true. One that is null keeps its row.

        `where` is what `scan` takes, or any SQL expression over a row: what a scan does not understand of it prunes no files.
        Files of which every row certainly goes are removed without being read; others are written anew without the rows or, where the
        table's property `delta.enableDeletionVectors` is true, get a deletion vector. With no condition it is refused: `where="true"`
        says all rows. Nothing is committed where no row goes. The report counts `removed_rows`. Raises InvalidOption, InvalidFilter,
        InvalidTime, UnknownColumn, NotSupported (an append-only table), CommitConflict, CommitOutcomeUnknown, UnsupportedTable,
        CorruptTable, StoreError.
        """
        if where is None:
            raise InvalidOption(
                "delete without a condition would delete every row",
                why="That is more often forgotten than meant",
                fix='Pass where="day = 5"; delete(where="true") deletes all rows',
                option="where",
                value=None,
            )
        return self._change_rows(Delete(where=where), operation_id)
