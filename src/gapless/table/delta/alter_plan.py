"""What changes of a Delta table's columns make of it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gapless.dialects.delta import column_mapping, schema_changes
from gapless.dialects.delta.arrow_types import VOID
from gapless.dialects.delta.column_mapping import FEED_COLUMNS
from gapless.dialects.delta.schema import DeltaType, PrimitiveType, StructField, StructType
from gapless.table.delta.alter_uses import names_of, uses_of
from gapless.table.delta.shape import Path, Shape, refuse_change

MAPPING = "delta.columnMapping.mode"
_MAX_ID = "delta.columnMapping.maxColumnId"
_WIDENING = "delta.enableTypeWidening"


def add_column(shape: Shape, path: Path, field: StructField, after: str | None, new_name: Callable[[], str]) -> Shape:
    """Add a column, or a field to a struct; `new_name` makes physical names. Raises InvalidChange, UnknownColumn."""
    if not field.nullable and not shape.is_empty:
        refuse_change(
            path,
            "cannot be added without nulls: the rows that are there have no value of it",
            "Add it with nullable=True and fill it by table.update(…)",
        )
    if path[-1].lower() in FEED_COLUMNS and shape.settings.change_data_feed:
        refuse_change(path, "has the name of a column of the change feed", "Choose another name")
    return mapped(shape, schema_changes.add(shape.schema, path[:-1], field, after), shape.settings.column_mapping, new_name)


def mapped(shape: Shape, schema: StructType, mode: str, new_name: Callable[[], str] | None) -> Shape:
    """The shape with these columns, each with what column mapping wants it to have."""
    column_mapping.check_names(schema, mapped=mode != "none")
    if mode == "none":
        return shape.with_schema(schema)
    given, highest = column_mapping.assign(schema, mode, shape.settings.max_column_id, new_name)
    grown = shape.with_schema(given)
    return grown.with_properties({**grown.metadata.configuration, _MAX_ID: str(highest)})


def rename_column(shape: Shape, path: Path, new: str) -> Shape:
    """Give a column or nested field another name. Raises InvalidChange, UnknownColumn."""
    field = schema_changes.find_field(shape.schema, path)
    if new == field.name:
        return shape
    _check_mapped(shape, path, "renamed")
    _check_unused(shape, path, "renamed", named=True)
    if new.lower() in FEED_COLUMNS and shape.settings.change_data_feed:
        refuse_change(path, f"cannot be called {new!r}: that is a column of the change feed", "Choose another name")
    schema = schema_changes.rename(shape.schema, path, new)
    column_mapping.check_names(schema, mapped=True)
    renamed = shape.with_schema(schema)
    if len(path) > 1:
        return renamed
    partitions = tuple(new if name == path[0] else name for name in shape.metadata.partition_by)
    return replace(renamed, metadata=replace(renamed.metadata, partition_by=partitions))


def drop_column(shape: Shape, path: Path) -> Shape:
    """Take a column or nested field away. Raises InvalidChange, UnknownColumn."""
    schema_changes.find_field(shape.schema, path)
    if path[0] in shape.metadata.partition_by:
        refuse_change(path, "cannot be dropped: the table is partitioned by it", "Make a new table without it")
    _check_mapped(shape, path, "dropped")
    _check_unused(shape, path, "dropped", named=True)
    schema = schema_changes.drop(shape.schema, path)
    if not set(schema.names) - set(shape.metadata.partition_by):
        refuse_change(path, "cannot be dropped: it is the last one", "Add another column first")
    return shape.with_schema(schema)


def widen_column(shape: Shape, path: Path, type_: DeltaType) -> Shape:
    """Give a column or nested field a type that holds every value of its own. Raises InvalidChange, UnknownColumn."""
    before = schema_changes.type_at(shape.schema, path)
    if before == type_:
        return shape
    _check_unused(shape, path, "widened")
    if before != VOID and not shape.settings.type_widening:
        refuse_change(
            path,
            "cannot be widened: the table has type widening off",
            f'First table.alter.set_properties({{"{_WIDENING}": True}}), which shuts readers out that do not know it',
        )
    if path[0] in shape.metadata.partition_by and before == PrimitiveType("date"):
        refuse_change(path, "cannot be widened: its partition values are written as dates", "Add another column")
    return shape.with_schema(schema_changes.widen(shape.schema, path, type_))


def comment_column(shape: Shape, path: Path, comment: str | None) -> Shape:
    """Set what a column or nested field is said to be; None takes that away. Raises UnknownColumn."""
    return shape.with_schema(
        schema_changes.change_field(shape.schema, path, lambda field: field.with_metadata(comment=comment))
    )


def set_default(shape: Shape, path: Path, expression: str | None) -> Shape:
    """Set the SQL, as Spark speaks it, of what rows get that are written without a column. Raises InvalidChange, UnknownColumn."""
    if len(path) > 1:
        refuse_change(path, "can have no default: it is no column of its own", "Give the whole column one")
    return shape.with_schema(
        schema_changes.change_field(shape.schema, path, lambda field: field.with_metadata(CURRENT_DEFAULT=expression))
    )


def _check_mapped(shape: Shape, path: Path, done: str) -> None:
    if not shape.is_mapped:
        refuse_change(
            path,
            f"cannot be {done}: files know it by its name",
            f'First table.alter.set_properties({{"{MAPPING}": "name"}}): names of their own for files; no file is written anew',
        )


def _check_unused(shape: Shape, path: Path, done: str, *, named: bool = False) -> None:
    """Raise InvalidChange where SQL of the table speaks of the column or, with `named`, a list of columns names it."""
    listed = names_of(shape.metadata, shape.domains, path) if named else ()
    for what, how in (*uses_of(shape.metadata, path), *listed):
        refuse_change(path, f"cannot be {done}: {what} speaks of it", how)
