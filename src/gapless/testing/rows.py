"""Simulated rows as tables take and give them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gapless.testing.intents import Row

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("entity", pa.string()), ("number", pa.int64())])


def to_batch(rows: tuple[Row, ...]) -> pa.RecordBatch:
    """Rows as they are handed to a table."""
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(table: pa.Table) -> tuple[Row, ...]:
    """The rows of a scan, in order."""
    if not table.num_columns:
        return ()
    return tuple(sorted(zip(*(table.column(name).to_pylist() for name in SCHEMA.names), strict=True)))
