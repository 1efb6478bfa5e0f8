"""Rows of a source as the columns of a lake table, and those that are put aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import DataError, InvalidValue, NullKey
from gapless.lake.drift import Drift
from gapless.lake.layout.schema import LakeSchema
from gapless.model.by_value import convert_by_value
from gapless.model.convert import Misfit, convert
from gapless.model.fit import refuse_misfit
from gapless.model.types import stored_field
from gapless.tables.shared.duckdb_session import duck_session


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRows:
    """Rows of one page."""

    rows: pa.Table
    """Under the table's columns, in its types; without those whose type is not known yet."""
    quarantined: pa.Table
    """Rows as they came, with why."""


REASON = "_gapless_reason"
"""The column of quarantined rows that says why they are."""


def fit_rows(given: pa.Table, drift: Drift, key: tuple[str, ...]) -> FittedRows:
    """Rows by their fields as the columns that a policy made of them.

    Raises InvalidValue, SchemaMismatch, NullKey.
    """
    aside = _aside(given, drift.quarantined)
    rows = given if aside is None else given.filter(pc.invert(aside))
    columns = dict[str, pa.ChunkedArray]()
    for name, column in drift.schema.fields.items():
        if name in given.column_names and name not in drift.quarantined:
            columns[column] = rows.column(name)
    made = [_fitted(columns.get(one.name), one, rows.num_rows) for one in _known(drift.schema)]
    table = pa.Table.from_arrays(made, schema=pa.schema(_known(drift.schema)))
    for name in key:
        _check_key(table, name)
    quarantined = given.slice(0, 0) if aside is None else given.filter(aside)
    if quarantined.num_rows:
        why = "; ".join(drift.quarantined.values())
        quarantined = quarantined.append_column(REASON, pa.array([why] * quarantined.num_rows, pa.string()))
    return FittedRows(rows=table, quarantined=quarantined)


def file_schema(schema: LakeSchema) -> pa.Schema:
    """What files of a version of the columns hold."""
    return pa.schema([stored_field(one) for one in _known(schema)])


def as_stored(rows: pa.Table, schema: LakeSchema) -> pa.Table:
    """Fitted rows as files hold them: times in UTC and µs or ns."""
    target = file_schema(schema)
    columns = [
        pa.chunked_array([convert(one, field.type) for one in column.chunks], field.type)
        for column, field in zip(rows.columns, target, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=target)


def _known(schema: LakeSchema) -> list[pa.Field]:
    return [one for one in schema.columns if not pa.types.is_null(one.type)]


def _aside(given: pa.Table, quarantined: Mapping[str, str]) -> pa.ChunkedArray | None:
    masks = [pc.is_valid(given.column(name)) for name in quarantined if name in given.column_names]
    return reduce(pc.or_, masks) if masks else None


def _fitted(column: pa.ChunkedArray | None, field: pa.Field, rows: int) -> pa.ChunkedArray | pa.Array:
    if column is None:
        return pa.nulls(rows, field.type)
    if pa.types.is_string(field.type) and not _is_text(column.type):
        return as_text(column)
    done, chunks = 0, list[pa.Array]()
    for chunk in column.chunks:
        try:
            chunks.append(_converted(chunk, field.type))
        except Misfit as misfit:
            raise _misfit(misfit, chunk, field, done) from None
        done += len(chunk)
    return pa.chunked_array(chunks, field.type)


def _converted(chunk: pa.Array, type_: pa.DataType) -> pa.Array:
    number = pa.types.is_floating(type_) and pa.types.is_integer(chunk.type)
    return convert_by_value(chunk, type_) if number else convert(chunk, type_)


def _misfit(misfit: Misfit, chunk: pa.Array, field: pa.Field, row: int) -> DataError:
    found = refuse_misfit(misfit, chunk, field, row)
    if isinstance(found, InvalidValue):
        return found
    return InvalidValue(
        f"column {field.name!r} does not fit: {misfit.why}",
        why=f"It is {field.type} in the table, and {chunk.type} came",
        fix="Mend the rows",
        column=field.name,
        row=row,
        value=None,
    )


def _is_text(type_: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(type_):
        return _is_text(type_.value_type)
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_) or t.is_null(type_))


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers and booleans as the texts that DuckDB writes: what was stored before its column became text is read as the same."""
    with duck_session(len(column)) as session:
        session.register("given", pa.table({"v": column}))
        found: pa.Table = session.sql("SELECT CAST(v AS VARCHAR) AS v FROM given").to_arrow_table()
    return found.column("v").cast(pa.string())


def _check_key(rows: pa.Table, name: str) -> None:
    column = rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows)
    if column.null_count:
        row = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
        raise NullKey(
            f"row {row} has no value in {name!r}, a column of the table's key",
            why="Which row it is, and which it replaces, could not be told",
            fix="Fill the value, or drop the row",
            column=name,
            row=row,
        )
