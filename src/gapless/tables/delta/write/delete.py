"""Deleting and updating rows of a Delta table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption
from gapless.files.compare.keys import same_rows
from gapless.formats.delta.actions import Json, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.model.operation import ChangeReport, OperationArgument
from gapless.predicate.plan import expression_text
from gapless.tables.delta.expressions.assignments import Assignments
from gapless.tables.delta.read.scan import Candidate, RowCondition, select_files
from gapless.tables.delta.write.inputs import changed_rows
from gapless.tables.delta.write.rewrite import BaseVersion, Numbers, RowChangePlan, RowOperations, reads_of
from gapless.tables.delta.write.row_edit import AffectedFile, Edit
from gapless.tables.shared.scan import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The deletion of the rows that a condition keeps."""

    where: str | pc.Expression
    operation: str = "DELETE"

    @classmethod
    def of(cls, where: str | pc.Expression | None) -> Delete:
        """Raises InvalidOption where there is no condition."""
        if where is None:
            raise InvalidOption(
                "delete without a condition would delete every row",
                why="That is more often forgotten than meant",
                fix='Pass where="day = 5"; delete(where="true") deletes all rows',
                option="where",
                value=None,
            )
        return cls(where=where)

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it, as Delta does: a list of conditions, as JSON text."""
        return said_condition(self.where)

    def fit(self, state: TableState) -> TableState:
        """The version itself: it writes no rows of its own."""
        return state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which files lose which rows. Raises InvalidFilter, UnknownColumn, InvalidTime, InvalidQuery."""
        condition = RowCondition.parse(self.where, before.schema)
        found = select_files(before.state, condition.pushed)
        return RowChangePlan(
            affected=self._affected(before, condition, found),
            reads=reads_of(before.state, condition.pushed, [one.file for one in found]),
        )

    def reaches(self, before: BaseVersion) -> Condition:
        """See `FileOperation.reaches`."""
        return RowCondition.parse(self.where, before.schema).pushed

    def inserts(self, before: BaseVersion, unmatched: Numbers) -> Iterable[pa.RecordBatch]:  # noqa: ARG002  # it adds none
        """See `FileOperation.inserts`: none."""
        return ()

    def _affected(self, before: BaseVersion, condition: RowCondition, found: list[Candidate]) -> Iterator[AffectedFile]:
        for one in found:
            if condition.takes_whole(one):
                yield AffectedFile(file=one.file)
                continue
            positions = condition.positions(before.reader, one.file)
            if len(positions):
                yield AffectedFile(file=one.file, positions=positions)


def said_condition(where: str | pc.Expression | None) -> dict[str, Json]:
    """A condition as Delta's logs say it."""
    return {} if where is None else {"predicate": json.dumps([expression_text(where)])}


class Deleting(RowOperations):
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
        return self._change_rows(Delete.of(where), operation_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New values for columns of the rows that a condition keeps."""

    values: Mapping[str, object]
    where: str | pc.Expression | None
    operation: str = "UPDATE"

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        return said_condition(self.where)

    def fit(self, state: TableState) -> TableState:
        """The version itself."""
        return state

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """Which rows of which files change. Raises InvalidFilter, UnknownColumn, InvalidOption, InvalidTime."""
        assignments = Assignments.parse(self.values, before.schema)
        nothing = before.schema.empty_table()
        # SQL that fits no row is told whether or not there is one.
        assignments.apply(nothing, nothing)
        condition = RowCondition.parse(self.where, before.schema)
        found = select_files(before.state, condition.pushed)
        return RowChangePlan(
            affected=self._affected(before, condition, found, assignments),
            reads=reads_of(before.state, condition.pushed, [one.file for one in found]),
        )

    def _affected(
        self, before: BaseVersion, condition: RowCondition, found: list[Candidate], assignments: Assignments
    ) -> Iterator[AffectedFile]:
        edit = partial(update_rows, before, assignments)
        for one in found:
            positions = None if condition.takes_whole(one) else condition.positions(before.reader, one.file)
            if positions is None or len(positions):
                yield AffectedFile(file=one.file, positions=positions, edit=edit)


def update_rows(before: BaseVersion, assignments: Assignments, rows: pa.Table, _positions: Positions) -> Edit:
    """Rows with new values assigned; those that stay what they are do not change. Raises InvalidValue, InvalidQuery."""
    after = changed_rows(assignments.apply(rows, rows), before.after, assignments.columns)
    changed = ~same_rows(rows, after)
    return Edit(gone=np.zeros(rows.num_rows, dtype=bool), changed=changed, after=after.filter(pa.array(changed)))


class Updating(RowOperations):
    """`update`."""

    def update(
        self,
        values: Mapping[str, object],
        *,
        where: str | pc.Expression | None = None,
        operation_id: OperationArgument = None,
    ) -> ChangeReport:
        """Give columns new values in the rows for which a condition is true; a row for which it is null stays.

        Args:
            values: By column (or the dotted path of a struct's field): a text is SQL over the row as it was, such as "v + 1" or "'new'";
                any other Python value, or a `pyarrow` scalar, is the value itself. Values must fit the column's type without loss.
            where: As in `delete`; without it all rows are meant.
            operation_id: As in `append`.

        Generated columns that are not given follow; a new value of a partition column moves the row. Rows that stay what they are (null
        equal to null, NaN to NaN) do not count, and nothing is committed where all do. The report counts `updated_rows`. Raises
        InvalidOption, UnknownColumn, InvalidQuery, InvalidFilter, InvalidTime, InvalidValue (a value that does not fit, a constraint),
        SchemaMismatch, NotSupported (an append-only table), CommitConflict, CommitOutcomeUnknown, UnsupportedTable, CorruptTable,
        StoreError.
        """
        return self._change_rows(Update(values=values, where=where), operation_id)
