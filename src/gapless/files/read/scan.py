"""Execute a read plan: Parquet segments to Arrow batches, row counts, or an Arrow dataset into which engines push filters and columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import GaplessError
from gapless.files.pages.footer import Footer
from gapless.files.read.row_filter import EVERYTHING, PageFilter, RowFilter, within
from gapless.files.read.row_group_batches import RowGroupBatch, read_row_group_batches
from gapless.files.read.source import encoded_columns, segment_footer
from gapless.model.column_ids import ColumnIds
from gapless.model.fit import to_declared
from gapless.model.index import IndexSpec
from gapless.model.protocols import Store
from gapless.model.segment import Segment
from gapless.model.stats import ColumnStats
from gapless.predicate.expression import kept_rows
from gapless.predicate.plan import ReadGroup, prune, row_bytes, stats_of
from gapless.predicate.predicate import And, IsNull, Or, Predicate, columns_of
from gapless.predicate.prune import ALWAYS, StatsOf, compile_truth_values
from gapless.predicate.range import index_column, index_range
from gapless.runtime.concurrency import WIDTH, Call, in_order

if TYPE_CHECKING:
    import pyarrow.dataset as ds


ENCODED = pa.dictionary(pa.int32(), pa.string())
"""Text as Arrow reads it dictionary-encoded out of files."""
PIECE_BYTES = 32 << 20
"""What is read in one go may take in Arrow's memory, by a guess; a row group is always read whole."""


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
    cast_to: pa.Schema | None = None
    """The types under which `expression` sees the columns and they are given back, where these are not the declared ones."""
    dictionaries: frozenset[str] = frozenset()
    """Columns of text that are given back dictionary-encoded, and that `expression` sees so; never null."""
    by_index: bool = False

    @property
    def result_schema(self) -> pa.Schema:
        """The schema of what is given back."""
        return pa.schema([self.schema.field(name) for name in self.columns], metadata=self.schema.metadata)

    @property
    def filter(self) -> RowFilter:
        """What tells the rows that are kept."""
        return RowFilter(
            schema=self.schema,
            predicate=self.predicate,
            expression=self.expression,
            columns=self.expression_columns,
            cast_to=self.cast_to,
        )

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

    Held in memory at a time: about `PIECE_BYTES` of rows, or one row group where that is larger (about 64 MiB of Arrow data in segments of
    ours), or one sort of at most about `scan.plan.SORT_BYTES`; of a store where requests take long also `ahead.AHEAD_BYTES` as they are stored.
    """
    for sort, groups in groupby(plan.groups, key=lambda group: group.sort):
        if not sort:
            for table in _tables(store, [group.segments[0] for group in groups], plan, sort=False):
                yield from table.select(plan.columns).to_batches()
            continue
        for narrowed, together in ((narrowed, group.segments) for group in groups for narrowed in _narrow(plan, group)):
            near = prune(together, narrowed.predicate, plan.index, plan.schema, plan.ids)
            tables = list(_tables(store, near, narrowed, sort=True))
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


def _tables(store: Store, segments: Sequence[Segment], plan: ReadPlan, *, sort: bool) -> Iterator[pa.Table]:
    """The rows of segments that pass the filters, segment by segment in the order of their files, in the fetched columns."""
    with closing(planned_pieces(store, segments, plan, plan.fetched(sort=sort))) as pieces:
        yield from read_tables(store, pieces, plan, sort=sort)


def planned_pieces(store: Store, segments: Sequence[Segment], plan: ReadPlan, schema: pa.Schema) -> Generator[RowGroupBatch]:
    """What is read of segments for the columns of `schema`, by their footers, which are read as pieces are asked for; raises CorruptTable."""
    width = WIDTH if store.capabilities.concurrent else 1
    # An error's traceback may outlive the scan, and generators that it holds on to.
    with closing(in_order((Call(partial(segment_footer, store, one)) for one in segments), width=width)) as footers:
        for segment, footer in zip(segments, footers, strict=True):
            yield from _pieces(segment, footer, plan, schema)


def read_tables(store: Store, pieces: Iterable[RowGroupBatch], plan: ReadPlan, *, sort: bool) -> Iterator[pa.Table]:
    """The rows of pieces that pass the filters, in the fetched columns; none of them without rows."""
    schema = plan.fetched(sort=sort)
    for piece, rows in read_row_group_batches(store, pieces):
        table = _filter(_declared(rows, schema, plan, piece), plan, certain=piece.certain)
        if table.num_rows:
            yield table


def _declared(rows: pa.Table, schema: pa.Schema, plan: ReadPlan, piece: RowGroupBatch) -> pa.Table:
    """A piece's rows in the columns of `schema`, as declared but for those that stay dictionary-encoded."""
    plain = pa.schema([field for field in schema if field.name not in plan.dictionaries])
    table = to_declared(rows.select(piece.names), plain, ids=plan.ids, path=piece.segment.path)
    for at, declared in enumerate(schema):
        if declared.name in plan.dictionaries:
            column = rows.column(plan.ids.stored_name(declared.name))
            if column.type != ENCODED:
                column = to_declared(
                    rows.select(piece.names), pa.schema([declared]), ids=plan.ids, path=piece.segment.path
                ).column(0)
                column = column.dictionary_encode()
            table = table.add_column(at, declared.name, column)
    return table


