"""Writing DataFrames to a table: executors store the rows, the driver commits once; a missing table is made."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, UnknownColumn
from gapless.model.index import Bucket, FixedWidth, IndexSpec, IntWidth, LocalDays, Months, format_bucket, parse_bucket
from gapless.model.instant import NS_PER
from gapless.model.operation import AppendReport, ChangeReport, parse_operation
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.reading.columns import number, quoted
from gapless.spark.setup.options import NewTable
from gapless.spark.writing.column_types import check_column_types
from gapless.spark.writing.encode import RESULT, Encoding, Outcome
from gapless.spark.writing.staging import (
    Delivery,
    append_outcomes,
    begin,
    find_applied_write,
    open_to_write,
    overwrite_outcomes,
)
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def repartition(frame: DataFrame, index: IndexSpec) -> DataFrame:
    """The rows, each identity's of one bucket in one partition, and partitions one after the other in time.

    Files then cover short stretches of time, and rows with one key come to one task. Spark samples the rows for it, which computes the
    DataFrame twice.
    """
    from pyspark.sql import functions

    entity = [functions.col(quoted(name)) for name in index.entity]
    return frame.repartitionByRange(_bucket(functions.col(quoted(index.column)), index.bucket), *entity)


def _bucket(column: Column, bucket: Bucket) -> Column:
    """Where the bucket of a row begins; where a clock changes it may be the next one, the same for all rows of one instant."""
    from pyspark.sql import functions

    match bucket:
        case IntWidth(width=width):
            return _begin(column, width)
        case FixedWidth(ns=ns):
            return _begin(functions.unix_micros(column.cast("timestamp_ltz")), max(1, ns // NS_PER["us"]))
        case LocalDays(days=days, timezone=zone):
            local = functions.from_utc_timestamp(column.cast("timestamp_ltz"), zone)
            return _begin(functions.unix_date(local.cast("date")), days)
        case Months(months=months, timezone=zone):
            local = functions.from_utc_timestamp(column.cast("timestamp_ltz"), zone or "UTC")
            return _begin(functions.year(local) * 12 + functions.month(local) - (1970 * 12 + 1), months)


def _begin(count: Column, width: int) -> Column:
    from pyspark.sql import functions

    step = number(width)
    # Null where the bucket begins before the smallest number there is.
    return functions.try_subtract(count, functions.pmod(count, step))


def write(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    on_overlap: OnOverlap | None = None,
    operation_id: tuple[str, int] | str | None = None,
    spread: bool = False,
) -> AppendReport:
    """Append a DataFrame's rows as one commit, all or none: executors write the segments, in parallel.

    Args:
        frame: The rows; columns are matched by name. What `read` shows of a table can be written to it again.
        table: A table, or the path or URL of one; executors write there themselves.
        on_overlap: As in `table.append`. Where rows meet covered buckets under "skip" or "replace", and in a `unique` table, the
            driver reads what the executors wrote and decides about each row, as `table.append` does; "replace" holds them in memory.
        operation_id: As in `table.append`: sent again, nothing is computed and the first report comes back.
        spread: Send rows to tasks by bucket and identity first, so that each file covers a short stretch of time however the rows lie;
            Spark samples them for it, which computes the DataFrame twice. Without it each partition becomes files as it is.

    Tasks that are tried again, or twice at once, leave each row once: only what the successful ones wrote is in the commit. A failed
    write leaves files that `table.vacuum` takes away. Rows in an error count within the partition it names.

    Raises as `table.append`; NotSupported for a table in memory and for a Delta table, InvalidOption for a view; errors of Spark itself are not touched.
    """
    delivery = Delivery(
        on_overlap=None if on_overlap is None else parse_on_overlap(on_overlap),
        operation=parse_operation(operation_id),
    )
    handle = open_to_write(table)
    if (report := find_applied_write(handle, delivery)) is not None:
        return report
    return append_frame(frame, handle, delivery, spread=spread)


def overwrite(
    frame: DataFrame,
    table: TimeSeriesTable | Location,
    *,
    operation_id: tuple[str, int] | str | None = None,
    spread: bool = False,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows of a table, in one commit: readers see the old rows or the new ones.

    The arguments are those of `write`. What others commit meanwhile gives way too; earlier versions stay to be read. In a `unique` table
    the driver holds the rows in memory and looks at their keys. The report counts `rows` and `removed_rows`.
    Raises as `write`; there is no overlap.
    """
    delivery = Delivery(operation=parse_operation(operation_id))
    handle = open_to_write(table)
    if (report := find_applied_write(handle, delivery, "overwrite")) is not None:
        return ChangeReport.of(report, report.version, already_applied=True)
    return overwrite_frame(frame, handle, delivery, spread=spread)


