"""Columns of an Iceberg table that a sink adds or widens: by field id, so that what files hold stays found."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType, PrimitiveType

from gapless.errors import CommitConflict, InvalidChange
from gapless.formats.iceberg.schema import FieldIds, iceberg_schema
from gapless.model.column_ids import ColumnIds, ColumnPath
from gapless.model.instant import NS_PER
from gapless.publish.iceberg.changes import TableChange
from gapless.tables.iceberg.columns import paths
from gapless.tables.iceberg.table import IcebergTable
from gapless.tables.shared.library_errors import said

_TRIES = 10


def add_column(table: IcebergTable, path: ColumnPath, type_: pa.DataType) -> None:
    """Add a column, or a field of a struct, that may be null; nothing where there is one of that path by now.

    Raises InvalidChange, UnsupportedType, CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    wanted = iceberg_type(type_, path)
    _change(
        table,
        path,
        lambda schema: path in paths(schema),
        lambda update: update.add_column(path if len(path) > 1 else path[0], wanted),
    )


def widen_column(table: IcebergTable, path: ColumnPath, type_: pa.DataType) -> None:
    """Give a column or field a wider type: int to long, float to double, decimals more digits. Raises as `add_column`."""
    wanted = iceberg_type(type_, path)

    def is_done(schema: Schema) -> bool:
        known = paths(schema).get(path)
        return known is not None and known.field_type == wanted

    def change(update: UpdateSchema) -> object:
        if not isinstance(wanted, PrimitiveType):
            raise _refuse(path, wanted, "Only types without fields are widened")
        return update.update_column(path if len(path) > 1 else path[0], field_type=wanted)

    _change(table, path, is_done, change)


def iceberg_type(type_: pa.DataType, path: ColumnPath) -> IcebergType:
    """The type of a column. Raises UnsupportedType for one that Iceberg does not have."""
    fields, _ = iceberg_schema(pa.schema([pa.field(path[-1], type_)]), ColumnIds(), FieldIds())
    return Schema.model_validate({"type": "struct", "schema-id": 0, "fields": fields}).fields[0].field_type


def _change(
    table: IcebergTable, path: ColumnPath, is_done: Callable[[Schema], bool], change: Callable[[UpdateSchema], object]
) -> None:
    for _ in range(_TRIES):
        loaded = table.refresh()
        table.require_writable()
        if is_done(loaded.metadata.schema()):
            return
        update = UpdateSchema(Transaction(loaded.table), allow_incompatible_changes=False)
        try:
            change(update)
            updates, requirements = update._commit()  # noqa: SLF001 - committed by the place
        except (ValueError, ResolveError, ValidationError, ValidationException) as error:
            raise _refuse(path, None, said(error)) from error
        time_ms = max(table.env.clock.now_ns() // NS_PER["ms"], loaded.metadata.last_updated_ms)
        if table.place.commit(loaded, TableChange(requirements, updates, 0), time_ms) == "landed":
            table.refresh()
            return
    raise CommitConflict(
        f"column {'.'.join(path)!r} of {table.options.place} met other writers {_TRIES} times",
        why="Each change of columns follows the newest metadata; nothing was changed",
        fix="Call initialize again",
        version=table.version,
        reason="another writer",
    )


def _refuse(path: ColumnPath, wanted: object, why: str) -> InvalidChange:
    return InvalidChange(
        f"column {'.'.join(path)!r} cannot be changed{'' if wanted is None else f' into {wanted}'}",
        why=why,
        fix="Iceberg promotes int to long, float to double, and decimals to more digits; send the rows in the type that the table has",
        column=".".join(path),
    )
