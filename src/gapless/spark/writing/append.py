"""Writing DataFrames to a table of either kind: executors store the rows, the driver commits once; a missing time-series table is made."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, UnknownColumn
from gapless.model.index import format_bucket, parse_bucket
from gapless.model.operation import AppendReport, ChangeReport, parse_operation
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.options import NewTable
from gapless.spark.setup.tables import Table, open_to_write, refuse_given
from gapless.spark.writing.column_types import check_column_types
from gapless.spark.writing.partition import RESULT, PartitionEncoder, PartitionOutcome
from gapless.spark.writing.staging import AnyTarget, target_of
from gapless.spark.writing.target import Delivery
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.merge_schema import SchemaMode, parse_schema_mode
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.table import TimeSeriesTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(
    frame: DataFrame,
    table: Table | Location,
    *,
    on_overlap: OnOverlap | None = None,
    operation_id: tuple[str, int] | str | None = None,
    schema_mode: SchemaMode = "strict",
    spread: bool = False,
) -> AppendReport:
    """Append a DataFrame's rows as one commit, all or none: executors write the segments, in parallel.

    Args:
        frame: The rows; columns are matched by name. What `read` shows of a table can be written to it again.
        table: A time-series table or a Delta table, or the path or URL of one; executors write there themselves.
        on_overlap: As in `table.append` of a time-series table. Where rows meet covered buckets under "skip" or "replace", and in a `unique` table, the
            driver reads what the executors wrote and decides about each row, as `table.append` does; "replace" holds them in memory.
        operation_id: As in `table.append`: sent again, nothing is computed and the first report comes back.
        schema_mode: Of a Delta table, as in its `append`: "merge" adds columns that it lacks.
        spread: Send rows to tasks by bucket and identity first, so that each file covers a short stretch of time however the rows lie;
            Spark samples them for it, which computes the DataFrame twice. In a Delta table, by its partition columns. Without it each
            partition becomes files as it is.

    Into a Delta table executors write what its `append` would: partitioned, by the names and ids of its columns, with statistics, defaults
    and generated columns filled in, and each row held against its constraints. Tasks that are tried again, or twice at once, leave each row once: only what the successful ones wrote is in the commit. A failed
    write leaves files that `table.vacuum` takes away. Rows in an error count within the partition it names.

    Raises as `table.append`; NotSupported for a table in memory, InvalidOption for a view and for an argument of the other kind of table;
    errors of Spark itself are not touched.
    """
    delivery = Delivery(
        on_overlap=None if on_overlap is None else parse_on_overlap(on_overlap),
        operation=parse_operation(operation_id),
        schema_mode=parse_schema_mode(schema_mode, ("strict", "merge")),
    )
    handle = open_to_write(table)
    check_delivery(handle, delivery)
    target = target_of(handle)
    if (report := target.find_applied(delivery, "append")) is not None:
        return report
    return append_frame(frame, target, delivery, spread=spread)


def overwrite(
    frame: DataFrame,
    table: Table | Location,
    *,
    where: str | None = None,
    partitions: str | None = None,
    operation_id: tuple[str, int] | str | None = None,
    schema_mode: SchemaMode = "strict",
    spread: bool = False,
) -> ChangeReport:
    """Put a DataFrame's rows in the place of all rows of a table, in one commit: readers see the old rows or the new ones.

    Args:
        frame: The rows, as in `write`.
        table: As in `write`.
        where: Of a Delta table only the rows for which this is true give way, and every row of the DataFrame must satisfy it, as in its
            `overwrite`; files of which some rows go the driver writes anew.
        partitions: Of a Delta table, "dynamic" replaces the partitions that rows come for, and leaves the others.
        operation_id: As in `write`.
        schema_mode: As in `write`; "overwrite", where all rows are replaced, takes the columns of the DataFrame in place of the table's.
        spread: As in `write`.

    What others commit meanwhile gives way too; earlier versions stay to be read. In a `unique` table the driver holds the rows in memory
    and looks at their keys. The report counts `rows` and `removed_rows`. Raises as `write`; there is no overlap.
    """
    delivery = Delivery(
        operation=parse_operation(operation_id),
        schema_mode=parse_schema_mode(schema_mode, ("strict", "merge", "overwrite")),
        where=where,
        partitions=partitions,
    )
    handle = open_to_write(table)
    check_delivery(handle, delivery)
    target = target_of(handle)
    if (report := target.find_applied(delivery, "overwrite")) is not None:
        return ChangeReport.of(report, report.version, already_applied=True)
    return overwrite_frame(frame, target, delivery, spread=spread)


def check_delivery(handle: Table, delivery: Delivery) -> None:
    """Raise InvalidOption for what tables of this kind have no meaning for."""
    if isinstance(handle, DeltaTable):
        refuse_given({"on_overlap": delivery.on_overlap}, "a Delta table", "Leave it out; gl.spark.upsert replaces rows by key")
        return
    mode = None if delivery.schema_mode == "strict" else delivery.schema_mode
    options = {"schema_mode": mode, "where": delivery.where, "partitions": delivery.partitions}
    refuse_given(
        options,
        "a time-series table",
        "Leave it out; gl.spark.replace replaces a range, and new columns are added as they come",
    )


def append_frame(frame: DataFrame, target: AnyTarget, delivery: Delivery, *, spread: bool) -> AppendReport:
    """Append the rows of a write that is not known yet; see `write`."""
    rows = target.spread(frame) if spread else frame
    encoder = target.begin(arrow_schema(frame), delivery)
    return target.append(delivery, encoder, written(rows, encoder))


def overwrite_frame(frame: DataFrame, target: AnyTarget, delivery: Delivery, *, spread: bool) -> ChangeReport:
    """Overwrite by the rows of a write that is not known yet; see `overwrite`."""
    rows = target.spread(frame) if spread else frame
    encoder = target.begin(arrow_schema(frame), delivery)
    return target.overwrite(delivery, encoder, written(rows, encoder))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as Spark hands its rows over; asks Spark, and computes no row. Raises UnsupportedType."""
    check_column_types(frame.schema)
    return frame.limit(0).toArrow().schema


