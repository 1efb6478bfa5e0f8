"""Rows that a change of rows writes: generated columns computed anew, constraints checked."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pyarrow as pa

from gapless.dialects.delta.actions import TableState
from gapless.dialects.delta.arrow_types import to_arrow
from gapless.parquet.batches import Batches
from gapless.table.delta.inputs import fitted

GENERATED = "delta.generationExpression"


def changed_rows(rows: pa.Table, state: TableState, assigned: AbstractSet[str]) -> pa.Table:
    """Rows of the table, of which these columns were given new values, as they may be written: other generated columns follow.

    Raises InvalidValue for a row that breaks a constraint.
    """
    generated = {field.name for field in state.metadata.schema if GENERATED in field.metadata}
    return given_rows(rows.drop_columns(sorted(generated - assigned)), state, "changed rows")


def given_rows(rows: pa.Table, state: TableState, source: str) -> pa.Table:
    """Rows with some of the table's columns as they may be written: others are generated, take their default or are null.

    Raises SchemaMismatch, InvalidValue for a row that breaks a constraint; `source` is what messages call the rows.
    """
    part = Batches(source=source, schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
    return pa.Table.from_batches(list(fitted(part, state)), row_schema(state))


def row_schema(state: TableState) -> pa.Schema:
    """The columns of rows on their way into files: each may be null, since whether it may is checked elsewhere."""
    declared = to_arrow(state.metadata.schema)
    return pa.schema([field.with_nullable(True) for field in declared])
