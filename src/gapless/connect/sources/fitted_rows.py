"""Rows from elsewhere as the columns of a source: by name, by value where nobody declared their types, and never with loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidOption, InvalidValue, SchemaMismatch, nearest
from gapless.files.ingest.batches import Batches, naming
from gapless.files.ingest.table_types import with_table_types
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.types import declared_field
from gapless.model.widening import why_not


def as_declared(schema: object, source: str) -> pa.Schema:
    """A schema of types that tables hold, without metadata of its own; `source` is what messages call the rows.

    Raises InvalidOption for what is no schema, SchemaMismatch for a name that comes twice, UnsupportedType.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidOption(
            f"schema={schema!r} is no schema",
            fix='Pass a pyarrow.Schema, such as pa.schema([("id", pa.int64())])',
            option="schema",
            value=schema,
        )
    twice = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if twice:
        raise _mismatch(source, [f"{name}: comes more than once" for name in twice])
    return pa.schema([declared_field(field) for field in schema])


def evolved(known: pa.Schema, came: pa.Schema) -> pa.Schema:
    """The columns that rows of both have: those that are known, in another type where rows came in one that they do not hold, and behind
    them those that are new.
    """
    types = {field.name: field.type for field in came}
    kept = [
        field if _holds(field.type, types.get(field.name, field.type)) else field.with_type(types[field.name])
        for field in known
    ]
    return pa.schema([*kept, *(field for field in came if field.name not in known.names)])


def _holds(known: pa.DataType, came: pa.DataType) -> bool:
    return bool(pa.types.is_null(came)) or why_not(came, known) is None


def fitted(part: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as the columns of a schema, in its order. Columns are found by name; those that are missing are null.

    Raises SchemaMismatch at once where columns are unknown, may not be null and are missing, or never fit; InvalidValue, as the rows are
    read, for a value that its column does not hold exactly. Both name the source.
    """
    typed = with_table_types(part, schema)
    given = {field.name: field for field in typed.schema}
    differences = [f"{name}: comes more than once" for name, count in Counter(typed.schema.names).items() if count > 1]
    differences += [f"{name}: is not known. {nearest(name, schema.names)}" for name in given if name not in schema.names]
    for field in schema:
        if field.name not in given:
            differences += [] if field.nullable else [f"{field.name}: is missing, and may not be null"]
        elif reason := why_not(given[field.name].type, field.type):
            if pa.types.is_null(field.type):
                reason = "the first rows had no value in it, so that its type was not known"
            differences.append(f"{field.name}: {field.type} is known, {given[field.name].type} came: {reason}")
    if differences:
        raise _mismatch(part.source, differences)
    return _fitted(typed, schema)


def _fitted(part: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    row, given = 0, frozenset(part.schema.names)
    for batch in part:
        with naming(part):
            columns = [
                _fit_column(batch.column(field.name), field, row)
                if field.name in given
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        row += batch.num_rows


def _fit_column(array: pa.Array, field: pa.Field, first_row: int) -> pa.Array:
    try:
        values = convert(array, field.type)
    except Misfit as misfit:
        raise refuse_misfit(misfit, array, field, first_row) from None
    if values.null_count and not field.nullable:
        row = first_row + pc.index(values.is_null(), pa.scalar(True)).as_py()
        raise InvalidValue(
            f"column {field.name!r} is null in row {row}",
            why="The schema says that it is never null",
            fix="Fill the value, or declare the column nullable",
            column=field.name,
            row=row,
            value=None,
        )
    return values


def _mismatch(source: str, differences: list[str]) -> SchemaMismatch:
    return SchemaMismatch(
        f"{source}: other columns than this source gives: {'; '.join(differences)}",
        why="The rows of one run have one schema: the declared one, or that of the first rows",
        fix="Declare all columns with schema=, those that some rows lack as nullable; or read these rows by a source of their own",
        differences=tuple(differences),
    )
