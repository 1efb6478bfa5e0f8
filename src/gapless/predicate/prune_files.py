"""Data skipping for many files at once: by their bounds as Arrow arrays, or by an opaque pyarrow expression.

A cheaper, coarser step before `prune.compile_truth_values`: what it drops, that would drop too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter
from gapless.model.stats import Bound, ColumnStats, ManyStats, arrow_scalar, supports_bounds
from gapless.predicate import predicate as p
from gapless.predicate.coerce import coerce_literal, column_type, is_nan, kind_of, plain_type, same_kind
from gapless.predicate.predicate import Kind, Op, Value

Mask = npt.NDArray[np.bool_]
MOST_VALUES = 64
"""An IN of more values is not looked at."""
_OPPOSITES: dict[p.Op, p.Op] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""True where the other is false, but for null."""


BoundsOf = Callable[[tuple[str, ...]], ManyStats | None]
"""What is known of a column by its path; None for nothing."""


def matches_none(predicate: p.Predicate, bounds: BoundsOf, schema: pa.Schema, count: int) -> Mask:
    """Of `count` files: those of which it is certain that no row makes the predicate true."""
    match predicate:
        case p.And(terms=terms):
            return reduce(np.logical_or, [matches_none(term, bounds, schema, count) for term in terms])
        case p.Or(terms=terms):
            return reduce(np.logical_and, [matches_none(term, bounds, schema, count) for term in terms])
        case p.IsNull(operand=p.Column() as column):
            found = bounds(column.path)
            return _none(count) if found is None else _mask(pc.equal(found.nulls, 0))
        case p.Comparison(op=op, left=p.Column() as column, right=p.Value() as value) if value.value is not None:
            return _of(column, [(op, value)], bounds, schema, count)
        case p.In(operand=p.Column() as column, values=values) if len(values) <= MOST_VALUES:
            return _of(column, [("=", value) for value in values], bounds, schema, count)
        case _:
            return _none(count)


def matches_all(predicate: p.Predicate, bounds: BoundsOf, schema: pa.Schema, count: int) -> Mask:
    """Of `count` files: those with rows of which it is certain that every one makes the predicate true."""
    match predicate:
        case p.And(terms=terms):
            return reduce(np.logical_and, [matches_all(term, bounds, schema, count) for term in terms])
        case p.Or(terms=terms):
            return reduce(np.logical_or, [matches_all(term, bounds, schema, count) for term in terms])
        case p.Comparison(op=op, left=p.Column() as column, right=p.Value() as value) if value.value is not None:
            found, type_ = bounds(column.path), column_type(column, schema)
            if found is None or type_ != plain_type(type_):
                return _none(count)
            stated = _mask(pc.equal(found.nulls, 0)) & ~_mask(pc.equal(found.rows, 0))
            return _out(_OPPOSITES[op], value, found, type_, count) & stated
        case _:
            return _none(count)


def _of(column: p.Column, wanted: Sequence[tuple[p.Op, p.Value]], bounds: BoundsOf, schema: pa.Schema, count: int) -> Mask:
    """Files in which none of some comparisons of a column can be true."""
    found, type_ = bounds(column.path), column_type(column, schema)
    if found is None or type_ != plain_type(type_):
        return _none(count)
    out = [_out(op, value, found, type_, count) for op, value in wanted]
    all_null = _mask(pc.and_(pc.greater(found.rows, 0), pc.equal(found.nulls, found.rows)))
    return reduce(np.logical_and, out) | all_null


def _out(op: p.Op, literal: p.Value, found: ManyStats, type_: pa.DataType, count: int) -> Mask:
    coerced = coerce_literal(op, literal, type_)
    if not isinstance(coerced, tuple) or is_nan(coerced[1]):
        return _none(count)
    op, value = coerced[0], arrow_scalar(coerced[1], type_)
    above, below = pc.greater(found.low, value), pc.less(found.high, value)
    match op:
        case "=":
            out = pc.or_kleene(above, below)
        case "<":
            out = pc.greater_equal(found.low, value)
        case "<=":
            out = above
        case ">":
            out = pc.less_equal(found.high, value)
        case ">=":
            out = below
        case _:
            return _none(count)
    ordered = _mask(pc.less_equal(found.low, found.high))
    if op in (">", ">=") and pa.types.is_floating(type_):
        ordered &= _mask(pc.equal(found.nans, 0))  # NaN is above every number
    return _mask(out) & ordered


def _none(count: int) -> Mask:
    return np.zeros(count, dtype=np.bool_)


