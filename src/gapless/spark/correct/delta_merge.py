"""MERGE and upsert into Delta tables, and deletions from them, with executors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, UnknownColumn, nearest
from gapless.files.ingest.batches import Batches
from gapless.model.operation import ChangeReport, OperationId, parse_operation
from gapless.spark.correct.delta_changes import change_rows
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.tables import Table, delta_of
from gapless.spark.writing.column_types import check_column_types
from gapless.spark.writing.delta_target import DeltaTarget
from gapless.spark.writing.distinct import check_distinct
from gapless.spark.writing.target import Delivery
from gapless.tables.delta.merge.merge import Merge, MergeRows
from gapless.tables.delta.merge.plan import Clause
from gapless.tables.delta.merge.row_changes import key_condition
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.merge_schema import SchemaMode
from gapless.tables.shared.handle import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def merge(
    frame: DataFrame,
    table: Table | Location,
    on: str,
    *,
    source_alias: str = "s",
    target_alias: str = "t",
    schema_mode: SchemaMode = "strict",
) -> Merge:
    """Begin a merge of a DataFrame's rows into a Delta table, as `table.merge` does, with executors; nothing happens before `.execute()`.

    Args:
        frame: The rows; computed once, now, and held in the memory of the driver and of each task.
        table: A Delta table, or the path or URL of one, that executors can reach.
        on: SQL that is true of rows of the table and the source that belong together, as in `table.merge`.
        source_alias: What SQL calls the source.
        target_alias: What SQL calls the table.
        schema_mode: "merge" adds the source's columns that the table lacks.

    The builder is that of `table.merge`, with its clauses and its report. Only files that can hold a row of the source are opened; each is
    held against the source, and written anew or given a deletion vector, by one task. New rows are written by tasks too. Tasks that are
    tried again leave each row once, and files that `table.vacuum` takes away. Raises as `table.merge`; NotSupported for a table in memory
    and for a time-series table, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle = delta_of(table, "merge")
    change = MergeRows.of(
        handle, _source(frame, handle), on, source_alias=source_alias, target_alias=target_alias, schema_mode=schema_mode
    )
    return Merge(change, partial(_run, frame.sparkSession, handle))


def upsert_delta(frame: DataFrame, handle: DeltaTable, key: tuple[str, ...], operation: OperationId | None) -> ChangeReport:
    """Update the rows of a table that have the key of a DataFrame's row, and add the others: a MERGE. Rows with null in the key have one key.

    Raises InvalidOption where no key is given, UnknownColumn, DuplicateKey where rows of the DataFrame share a key, and as `merge`.
    """
    _check_key(key, frame, handle)
    if (known := DeltaTarget(handle=handle).find_applied_change(operation, "merge")) is not None:
        return known
    source = _source(frame, handle)
    rows = pa.Table.from_batches(list(source), source.schema)
    check_distinct(rows, key)
    held = Batches(source=source.source, schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
    change = MergeRows.of(
        handle, held, key_condition(rows, key), source_alias="s", target_alias="t", schema_mode="strict"
    ).with_clauses(Clause(match="matched", act="update"), Clause(match="not_matched", act="insert"))
    return change_rows(frame.sparkSession, handle, change, operation)


def _run(spark: SparkSession, handle: DeltaTable, change: MergeRows, operation_id: object) -> ChangeReport:
    return change_rows(spark, handle, change, parse_operation(operation_id))


def _source(frame: DataFrame, handle: DeltaTable) -> Batches:
    """A DataFrame's rows, in this process. Raises UnsupportedType, NotSupported for a table in memory."""
    DeltaTarget(handle=handle).find_applied(Delivery(), "append")
    check_column_types(frame.schema)
    rows = frame.toArrow()
    shown = arriving_schema(rows.schema, handle.schema)
    cast = rows.cast(shown) if rows.schema != shown else rows
    return Batches(source="the DataFrame", schema=shown, read=lambda: iter(cast.to_batches()), rows_hint=cast.num_rows)


def _check_key(key: tuple[str, ...], frame: DataFrame, handle: DeltaTable) -> None:
    if not key:
        raise InvalidOption(
            "an upsert into a Delta table has no key",
            why=f"It finds rows by key, and a Delta table has none of its own; the rows have {', '.join(map(repr, frame.columns))}",
            fix='Pass key="id" or key=["site", "id"]',
            option="key",
            value=None,
        )
    for name in key:
        for columns, whose in ((frame.columns, "the DataFrame"), (handle.schema.names, "the table")):
            if name not in columns:
                raise UnknownColumn(
                    f"the key's column {name!r} is not in {whose}",
                    fix=nearest(name, columns),
                    column=name,
                    columns=tuple(columns),
                )
