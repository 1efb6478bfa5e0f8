"""What DuckDB can hold of a table: exactly, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from gapless.model.types import UTC, children, with_children

WIDEST_DECIMAL = 38


def duck_type(type_: pa.DataType) -> pa.DataType | None:
    """The type under which DuckDB reads every value of a declared type exactly; None where it has none.

    Half floats come as floats, decimals of 256 bits in 128 where they fit, nested types likewise. Instants come in UTC and not
    coarser than µs, as DuckDB writes them into the filters that it hands to Arrow. Durations come in ns: DuckDB gives an
    INTERVAL back as a count of ns, which wraps in silence past 292 years, where Arrow's cast to ns raises; the ns of a
    duration[ns] itself an INTERVAL does not hold.
    """
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp("ns" if type_.unit == "ns" else "us", UTC)
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal256(type_):
        return pa.decimal128(type_.precision, type_.scale) if type_.precision <= WIDEST_DECIMAL else None
    if pa.types.is_duration(type_):
        return None if type_.unit == "ns" else pa.duration("ns")
    held = {child.name: duck_type(child.type) for child in children(type_)}
    if None in held.values():
        return None
    return with_children(type_, lambda child: child.with_type(held[child.name]))


def duck_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a declared schema that DuckDB can hold, as it reads them."""
    lacking = withheld(schema)
    return pa.schema([field.with_type(duck_type(field.type)) for field in schema if field.name not in lacking])


def withheld(schema: pa.Schema) -> dict[str, str]:
    """Why DuckDB cannot read a column, as a sentence, by the names of the columns that it cannot read."""
    # DuckDB folds ASCII letters only, and of two names that it takes for one it would give the first for both.
    folded = Counter(name.encode().lower() for name in schema.names)
    why = {
        field.name: f"Column {field.name!r} is {field.type}, which DuckDB has no type for that holds it exactly"
        for field in schema
        if duck_type(field.type) is None
    }
    twins = [name for name in schema.names if folded[name.encode().lower()] > 1]
    return why | {name: f"Column {name!r} has a twin in another case, and DuckDB does not tell the two apart" for name in twins}


def holds_type(type_: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or one nested in it at any depth, passes a test."""
    return test(type_) or any(holds_type(child.type, test) for child in children(type_))
