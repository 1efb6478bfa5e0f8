"""What a correction finds: one version of a table, and how its rows are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import TableMeta, TableState
from gapless.model.index import EntityType, IndexSpec
from gapless.model.protocols import Store
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.parquet.row_filter import EVERYTHING
from gapless.parquet.scan import ReadPlan, read
from gapless.scan.plan import ReadGroup
from gapless.scan.predicate import Predicate
from gapless.table.coverage import CoverageCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a row must meet to be looked at, and the columns that are wanted of it."""

    columns: tuple[str, ...]
    predicate: Predicate = EVERYTHING
    expression: pc.Expression | None = None
    expression_columns: tuple[str, ...] = ()
    """What `expression` may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The version of a table that a correction is made to."""

    store: Store
    state: TableState
    schema: pa.Schema
    """The declared schema: the table's, with what the input settles of it."""
    grid: Grid
    cache: CoverageCache

    @property
    def meta(self) -> TableMeta:
        """The table's metadata."""
        return self.state.meta

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
