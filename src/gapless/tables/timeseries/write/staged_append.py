"""Committing segments that were staged elsewhere, or earlier, as one append or one overwrite to the newest version of a table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from gapless.errors import StoreError
from gapless.files.ingest.batches import Batches
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import SetTransaction, TableMeta, TableState
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.column_ids import renamed_since
from gapless.model.operation import AppendReport, OperationId
from gapless.model.properties import OnOverlap
from gapless.model.schema import entity_types
from gapless.runtime.committer import Proposal, calling_on_error, nothing
from gapless.runtime.metrics import DUPLICATES
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.write.append import APPEND, Appender, holds_segments, read_staged
from gapless.tables.timeseries.write.refusals import overlap_error
from gapless.tables.timeseries.write.stage import Stager


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedAppend:
    """Segments of one attempt, and for which columns they were written."""

    attempt: StagedWrite
    meta: TableMeta
    """The table as it was then, with the schema that it has once it has taken the rows."""
    given: pa.Schema
    """The columns that came: what files hold of others is nothing that anyone said."""

    @property
    def schema(self) -> pa.Schema:
        """The table's schema once it has taken the rows."""
        assert self.meta.schema is not None
        return self.meta.schema

    def fits(self, context: SeriesContext, state: TableState) -> bool:
        """Whether this version takes the segments as they were written: its columns are those for which they were."""
        if (state.meta.index, state.meta.ids) != (self.meta.index, self.meta.ids):
            return False
        return bool(schema_with(self.given, context, state) == self.schema)

    def rows(self, context: SeriesContext, newest: Snapshot[TableState]) -> pa.RecordBatchReader:
        """The rows, read back, in the columns that came, under the names that these have in the newest known version. Raises as
        `read_staged`.
        """
        came = set(self.given.names)
        schema = pa.schema([field for field in self.schema if field.name in came])
        now = newest.state.meta
        schema, ids = renamed_since(schema, self.meta.ids, now.schema or pa.schema([]), now.ids)
        read = (read_staged(context.env, one, schema, ids, newest.version) for one in self.attempt.segments)
        return pa.RecordBatchReader.from_batches(schema, chain.from_iterable(read))

    def append(
        self,
        context: SeriesContext,
        on_overlap: OnOverlap | None,
        operation: OperationId | None,
        again: Callable[[pa.RecordBatchReader], AppendReport],
        discard: Callable[[], None] = nothing,
        prepared: frozenset[str] = frozenset(),
    ) -> AppendReport:
        """Commit the segments as one append to the newest version, or nothing.

        Where rows must be looked at one by one ("skip" and "replace" on covered buckets, unique keys, a lost race, columns that changed
        since) the staged segments are read back, and `again` appends their rows. `discard` removes what was staged: it is called once no
        commit of it can land, nor has. `prepared` are paths that a document protects. Raises as `table.append`.
        """
        with calling_on_error(discard):
            snapshot = context.refresh()
            appender = Appender(
                context=context,
                on_overlap=on_overlap or snapshot.state.meta.properties.on_overlap,
                by_table=on_overlap is None,
                operation=operation,
            )
            if (report := appender.known(snapshot)) is not None:
                discard()
                return report
            if holds_segments(self.attempt.segments, snapshot.state):
                context.committer.count(DUPLICATES, 1, APPEND)
                return AppendReport.of(self.attempt.tally, snapshot.version, already_applied=True)
            direct = self.fits(context, snapshot.state) and stands(appender, snapshot.state, self.attempt)
        if direct and (report := self._land(appender, snapshot, operation, discard, prepared)) is not None:
            return report
        try:
            # Whatever stands in the way, an append of the same rows knows what to do about it.
            return again(self.rows(context, snapshot))
        finally:
            discard()

    def _land(
        self,
        appender: Appender,
        snapshot: Snapshot[TableState],
        operation: OperationId | None,
        discard: Callable[[], None],
        prepared: frozenset[str],
    ) -> AppendReport | None:
        """Commit the segments to this version; None where another commit came first that they cannot follow."""
        applied = () if operation is None else (SetTransaction(operation, self.attempt.tally),)
        proposal = appender.proposal(appender.stager(snapshot).staged(self.attempt, self.schema, applied))
        if not isinstance(proposal, Proposal):
            appender.context.committer.count_rows(proposal, APPEND)
            return AppendReport.of(proposal, snapshot.version)
        outcome = appender.context.committer.commit(snapshot, replace(proposal, discard=discard, prepared=prepared))
        return None if isinstance(outcome, Conflict) else AppendReport.of(proposal.tally, outcome.version)


def discard_uncommitted(context: SeriesContext, attempt: StagedWrite) -> None:
    """Remove what was staged, unless a version has it: the same segments may have been committed by another call.

    Where the newest version cannot be read, all of it is left for vacuum.
    """
    with contextlib.suppress(StoreError):
        if not holds_segments(attempt.segments, context.refresh().state):
            attempt.discard()


def schema_with(given: pa.Schema, context: SeriesContext, state: TableState, source: str = "the staged rows") -> pa.Schema:
    """The schema of this version once it has taken rows of these columns; raises SchemaMismatch."""
    schema = Stager.of(context, state, "allow").schema_for((Batches(source=source, schema=given, read=lambda: iter(())),))
    assert schema is not None
    return schema


def stands(appender: Appender, state: TableState, attempt: StagedWrite) -> bool:
    """Whether the rows may be committed as they were written, as far as this version goes; raises CoverageOverlap under "reject"."""
    if appender.on_overlap == "replace" or state.meta.properties.unique:
        return False
    if appender.on_overlap == "allow" or not attempt.segments or state.meta.schema is None:
        return True
    types, context = entity_types(state.meta.schema, state.meta.index), appender.context
    _, found = Stager.of(context, state, appender.on_overlap).meet(state, attempt.covered, types)
    if found is not None and appender.on_overlap == "reject":
        raise overlap_error(state, context.cache, found, types, context.grid)
    return found is None
