"""Staging an append: rows to segments, written but not yet committed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from gapless.coverage.bitmap import CoverageMap
from gapless.coverage.bucket import Grid
from gapless.coverage.overlap import overlap
from gapless.dialects.timeseries.actions import Action, AddSegment, Commit, SetTransaction, TableState, UpdateTableMeta
from gapless.dialects.timeseries.conflict import AppendTerms
from gapless.dialects.timeseries.features import claim
from gapless.dialects.timeseries.schema_codec import METADATA_FEATURE
from gapless.errors import DataError
from gapless.model.fit import fit
from gapless.model.index import EntityType
from gapless.model.operation import OperationId
from gapless.model.properties import OnOverlap
from gapless.model.schema import adopt_schema, annotated_schema, entity_types, reconcile, stored_schema
from gapless.model.segment import meeting
from gapless.parquet.attempt import Attempt
from gapless.parquet.batches import Batches, unified_schema
from gapless.parquet.run import Run, sort_run
from gapless.parquet.segment_writer import encode_segment
from gapless.runtime.committer import ENGINE
from gapless.runtime.driver import Rim
from gapless.table.coverage import CoverageCache
from gapless.table.refusals import overlap_error

RUN_BYTES = 128 << 20
"""Arrow memory of the rows that are sorted and written as one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Segments that await their commit, and what must hold for it."""

    attempt: Attempt
    commit: Commit | None
    """None where there is nothing to commit."""
    terms: AppendTerms


@dataclass(frozen=True, slots=True)
class Filtered:
    """A run less the rows that an overlap policy left out."""

    run: Run
    skipped_rows: int = 0
    skipped: CoverageMap = field(default_factory=CoverageMap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stager:
    """Turns input into staged segments for one version of the table."""

    rim: Rim
    state: TableState
    cache: CoverageCache
    grid: Grid
    on_overlap: OnOverlap

    def stage(self, parts: Iterable[Batches], attempt: Attempt, operation: OperationId | None) -> Staged:
        """Write the rows of all parts as segments of `attempt`; raises what a wrong input deserves, leaving `attempt` to discard."""
        parts = tuple(parts)
        schema = self.schema_for(parts)
        if schema is not None:
            types = entity_types(schema, self.state.meta.index)
            for run in self.runs(parts, schema):
                filtered = self.filter_covered(run, types)
                attempt.skipped_rows += filtered.skipped_rows
                attempt.skipped = attempt.skipped.union(filtered.skipped)
                self.write(filtered.run, attempt, types)
        applied = () if operation is None else (SetTransaction(operation, attempt.tally),)
        return self.staged(attempt, schema, applied)

    def staged(self, attempt: Attempt, schema: pa.Schema | None, applied: tuple[SetTransaction, ...]) -> Staged:
        """The attempt with its log entry and what must hold for it."""
        bounds = [segment.bounds for segment in attempt.segments]
        terms = AppendTerms(
            on_overlap=self.on_overlap,
            coverage=attempt.covered,
            first=min((b.first for b in bounds), default=0),
            last=max((b.last for b in bounds), default=0),
            schema=schema,
            entity_types=() if schema is None else entity_types(schema, self.state.meta.index),
            grid=self.grid,
            operations=tuple(one.operation for one in applied),
        )
        return Staged(attempt=attempt, commit=self._commit(attempt, schema, applied), terms=terms)

    def schema_for(self, parts: tuple[Batches, ...]) -> pa.Schema | None:
        """The table's schema once it has taken the parts; None where it has none and takes none."""
        index, schema = self.state.meta.index, self.state.meta.schema
        if schema is None and parts:
            schema = adopt_schema(parts[0].schema if len(parts) == 1 else unified_schema(parts), index)
        for part in parts:
            with _naming(part):
                schema = reconcile(schema, part.schema, index).schema
        return schema

    def runs(self, parts: Iterable[Batches], schema: pa.Schema) -> Iterator[Run]:
        """The fitted rows, cut into sorted runs of bounded memory."""
        index, stored = self.state.meta.index, stored_schema(schema)
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        for part in parts:
            row = 0
            for piece in (piece for batch in part for piece in _pieces(batch)):
                with _naming(part):
                    held.append(fit(piece, schema, index, row))
                row += piece.num_rows
                held_bytes += held[-1].nbytes
                if held_bytes >= RUN_BYTES:
                    yield sort_run(pa.Table.from_batches(held, stored), index, self.grid)
                    held, held_bytes = [], 0
        if any(batch.num_rows for batch in held):
            yield sort_run(pa.Table.from_batches(held, stored), index, self.grid)

    def write(self, run: Run, attempt: Attempt, types: tuple[EntityType, ...]) -> None:
        """Store the run as a segment of the attempt; nothing where it holds no rows."""
        if run.table.num_rows:
            meta = self.state.meta
            if METADATA_FEATURE in meta.reader_features and meta.schema is not None:
                schema = annotated_schema(run.table.schema, meta.schema)
                run = replace(run, table=pa.Table.from_arrays(run.table.columns, schema=schema))
            attempt.write(encode_segment(run, meta.index.column, meta.properties.codec), self.state, types)

    def filter_covered(self, run: Run, types: tuple[EntityType, ...], also: CoverageMap | None = None) -> Filtered:
        """The run, where the table (and `also`) covers nothing of it; under "skip" its other rows; else raises CoverageOverlap."""
        if self.on_overlap == "allow" or not run.table.num_rows:
            return Filtered(run)
        mine = run.coverage
        present = self._present(run, mine, types)
        if also:
            present = present.union(also)
        found = overlap(mine, present, signed=self.grid.signed)
        if found is None:
            return Filtered(run)
        if self.on_overlap == "reject":
            raise overlap_error(self.state, self.cache, found, types, self.grid)
        covered = mine.intersection(present)
        kept = run.without(covered)
        return Filtered(kept, run.table.num_rows - kept.table.num_rows, covered)

    def _present(self, run: Run, mine: CoverageMap, types: tuple[EntityType, ...]) -> CoverageMap:
        """What live segments cover where the run could meet them."""
        first, last = run.bucket_span(signed=self.grid.signed)
        near = meeting(self.state.segments, self.grid.start(first), self.grid.end(last), frozenset(mine.identities()))
        return self.cache.union(near, types)

    def _commit(self, attempt: Attempt, schema: pa.Schema | None, applied: tuple[SetTransaction, ...]) -> Commit | None:
        """The log entry for the attempt; None where the table would stay as it is."""
        old = self.state.meta
        actions: list[Action] = []
        if schema != old.schema or not old.is_ours:
            actions.append(UpdateTableMeta(claim(replace(old, schema=schema))))
        actions += [AddSegment(segment) for segment in attempt.segments]
        actions += applied
        if not attempt.segments and schema == old.schema and not applied:
            return None
        return Commit(
            id=self.rim.ids.uuid(),
            operation="append",
            engine=ENGINE,
            parameters={"on_overlap": self.on_overlap},
            actions=tuple(actions),
        )


@contextlib.contextmanager
def _naming(part: Batches) -> Iterator[None]:
    """Name the source in an error about its rows or columns; rows count within it."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{part.source}: {error.what}", why=error.why, fix=error.fix, **error.facts) from error


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of at most about half a run, so that one huge batch costs no huge copies."""
    rows = max(1, batch.num_rows * (RUN_BYTES // 2) // max(1, batch.nbytes)) if batch.num_rows else 1
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)
