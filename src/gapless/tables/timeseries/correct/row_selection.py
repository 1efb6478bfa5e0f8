"""The version that a correction is made to, and which of its rows go: by condition, by key, by covered buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.files.compare.keys import KeyIds, KeySet, without_rows
from gapless.files.read.row_filter import EVERYTHING
from gapless.files.read.scan import ReadPlan, read
from gapless.files.sort.run import sort_run
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.formats.timeseries.conflict.rows import overlapping_coverage
from gapless.model.index import EntityType, IndexSpec
from gapless.model.protocols import Store
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats, distinct
from gapless.predicate.expression import to_expression
from gapless.predicate.plan import ReadGroup, known_stats, prune
from gapless.predicate.predicate import IsTruth, Predicate
from gapless.predicate.prune import ALWAYS, possible_truth_values
from gapless.predicate.range import key_bounds
from gapless.tables.timeseries.context import with_schema
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.read.scan import prune_by_pyarrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a row must meet to be looked at, and the columns that are wanted of it."""

    columns: tuple[str, ...]
    predicate: Predicate = EVERYTHING
    expression: pc.Expression | None = None
    expression_columns: tuple[str, ...] = ()
    """What `expression` may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseVersion:
    """The version of a table that a correction is made to."""

    state: TableState
    schema: pa.Schema
    """The declared schema: the table's, with what the input settles of it."""
    cache: CoverageCache

    @property
    def store(self) -> Store:
        """Where the table lies."""
        return self.cache.store

    @property
    def grid(self) -> Grid:
        """The table's buckets."""
        return self.cache.grid

    @property
    def meta(self) -> TableMeta:
        """The table's metadata."""
        return self.state.meta

    @property
    def after(self) -> TableMeta:
        """The metadata with the declared schema, which the correction's rows are written for; `meta` itself where that has it."""
        meta = self.state.meta
        return meta if self.schema == meta.schema else with_schema(meta, self.schema)

    @property
    def index(self) -> IndexSpec:
        """The table's index."""
        return self.state.meta.index

    @property
    def keys(self) -> tuple[str, ...]:
        """The entity columns and the index column."""
        return self.index.keys

    @property
    def entity_types(self) -> tuple[EntityType, ...]:
        """The types of the entity columns."""
        return entity_types(self.schema, self.index)

    def coverage(self, segment: Segment) -> CoverageMap:
        """What a segment covers; raises CorruptTable."""
        return self.cache.of(segment, self.entity_types)

    def rows(self, segment: Segment, wanted: Filter | None = None) -> Iterator[pa.Table]:
        """A segment's rows in declared types and in the file's order, at most a row group at a time; all where nothing is wanted."""
        wanted = wanted or Filter(columns=tuple(self.schema.names))
        plan = ReadPlan(
            groups=(ReadGroup(segments=(segment,), sort=False),),
            index=self.index,
            schema=self.schema,
            ids=self.meta.ids,
            columns=wanted.columns,
            predicate=wanted.predicate,
            expression=wanted.expression,
            expression_columns=wanted.expression_columns,
        )
        return (pa.Table.from_batches([batch]) for batch in read(self.store, plan))


Reach = Literal["none", "some", "all"]
"""How many of a segment's rows go, as far as that shows without reading it: certainly none, maybe some, certainly all."""