def written(frame: DataFrame, encoder: PartitionEncoder) -> list[PartitionOutcome]:
    """Have executors write a DataFrame's rows; what became of each partition."""
    # Columns go by their place, and Spark takes a name with a dot for a field of a struct.
    rows = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    answers = rows.mapInArrow(encoder.rows, RESULT).collect()
    return [pickle.loads(answer.outcome) for answer in answers]  # noqa: S301  # our own executors made them


def open_or_create(
    path: Location, new: NewTable | None, schema: pa.Schema, storage_options: Mapping[str, str] | None = None
) -> Table:
    """The table at a path or URL; where there is none, a time-series table as `new` describes it, with the columns `schema`.

    `schema` is that of the rows, as Spark has it; an index of integers is told by its column. A table that is there must be as
    described: InvalidOption where it is not. Raises TableNotFound where a missing table is not described, UnknownColumn where the rows
    lack the index, and as `gl.open` and `gl.create`.
    """
    try:
        handle = open_to_write(path, storage_options)
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
                timezone=new.timezone,
                schema=arriving_schema(schema, None),
                properties={"unique": True} if new.unique else None,
                storage_options=storage_options,
            )
        except TableExists:
            # Another writer made it a moment ago.
            handle = TimeSeriesTable.open(path, storage_options=storage_options)
    if new is not None:
        check_described(handle, new)
    return handle


def _not_described(error: TableNotFound) -> TableNotFound:
    return TableNotFound(
        error.what,
        why="A write makes it only where it is told how",
        fix="Give index and bucket, and entity where rows belong to several series; or make the table first, with gl.create or "
        "gl.delta.create",
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


def check_described(handle: Table, new: NewTable) -> None:
    """Raise InvalidOption for a table that is otherwise than it would be made, or of the other kind."""
    if isinstance(handle, DeltaTable):
        refuse_given({"index": new.index}, "a Delta table", "Leave index, entity and bucket out; or write to another place")
        return
    present = handle.index
    if new.index != present.column:
        raise _other(handle, "index", new.index, present.column)
    if new.entity != present.entity:
        raise _other(handle, "entity", new.entity, present.entity)
    if parse_bucket(new.bucket, present.type, present.timezone) != present.bucket:
        raise _other(handle, "bucket", new.bucket, format_bucket(present.bucket))
    if new.timezone not in (None, present.timezone):
        raise _other(handle, "timezone", new.timezone, present.timezone)
    if new.unique and not handle.properties.unique:
        raise _other(handle, "unique", new.unique, handle.properties.unique)


def _other(handle: TimeSeriesTable, option: str, value: object, present: object) -> InvalidOption:
    return InvalidOption(
        f"{option}={value!r}, and the table at {handle.url} has {option}={present!r}",
        why="index, entity, bucket, timezone and unique say how a missing table is made, and this one is there",
        fix="Leave them out, or write to another table",
        option=option,
        value=value,
    )