def _pieces(segment: Segment, footer: Footer, plan: ReadPlan, schema: pa.Schema) -> Iterator[RowGroupBatch]:
    """What is read of a segment: row groups that may hold a row the filters keep, as many together as `PIECE_BYTES` hold."""
    names = tuple(stored for name in schema.names if (stored := plan.ids.stored_name(name)) in footer.names)
    dictionaries = [stored for name in plan.dictionaries if (stored := plan.ids.stored_name(name)) in names]
    sought = PageFilter(plan.filter, plan.index, plan.ids)
    limit, stages = max(1, PIECE_BYTES // row_bytes(schema)), sought.stages(segment, footer)
    encoded = encoded_columns(footer.metadata, dictionaries) if dictionaries else ()
    for certain, numbers in groupby(_matching_groups(footer, plan), key=lambda found: found[1]):
        alone = stages and not certain
        for together in within(1 if alone else limit, [number for number, _ in numbers], footer.groups.rows):
            near = stages if alone else ()
            yield RowGroupBatch(
                segment=segment,
                footer=footer,
                numbers=together,
                names=names,
                dictionaries=encoded,
                certain=certain,
                stages=near,
                complete=sought.complete,
            )


def _matching_groups(footer: Footer, plan: ReadPlan) -> list[tuple[int, bool]]:
    """The row groups that may hold a row the filters keep, and of each whether it is certain that they keep all of its rows."""
    return plan.filter.matching(footer.groups.each(plan.schema, plan.ids), footer.groups.rows)


def _filter(table: pa.Table, plan: ReadPlan, *, certain: bool) -> pa.Table:
    if plan.predicate != EVERYTHING and not certain:
        table = kept_rows(plan.predicate, table)
    if plan.cast_to is not None:
        kinds = {name: ENCODED if name in plan.dictionaries else plan.cast_to.field(name).type for name in table.schema.names}
        table = table.cast(pa.schema([plan.cast_to.field(name).with_type(kind) for name, kind in kinds.items()]))
    return table if plan.expression is None or certain else table.filter(plan.expression)


def count_rows(store: Store, plan: ReadPlan) -> int:
    """The number of rows that `scan.read` gives for a plan; raises as that does.

    Of segments whose rows the filters keep all, by the log, nothing is read; of others the footer, the columns that the filters name, and
    of these no row group that they keep or leave as a whole.
    """
    plan = replace(plan, columns=())
    segments = [segment for group in plan.groups for segment in group.segments]
    ask = compile_truth_values(plan.predicate, plan.schema)
    sure = [s for s in segments if plan.expression is None and ask(_certain_stats(s, plan), s.rows) == ALWAYS]
    known = {segment.path for segment in sure}
    open_ends = [segment for segment in segments if segment.path not in known]
    pieces = list(planned_pieces(store, open_ends, plan, plan.fetched(sort=False)))
    told = sum(piece.rows for piece in pieces if piece.certain)
    unsure = (piece for piece in pieces if not piece.certain)
    read = sum(int(table.num_rows) for table in read_tables(store, unsure, plan, sort=False))
    return sum(segment.rows for segment in sure) + told + read


def _certain_stats(segment: Segment, plan: ReadPlan) -> StatsOf:
    """The log's statistics; with the knowledge that segments of ours, which have checksums of their footers, lack no index value."""
    stats = stats_of(segment, plan.index, plan.ids)
    if segment.footer_checksum is None:
        return stats

    def known(name: str) -> ColumnStats | None:
        found = stats(name)
        return replace(found, nulls=0) if found is not None and name == plan.index.column else found

    return known


Scan = Callable[[tuple[str, ...], pc.Expression | None], Iterator[pa.RecordBatch]]
"""Reads these columns of the rows that an expression keeps, in Arrow's semantics."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A dataset, and what reading it raised: an engine may pass on no more than the text of an error."""

    dataset: ds.Dataset
    failures: list[GaplessError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Scanner:
    """As much of a `pyarrow.dataset.Scanner` as an engine uses."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


def pin(schema: pa.Schema, scan: Scan) -> Pinned:
    """A dataset of `schema` whose rows `scan` reads.

    Arrow's own reader is not used: it checks neither footers nor pages, and where a file system in Python raises, DuckDB
    2.0 waits for ever.
    """
    import pyarrow.dataset as ds

    failures: list[GaplessError] = []

    class PinnedDataset(ds.FileSystemDataset):  # type: ignore[misc]  # pyarrow has no types
        """A dataset without files of its own."""

        def __init__(self) -> None:
            super().__init__([], schema, ds.ParquetFileFormat())

        def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> _Scanner:  # noqa: A002  # Arrow's name
            names = tuple(schema.names if columns is None else columns)
            return _Scanner(pa.schema([schema.field(name) for name in names]), lambda: _noted(scan(names, filter), failures))

    return Pinned(PinnedDataset(), failures)


def _noted(batches: Iterator[pa.RecordBatch], failures: list[GaplessError]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except GaplessError as error:
        failures.append(error)
        raise
