"""Input rows as rows of an Iceberg table: columns by name, values converted without loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.errors import InvalidValue, SchemaMismatch
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.widening import why_not
from gapless.tables.shared.inputs.columns import matched_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitter:
    """Turns batches of some columns into rows of a version of a table."""

    table: pa.Schema
    sources: Mapping[str, str]
    """The input's name of each column that it has, by the table's."""

    @classmethod
    def of(cls, given: pa.Schema, table: pa.Schema) -> Fitter:
        """Raises SchemaMismatch where the input's columns do not fit."""
        sources = matched_columns(given, table, _mismatch)
        differences = []
        for field in table:
            if field.name not in sources:
                if not field.nullable:
                    differences.append(f"{field.name}: missing, and it may not be null")
                continue
            type_ = given.field(sources[field.name]).type
            if reason := why_not(type_, field.type):
                differences.append(f"{field.name}: {field.type} in the table, {type_} in the input: {reason}")
        if differences:
            raise _mismatch(differences)
        return cls(table=table, sources=sources)

    def fit(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """A batch whose first row has this number, with all columns of the table. Raises InvalidValue."""
        arrays = [
            self._column(batch.column(self.sources[field.name]), field, first_row)
            if field.name in self.sources
            else pa.nulls(batch.num_rows, field.type)
            for field in self.table
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.table)

    def rows(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """All rows of a table that has the input's columns. Raises InvalidValue."""
        found, row = [], 0
        for batch in rows.to_batches():
            found.append(self.fit(batch, row))
            row += batch.num_rows
        return found

    def _column(self, array: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
        try:
            found = convert(array, field.type)
        except Misfit as misfit:
            raise refuse_misfit(misfit, array, field, first_row) from None
        if found.null_count and not field.nullable:
            row = first_row + found.is_null().to_pylist().index(True)
            raise InvalidValue(
                f"column {field.name!r} is null in row {row}",
                why="The table says that it may not be null",
                fix="Fill it in, or leave the row out",
                column=field.name,
                row=row,
                value=None,
            )
        return found


def _mismatch(differences: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        "the input does not fit the table's schema",
        why="; ".join(differences),
        fix='Cast, rename or leave out what differs; schema_evolution="add" or "widen" changes the table\'s columns',
        differences=tuple(differences),
    )