def append_frame(frame: DataFrame, handle: TimeSeriesTable, delivery: Delivery, *, spread: bool) -> AppendReport:
    """Append the rows of a write that is not known yet; see `write`."""
    encoding = begin(handle, arrow_schema(frame))
    return append_outcomes(handle, delivery, encoding, written(frame, encoding, spread=spread))


def overwrite_frame(frame: DataFrame, handle: TimeSeriesTable, delivery: Delivery, *, spread: bool) -> ChangeReport:
    """Overwrite by the rows of a write that is not known yet; see `overwrite`."""
    encoding = begin(handle, arrow_schema(frame))
    return overwrite_outcomes(handle, delivery, encoding, written(frame, encoding, spread=spread))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as Spark hands its rows over; asks Spark, and computes no row. Raises UnsupportedType."""
    check_column_types(frame.schema)
    return frame.limit(0).toArrow().schema


def written(frame: DataFrame, encoding: Encoding, *, spread: bool) -> list[Outcome]:
    """Have executors write a DataFrame's rows; what became of each partition."""
    rows = repartition(frame, encoding.meta.index) if spread else frame
    # Columns go by their place, and Spark takes a name with a dot for a field of a struct.
    rows = rows.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    answers = rows.mapInArrow(encoding.rows, RESULT).collect()
    return [pickle.loads(answer.outcome) for answer in answers]  # noqa: S301  # our own executors made them


def open_or_create(path: Location, new: NewTable | None, schema: pa.Schema) -> TimeSeriesTable:
    """The table at a path or URL; where there is none, one as `new` describes it, with the columns `schema`.

    `schema` is that of the rows, as Spark has it; an index of integers is told by its column. A table that is there must be as
    described: InvalidOption where it is not. Raises TableNotFound where a missing table is not described, UnknownColumn where the rows
    lack the index, and as `gl.open` and `gl.create`.
    """
    try:
        handle = open_to_write(path)
    except TableNotFound as error:
        if new is None:
            raise _not_described(error) from error
        try:
            return TimeSeriesTable.create(
                path,
                index=new.index,
                bucket=new.bucket,
                entity=new.entity,
                index_type=_index_type(new.index, schema),
                schema=arriving_schema(schema, None),
            )
        except TableExists:
            # Another writer made it a moment ago.
            handle = TimeSeriesTable.open(path)
    if new is not None:
        check_described(handle, new)
    return handle


def _not_described(error: TableNotFound) -> TableNotFound:
    return TableNotFound(
        error.what,
        why="A write makes it only where it is told how",
        fix="Give index and bucket, and entity where rows belong to several series; or make the table first, with gl.create",
        path=error.path,
    )


def _index_type(index: str, schema: pa.Schema) -> str:
    if index not in schema.names:
        raise UnknownColumn(
            f"the rows have no column {index!r} to be the index of a new table",
            why=f"They have {', '.join(map(repr, schema.names))}",
            fix="Name one of these",
            column=index,
            columns=tuple(schema.names),
        )
    return "int64" if pa.types.is_integer(schema.field(index).type) else "timestamp"


def check_described(handle: TimeSeriesTable, new: NewTable) -> None:
    """Raise InvalidOption for a table that is otherwise than it would be made."""
    present = handle.index
    if new.index != present.column:
        raise _other(handle, "index", new.index, present.column)
    if new.entity != present.entity:
        raise _other(handle, "entity", new.entity, present.entity)
    if parse_bucket(new.bucket, present.type, present.timezone) != present.bucket:
        raise _other(handle, "bucket", new.bucket, format_bucket(present.bucket))


def _other(handle: TimeSeriesTable, option: str, value: object, present: object) -> InvalidOption:
    return InvalidOption(
        f"{option}={value!r}, and the table at {handle.url} has {option}={present!r}",
        why="index, entity and bucket say how a missing table is made, and this one is there",
        fix="Leave them out, or write to another table",
        option=option,
        value=value,
    )
