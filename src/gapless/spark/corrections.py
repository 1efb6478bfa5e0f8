"""Upsert, delete and replace for tables that outgrow one machine: decided by the driver, written by executors, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from gapless.model.operation import OperationId, parse_operation_id
from gapless.model.report import ChangeReport
from gapless.spark.rewrite import rewrite
from gapless.spark.staging import Delivery, open_to_write
from gapless.spark.wishes import ConditionWish, UpsertWish
from gapless.table.asked import Asked, asked_upsert, parse_span
from gapless.table.lifecycle import Location
from gapless.table.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OperationArgument = tuple[str, int] | str | None


def upsert(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    key: str | Sequence[str] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows that have their key; rows with a new key are added: `table.upsert` with executors.

    Args:
        frame: The rows, with all of the table's columns, by name; what `read` shows of a table fits. It is computed twice, by a sample
            and to be written, whatever others commit meanwhile, and again only where the table's columns were changed.
        table: A table, or the path or URL of one, that executors can reach.
        key: As in `table.upsert`: without it the entity columns and the index, which costs least; rows with another key are looked for
            in every segment whose statistics allow it.
        operation_id: As in `append`: sent again, nothing is computed and the first report comes back.

    Only segments that can hold a touched row are opened, and only those that do are written anew; the others stay byte for byte. The
    driver holds what the log says of segments and at most a bit for each arriving row. A task holds the arriving rows that one segment's
    successor takes and the keys that may meet it. Tasks that are tried again leave each row once, and files that `table.vacuum`
    takes away. The report counts as that of `table.upsert`.
    Raises DuplicateKey where rows of the DataFrame share a key, and as `table.upsert`; NotSupported for a table in memory, InvalidOption
    for a view; errors of Spark itself are not touched.
    """
    handle, operation = open_to_write(table), _parse(operation_id)
    return _upserted(frame, handle, key, operation)


def upsert_frame(frame: DataFrame, handle: TimeSeriesTable, *, key: tuple[str, ...] | None, delivery: Delivery) -> ChangeReport:
    """See `upsert`; the frame, held by Spark until then, is computed once. The overlap policy of the delivery does not matter."""
    held = frame.persist()
    try:
        return _upserted(held, handle, key, delivery.operation)
    finally:
        held.unpersist()


def delete(  # the arguments of `table.delete`, and where
    spark: SparkSession,
    table: TimeSeriesTable | Location,
    where: str | pc.Expression | None = None,
    *,
    start: object = None,
    end: object = None,
    entity: Mapping[str, object] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Delete the rows that `table.scan` with these arguments gives, as `table.delete` does, with executors.

    Segments of which every row certainly goes are removed unread; those of which some may go are looked at, and written anew where some
    do, by our own readers and writers: columns may have types that Spark lacks. The report counts `removed_rows`.
    Raises as `table.delete`; NotSupported for a table in memory, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle, operation = open_to_write(table), _parse(operation_id)
    asked = Asked(start=start, end=end, where=where, entity=entity)
    return rewrite(spark, handle, ConditionWish(correction=asked.delete(handle.index, handle.schema)), operation)


def replace(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    span: tuple[object, object],
    *,
    entity: Mapping[str, object] | None = None,
    operation_id: OperationArgument = None,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows of a range of the index, as `table.replace` does, with executors.

    Args:
        frame: The rows, columns by name; those outside the range, or of other entities, are refused. No rows delete the range.
        table: A table, or the path or URL of one, that executors can reach.
        span: (start, end), half-open, as in `table.replace`; None is an open end.
        entity: Values of entity columns: rows of others stay.
        operation_id: As in `append`.

    The report counts `rows` and `removed_rows`. Raises as `table.replace` (the `row` of an InvalidValue for a row outside is -1: its place
    is not known); NotSupported for a table in memory, InvalidOption for a view; errors of Spark itself are not touched.
    """
    handle, operation = open_to_write(table), _parse(operation_id)
    start, end = parse_span(span)
    asked = Asked(start=start, end=end, entity=entity)
    wish = ConditionWish(correction=asked.replace(handle.index, handle.schema))
    return rewrite(frame.sparkSession, handle, wish, operation, frame)


def _upserted(frame: DataFrame, handle: TimeSeriesTable, key: object, operation: OperationId | None) -> ChangeReport:
    wish = UpsertWish(upsert=asked_upsert(key, "error", [frame.columns]))
    return rewrite(frame.sparkSession, handle, wish, operation, frame)


def _parse(operation_id: object) -> OperationId | None:
    return None if operation_id is None else parse_operation_id(operation_id)
