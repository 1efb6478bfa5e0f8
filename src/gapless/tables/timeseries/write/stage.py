"""Staging an append: rows to segments, written but not yet committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap, Overlap, overlap
from gapless.coverage.bucket import Grid, LocalDayGrid, LocalMonthGrid
from gapless.errors import DuplicateKey, InvalidValue
from gapless.files.ingest.batches import Batches, bytes_of, naming, unified_schema
from gapless.files.ingest.table_types import with_table_types
from gapless.files.sort.run import Run, gather_runs, index_values, pieces, unit_ns
from gapless.files.write.segment_encoder import encode_segment
from gapless.files.write.staged_write import STREAMED_BYTES, StagedWrite
from gapless.formats.timeseries.actions import (
    Action,
    AddSegment,
    Commit,
    SetTransaction,
    TableMeta,
    TableState,
    UpdateTableMeta,
)
from gapless.formats.timeseries.codec.schema import METADATA_FEATURE
from gapless.formats.timeseries.conflict.rows import AppendChecker, overlapping_coverage
from gapless.formats.timeseries.replay import segments_covering
from gapless.model.fit import fit, null_key, to_declared
from gapless.model.index import EntityType
from gapless.model.operation import OperationId
from gapless.model.properties import OnOverlap
from gapless.model.schema import adopt_schema, annotated_schema, entity_types, reconcile, stored_schema
from gapless.model.segment import Segment
from gapless.model.stats import Bound, ColumnStats
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.context import SeriesContext, new_commit, with_schema
from gapless.tables.timeseries.correct.row_selection import BaseVersion
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.write.refusals import check_absent, check_distinct, overlap_error

RUN_BYTES = 128 << 20
"""Arrow memory of the rows that are sorted and written as one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Segments that await their commit, and what must hold for it."""

    attempt: StagedWrite
    commit: Commit | None
    """None where there is nothing to commit."""
    checker: AppendChecker


@dataclass(frozen=True, slots=True)
class Filtered:
    """A run less the rows that an overlap policy left out."""

    run: Run
    skipped_rows: int = 0
    skipped: CoverageMap = field(default_factory=CoverageMap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stager:
    """Turns input into staged segments for one version of the table."""

    env: Environment
    state: TableState
    cache: CoverageCache
    on_overlap: OnOverlap
    by_table: bool = False
    """Whether `on_overlap` is the table's property, and not the caller's word."""
    inline_bytes: int = 0
    """Up to which size the first segment of an attempt is left to its commit."""
    newest: Callable[[], TableState] | None = None
    """Asks for the table's newest version, before rows are refused or left out for what `state` covers."""

    @classmethod
    def of(cls, context: SeriesContext, state: TableState, on_overlap: OnOverlap) -> Stager:
        """That of a version, for segments that are stored whole; by the overlap policy of the caller."""
        return cls(env=context.env, state=state, cache=context.cache, on_overlap=on_overlap)

    @property
    def grid(self) -> Grid:
        """The table's buckets."""
        return self.cache.grid

    def stage(self, parts: Iterable[Batches], attempt: StagedWrite, operation: OperationId | None) -> Staged:
        """Write the rows of all parts as segments of `attempt`; raises DataError where the input does not fit, leaving `attempt` to discard."""
        parts = tuple(parts)
        schema = self.schema_for(parts)
        if schema is not None:
            types = entity_types(schema, self.state.meta.index)
            for run in self.runs(parts, schema):
                filtered = self.filter_covered(run, types)
                attempt.skipped_rows += filtered.skipped_rows
                attempt.skipped = attempt.skipped.union(filtered.skipped)
                self.check_keys(filtered.run, schema, attempt.segments)
                self.write(filtered.run, attempt, types)
        applied = () if operation is None else (SetTransaction(operation, attempt.tally),)
        return self.staged(attempt, schema, applied)

    def staged(self, attempt: StagedWrite, schema: pa.Schema | None, applied: tuple[SetTransaction, ...]) -> Staged:
        """The attempt with its log entry and what must hold for it."""
        checker = AppendChecker(
            on_overlap=self.on_overlap,
            coverage=attempt.covered,
            schema=schema,
            ids=self.state.meta.ids,
            empty=_empty_columns(attempt.segments, self.state.meta),
            entity_types=() if schema is None else entity_types(schema, self.state.meta.index),
            grid=self.grid,
            operations=tuple(one.operation for one in applied),
            unique=self.state.meta.properties.unique,
            by_table=self.by_table,
        )
        return Staged(attempt=attempt, commit=self._commit(attempt, schema, applied), checker=checker)

    def schema_for(self, parts: tuple[Batches, ...]) -> pa.Schema | None:
        """The table's schema once it has taken the parts; None where it has none and takes none. Raises SchemaMismatch, NullKey."""
        index, schema = self.state.meta.index, self.state.meta.schema
        for part in parts:
            if not part.schema.names and part.rows_hint:
                with naming(part):
                    raise null_key(index.column, index, 0)
        if schema is None and parts:
            schema = adopt_schema(parts[0].schema if len(parts) == 1 else unified_schema(parts), index)
        for part in parts:
            given = with_table_types(part, schema).schema
            with naming(part):
                schema = reconcile(schema, given, index, self.state.meta.ids).schema
        return schema

    def runs(self, parts: Iterable[Batches], schema: pa.Schema) -> Iterator[Run]:
        """The fitted rows, cut into sorted runs of bounded memory."""
        meta = self.state.meta
        return gather_runs(self.fitted(parts, schema), stored_schema(schema, meta.ids), meta.index, self.grid, RUN_BYTES)

    def fitted(self, parts: Iterable[Batches], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows as the table stores them, in the order in which they come; raises DataError for one that does not fit, naming its source."""
        meta = self.state.meta
        for part in (with_table_types(one, schema) for one in parts):
            row = 0
            for piece in (piece for batch in part for piece in pieces(batch, RUN_BYTES)):
                with naming(part):
                    fitted = fit(piece, schema, meta.index, row, meta.ids)
                    self._check_local_years(fitted.column(meta.ids.stored_name(meta.index.column)), row)
                row += piece.num_rows
                yield fitted

    def _check_local_years(self, column: pa.Array, row: int) -> None:
        """Raise InvalidValue for a time that has no local day; `row` is the number of the first."""
        if not isinstance(self.grid, LocalDayGrid | LocalMonthGrid) or not len(column):
            return
        values = index_values(pa.chunked_array([column]))
        ends = [int(values.argmin()), int(values.argmax())]
        try:
            self.grid.ids(values[ends], unit_ns(column.type))
        except InvalidValue as error:
            name, at = self.state.meta.index.column, row + ends[error.row]
            what = f"column {name!r} in row {at}: {error.what}"
            raise InvalidValue(what, why=error.why, fix=error.fix, column=name, row=at, value=error.value) from None

    def check_keys(self, run: Run, schema: pa.Schema, written: Sequence[Segment] = ()) -> None:
        """In a unique table, raise DuplicateKey where rows of the run share a key, or have one of the table's or of segments written before."""
        meta = self.state.meta
        if not meta.properties.unique or not run.rows.count:
            return
        before = BaseVersion(state=self.state, schema=schema, cache=self.cache)
        declared = run.with_rows(to_declared(run.table, schema, ids=meta.ids))
        check_distinct(declared, before)
        # Under the other policies no segment that is there covers a bucket of the run.
        present = segments_covering(self.state, run.coverage, self.grid) if self.on_overlap == "allow" else []
        earlier = overlapping_coverage(written, run.coverage, self.grid)
        try:
            check_absent(declared, before, [*present, *earlier])
        except DuplicateKey:
            newest = self.newest() if self.newest is not None and present else None
            if newest is None or not _has_columns_of(newest.meta, self.state.meta):
                raise
            # What this version holds may be gone from a newer one, and then nothing may be refused for it.
            now = replace(before, state=newest)
            check_absent(declared, now, [*segments_covering(newest, run.coverage, self.grid), *earlier])

    def write(self, run: Run, attempt: StagedWrite, types: tuple[EntityType, ...]) -> None:
        """Store the run as a segment of the attempt; nothing where it holds no rows."""
        if run.rows.count:
            meta = self.state.meta
            with attempt.begun(bytes_of(run.rows.source, STREAMED_BYTES), self.inline_bytes) as begun:
                encoded = encode_segment(as_written(run, meta), meta.index, meta.properties.codec, begun.onto)
                attempt.write(encoded, self.state, types, self.inline_bytes, begun)

    def filter_covered(self, run: Run, types: tuple[EntityType, ...], also: CoverageMap | None = None) -> Filtered:
        """The run, where the table (and `also`) covers nothing of it; under "skip" its other rows; else raises CoverageOverlap."""
        if self.on_overlap == "allow" or not run.rows.count:
            return Filtered(run)
        state, mine = self.state, run.coverage
        present, found = self.meet(state, mine, types, also)
        if found is not None and self.newest is not None:
            # What this version covers may be gone from a newer one, and then nothing may be refused or left out for it.
            state = self.newest()
            present, found = self.meet(state, mine, types, also)
        if found is None:
            return Filtered(run)
        if self.on_overlap == "reject":
            raise overlap_error(state, self.cache, found, types, self.grid)
        covered = mine.intersection(present)
        kept = run.without(covered)
        return Filtered(kept, run.rows.count - kept.rows.count, covered)

    def meet(
        self, state: TableState, mine: CoverageMap, types: tuple[EntityType, ...], also: CoverageMap | None = None
    ) -> tuple[CoverageMap, Overlap | None]:
        """What live segments (and `also`) cover, of the identities of `mine`, where they could meet it; and where they do."""
        near = segments_covering(state, mine, self.grid)
        if not near and not also:
            return CoverageMap(), None
        present = self.cache.union(near, types, frozenset(mine.identities()))
        if also:
            present = present.union(also)
        return present, overlap(mine, present, signed=self.grid.signed)

    def _commit(self, attempt: StagedWrite, schema: pa.Schema | None, applied: tuple[SetTransaction, ...]) -> Commit | None:
        """The log entry for the attempt; None where the table would stay as it is."""
        old = self.state.meta
        actions: list[Action] = []
        if schema != old.schema or not old.is_ours:
            actions.append(UpdateTableMeta(with_schema(old, schema)))
        actions += [AddSegment(segment) for segment in attempt.segments]
        actions += applied
        if not attempt.segments and schema == old.schema and not applied:
            return None
        return new_commit(self.env, "append", {"on_overlap": self.on_overlap}, actions)


def _has_columns_of(meta: TableMeta, other: TableMeta) -> bool:
    return (meta.index, meta.schema, meta.ids) == (other.index, other.schema, other.ids)


def _empty_columns(segments: Sequence[Segment], meta: TableMeta) -> frozenset[str]:
    """The stored names of the columns of which these segments hold nothing but nulls, or nothing but the default that rows have
    which lack the column, as far as their statistics say so; without segments, of all that the table has.
    """
    ids = meta.ids
    if not segments:
        return frozenset(ids.stored_name(column.name) for column in meta.schema or ())
    fills = {ids.stored_name(*path): value for path, value in ids.defaults.items() if len(path) == 1}
    empty = [
        {name for name, known in one.stats.items() if known.nulls == one.rows or _is_only(known, fills.get(name))}
        for one in segments
    ]
    return frozenset(set.intersection(*empty))


def _is_only(known: ColumnStats, value: Bound | None) -> bool:
    """Whether each row holds this value; never so for zeros and NaN of floats, of which statistics tell less."""
    if value is None or known.nulls != 0 or (isinstance(value, float) and (value == 0 or known.nans != 0)):
        return False
    return known.min == value == known.max


def as_written(run: Run, meta: TableMeta) -> Run:
    """The run with the schema that files of this table have: with its metadata, where they must repeat them."""
    if METADATA_FEATURE not in meta.reader_features or meta.schema is None:
        return run
    schema = annotated_schema(run.rows.schema, meta.ids.physical_schema(meta.schema))
    return run.with_rows(run.rows.with_schema(schema))
