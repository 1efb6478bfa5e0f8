"""Enforce constraints on written rows: NOT NULL, column invariants, CHECK constraints, generated columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidQuery, InvalidValue, UnknownColumn, UnsupportedTable
from gapless.formats.delta.actions import TableState
from gapless.formats.delta.partitions import encode_value
from gapless.formats.delta.properties import constraints_of
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.schema.types import DeltaType, StructField, StructType
from gapless.model.convert import Misfit, convert
from gapless.model.fit import Rows, refuse_misfit
from gapless.tables.delta.expressions.evaluate import evaluate
from gapless.tables.delta.expressions.sql import Dialect, columns_read, parse_expression, parsed

GENERATED, INVARIANTS = "delta.generationExpression", "delta.invariants"
_PASSED = "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A condition that must be true for every row."""

    name: str
    """As messages show it."""
    expression: str
    """What the log says, in Spark's SQL."""
    condition: str
    """What must be true, in Spark's SQL."""
    generated: bool = False
    """Whether it says what the values of a generated column are."""


def constraints(state: TableState) -> tuple[Constraint, ...]:
    """The conditions of a table in SQL: CHECK constraints, column invariants, and that generated columns have their values."""
    checks = constraints_of(state.configuration)
    named = [Constraint(name=f"the constraint {name!r}", expression=text, condition=text) for name, text in checks.items()]
    return (*named, *_of_columns(state.metadata.schema))


def _of_columns(schema: StructType) -> Iterator[Constraint]:
    for path, field in _fields(schema, ()):
        where = ".".join(path)
        if (text := field.metadata.get(INVARIANTS)) is not None:
            invariant = _invariant(str(text))
            yield Constraint(name=f"the invariant of column {where!r}", expression=invariant, condition=invariant)
        if (text := field.metadata.get(GENERATED)) is not None and len(path) == 1:
            condition = f"{quoted(field.name)} <=> ({text})"
            yield Constraint(name=f"the generated column {where!r}", expression=str(text), condition=condition, generated=True)


def _fields(type_: DeltaType, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    if isinstance(type_, StructType):
        for field in type_.fields:
            path = (*above, field.name)
            yield path, field
            yield from _fields(field.type, path)


def _invariant(text: str) -> str:
    """The expression in a column's `delta.invariants`."""
    try:
        found = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError):
        found = None
    if isinstance(found, str):
        return found
    raise UnsupportedTable(
        f"the invariant {text} of a column cannot be read",
        why='It is not {"expression": {"expression": "…"}}',
        fix="Mend it with the tool that set it",
        needs="invariants",
    )


def quoted(name: str) -> str:
    """A column's name as Spark's SQL quotes it."""
    return f"`{name.replace('`', '``')}`"


@lru_cache(256)
def names_in(expression: str, dialect: Dialect = "spark") -> frozenset[str]:
    """The names of top-level columns that an SQL expression reads, in lower case. Raises InvalidQuery for what is none."""
    from sqlglot import exp

    return frozenset(one.parts[0].name.lower() for one in parsed(expression, dialect).find_all(exp.Column))


def checked(rows: Rows, state: TableState, *, first_row: int = 0, kept: AbstractSet[str] = frozenset()) -> Rows:
    """Check rows, which have all columns in the types of the table's schema, against a version's constraints; returns them.

    `first_row` is the number of the first, for messages; `kept` are columns whose values are what they were in the table, so that what only
    these decide holds still: of them no generated column is computed, nor a constraint that cannot be. Raises InvalidValue that names the constraint (or column), its expression, the
    first row that breaks it and its values; UnsupportedTable for an expression that cannot be evaluated here.
    """
    declared = to_arrow(state.metadata.schema)
    _check_nulls(rows, declared, first_row)
    for name in state.metadata.partition_by:
        _check_partition_texts(rows.column(name), name, first_row)
    check_constraints(rows, _in_question(constraints(state), declared, kept), first_row=first_row)
    return rows


def _in_question(conditions: tuple[Constraint, ...], declared: pa.Schema, kept: AbstractSet[str]) -> tuple[Constraint, ...]:
    """The conditions that rows may break whose values of some columns are what they were."""
    if not kept:
        return conditions
    same = {name.lower() for name in kept}
    return tuple(one for one in conditions if not (names_in(one.condition) <= same and _holds_still(one, declared)))


