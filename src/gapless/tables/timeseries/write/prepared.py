"""Appends to a time-series table in two phases: prepared as durable segments and a document, finalized by whoever has that."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.files.ingest.batches import Batches
from gapless.files.sort.run import gather_runs, pieces, sort_run
from gapless.files.write.segment_encoder import encode_segment as encode_rows
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import ABORT, Commit, TableMeta, TableState
from gapless.formats.timeseries.codec.metadata import decode_meta, encode_meta, with_features
from gapless.formats.timeseries.codec.segment import decode_segment, encode_segment
from gapless.formats.timeseries.replay import sidecars_of
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.model.fit import to_declared
from gapless.model.operation import SequenceId
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.model.schema import entity_types, stored_schema
from gapless.model.segment import Segment
from gapless.runtime.committer import Proposal
from gapless.runtime.condition import Condition
from gapless.tables.shared.compaction import TARGET_BYTES
from gapless.tables.shared.handle import committing_on, table_id
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit, PreparedFile, require_not_aborted, unreadable_files
from gapless.tables.timeseries.context import SeriesContext, new_commit
from gapless.tables.timeseries.correct.corrections import CorrectionArguments
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.append import Appender
from gapless.tables.timeseries.write.stage import Stager, as_written
from gapless.tables.timeseries.write.staged_append import StagedAppend, schema_with, stands

_PIECES = 32
"""Rows are laid together in pieces of a thirtieth of a segment."""
_SAMPLED, _SAMPLE_BYTES = 8, 16 << 20
"""An eighth of the rows, or so much Arrow memory, tells how small they become on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEpoch:
    """The segments of one epoch in the making, all for the version of the table that was the newest when it began."""

    context: SeriesContext
    given: pa.Schema
    stager: Stager
    meta: TableMeta
    attempt: StagedWrite
    table_id: str
    target_bytes: int = TARGET_BYTES
    """About how large a segment becomes on disk, where so many rows are stored at once."""

    @classmethod
    def begin(cls, table: TimeSeriesTable, given: pa.Schema, target_bytes: int | None = None) -> SeriesEpoch:
        """For rows of these columns, in segments of about so many bytes on disk, or 128 MiB. Raises SchemaMismatch, UnsupportedType, UpgradeNeeded, UnsupportedTable, StoreError."""
        context = context_of(table, to_write=True)
        context = replace(context, snapshot=context.refresh())
        state = context.snapshot.state
        meta = with_features(replace(state.meta, schema=schema_with(given, context, state, "the rows")))
        stager = Stager.of(context, replace(state, meta=meta), "allow")
        attempt = StagedWrite.begin(context.env)
        return cls(
            context=context,
            given=given,
            stager=stager,
            meta=meta,
            attempt=attempt,
            table_id=table_id(table),
            target_bytes=target_bytes or TARGET_BYTES,
        )

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Rows as the table stores them. Raises DataError where one does not fit."""
        part = Batches(source="the rows", schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
        return list(self.stager.fitted((part,), self.schema))

    def add(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Store fitted rows as further durable segments: all of them, or none. Raises StoreError."""
        meta, attempt = self.meta, self.attempt
        mark = len(attempt.segments)
        types = entity_types(self.schema, meta.index)
        limit = self._run_bytes(rows)
        parts = (piece for batch in rows for piece in pieces(batch, max(1, limit // _PIECES)))
        try:
            with attempt.undone_on_error():
                for run in gather_runs(parts, stored_schema(self.schema, meta.ids), meta.index, self.context.grid, limit):
                    self.stager.write(run, attempt, types)
        except BaseException:
            del attempt.segments[mark:], attempt.coverage[mark:]
            raise

    def _run_bytes(self, rows: Sequence[pa.RecordBatch]) -> int:
        """How much Arrow memory of these rows makes a segment, so that all are of one size and near the target."""
        memory = sum(int(batch.nbytes) for batch in rows)
        if memory <= self.target_bytes:
            return max(memory, 1)
        count = sum(batch.num_rows for batch in rows)
        share = min(1 / _SAMPLED, _SAMPLE_BYTES / memory)
        sample = pa.Table.from_batches(rows).slice(0, max(1, int(count * share)))
        run = as_written(sort_run(sample, self.meta.index, self.context.grid), self.meta)
        encoded = encode_rows(run, self.meta.index, self.meta.properties.codec)
        segments = max(1, round(memory * encoded.size / max(1, int(sample.nbytes)) / self.target_bytes))
        return memory // segments + 1

    @property
    def schema(self) -> pa.Schema:
        """The table's schema once it has taken the rows."""
        assert self.meta.schema is not None
        return self.meta.schema

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet. Raises CoverageOverlap under "reject", as far as the newest version goes."""
        self._check_overlap(change)
        segments = self.attempt.segments
        return PreparedCommit(
            kind="timeseries",
            table=self.context.store.url,
            table_id=self.table_id,
            operation=operation,
            change=change,
            files=tuple(PreparedFile(path=one.path, rows=one.rows, size=one.size or 0) for one in segments),
            kept=tuple(path for one in segments for path in sidecars_of(one)),
            staged={
                "instant": self.attempt.instant,
                "meta": encode_meta(self.meta),
                "given": base64.b64encode(self.given.serialize().to_pybytes()).decode(),
                "segments": [encode_segment(one) for one in segments],
            },
            prepared_ns=self.context.env.clock.now_ns(),
            attempt=attempt,
        )

    def discard(self) -> None:
        """Remove what was stored, of which no document says anything."""
        self.attempt.discard()

    def _check_overlap(self, change: Mapping[str, Any]) -> None:
        context, state = self.context, self.context.refresh().state
        policy = policy_of(change) or state.meta.properties.on_overlap
        if policy == "reject":
            stands(Appender(context=context, on_overlap=policy), state, self.attempt)


def fit_inside(
    epoch: SeriesEpoch, span: tuple[object, object], entity: Mapping[str, object] | None
) -> Callable[[pa.Table], object]:
    """Raises DataError for rows that the table does not take, and InvalidValue for one that lies outside of the range and the entities.

    Raises itself InvalidTime, UnknownColumn, InvalidOption for a range or entities that the table cannot have.
    """
    meta, state = epoch.meta, epoch.context.snapshot.state
    asked = CorrectionArguments(start=span[0], end=span[1], entity=entity)
    replacement = asked.replace(meta.index, epoch.schema)

    def fit(rows: pa.Table) -> None:
        stored = epoch.fit(rows)
        declared = [to_declared(batch, epoch.schema, ids=meta.ids) for batch in stored]
        replacement.check_inside(state, epoch.schema, pa.Table.from_batches(declared, epoch.schema))

    return fit


def policy_of(change: Mapping[str, Any]) -> OnOverlap | None:
    """The overlap policy that a change names, None for the table's; raises InvalidOption."""
    said = change.get("on_overlap")
    return None if said is None else parse_on_overlap(said)


def finalize_append(table: TimeSeriesTable, prepared: PreparedCommit) -> ChangeOutcome:
    """Commit prepared segments as one append to the newest version, or say that they were. No prepared file is removed.

    Raises CorruptTable for a document that makes no sense, CoverageOverlap under "reject", and as `table.append`.
    """
    context = context_of(table, to_write=True)
    staged = _staged(context, prepared)
    policy, operation = policy_of(prepared.change), prepared.operation
    report = staged.append(
        context,
        policy,
        operation,
        lambda rows: table.append(rows, on_overlap=policy, operation_id=(operation.app, operation.sequence)),
        prepared=frozenset(prepared.needs),
    )
    return ChangeOutcome(report, report.version, already=report.already_applied)


def while_prepared(table: TimeSeriesTable, prepared: PreparedCommit) -> AbstractContextManager[None]:
    """Within it, the table commits what the prepared commit needs only while that is not aborted."""

    def is_given_up(theirs: Commit) -> bool:
        return theirs.operation == ABORT and theirs.parameters.get("prepared") == prepared.path

    check = partial(require_not_aborted, context_of(table).store, prepared)
    return committing_on(table, Condition(check=check, is_given_up=is_given_up))


def give_up(table: TimeSeriesTable, prepared: PreparedCommit) -> None:
    """Commit that no finalization of it follows any more, unless one came first. Its document must say already that it is aborted.

    Raises CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    context, operation = context_of(table, to_write=True), prepared.operation

    def check_conflict(mine: Commit, _version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
        yield from ()
        return Conflicting("it was finalized") if theirs.applies(operation) else Compatible(mine)

    def propose(snapshot: Snapshot[TableState]) -> Proposal[Commit] | None:
        if snapshot.state.recognise(operation) is not None:
            return None
        parameters = {"prepared": prepared.path, "app": operation.app, "checkpoint": operation.sequence}
        return Proposal(commit=new_commit(context.env, ABORT, parameters, ()), check_conflict=check_conflict)

    context.committer.land(context.refresh(), propose)


def _staged(context: SeriesContext, prepared: PreparedCommit) -> StagedAppend:
    try:
        said = prepared.staged
        meta = decode_meta(said["meta"], prepared.path)
        given = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["given"])))
        segments: list[Segment] = [decode_segment(body) for body in said["segments"]]
        instant = str(said["instant"])
        assert meta.schema is not None
    except (KeyError, ValueError, TypeError, AssertionError) as error:
        raise unreadable_files(prepared, "segments", error) from error
    attempt = StagedWrite(context.env, instant, written=[*prepared.needs], segments=segments)
    types = entity_types(meta.schema, meta.index)
    attempt.coverage += [context.cache.of(segment, types) for segment in segments]
    return StagedAppend(attempt=attempt, meta=meta, given=given)
