"""SQL expressions over rows in memory, answered by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gapless.errors import DataError, InvalidQuery, InvalidValue
from gapless.model.convert import Misfit
from gapless.model.fit import refuse_misfit
from gapless.table.delta.assign import assigned_values
from gapless.table.delta.duck_session import FEW_ALONE, duck_session
from gapless.table.delta.expression_sql import Dialect, Understood, understand


def evaluate(
    table: pa.Table,
    expressions: Mapping[str, str],
    schema: pa.Schema,
    *,
    dialect: Dialect = "duckdb",
    deterministic: bool = True,
    first_row: int = 0,
) -> pa.Table:
    """One column for each expression, named and typed as `schema` has it, with a row for each row of `table`, in its order.

    `expressions` maps names of `schema` to SQL over the columns of `table` (exact name, else without regard to case where unique; `"…"`
    quotes). `dialect` is "duckdb" (standard SQL) or "spark" (what a table's constraints and generated columns speak). A value must be one
    of the declared type; floats round. Times are in UTC. `deterministic=False` allows the time of now. `first_row` counts rows in errors.

    Raises InvalidQuery (no expression, an aggregate, a subquery, one that is not deterministic, one that DuckDB cannot answer),
    UnknownColumn, InvalidValue (a value that the declared type does not hold; names the row), SchemaMismatch (types that do not fit).
    """
    known = [understand(text, table.schema, dialect, deterministic=deterministic) for text in expressions.values()]
    answer = _answer(table, known, first_row)
    fields = [schema.field(name) for name in expressions]
    naive_is_utc = dialect == "spark"
    columns = [
        _typed(column, field, one, naive_is_utc=naive_is_utc, first_row=first_row)
        for column, field, one in zip(answer.columns, fields, known, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _answer(table: pa.Table, expressions: list[Understood], first_row: int) -> pa.Table:
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


def _first_failing(table: pa.Table, expressions: list[Understood]) -> int | None:
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


def _computed(table: pa.Table, expressions: list[Understood]) -> pa.Table:
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
    column: pa.ChunkedArray, field: pa.Field, expression: Understood, *, naive_is_utc: bool, first_row: int
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


def _refusal(misfit: Misfit, array: pa.Array, field: pa.Field, expression: Understood, row: int) -> DataError:
    error = refuse_misfit(misfit, array, field, row)
    return type(error)(
        f"{expression.text!r} does not fit column {field.name!r}: {error.what}",
        why=error.why,
        fix=f"Write a cast to {field.type} into the expression, if that is what is meant",
        **error.facts,
    )
