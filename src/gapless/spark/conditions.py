"""What a read asks for, start, end and entity, as Spark's conditions."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from gapless.model.instant import NS_PER
from gapless.model.stats import Bound
from gapless.scan.predicate import And, Column, Comparison, Constant, In, Operand, Predicate, Value
from gapless.spark.columns import literal, number
from gapless.spark.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def spark_condition(predicate: Predicate, schema: pa.Schema) -> SparkColumn | None:
    """The condition over the declared columns of `schema`; None where it holds for every row.

    Knows what `index_range` and `entity_filter` say; raises NotImplementedError for another predicate, and UnsupportedType.
    """
    from pyspark.sql import functions

    match predicate:
        case Constant(value=True):
            return None
        case Constant():
            return functions.lit(False)
        case And(terms=terms):
            found = [one for term in terms if (one := spark_condition(term, schema)) is not None]
            return reduce(and_, found) if found else None
        case In(operand=Column(path=(name,)), values=values):
            type_ = schema.field(name).type
            return functions.col(quoted(name)).isin([literal(cast("Bound", one.value), type_, name) for one in values])
        case Comparison(op=op, left=Column(path=(name,)), right=right):
            return _bound(functions.col(quoted(name)), op, right, schema.field(name))
        case _:
            raise NotImplementedError(predicate)


def _bound(column: SparkColumn, op: str, right: Operand, field: pa.Field) -> SparkColumn:
    """`column >= right` or `column < right`."""
    value = right.value if isinstance(right, Value) else None
    if not isinstance(value, int) or op not in (">=", "<"):
        raise NotImplementedError(op, right)
    if pa.types.is_timestamp(field.type):
        # Both ends of a half-open range come to the first step of Spark's µs that is not before them.
        end = literal(-(-value // NS_PER["us"]) * NS_PER["us"], field.type, field.name)
    else:
        # The end of an integer range may lie one past the largest value of its type.
        end = number(value)
    return column >= end if op == ">=" else column < end