def _mask(found: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(found, False).to_numpy(zero_copy_only=False)
    return mask


def guarantee(stats_by_column: Mapping[str, ColumnStats], rows: int, schema: pa.Schema) -> pc.Expression | None:
    """An expression that is true, under Arrow's semantics, for every row of a segment of `rows` rows; None: nothing is known.

    Floating columns give none while they may hold NaN, and nulls are allowed for unless there are none. Pure.
    """
    known = [_column_truth(field, stats_by_column[field.name], rows) for field in schema if field.name in stats_by_column]
    truths = [truth for truth in known if truth is not None]
    return reduce(and_, truths) if truths else None


def _column_truth(field: pa.Field, stats: ColumnStats, rows: int) -> pc.Expression | None:
    column = pc.field(field.name)
    if rows > 0 and stats.nulls is not None and stats.nulls >= rows:
        return column.is_null()
    ends = _ends(column, field.type, stats)
    if stats.nulls == 0:
        only = _only_value(field.type, stats)
        # Arrow puts a known value in a column's place, and so sees through anything that is asked of it.
        if only is not None:
            return column == only
        return reduce(and_, ends) if ends else column.is_valid()
    return reduce(and_, [end | column.is_null() for end in ends]) if ends else None  # the form Arrow can see through


def _ends(column: pc.Expression, type_: pa.DataType, stats: ColumnStats) -> list[pc.Expression]:
    if not supports_bounds(type_) or type_ != plain_type(type_) or (pa.types.is_floating(type_) and stats.nans != 0):
        return []
    low, high = _end(stats.min, ">=", type_), _end(stats.max, "<=", type_)
    return ([column >= low] if low is not None else []) + ([column <= high] if high is not None else [])


def _only_value(type_: pa.DataType, stats: ColumnStats) -> pa.Scalar | None:
    """The value that every row of a column without nulls has; None where there may be several, as the two zeros are."""
    if stats.min is None or stats.min != stats.max or (pa.types.is_floating(type_) and stats.min == 0):
        return None
    ends = _ends(pc.field(""), type_, stats)
    low, high = _end(stats.min, ">=", type_), _end(stats.max, "<=", type_)
    return low if ends and low is not None and low.equals(high) else None


def _end(bound: Bound | None, op: Op, type_: pa.DataType) -> pa.Scalar | None:
    """A bound as a scalar of the column's type, moved outwards where the type cannot hold it; None: no bound."""
    kind = kind_of(type_)
    if bound is None or kind is None or is_nan(bound) or not same_kind(bound, _sample(kind)):
        return None
    coerced = coerce_literal(op, Value(kind=kind, value=bound), type_)
    if not isinstance(coerced, tuple):
        return None
    value = coerced[1]
    if isinstance(value, float) and value == 0:
        value = math.copysign(0.0, -1 if op == ">=" else 1)
    return arrow_scalar(value, type_)


def _sample(kind: Kind) -> Bound:
    samples: dict[Kind, Bound] = {"text": "", "bytes": b"", "bool": False}
    return samples.get(kind, 0)


def prune_by_expression(expression: pc.Expression, guarantees: Sequence[pc.Expression | None], schema: pa.Schema) -> list[bool]:
    """For each segment's guarantee, whether a row that meets it may pass `expression`; None guarantees nothing.

    Touches no file: Arrow is asked about a dataset of names alone. Raises InvalidFilter where the expression does not
    fit `schema`.
    """
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    dataset = ds.FileSystemDataset.from_paths(
        [str(number) for number in range(len(guarantees))],
        schema=schema,
        format=ds.ParquetFileFormat(),
        filesystem=LocalFileSystem(),
        partitions=[pc.scalar(True) if truth is None else truth for truth in guarantees],
    )
    try:
        kept = {int(fragment.path) for fragment in dataset.get_fragments(filter=expression)}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidFilter(
            f"the expression {expression_text(expression)} does not fit the table",
            why=str(error).splitlines()[0],
            fix=f"Use its columns and types: {', '.join(schema.names[:12])}",
            where=expression_text(expression),
        ) from error
    return [number in kept for number in range(len(guarantees))]


def expression_text(expression: str | pc.Expression) -> str:
    """A condition as people read it, SQL as it is; of a long expression some is left out."""
    try:
        return str(expression)
    except UnicodeDecodeError:
        # Arrow cuts a long list of texts short, maybe within a character.
        return "(an expression with a list of texts)"


def expression_columns(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that an expression may read, in the order of `schema`; all where that cannot be stated."""
    text = expression_text(expression)
    named = [field for field in schema if field.name in text]
    try:
        if "FieldPath(" not in text:
            pa.schema(named).empty_table().filter(expression)
            return tuple(field.name for field in named)
    except (pa.ArrowException, KeyError, TypeError):
        pass  # it names something else, or does not fit, which reading will say
    return tuple(schema.names)