_NO_HITS: KeyIds = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Some rows less those that go."""

    kept: pa.Table
    """In the order they had."""
    hits: KeyIds = field(default_factory=lambda: _NO_HITS)
    """The numbers of the keys for which rows go, where rows go by key."""


class RowSplitter(Protocol):
    """How rows that go are told from those that stay."""

    @property
    def seen(self) -> Filter:
        """What `split` must see to find a row that goes: true of every such row, maybe of others."""
        ...

    def split(self, rows: pa.Table) -> SplitRows:
        """Rows in declared types, with at least the columns of `seen`, less those that go."""
        ...


class RowSelector(RowSplitter, Protocol):
    """Which rows go."""

    def near(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """The segments that may hold a row that goes, by what the log says of them."""
        ...

    def reach(self, segment: Segment, coverage: Callable[[], CoverageMap]) -> Reach:
        """How far the cut reaches into one of these segments; `coverage` gives what that covers, if it is asked."""
        ...


def is_whole(segment: Segment) -> bool:
    """Whether each row surely has its index value: other writers leave rows without one, and write no checksum."""
    return segment.checksum is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSelector:
    """Rows that meet a condition: both the predicate and, where there is one, the expression are true, not null."""

    before: BaseVersion
    seen: Filter
    covers: Callable[[CoverageMap], bool] | None = None
    """Whether what a segment covers meets the condition's range and identities; None where that says nothing."""

    def near(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """See `Cut.near`."""
        before, expression = self.before, self.seen.expression
        kept = prune(segments, self.seen.predicate, before.index, before.schema, before.meta.ids)
        return kept if expression is None else prune_by_pyarrow(kept, expression, before.state, before.schema)

    def reach(self, segment: Segment, coverage: Callable[[], CoverageMap]) -> Reach:
        """See `Cut.reach`."""
        stats = dict(known_stats(segment, self.before.index, self.before.meta.ids))
        if is_whole(segment):
            column = self.before.index.column
            stats[column] = ColumnStats(min=stats[column].min, max=stats[column].max, nulls=0)
        certain = possible_truth_values(self.seen.predicate, stats.get, self.before.schema, segment.rows) == ALWAYS
        if certain and self.seen.expression is None:
            return "all"
        return "none" if self.covers is not None and not self.covers(coverage()) else "some"

    def split(self, rows: pa.Table) -> SplitRows:
        """See `Cut.split`."""
        goes = to_expression(IsTruth(term=self.seen.predicate, value=True), rows.schema)
        if self.seen.expression is not None:
            goes = goes & pc.coalesce(self.seen.expression, pc.scalar(False))
        return SplitRows(rows.filter(~goes))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelector:
    """Rows that have one of some keys."""

    before: BaseVersion
    keys: KeySet
    seen: Filter
    coverage: CoverageMap | None = None
    """What rows with these keys cover, where the keys say that."""

    @classmethod
    def of(cls, before: BaseVersion, rows: pa.Table, keys: KeySet, coverage: CoverageMap | None) -> KeySelector:
        """The cut of the rows that have a key of `rows`, whose keys `keys` are."""
        seen = Filter(columns=keys.columns, predicate=key_bounds(rows, keys.columns))
        return cls(before=before, keys=keys, seen=seen, coverage=coverage)

    def near(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """See `Cut.near`."""
        before = self.before
        if self.coverage is not None:
            return overlapping_coverage(segments, self.coverage, before.grid)
        return prune(segments, self.seen.predicate, before.index, before.schema, before.meta.ids)

    def reach(self, segment: Segment, coverage: Callable[[], CoverageMap]) -> Reach:  # noqa: ARG002 - the answer is that for any
        """See `Cut.reach`."""
        return "none" if self.coverage is not None and self.coverage.is_disjoint(coverage()) else "some"

    def split(self, rows: pa.Table) -> SplitRows:
        """See `Cut.split`."""
        found = self.keys.match(rows)
        hit = np.flatnonzero(found >= 0)
        return SplitRows(without_rows(rows, hit), distinct(found[hit])) if len(hit) else SplitRows(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageSelector:
    """Rows that lie in some (identity, bucket) pairs."""

    before: BaseVersion
    coverage: CoverageMap
    seen: Filter

    @classmethod
    def of(cls, before: BaseVersion, coverage: CoverageMap) -> CoverageSelector:
        """The cut of the rows in these pairs."""
        return cls(before=before, coverage=coverage, seen=Filter(columns=before.keys))

    def near(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """See `Cut.near`."""
        return overlapping_coverage(segments, self.coverage, self.before.grid)

    def reach(self, segment: Segment, coverage: Callable[[], CoverageMap]) -> Reach:
        """See `Cut.reach`."""
        covered = coverage()
        if covered.is_disjoint(self.coverage):
            return "none"
        return "all" if is_whole(segment) and not covered.difference(self.coverage) else "some"

    def split(self, rows: pa.Table) -> SplitRows:
        """See `Cut.split`."""
        before = self.before
        known = rows.column(before.index.column).is_valid()
        run = sort_run(rows.filter(known), before.index, before.grid)
        kept = run.without(self.coverage).table
        lost = rows.num_rows - run.table.num_rows
        return SplitRows(pa.concat_tables([kept, rows.filter(pc.invert(known))]) if lost else kept)
