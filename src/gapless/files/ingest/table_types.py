"""Columns whose type nobody declared take that of the table's column, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa

from gapless.files.ingest.batches import Batches, with_source
from gapless.model.by_value import Floats, convert_by_value, why_never
from gapless.model.convert import Misfit
from gapless.model.fit import refuse_misfit
from gapless.model.schema import stored_as_given
from gapless.model.widening import why_not


def with_table_types(part: Batches, table: pa.Schema | None) -> Batches:
    """The same rows, where each column of an inferred type has the type of the table's column of its name, if values decide that.

    Names are the table's exactly, else without regard to case. Columns that fit by their type, or never will, stay as they are. As it is
    read it raises InvalidValue for the first value that the table's type does not hold, by its row in the whole part.
    """
    if table is None or not part.inferred or stored_as_given(table, part.schema) is not None:
        return part
    taken = _taken_types(part, table)
    if not taken:
        return part
    fields = [field.with_type(taken.get(field.name, field.type)) for field in part.schema]
    schema = pa.schema(fields)
    left = {name: floats for name, floats in part.inferred.items() if name not in taken}
    return replace(part, schema=schema, inferred=left, read=partial(_converted, part, schema, taken))


def unfit_columns(part: Batches, table: pa.Schema) -> frozenset[str]:
    """The names of those columns of which the table's type does not hold every value; reads the part, unless it has no such column."""
    left = _taken_types(part, table) if part.inferred else {}
    unfit: set[str] = set()
    for batch in part if left else ():
        for name in left.keys() - unfit:
            try:
                convert_by_value(batch.column(name), left[name], part.inferred[name])
            except Misfit:
                unfit.add(name)
        if len(unfit) == len(left):
            break
    return frozenset(unfit)


def _taken_types(part: Batches, table: pa.Schema) -> Mapping[str, pa.DataType]:
    exact = {field.name: field.type for field in table}
    loose = {field.name.lower(): field.type for field in table}
    taken = {}
    for field in part.schema:
        target = exact.get(field.name, loose.get(field.name.lower())) if field.name in part.inferred else None
        if target is None or target == field.type or pa.types.is_null(target):
            continue
        if why_not(field.type, target) is not None and why_never(field.type, target) is None:
            taken[field.name] = target
    return taken


def _converted(part: Batches, schema: pa.Schema, taken: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    row = 0
    for batch in part:
        columns = [
            _convert(column, field, part.inferred[field.name], part, row) if field.name in taken else column
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        row += batch.num_rows


def _convert(column: pa.Array, field: pa.Field, floats: Floats, part: Batches, row: int) -> pa.Array:
    try:
        return convert_by_value(column, field.type, floats)
    except Misfit as misfit:
        raise with_source(refuse_misfit(misfit, column, field, row), part.source) from None
