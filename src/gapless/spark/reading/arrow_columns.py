"""Declared columns as Spark takes them in Arrow batches: pure.

Types as Spark brings them back to a table that has others: pure.

What Spark hands to a data source, in Arrow: alike in all releases of pyspark that we take. Only Spark loads this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from gapless.errors import InvalidValue
from gapless.model.convert import Misfit, cast_leaves
from gapless.model.types import bare_type, children, is_any_list, with_children
from gapless.model.widening import why_not
from gapless.spark.reading.columns import spark_type

BATCH_ROWS = 1 << 16
"""Rows that Spark gets at once: its JVM holds a whole batch."""
AS_SIGNED = {
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0),
}  # fmt: skip
"""Spark has no unsigned integers."""
_SHOWN = {**AS_SIGNED, pa.date64(): pa.date32()}


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema of declared columns as Spark has them: what its own conversion makes of the types that `spark_type` names.

    Unsigned integers become the next wider signed type, uint64 `decimal128(20, 0)`, instants µs in UTC, times of day ns, durations µs,
    lists of every kind plain ones; all may be null, and metadata stays behind. Raises UnsupportedType as `spark_type` does.
    """
    return pa.schema([_shown_field(field) for field in schema])


def shown_batches(batches: Iterable[pa.RecordBatch], shown: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each batch as `shown_batch` gives it, in pieces of at most `BATCH_ROWS` rows."""
    for batch in batches:
        for first in range(0, batch.num_rows, BATCH_ROWS):
            yield shown_batch(batch.slice(first, BATCH_ROWS), shown)


def shown_batch(batch: pa.RecordBatch, shown: pa.Schema) -> pa.RecordBatch:
    """The columns of `shown`, a `shown_schema`, out of a batch that has them as declared, in the order of `shown`; values are the same.

    Raises InvalidValue for a value that Spark's type does not hold.
    """
    if not shown.names:
        # Without columns only the input still knows how many rows there are.
        return batch.select([])
    # By place where names come twice, as they may beside those of a change feed: `shown` was made of the batch's schema then.
    alike = batch.schema.names == shown.names
    columns = batch.columns if alike else [batch.column(name) for name in shown.names]
    cast = [_cast(column, field) for column, field in zip(columns, shown, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=shown)


def _shown_field(field: pa.Field) -> pa.Field:
    spark_type(field.type, field.name)
    return pa.field(field.name, _shown_type(field.type))


def _shown_type(declared: pa.DataType) -> pa.DataType:
    type_ = bare_type(declared)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if pa.types.is_time(type_):
        return pa.time64("ns")
    if pa.types.is_duration(type_):
        return pa.duration("us")
    if pa.types.is_decimal(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if is_any_list(type_):
        return pa.list_(pa.field("element", _shown_type(type_.value_type)))
    if not any(children(type_)):
        return _SHOWN.get(type_, type_)
    return with_children(type_, lambda child: pa.field(child.name, _shown_type(child.type)))


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else cast_leaves(column, field.type)
    except Misfit as error:
        raise InvalidValue(
            f"column {field.name!r} has a value that Spark cannot hold",
            why=f"As {field.type}: {error}",
            fix="Leave the column out with columns=[…], or read it with table.scan()",
            column=field.name,
            row=0,
            value=None,
        ) from error


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
