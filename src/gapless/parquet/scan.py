"""The rim of a scan: read tasks in, Arrow out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.model.column_ids import ColumnIds
from gapless.model.fit import restore
from gapless.model.index import IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.parquet.row_groups import row_group_stats
from gapless.parquet.source import open_segment, read_group
from gapless.scan.expression import to_expression
from gapless.scan.opaque import guarantee, prune_by_expression
from gapless.scan.plan import ReadGroup, prune
from gapless.scan.predicate import And, Constant, IsNull, Or, Predicate, columns_of
from gapless.scan.prune import may_match
from gapless.scan.range import index_column, index_range

EVERYTHING = Constant(value=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read and what to give back: picklable, free of stores and tables."""

    groups: tuple[ReadGroup, ...]
    index: IndexSpec
    schema: pa.Schema
    """The table's declared schema."""
    ids: ColumnIds
    """The identities of its columns."""
    columns: tuple[str, ...]
    """The columns to give back, in order."""
    predicate: Predicate = EVERYTHING
    expression: pc.Expression | None = None
    """A further filter, in Arrow's own semantics."""
    expression_columns: tuple[str, ...] = ()
    """What `expression` may read."""
    shown: pa.Schema | None = None
    """The types under which `expression` sees the columns and they are given back, where these are not the declared ones."""
    by_index: bool = False

    @property
    def result_schema(self) -> pa.Schema:
        """The schema of what is given back."""
        return pa.schema([self.schema.field(name) for name in self.columns], metadata=self.schema.metadata)

    def over(self, groups: tuple[ReadGroup, ...]) -> ReadPlan:
        """The same plan over these groups."""
        return replace(self, groups=groups)

    def fetched(self, *, sort: bool) -> pa.Schema:
        """The columns that must be read to filter, sort and answer."""
        keys = {*self.index.entity, self.index.column} if sort else set()
        wanted = {*self.columns, *columns_of(self.predicate), *self.expression_columns, *keys}
        return pa.schema([field for field in self.schema if field.name in wanted])


def read(store: Store, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """The plan's rows, batch by batch.

    Held in memory at a time: one row group (about 64 MiB of Arrow data in segments of ours), or one sort of at most about
    `scan.plan.SORT_BYTES`.
    """
    for group in plan.groups:
        if not group.sort:
            for table in _read_segment(store, group.segments[0], plan, sort=False):
                yield from table.select(plan.columns).to_batches()
            continue
        for narrowed in _narrow(plan, group):
            near = prune(group.segments, narrowed.predicate, plan.index, plan.schema, plan.ids)
            tables = [table for segment in near for table in _read_segment(store, segment, narrowed, sort=True)]
            if tables:
                yield from _sorted(pa.concat_tables(tables), plan).select(plan.columns).to_batches()


def _narrow(plan: ReadPlan, group: ReadGroup) -> Iterator[ReadPlan]:
    """The plan for each of the group's windows; rows without an index value, which other writers left, come with the last."""
    if not group.windows:
        yield plan
        return
    for position, (start, end) in enumerate(group.windows):
        window = index_range(plan.index, plan.schema, start, end)
        if position == len(group.windows) - 1:
            window = Or(terms=(window, IsNull(operand=index_column(plan.index))))
        yield replace(plan, predicate=And(terms=(plan.predicate, window)))


def _sorted(table: pa.Table, plan: ReadPlan) -> pa.Table:
    entity = list(plan.index.entity)
    keys = [plan.index.column, *entity] if plan.by_index else [*entity, plan.index.column]
    return table.take(pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys]))


def _read_segment(store: Store, segment: Segment, plan: ReadPlan, *, sort: bool) -> Iterator[pa.Table]:
    """The segment's rows that pass the filters, a row group at a time, in the fetched columns."""
    schema = plan.fetched(sort=sort)
    with open_segment(store, segment) as file:
        present = set(file.schema_arrow.names)
        names = [stored for name in schema.names if (stored := plan.ids.stored_name(name)) in present]
        for number in _matching_groups(file.metadata, plan):
            # No columns to read still means rows to give.
            rows = read_group(file, segment, number, names) if names else _rows_only(file.metadata.row_group(number).num_rows)
            table = _filter(restore(rows.select(names), schema, ids=plan.ids, path=segment.path), plan)
            if table.num_rows:
                yield table


def _matching_groups(metadata: pq.FileMetaData, plan: ReadPlan) -> list[int]:
    """The row groups that may hold a row the filters keep."""
    stats = [row_group_stats(metadata, number, plan.schema, plan.ids) for number in range(metadata.num_row_groups)]
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    kept = [n for n, known in enumerate(stats) if may_match(plan.predicate, known, plan.schema, rows=rows[n])]
    if plan.expression is None or not kept:
        return kept
    schema = plan.schema if plan.shown is None else plan.shown
    known = [{name: found for name in plan.expression_columns if (found := stats[n](name)) is not None} for n in kept]
    truths = [guarantee(found, rows[n], schema) for n, found in zip(kept, known, strict=True)]
    matching = prune_by_expression(plan.expression, truths, schema)
    return [n for n, matches in zip(kept, matching, strict=True) if matches]


def _rows_only(count: int) -> pa.Table:
    return pa.table({"": pa.nulls(count)}).select([])


def _filter(table: pa.Table, plan: ReadPlan) -> pa.Table:
    if plan.predicate != EVERYTHING:
        table = table.filter(to_expression(plan.predicate, table.schema))
    if plan.shown is not None:
        table = table.cast(pa.schema([plan.shown.field(name) for name in table.schema.names]))
    return table if plan.expression is None else table.filter(plan.expression)
