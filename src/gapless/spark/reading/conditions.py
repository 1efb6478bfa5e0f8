"""Predicates as conditions of Spark, where Spark's comparisons answer as ours do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.model.types import bare_type
from gapless.predicate.coerce import coerce_literal, kind_of
from gapless.predicate.predicate import (
    MIRRORED,
    And,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    IsTruth,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Truth,
    Value,
)
from gapless.spark.reading.columns import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_COMPARE: Mapping[Op, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_MIXED = {frozenset(("date", "timestamp")), frozenset(("date", "timestamptz"))}
"""Kinds of a column and a literal that may differ."""


def spark_condition(predicate: Predicate, schema: pa.Schema) -> SparkColumn | None:
    """The condition over the declared columns of `schema`, of which Spark keeps the rows that the predicate is true of; None where Spark
    might answer otherwise: for floats, whose NaN it prunes by bounds that leave it out, nested fields, functions, LIKE.

    Raises InvalidTime for a date that the zone of a column cannot place.
    """
    from pyspark.sql import functions

    match predicate:
        case Constant(value=value):
            return functions.lit(value).cast("boolean")
        case And(terms=terms) | Or(terms=terms):
            found = [spark_condition(term, schema) for term in terms]
            known = [one for one in found if one is not None]
            return None if len(known) < len(found) else reduce(and_ if isinstance(predicate, And) else or_, known)
        case Not(term=term):
            inner = spark_condition(term, schema)
            return None if inner is None else ~inner
        case IsTruth(term=term, value=value):
            inner = spark_condition(term, schema)
            return None if inner is None else inner.eqNullSafe(functions.lit(value).cast("boolean"))
        case Truth(operand=operand):
            field = _field(operand, schema)
            return functions.col(quoted(field.name)) if field is not None and pa.types.is_boolean(field.type) else None
        case IsNull(operand=operand):
            field = _field(operand, schema)
            return None if field is None else functions.col(quoted(field.name)).isNull()
        case In(operand=operand, values=values):
            return _among(operand, values, schema)
        case Comparison(op=op, left=left, right=Value() as value):
            return _compared(left, op, value, schema)
        case Comparison(op=op, left=Value() as value, right=right):
            return _compared(right, MIRRORED[op], value, schema)
        case _:
            return None


def _among(operand: Operand, values: Sequence[Value], schema: pa.Schema) -> SparkColumn | None:
    from pyspark.sql import functions

    field = _field(operand, schema)
    if field is None or not all(_fits(field, value) for value in values):
        return None
    column, given = functions.col(quoted(field.name)), [coerce_literal("=", value, field.type) for value in values]
    # What the type does not hold equals nothing.
    held = [None if one is None else one[1] for one in given if not isinstance(one, bool)]
    if not held:
        return functions.when(column.isNotNull(), functions.lit(False))
    return column.isin([literal(one, field.type, field.name) for one in held])


def _fits(field: pa.Field, value: Value) -> bool:
    kinds = frozenset((kind_of(field.type), value.kind))
    return len(kinds) == 1 or value.kind == "null" or kinds in _MIXED


def _compared(operand: Operand, op: Op, value: Value, schema: pa.Schema) -> SparkColumn | None:
    from pyspark.sql import functions

    field = _field(operand, schema)
    if field is None or not _fits(field, value):
        return None
    column, found = functions.col(quoted(field.name)), coerce_literal(op, value, field.type)
    if found is None:
        return functions.lit(None).cast("boolean")
    if isinstance(found, bool):
        # Null of a null.
        return functions.when(column.isNotNull(), functions.lit(found))
    compared, bound = found
    answer: SparkColumn = _COMPARE[compared](column, literal(bound, field.type, field.name))
    return answer


def _field(operand: Operand, schema: pa.Schema) -> pa.Field | None:
    """The column that an operand is, where Spark compares its values as we do."""
    if not isinstance(operand, Column) or len(operand.path) > 1:
        return None
    field, t = schema.field(operand.path[0]), pa.types
    type_ = bare_type(field.type)
    plain = t.is_integer(type_) or t.is_boolean(type_) or t.is_decimal(type_) or type_ in (pa.string(), pa.large_string())
    return field if plain or t.is_date(type_) or (t.is_timestamp(type_) and type_.unit != "ns") else None
