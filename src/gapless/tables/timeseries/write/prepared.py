"""Appends to a time-series table in two phases: prepared as durable segments and a document, finalized by whoever has that."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import ABORT, Commit, TableState
from gapless.formats.timeseries.codec.metadata import decode_meta
from gapless.formats.timeseries.codec.segment import decode_segment
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.model.properties import OnOverlap, parse_on_overlap
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.runtime.committer import Proposal
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import PreparedCommit, unreadable_files
from gapless.tables.timeseries.context import SeriesContext, new_commit
from gapless.tables.timeseries.handle import context_of
from gapless.tables.timeseries.table import TimeSeriesTable
from gapless.tables.timeseries.write.staged_append import StagedAppend


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
