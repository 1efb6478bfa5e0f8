"""Rows as a Hudi table stores them: columns by name, values converted without loss."""

from __future__ import annotations

import re

import pyarrow as pa

from gapless.errors import InvalidValue, NullKey, SchemaMismatch, UnsupportedType, nearest
from gapless.formats.hudi.arrow_schema import arrow_schema
from gapless.formats.hudi.row_keys import partition_paths
from gapless.formats.hudi.schema import avro_schema, problems
from gapless.formats.hudi.table_config import HudiTableConfig
from gapless.model.convert import Misfit, convert, opened
from gapless.model.fit import refuse_misfit

_NOT_AVRO = re.compile(r"\W", re.ASCII)


def table_columns(rows: pa.Schema, name: str) -> tuple[pa.Schema, str]:
    """The columns of a table that takes rows of these, and its Avro schema. Raises UnsupportedType for what Hudi does not have."""
    check_columns(rows)
    # Avro's names are narrower than Hudi's, and hudi-rs holds records to them.
    text = avro_schema(rows, f"t_{_NOT_AVRO.sub('_', name)}")
    return arrow_schema(text, name), text


def check_columns(rows: pa.Schema) -> None:
    """Raise UnsupportedType for columns that a Hudi table cannot have, or that its readers read wrongly."""
    for path, what, fix in problems(rows):
        raise UnsupportedType(
            f"column {path!r} cannot be one of a Hudi table: {what}",
            why="Every reader of Hudi must see what was written",
            fix=fix,
            column=path,
            type=path,
        )


def check_names(rows: pa.Schema, table: pa.Schema) -> None:
    """Raise SchemaMismatch for columns that the table lacks, or that come twice, or that may not be left out."""
    differences = [f"{name}: not in the table. {nearest(name, table.names)}" for name in rows.names if name not in table.names]
    differences += [f"{name}: comes twice" for name in sorted(set(rows.names)) if rows.names.count(name) > 1]
    differences += [f"{one.name}: missing" for one in table if one.name not in rows.names and not one.nullable]
    if differences:
        raise SchemaMismatch(
            f"the rows do not fit the columns of the Hudi table: {'; '.join(differences)}",
            why="Columns are found by their names",
            fix='Rename them, leave them out, or pass schema_evolution="add"',
            differences=tuple(differences),
        )


def fitted(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """Rows with all columns of a table, in its order and types; those that they lack are null.

    Raises SchemaMismatch, InvalidValue for a value that its column does not hold, which names the row.
    """
    check_names(rows.schema, table)
    columns = []
    for field in table:
        at = rows.schema.get_field_index(field.name)
        given = pa.chunked_array([pa.nulls(rows.num_rows, field.type)]) if at < 0 else rows.column(at)
        columns.append(fitted_column(given, field))
    return pa.table(columns, schema=table)


def stored_rows(config: HudiTableConfig, table: pa.Schema, rows: pa.Table) -> pa.Table:
    """Rows as the table stores them. Raises DataError where one does not fit, has no key, or no partition can be named by it."""
    stored = fitted(rows, table)
    for name in config.record_key:
        if stored.column(name).null_count:
            row = stored.column(name).is_null().index(True).as_py()
            raise NullKey(
                f"column {name!r} is null in row {row}",
                why="It is of the record key, which each row of the Hudi table has",
                fix="Fill it in, or leave the row out",
                column=name,
                row=row,
            )
    partition_paths(stored, config)
    return stored


def fitted_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column's values as a field holds them; raises InvalidValue."""
    row, chunks = 0, []
    for chunk in column.chunks:
        plain = opened(chunk)
        try:
            found = convert(plain, field.type)
        except Misfit as misfit:
            raise refuse_misfit(misfit, plain, field, row) from None
        if found.null_count and not field.nullable:
            raise refuse_misfit(Misfit("the column is never null", found.is_null().index(True).as_py()), plain, field, row)
        _check_lists(found, field, row)
        chunks.append(found)
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)


def _check_lists(values: pa.Array, field: pa.Field, first_row: int) -> None:
    """Raise InvalidValue for a null in a list: Hudi on Spark reads it, and fails once it writes its file anew."""
    if not _has_null_element(values):
        return
    row = next(row for row in range(len(values)) if _has_null_element(values.slice(row, 1)))
    raise InvalidValue(
        f"column {field.name!r} has a list with a null in row {first_row + row}",
        why="Hudi cannot write such a list, and so could not write into the table any more",
        fix="Leave nulls out of lists, or keep structs in them",
        column=field.name,
        row=first_row + row,
        value=values[row].as_py(),
    )


def _has_null_element(values: pa.Array) -> bool:
    t, kind = pa.types, values.type
    if t.is_struct(kind):
        return any(_has_null_element(child) for child in values.flatten())
    if t.is_map(kind):
        return _has_null_element(values.items)
    if not (t.is_list(kind) or t.is_large_list(kind)):
        return False
    elements = values.flatten()
    return bool(elements.null_count) or _has_null_element(elements)
