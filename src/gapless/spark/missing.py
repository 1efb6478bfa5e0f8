"""The table that a write goes to, made where it is not there yet."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import InvalidOption, TableExists, TableNotFound, UnknownColumn
from gapless.model.index import format_bucket, parse_bucket
from gapless.spark.arrival import arriving_schema
from gapless.spark.options import NewTable
from gapless.table.lifecycle import Location
from gapless.table.table import TimeSeriesTable


def open_or_create(path: Location, new: NewTable | None, schema: pa.Schema) -> TimeSeriesTable:
    """The table at a path or URL; where there is none, one as `new` describes it, with the columns `schema`.

    `schema` is that of the rows, as Spark has it; an index of integers is told by its column. A table that is there must be as
    described: InvalidOption where it is not. Raises TableNotFound where a missing table is not described, UnknownColumn where the rows
    lack the index, and as `gl.open` and `gl.create`.
    """
    try:
        handle = TimeSeriesTable.open(path)
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
