"""Updating rows of a Delta table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.dialects.delta.actions import Json, TableState
from gapless.dialects.delta.deletion_vector import Positions
from gapless.model.report import ChangeReport
from gapless.parquet.value_codes import same_rows
from gapless.table.delta.assignments import Assignments
from gapless.table.delta.delete import said_condition
from gapless.table.delta.rewrite import Before, Decision, OperationArgument, RowChanging, reads_of
from gapless.table.delta.row_condition import RowCondition
from gapless.table.delta.row_edit import Edit, Touch
from gapless.table.delta.scan import Candidate, select_files
from gapless.table.delta.written import changed_rows


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

    def decide(self, before: Before) -> Decision:
        """Which rows of which files change. Raises InvalidFilter, UnknownColumn, InvalidOption, InvalidTime."""
        assignments = Assignments.parse(self.values, before.schema)
        nothing = before.schema.empty_table()
        # SQL that fits no row is told whether or not there is one.
        assignments.apply(nothing, nothing)
        condition = RowCondition.parse(self.where, before.schema)
        found = select_files(before.state, condition.near)
        return Decision(
            touches=self._touches(before, condition, found, assignments),
            reads=reads_of(before.state, condition.near, [one.file for one in found]),
        )

    def _touches(
        self, before: Before, condition: RowCondition, found: list[Candidate], assignments: Assignments
    ) -> Iterator[Touch]:
        edit = partial(update_rows, before, assignments)
        for one in found:
            positions = None if condition.takes_whole(one) else condition.positions(before, one)
            if positions is None or len(positions):
                yield Touch(file=one.file, positions=positions, edit=edit)


def update_rows(before: Before, assignments: Assignments, rows: pa.Table, _positions: Positions) -> Edit:
    """Rows with new values assigned; those that stay what they are do not change. Raises InvalidValue and what SQL deserves."""
    after = changed_rows(assignments.apply(rows, rows), before.after, assignments.columns)
    changed = ~same_rows(rows, after)
    return Edit(gone=np.zeros(rows.num_rows, dtype=bool), changed=changed, after=after.filter(pa.array(changed)))


class Updating(RowChanging):
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
