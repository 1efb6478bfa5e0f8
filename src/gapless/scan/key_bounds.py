"""What a set of keys says of the rows that may have one, as a predicate: for pruning."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.stats import stats_value
from gapless.scan import predicate as p
from gapless.scan.kinds import kind_of
from gapless.scan.range import conjunction

_MOST_VALUES = 8
"""Up to so many distinct values of a column are named one by one; more become a range."""
_ORDERED_AS = {pa.float16().id: pa.float32(), pa.duration("ns").id: pa.int64()}


def key_bounds(rows: pa.Table, columns: tuple[str, ...]) -> p.Predicate:
    """True of every row that has in `columns` the values of one of `rows` (null-safe, NaN equal to NaN); maybe of others too."""
    return conjunction([_bounds(rows.column(name), p.Column(path=(name,))) for name in columns])


def _bounds(column: pa.ChunkedArray, operand: p.Column) -> p.Predicate:
    terms: list[p.Predicate] = [p.IsNull(operand=operand)] if column.null_count else []
    values = column.drop_null()
    if pa.types.is_floating(column.type):
        nan = pc.is_nan(values)
        terms += [p.IsNan(operand=operand)] if pc.any(nan).as_py() else []
        values = values.filter(pc.invert(nan))
    if len(values):
        terms.append(_values(values, operand))
    return terms[0] if len(terms) == 1 else p.Or(terms=tuple(terms)) if terms else p.Constant(value=False)


def _values(values: pa.ChunkedArray, operand: p.Column) -> p.Predicate:
    # Arrow orders and counts neither half floats nor durations; what it casts them to holds each value exactly.
    type_ = values.type
    ordered = values.cast(_ORDERED_AS.get(type_.id, type_))
    distinct = pc.unique(ordered)
    if len(distinct) <= _MOST_VALUES:
        return p.In(operand=operand, values=tuple(_value(one, type_) for one in distinct))
    ends = pc.min_max(ordered)
    low, high = _value(ends["min"], type_), _value(ends["max"], type_)
    return p.And(
        terms=(p.Comparison(op=">=", left=operand, right=low), p.Comparison(op="<=", left=operand, right=high)),
    )


def _value(scalar: Any, type_: pa.DataType) -> p.Value:
    kind = kind_of(type_)
    assert kind is not None
    return p.Value(kind=kind, value=stats_value(scalar.cast(type_), type_))
