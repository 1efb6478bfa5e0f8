"""Many files at once: of which a predicate certainly keeps no row, and of which every row, by their bounds as Arrow arrays. Pure.

A quick look before `prune.asking`, which tells more: what this says of a file that would say too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.many_stats import ManyStats
from gapless.model.stats import arrow_scalar
from gapless.scan import predicate as p
from gapless.scan.constants import is_nan
from gapless.scan.kinds import column_type, plain_type
from gapless.scan.settle import settle

Mask = npt.NDArray[np.bool_]
MOST_VALUES = 64
"""An IN of more values is not looked at."""
_OPPOSITES: dict[p.Op, p.Op] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""True where the other is false, but for null."""


BoundsOf = Callable[[tuple[str, ...]], ManyStats | None]
"""What is known of a column by its path; None for nothing."""


def barren(predicate: p.Predicate, bounds: BoundsOf, schema: pa.Schema, count: int) -> Mask:
    """Of `count` files: those of which it is certain that no row makes the predicate true."""
    match predicate:
        case p.And(terms=terms):
            return reduce(np.logical_or, [barren(term, bounds, schema, count) for term in terms])
        case p.Or(terms=terms):
            return reduce(np.logical_and, [barren(term, bounds, schema, count) for term in terms])
        case p.IsNull(operand=p.Column() as column):
            found = bounds(column.path)
            return _none(count) if found is None else _mask(pc.equal(found.nulls, 0))
        case p.Comparison(op=op, left=p.Column() as column, right=p.Value() as value) if value.value is not None:
            return _of(column, [(op, value)], bounds, schema, count)
        case p.In(operand=p.Column() as column, values=values) if len(values) <= MOST_VALUES:
            return _of(column, [("=", value) for value in values], bounds, schema, count)
        case _:
            return _none(count)


def proven(predicate: p.Predicate, bounds: BoundsOf, schema: pa.Schema, count: int) -> Mask:
    """Of `count` files: those with rows of which it is certain that every one makes the predicate true."""
    match predicate:
        case p.And(terms=terms):
            return reduce(np.logical_and, [proven(term, bounds, schema, count) for term in terms])
        case p.Or(terms=terms):
            return reduce(np.logical_or, [proven(term, bounds, schema, count) for term in terms])
        case p.Comparison(op=op, left=p.Column() as column, right=p.Value() as value) if value.value is not None:
            found, type_ = bounds(column.path), column_type(column, schema)
            if found is None or type_ != plain_type(type_):
                return _none(count)
            told = _mask(pc.equal(found.nulls, 0)) & ~_mask(pc.equal(found.rows, 0))
            return _out(_OPPOSITES[op], value, found, type_, count) & told
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
    settled = settle(op, literal, type_)
    if not isinstance(settled, tuple) or is_nan(settled[1]):
        return _none(count)
    op, value = settled[0], arrow_scalar(settled[1], type_)
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
