"""Types as Spark brings them back to a table that has others: pure."""

from __future__ import annotations

import pyarrow as pa

from gapless.model.types import children, is_any_list, with_children
from gapless.model.widening import why_not
from gapless.spark.shown import AS_SIGNED


def arriving_schema(given: pa.Schema, table: pa.Schema | None) -> pa.Schema:
    """The schema of a DataFrame's rows, with the table's type for each column that has the one under which Spark shows that.

    So what `read` gave can be written again: whether each value fits is seen when it is converted. Other columns stay as they are, but for
    times of day, which Spark counts in µs and brings in ns, and that each may be null: what Spark knows is of these rows alone.
    """
    given = pa.schema([_relaxed(field) for field in given], metadata=given.metadata)
    if table is None or len(set(given.names)) < len(given.names):
        return given
    known = {field.name: field.type for field in table}
    fields = [field.with_type(_arriving(field.type, known.get(field.name, field.type))) for field in given]
    return pa.schema(fields, metadata=given.metadata)


def _relaxed(field: pa.Field) -> pa.Field:
    time = field.type == pa.time64("ns")
    return pa.field(field.name, pa.time64("us") if time else with_children(field.type, _relaxed), metadata=field.metadata)


def _arriving(given: pa.DataType, declared: pa.DataType) -> pa.DataType:
    if why_not(given, declared) is None:
        return given
    return declared if why_not(given, _shown(declared)) is None else given


def _shown(declared: pa.DataType) -> pa.DataType:
    """What the values of a declared type are in Arrow once they went through Spark, as far as tables do not take that anyway."""
    if pa.types.is_fixed_size_binary(declared):
        return pa.binary()
    if is_any_list(declared):
        return pa.list_(_shown(declared.value_type))
    if not any(children(declared)):
        return AS_SIGNED.get(declared, declared)
    return with_children(declared, lambda child: child.with_type(_shown(child.type)))
