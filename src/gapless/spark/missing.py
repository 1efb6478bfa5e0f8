"""The table that a write goes to, made where it is not there yet."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, UnknownColumn
from gapless.model.index import format_bucket, parse_bucket
from gapless.spark.arrival import arriving_schema
from gapless.table.lifecycle import Location
from gapless.table.table import TimeSeriesTable


def open_or_create(
    path: Location, *, index: str | None, entity: Sequence[str], bucket: str | int | None, schema: pa.Schema
) -> TimeSeriesTable:
    """The table at a path or URL; where there is none, one with this index, these entity columns, this bucket and the columns `schema`.

    `schema` is that of the rows, as Spark has it; an index of integers is told by its column. A table that is there must be as
    described, as far as something is: InvalidOption where it is not. Raises TableNotFound where a missing table is not described,
    UnknownColumn where the rows lack the index, and as `gl.open` and `gl.create`.
    """
    try:
        handle = TimeSeriesTable.open(path)
    except TableNotFound as error:
        if index is None or bucket is None:
            raise _not_described(error) from error
        try:
            return TimeSeriesTable.create(
                path,
                index=index,
                bucket=bucket,
                entity=entity,
                index_type=_index_type(index, schema),
                schema=arriving_schema(schema, None),
            )
        except TableExists:
            # Another writer made it a moment ago.
            handle = TimeSeriesTable.open(path)
    check_described(handle, index=index, entity=entity, bucket=bucket)
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


def check_described(handle: TimeSeriesTable, *, index: str | None, entity: Sequence[str], bucket: str | int | None) -> None:
    """Raise InvalidOption for a table that is otherwise than it would be made, as far as that is said."""
    present = handle.index
    if index is not None and index != present.column:
        raise _other(handle, "index", index, present.column)
    if index is not None and tuple(entity) != present.entity:
        raise _other(handle, "entity", tuple(entity), present.entity)
    if bucket is not None and parse_bucket(bucket, present.type, present.timezone) != present.bucket:
        raise _other(handle, "bucket", bucket, format_bucket(present.bucket))


def _other(handle: TimeSeriesTable, option: str, value: object, present: object) -> InvalidOption:
    return InvalidOption(
        f"{option}={value!r}, and the table at {handle.url} has {option}={present!r}",
        why="index, entity and bucket say how a missing table is made, and this one is there",
        fix="Leave them out, or write to another table",
        option=option,
        value=value,
    )
