"""Scan planning, pure: which data files a filter can skip, by their bounds as Arrow arrays, and in which order segments are read.

Skipping by bounds is a cheaper, coarser step before `prune.compile_truth_values`: what it drops, that would drop too. Rows of one identity
always come in index order. Segments whose ranges do not overlap are read one after another; those that do are sorted together, in windows
of the index where they would not fit in memory at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import InvalidFilter
from gapless.model.column_ids import ColumnIds
from gapless.model.index import Identity, IndexSpec
from gapless.model.segment import Segment
from gapless.model.stats import Bound, ColumnStats, ManyStats, arrow_scalar, supports_bounds
from gapless.predicate import predicate as p
from gapless.predicate.coerce import coerce_literal, column_type, is_nan, kind_of, plain_type, same_kind
from gapless.predicate.predicate import Kind, Op, Predicate, Value
from gapless.predicate.prune import StatsOf, compile_pruner

SORT_BYTES = 128 << 20
"""What segments that overlap may take in Arrow's memory to be sorted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroup:
    """Segments that are read together; groups are read in their order."""

    segments: tuple[Segment, ...]
    sort: bool
    """Whether the rows must be sorted: not where one segment holds them in order already."""
    windows: tuple[tuple[int, int], ...] = ()
    """Where the group is too large to sort at once: index ranges `[start, end)` to sort one by one."""


def known_stats(segment: Segment, index: IndexSpec, ids: ColumnIds) -> dict[str, ColumnStats]:
    """What the log knows of a segment's columns, by the names that `ids` give them: the log has stored names."""
    # Other writers leave rows without an index value, which no bound speaks of.
    return {**ids.named(segment.stats), index.column: ColumnStats(min=segment.bounds.first, max=segment.bounds.last)}


def stats_of(segment: Segment, index: IndexSpec, ids: ColumnIds) -> StatsOf:
    """`known_stats` of the columns that are asked for, by their declared names."""
    stats, bounds = segment.stats, segment.bounds
    return lambda name: (
        ColumnStats(min=bounds.first, max=bounds.last) if name == index.column else stats.get(ids.stored_name(name))
    )


def prune(
    segments: Iterable[Segment], predicate: Predicate, index: IndexSpec, schema: pa.Schema, ids: ColumnIds
) -> tuple[Segment, ...]:
    """The segments that may hold a row the predicate keeps; `schema` and `ids` are the table's."""
    matches = compile_pruner(predicate, schema)
    return tuple(s for s in segments if matches(stats_of(s, index, ids), s.rows))


def plan_groups(segments: Iterable[Segment], index: IndexSpec, schema: pa.Schema, *, by_index: bool) -> tuple[ReadGroup, ...]:
    """Put segments in reading order.

    Within each identity rows then come in index order; with `by_index` over all identities. `schema` holds the columns that
    will be read, for an estimate of their memory.
    """
    limit = max(1, SORT_BYTES // row_bytes(schema))
    groups = []
    for together in _components(tuple(segments), apart=bool(index.entity) and not by_index):
        sort = len(together) > 1 or not _is_sorted(together[0], index, by_index=by_index)
        groups.append(ReadGroup(segments=together, sort=sort, windows=index_windows(together, limit) if sort else ()))
    return tuple(groups)


def _is_sorted(segment: Segment, index: IndexSpec, *, by_index: bool) -> bool:
    if segment.sorted_by != index.keys:
        return False
    return not by_index or segment.identity is not None


def _components(segments: Sequence[Segment], *, apart: bool) -> list[tuple[Segment, ...]]:
    """Maximal sets of segments linked by overlap, in index order; identities `apart` where each segment holds just one."""
    by_identity: dict[Identity | None, list[Segment]] = {}
    apart = apart and all(s.identity is not None for s in segments)
    for segment in segments:
        by_identity.setdefault(segment.identity if apart else None, []).append(segment)
    components: list[list[Segment]] = []
    for members in by_identity.values():
        last: int | None = None
        for segment in sorted(members, key=lambda s: (s.bounds.first, s.bounds.last, s.path)):
            if last is None or segment.bounds.first >= last:
                components.append([])
            components[-1].append(segment)
            last = segment.bounds.last if last is None else max(last, segment.bounds.last)
    return [tuple(component) for component in components]


def index_windows(segments: Sequence[Segment], limit: int) -> tuple[tuple[int, int], ...]:
    """Cut the segments' common range into windows `[start, end)` of about `limit` rows each, as if their rows were spread evenly.

    None where all their rows together are no more than `limit`.
    """
    if sum(s.rows for s in segments) <= limit:
        return ()
    # Rows per step as whole numbers of 2**-96, so that what a segment adds is taken away to the last bit.
    change: dict[int, int] = defaultdict(int)
    for s in segments:
        density = (s.rows << 96) // (s.bounds.last + 1 - s.bounds.first)
        change[s.bounds.first] += density
        change[s.bounds.last + 1] -= density
    points, full = sorted(change), limit << 96
    edges, density, held = [points[0]], 0, 0
    for at, end in pairwise(points):
        density += change[at]
        while held + density * (end - at) >= full and at < end:
            at = min(end, at + max(1, (full - held) // density))  # noqa: PLW2901  # the rest of this stretch
            edges.append(at)
            held = 0
        held += density * (end - at)
    ends = edges[1:] if edges[-1] == points[-1] else [*edges[1:], points[-1]]
    return tuple(zip(edges, ends, strict=False))


def row_bytes(schema: pa.Schema) -> int:
    """A guess of one row's Arrow memory."""
    return max(1, sum(_type_bytes(field.type) for field in schema))


def _type_bytes(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 32 * max(1, int(kind.num_fields))


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