def _holds_still(one: Constraint, declared: pa.Schema) -> bool:
    try:
        parse_expression(one.condition, declared, "spark")
    except (InvalidQuery, UnknownColumn):
        return True
    return one.generated


def _check_nulls(rows: pa.RecordBatch | pa.Table, declared: pa.Schema, first_row: int) -> None:
    for field in declared:
        column = rows.column(field.name)
        if column.null_count and not field.nullable:
            row = first_row + pc.index(column.is_null(), True).as_py()
            raise InvalidValue(
                f"column {field.name!r} is null in row {row}",
                why="The table declares it non-null",
                fix="Fill the value, or drop the row",
                column=field.name, row=row, value=None,
            )  # fmt: skip
        if pa.types.is_nested(field.type):
            _check_nested(column, field, first_row)


def _check_partition_texts(column: pa.Array | pa.ChunkedArray, name: str, first_row: int) -> None:
    """Refuse what the log could not tell from null."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        row = pc.index(pc.binary_length(column), pa.scalar(0, pa.int32())).as_py()
        if row >= 0:
            encode_value(column[row], column=name, row=first_row + row)


def _check_nested(column: pa.Array | pa.ChunkedArray, field: pa.Field, first_row: int) -> None:
    row = first_row
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        try:
            convert(array, field.type)
        except Misfit as misfit:
            raise refuse_misfit(misfit, array, field, row) from None
        row += len(array)


def check_constraints(rows: pa.RecordBatch | pa.Table, conditions: tuple[Constraint, ...], *, first_row: int = 0) -> None:
    """Raise as `checked` where a row breaks one of these."""
    if not conditions or not rows.num_rows:
        return
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    names = [f"{_PASSED}{number}" for number in range(len(conditions))]
    expressions = {name: one.condition for name, one in zip(names, conditions, strict=True)}
    schema = pa.schema([(name, pa.bool_()) for name in names])
    try:
        answers = evaluate(table, expressions, schema, dialect="spark")
    except (InvalidQuery, UnknownColumn) as error:
        one, why = next(_uncomputable(conditions, table), (conditions[0], error))
        raise _unanswerable(one, why) from why
    for one, answer in zip(conditions, answers.columns, strict=True):
        row = pc.index(pc.fill_null(answer, False), False).as_py()
        if row >= 0:
            raise _broken(one, table, row, first_row)


def _broken(one: Constraint, table: pa.Table, row: int, first_row: int) -> InvalidValue:
    columns = columns_read(one.condition, table.schema, "spark")
    values = {name: table.column(name)[row].as_py() for name in columns}
    return InvalidValue(
        f"row {first_row + row} breaks {one.name}, {one.expression}",
        why="It has " + (", ".join(f"{name}={value!r}" for name, value in values.items()) or "no column that it reads"),
        fix="Mend or drop the row; a row passes where the expression is true",
        column=columns[0] if columns else "", row=first_row + row, value=next(iter(values.values()), None),
    )  # fmt: skip


def _uncomputable(
    conditions: tuple[Constraint, ...], table: pa.Table
) -> Iterator[tuple[Constraint, InvalidQuery | UnknownColumn]]:
    """Those that cannot be computed, each with why."""
    for one in conditions:
        try:
            evaluate(table.slice(0, 0), {_PASSED: one.condition}, pa.schema([(_PASSED, pa.bool_())]), dialect="spark")
        except (InvalidQuery, UnknownColumn) as error:
            yield one, error


def _unanswerable(one: Constraint, error: InvalidQuery | UnknownColumn) -> UnsupportedTable:
    if one.generated:
        what = f"{one.name} is to be {one.expression}, which cannot be computed here"
        fix = "Write with Spark; what leaves its values as they are, such as a delete, works here"
    else:
        what = f"the table's rows are to satisfy {one.name}, {one.expression}, which cannot be computed here"
        fix = "Write with Spark, or drop the constraint"
    return UnsupportedTable(what, why=error.what, fix=fix, needs=one.expression)
