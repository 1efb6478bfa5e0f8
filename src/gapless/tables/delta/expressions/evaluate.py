"""Evaluate SQL expressions over rows in memory with DuckDB: computed columns, conditions, and values as the type of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import DataError, InvalidQuery, InvalidValue, SchemaMismatch
from gapless.model.convert import Misfit, cast_leaves, convert, exact_cast, opened
from gapless.model.fit import refuse_misfit
from gapless.model.types import bare_type, children, is_any_list, with_children
from gapless.model.widening import why_not
from gapless.tables.delta.expressions.sql import Dialect, RowExpression, parse_expression
from gapless.tables.shared.duckdb_session import FEW_ALONE, duck_session

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Of whole numbers, by their bits."""


@lru_cache(1_024)
def lifted(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """The source type with whole numbers as decimals wherever the target has decimals, and bytes of one size as any, at any depth.

    >>> lifted(pa.int64(), pa.decimal128(10, 2))
    Decimal128Type(decimal128(19, 0))
    """
    bare = bare_type(source)
    if pa.types.is_integer(bare) and pa.types.is_decimal(target):
        return pa.decimal128(20 if bare == pa.uint64() else _DIGITS[bare.bit_width], 0)
    if pa.types.is_fixed_size_binary(bare) and pa.types.is_binary(target):
        return target
    if pa.types.is_struct(bare) and pa.types.is_struct(target):
        wanted = {one.name: one.type for one in target}
        return with_children(bare, lambda one: one.with_type(lifted(one.type, wanted.get(one.name, one.type))))
    if not bare.num_fields:
        return source
    same_kind = (is_any_list(bare) and is_any_list(target)) or (pa.types.is_map(bare) and pa.types.is_map(target))
    if not same_kind:
        return source
    wanted_below = iter([one.type for one in children(target)])
    return with_children(bare, lambda one: one.with_type(lifted(one.type, next(wanted_below))))


@lru_cache(1_024)
def why_unfit(source: pa.DataType, target: pa.DataType) -> str | None:
    """Why values of an input's type cannot be kept as a column's; None where they can, each that the column's type holds."""
    return why_not(lifted(source, target), target)


def fitted_values(array: pa.Array, target: pa.DataType) -> pa.Array:
    """An input's values as a column's type; raises Misfit at the first that it does not hold."""
    array = opened(array)
    wide = lifted(array.type, target)
    if wide != array.type:
        array = cast_leaves(array, wide)
    return convert(array, target)


def assigned_values(array: pa.Array, target: pa.DataType, *, naive_is_utc: bool) -> pa.Array:
    """Computed values as a column's type: numbers of any kind, as long as none loses anything but what a float rounds.

    `naive_is_utc` reads naive times as UTC where the column has instants. Raises Misfit.
    """
    t, source = pa.types, array.type
    if t.is_floating(source) and t.is_floating(target):
        return _rounded(array, target)
    if t.is_decimal(source) and t.is_floating(target):
        return pc.cast(array, target)
    if (lost := _lost_field(source, target)) is not None:
        raise Misfit(f"the column has no field {lost!r}")
    exact = (
        ((t.is_floating(source) or t.is_decimal(source)) and t.is_integer(target))
        or (t.is_integer(source) and t.is_floating(target))
        or (t.is_date(source) and t.is_timestamp(target))
        or (naive_is_utc and t.is_timestamp(source) and source.tz is None and t.is_timestamp(target))
    )  # fmt: skip
    return exact_cast(array, target) if exact else fitted_values(array, target)


def _lost_field(source: pa.DataType, target: pa.DataType) -> str | None:
    """A field of a struct, at any depth, that the target does not have."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        known = {one.name: one.type for one in target}
        return next((one.name for one in source if one.name not in known), None) or _first_lost(
            (one.type, known[one.name]) for one in source
        )
    if (is_any_list(source) and is_any_list(target)) or (pa.types.is_map(source) and pa.types.is_map(target)):
        return _first_lost((one.type, other.type) for one, other in zip(children(source), children(target), strict=True))
    return None


def _first_lost(pairs: Iterable[tuple[pa.DataType, pa.DataType]]) -> str | None:
    return next((lost for source, target in pairs if (lost := _lost_field(source, target)) is not None), None)


def _rounded(array: pa.Array, target: pa.DataType) -> pa.Array:
    found = pc.cast(array, target)
    overflown = pc.and_(pc.is_inf(found), pc.is_finite(array))
    row = pc.index(overflown, True).as_py() if len(array) else -1
    if row >= 0:
        raise Misfit(f"{target} does not reach that far", row, array[row])
    return found


def evaluate(
    table: pa.Table,
    expressions: Mapping[str, str],
    schema: pa.Schema,
    *,
    dialect: Dialect = "duckdb",
    deterministic: bool = True,
    first_row: int = 0,
) -> pa.Table:
    """Compute SQL expressions over rows: a column for each, named and typed as `schema` has it, with a row for each row of `table`, in order.

    `expressions` maps names of `schema` to SQL over the columns of `table` (exact name, else without regard to case where unique; `"…"`
    quotes). `dialect` is "duckdb" (standard SQL) or "spark" (what a table's constraints and generated columns speak). A value must be one
    of the declared type; floats round. Times are in UTC. `deterministic=False` allows the time of now. `first_row` counts rows in errors.

    Raises InvalidQuery (no expression, an aggregate, a subquery, one that is not deterministic, one that DuckDB cannot answer),
    UnknownColumn, InvalidValue (a value that the declared type does not hold; names the row), SchemaMismatch (types that do not fit).
    """
    known = [parse_expression(text, table.schema, dialect, deterministic=deterministic) for text in expressions.values()]
    answer = _answer(table, known, first_row)
    fields = [schema.field(name) for name in expressions]
    naive_is_utc = dialect == "spark"
    columns = [
        _typed(column, field, one, naive_is_utc=naive_is_utc, first_row=first_row)
        for column, field, one in zip(answer.columns, fields, known, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _answer(table: pa.Table, expressions: list[RowExpression], first_row: int) -> pa.Table:
    import duckdb

    texts = "; ".join(one.text for one in expressions)
    try:
        return _computed(table, expressions)
    except (duckdb.DataError, duckdb.InvalidInputException) as error:
        row = _first_failing(table, expressions)
        if row is not None:
            names = [table.column_names[index] for one in expressions for index in one.columns]
            values = {name: table.column(name)[row].as_py() for name in dict.fromkeys(names)}
            raise InvalidValue(
                f"{texts} cannot be computed for row {first_row + row}: {_first_line(error)}",
                why="It has " + ", ".join(f"{name}={value!r}" for name, value in values.items()),
                fix="Mend the row, or write the expression so that it holds what comes of it",
                column=next(iter(values), ""), row=first_row + row, value=next(iter(values.values()), None),
            ) from error  # fmt: skip
        raise _unanswered(texts, error) from error
    except duckdb.Error as error:
        raise _unanswered(texts, error) from error


def _first_line(error: Exception) -> str:
    """What DuckDB says, without the query that it shows beside it."""
    return str(error).partition("\n")[0]


def _unanswered(texts: str, error: Exception) -> InvalidQuery:
    return InvalidQuery(f"DuckDB cannot compute {texts}: {_first_line(error)}", fix="Mend the expression", sql=texts)


def _first_failing(table: pa.Table, expressions: list[RowExpression]) -> int | None:
    """The first row whose values the expressions cannot take, found in log2(n) queries; None where they take none at all."""

    def fails(start: int, count: int) -> bool:
        import duckdb

        try:
            _computed(table.slice(start, count), expressions)
        except (duckdb.DataError, duckdb.InvalidInputException):
            return True
        return False

    if not any(one.columns for one in expressions) or fails(0, 0):
        return None
    low, high = 0, int(table.num_rows)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(low, middle - low) else (middle, high)
    return low


def _computed(table: pa.Table, expressions: list[RowExpression]) -> pa.Table:
    used = sorted({index for one in expressions for index in one.columns})
    arrays = [table.column(index) for index in used]
    rows = pa.Table.from_arrays(
        [*arrays, pa.chunked_array([pa.nulls(table.num_rows, pa.int8())])],
        names=[*(f"c{index}" for index in used), "rows only"],
    )
    selected = ", ".join(f"{one.sql} AS o{number}" for number, one in enumerate(expressions))
    with duck_session(table.num_rows, FEW_ALONE) as session:
        session.register("input", rows)
        return session.sql(f"SELECT {selected} FROM input").to_arrow_table()  # noqa: S608  # made of parsed expressions


def _typed(
    column: pa.ChunkedArray, field: pa.Field, expression: RowExpression, *, naive_is_utc: bool, first_row: int
) -> pa.ChunkedArray:
    arrays, row = [], first_row
    # Without rows there is no chunk, and a type that may not fit all the same.
    for array in column.chunks or [pa.array([], column.type)]:
        try:
            nulls = expression.is_null
            arrays.append(
                pa.nulls(len(array), field.type) if nulls else assigned_values(array, field.type, naive_is_utc=naive_is_utc)
            )
        except Misfit as misfit:
            raise _refusal(misfit, array, field, expression, row) from None
        row += len(array)
    return pa.chunked_array(arrays, field.type)


def _refusal(misfit: Misfit, array: pa.Array, field: pa.Field, expression: RowExpression, row: int) -> DataError:
    error = refuse_misfit(misfit, array, field, row)
    return type(error)(
        f"{expression.text!r} does not fit column {field.name!r}: {error.what}",
        why=error.why,
        fix=f"Write a cast to {field.type} into the expression, if that is what is meant",
        **error.facts,
    )


_TRUE = pa.schema([pa.field("true", pa.bool_())])


def true_rows(rows: pa.Table, condition: str) -> npt.NDArray[np.bool_]:
    """Evaluate a SQL condition: one boolean per row, false where it is null.

    Raises InvalidQuery, also for an expression that is neither true nor false; UnknownColumn; InvalidValue for a row for which it
    cannot be computed.
    """
    try:
        answer = evaluate(rows, {"true": condition}, _TRUE)
    except SchemaMismatch as error:
        raise InvalidQuery(
            f"{condition} is no condition",
            why="It is neither true nor false",
            fix="Write what is one of them, such as id > 3",
            sql=condition,
        ) from error
    true: npt.NDArray[np.bool_] = answer.column(0).fill_null(False).to_numpy()
    return true
