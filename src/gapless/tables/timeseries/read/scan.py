"""Scans of time-series tables: their arguments, the read plan, and identities as callers name them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import CorruptTable, InvalidOption, InvalidTime, one_of
from gapless.files.read.scan import ENCODED, Pinned, ReadPlan, count_rows, pin, read
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.replay import candidates
from gapless.model.index import Identity, IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.predicate.plan import ReadGroup, expression_columns, guarantee, plan_groups, prune, prune_by_expression, stats_of
from gapless.predicate.predicate import Predicate
from gapless.predicate.prune import may_hold
from gapless.predicate.range import check_entity_values, check_identity_value, conjunction, entity_filter, index_range
from gapless.tables.shared.scan import Condition, Rows, given_names, parse_columns, parse_condition
from gapless.tables.timeseries.read.values import parse_index_value


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The arguments of `TimeSeriesTable.scan`."""

    start: object
    end: object
    where: str | pc.Expression | None
    entity: Mapping[str, object]
    columns: Sequence[str] | None
    order: object
    exclude: Collection[str] | None = None

    def rows(self, store: Store, state: TableState) -> Rows:
        """The rows, not read yet; raises InvalidTime, InvalidFilter, InvalidOption, UnknownColumn, CorruptTable."""
        plan = self.plan(state)
        if plan is None:
            return Rows(pa.schema([]), lambda: iter(()))
        return Rows(plan.result_schema, lambda: read(store, plan), lambda: count_rows(store, plan))

    def plan(self, state: TableState) -> ReadPlan | None:
        """What is read of a version; None while the table has no columns. Raises as `rows`."""
        schema = state.meta.schema
        if schema is None and state.live:
            raise CorruptTable(
                f"the table has {len(state.live)} segments and no schema",
                why="The commit that said which columns it has is lost or altered, and no rows would come back although there are some",
                fix="Run `gapless verify`, then `gapless repair`, which can take the columns from the segments",
                path="_timeseries_log",
            )
        if schema is None:
            # What no column can be held against is refused for its kind all the same.
            given_names("columns", self.columns)
            given_names("exclude", self.exclude)
            return None
        return self._plan(state, schema)

    def _plan(self, state: TableState, schema: pa.Schema) -> ReadPlan:
        index, by_index = state.meta.index, self._by_index()
        condition = self.condition(state, schema)
        predicate, expression = condition.predicate, condition.expression
        segments = prune(candidates(state, may_hold(predicate, index, schema)), predicate, index, schema, state.meta.ids)
        if expression is not None:
            segments = prune_by_pyarrow(segments, expression, state, schema)
        plan = ReadPlan(
            groups=(),
            index=index,
            schema=schema,
            ids=state.meta.ids,
            columns=parse_columns(self.columns, schema, self.exclude),
            predicate=predicate,
            expression=expression,
            expression_columns=() if expression is None else condition.columns,
            by_index=by_index,
        )
        return plan.over(plan_groups(segments, index, plan.fetched(sort=True), by_index=by_index))

    def _by_index(self) -> bool:
        return self.order is not None and bool(one_of("order", self.order, ("index",)))

    def predicate(self, state: TableState, schema: pa.Schema) -> Predicate:
        """Start, end, entity and `where` where that is a text, as one predicate; raises as `rows`."""
        return self.condition(state, schema).predicate

    def condition(self, state: TableState, schema: pa.Schema) -> Condition:
        """Start, end, entity and `where` together; raises as `rows`. Its `columns` are those of `where`."""
        index = state.meta.index
        start, end = (
            None if value is None else parse_index_value(value, index, schema, name=name)
            for name, value in (("start", self.start), ("end", self.end))
        )
        if start is not None and end is not None and start > end:
            raise InvalidTime(f"start={self.start!r} lies after end={self.end!r}", fix="Swap them", value=self.start)
        terms = [index_range(index, schema, start, end), entity_filter(index, schema, self.entity)]
        given = parse_condition(self.where, schema)
        return replace(given, predicate=conjunction([*terms, given.predicate]))


def prune_by_pyarrow(
    segments: Sequence[Segment], expression: pc.Expression, state: TableState, schema: pa.Schema
) -> tuple[Segment, ...]:
    """Prune segments by a pyarrow expression: those that may hold a row for which it is true. Raises InvalidFilter."""
    index, ids, names = state.meta.index, state.meta.ids, expression_columns(expression, schema)
    known = [stats_of(segment, index, ids) for segment in segments]
    named = [{name: found for name in names if (found := stats(name)) is not None} for stats in known]
    truths = [guarantee(stats, s.rows, schema) for stats, s in zip(named, segments, strict=True)]
    kept = prune_by_expression(expression, truths, schema)
    return tuple(segment for segment, keep in zip(segments, kept, strict=True) if keep)


def pin_version(store: Store, state: TableState, types: pa.Schema) -> Pinned:
    """All rows of a version as a dataset of `types`, some of its columns in types that hold all their values; in no order.

    Entity columns of text are dictionary-encoded: their values repeat, and so they are decoded and grouped once.
    """
    schema, index = state.meta.schema or pa.schema([]), state.meta.index
    encoded = frozenset(name for name in index.entity if name in types.names and pa.types.is_string(types.field(name).type))

    def scan(columns: tuple[str, ...], expression: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        segments = state.segments if expression is None else prune_by_pyarrow(state.segments, expression, state, types)
        plan = ReadPlan(
            groups=tuple(ReadGroup(segments=(segment,), sort=False) for segment in segments),
            index=index,
            schema=schema,
            ids=state.meta.ids,
            columns=columns,
            expression=expression,
            expression_columns=() if expression is None else expression_columns(expression, types),
            cast_to=types,
            dictionaries=encoded,
        )
        return read(store, plan)

    return pin(pa.schema([field.with_type(ENCODED) if field.name in encoded else field for field in types]), scan)


def parse_identities(given: Iterable[object], index: IndexSpec, schema: pa.Schema | None) -> list[Identity]:
    """Identities as tuples of checked values, from tuples, mappings, or bare values where there is one entity column."""
    return [_parse_identity(one, index, schema) for one in given]


def select_identities(entity: Mapping[str, object], index: IndexSpec, schema: pa.Schema | None) -> Callable[[Identity], bool]:
    """Whether an identity has these entity values; raises UnknownColumn or InvalidOption for a wrong filter."""
    wanted = [
        (index.entity.index(name), frozenset(values)) for name, values in check_entity_values(index, schema, entity).items()
    ]
    return lambda identity: all(identity[position] in values for position, values in wanted)


def _parse_identity(given: object, index: IndexSpec, schema: pa.Schema | None) -> Identity:
    names = index.entity
    if isinstance(given, Mapping) and set(given) == set(names):
        values: Sequence[object] = [given[name] for name in names]
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(names):
        values = given
    elif (len(names) == 1 and not isinstance(given, Mapping | Sequence)) or (isinstance(given, str) and len(names) == 1):
        values = [given]
    else:
        raise InvalidOption(
            f"identity {given!r} does not have one value for each entity column",
            why=f"The entity columns are {', '.join(map(repr, names)) or 'none'}",
            fix="Pass tuples in that order, or mappings with those keys",
            option="identities", value=given,
        )  # fmt: skip
    return tuple(
        check_identity_value(name, None if schema is None else schema.field(name).type, value)
        for name, value in zip(names, values, strict=True)
    )
