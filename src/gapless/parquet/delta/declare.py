"""A file's columns in the types that a Delta table declares for them."""

from __future__ import annotations

import pyarrow as pa

from gapless.errors import CorruptTable, UnsupportedTable
from gapless.model.column_ids import ColumnIds, Fields
from gapless.model.fit import restore
from gapless.model.types import is_any_list, with_children
from gapless.parquet.delta.calendar import check_calendar
from gapless.parquet.footer import Footer

_SHREDDED = "typed_value"
_VARIANT = frozenset({"metadata", "value"})


def declared_rows(rows: pa.Table, schema: pa.Schema, ids: ColumnIds, footer: Footer, path: str) -> pa.Table:
    """Rows as a file holds them, in the columns of `schema`, exactly. Raises CorruptTable where a type or value does not fit, UnsupportedTable
    where a variant is shredded, or dates are of another calendar.
    """
    check_calendar(rows, footer.metadata, path)
    if not ids and rows.schema.equals(schema) and not any(type_.num_fields for type_ in schema.types):
        same = rows.replace_schema_metadata(schema.metadata)  # as most files of most tables are
        return same if same.schema.equals(schema, check_metadata=True) else pa.Table.from_arrays(rows.columns, schema=schema)
    for field in schema:
        at = rows.schema.get_field_index(ids.stored_name(field.name))
        if at >= 0 and rows.column(at).type != field.type:
            stored = rows.column(at)
            as_delta = _as_delta(stored.type, field.type, ids.reading(field.name), path)
            if as_delta != stored.type:
                rows = rows.set_column(at, rows.schema.field(at).with_type(as_delta), _cast(stored, as_delta, field, path))
    return restore(rows, schema, ids=ids, path=path)


def _cast(stored: pa.ChunkedArray, as_delta: pa.DataType, field: pa.Field, path: str) -> pa.ChunkedArray:
    try:
        return stored.cast(as_delta)
    except pa.ArrowInvalid as error:
        raise CorruptTable(
            f"column {field.name!r} of data file {path} is {field.type} in the log and {stored.type} in the file: {error}",
            why="A value of the file is none of the column's type",
            fix="Bring the file back from a backup, or write its rows anew",
            path=path,
        ) from error


def _as_delta(stored: pa.DataType, declared: pa.DataType, fields: Fields, path: str) -> pa.DataType:
    """The stored type with those leaves as declared that Delta takes for wider ones, and Arrow's lossless conversion does not."""
    if pa.types.is_struct(stored) and pa.types.is_struct(declared):
        return _struct(stored, declared, fields, path)
    if is_any_list(stored) and is_any_list(declared):
        return with_children(stored, lambda one: _child(one, declared.value_field, "element", fields, path))
    if pa.types.is_map(stored) and pa.types.is_map(declared):
        key = _child(stored.key_field, declared.key_field, "key", fields, path)
        item = _child(stored.item_field, declared.item_field, "value", fields, path)
        return stored if (key, item) == (stored.key_field, stored.item_field) else pa.map_(key, item)
    return declared if _reads_as(stored, declared) else stored


def _child(one: pa.Field, declared: pa.Field, step: str, fields: Fields, path: str) -> pa.Field:
    return one.with_type(_as_delta(one.type, declared.type, fields.below(step), path))


def _struct(stored: pa.DataType, declared: pa.DataType, fields: Fields, path: str) -> pa.DataType:
    names = {one.name for one in stored}
    if {one.name for one in declared} == _VARIANT and _SHREDDED in names:
        raise UnsupportedTable(
            f"data file {path} holds a shredded variant",
            why="Parts of its values lie in columns of their own, which this release does not put together",
            fix="Rewrite the table without shredding: delta.enableVariantShredding=false, then REORG … APPLY (PURGE) in Spark",
            needs="variantShredding",
        )
    wanted = {fields.names.get((one.name,), one.name): one for one in declared}
    return pa.struct(
        [_child(one, wanted[one.name], wanted[one.name].name, fields, path) if one.name in wanted else one for one in stored]
    )


def _reads_as(stored: pa.DataType, declared: pa.DataType) -> bool:
    t = pa.types
    if t.is_timestamp(declared):
        # INT96 has no zone, and other writers' files may not say what the table does: Spark, deltalake and DuckDB go by the table.
        zoned = t.is_timestamp(stored) and (stored.tz is None) != (declared.tz is None)
        return zoned or (t.is_date(stored) and declared.tz is None)
    if t.is_decimal(declared):
        return bool(t.is_integer(stored))
    return bool((t.is_string(declared) and t.is_binary(stored)) or (t.is_binary(declared) and t.is_fixed_size_binary(stored)))
