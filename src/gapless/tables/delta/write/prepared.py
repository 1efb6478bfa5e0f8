"""Appends to a Delta table in two phases: prepared as durable data files and a document, finalized by whoever has that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from gapless.files.ingest.batches import Batches
from gapless.formats.delta.action_codec import decode_action, encode_action
from gapless.formats.delta.actions import AddFile, Commit, Json, Metadata, Protocol, TableState
from gapless.formats.delta.conflict import ABORT, CommitPredicate
from gapless.formats.delta.operation_ids import operation_of
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.stats_codec import rows_of
from gapless.log.effects import Conversation
from gapless.log.format import Compatible, Conflicting, Snapshot
from gapless.model.operation import SequenceId, Tally, supersedes
from gapless.runtime.committer import Proposal
from gapless.tables.delta.files.write import DataFiles, StagedWrite, Target
from gapless.tables.delta.handle import DeltaContext, context_of
from gapless.tables.delta.read.scan import RowCondition
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.append import Append
from gapless.tables.delta.write.commits import new_commit
from gapless.tables.delta.write.inputs import fitted, input_columns
from gapless.tables.delta.write.landing import Check, RowCommitter, StagedRows
from gapless.tables.delta.write.merge_schema import EvolvedVersion, SchemaMode, evolve_schema, parse_schema_mode
from gapless.tables.delta.write.overwrite import check_matches
from gapless.tables.shared.handle import table_id
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.prepared import EpochOfOpenFiles, PreparedCommit, PreparedFile, unreadable_files


@dataclass(slots=True, kw_only=True)
class DeltaEpoch(EpochOfOpenFiles):
    """The data files of one epoch in the making, all for the version of the table that was the newest when it began."""

    context: DeltaContext
    evolved: EvolvedVersion
    given: frozenset[str]
    attempt: StagedWrite
    files: DataFiles
    """Those in the making, and those that are stored."""
    table_id: str
    check: Check | None = None
    """Refuses rows that are not of the part of the table that is to be overwritten."""

    @classmethod
    def begin(
        cls,
        table: DeltaTable,
        given: pa.Schema,
        mode: SchemaMode = "strict",
        *,
        where: str | None = None,
        target_bytes: int | None = None,
        held_bytes: int | None = None,
    ) -> DeltaEpoch:
        """For rows of these columns, in files of about `target_bytes` on disk, which hold up to `held_bytes` of memory together while they are made. Raises SchemaMismatch, UnsupportedType, UnsupportedTable, StoreError, and for a `where` what `scan` raises."""
        context = context_of(table, to_write=True)
        newest, env = context.refresh(), context.env
        part = Batches(source="the rows", schema=given, read=lambda: iter(()))
        evolved = evolve_schema(newest.state, [part], mode, lambda: f"col-{env.ids.uuid()}")
        fitted(part, evolved.state)
        if where is not None:
            RowCondition.parse(where, to_arrow(newest.state.metadata.schema))
        names = frozenset(input_columns(given, to_arrow(evolved.state.metadata.schema)))
        attempt = StagedWrite.begin(env, committed_here=True)
        target = Target.of(evolved.state, target_bytes=target_bytes)
        return cls(
            context=context,
            evolved=evolved,
            given=names,
            attempt=attempt,
            files=DataFiles.begin(attempt, target, held_bytes),
            table_id=table_id(table),
            check=None if where is None else check_matches(where),
        )

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Rows as the table stores them. Raises DataError where one does not fit, breaks a constraint, or is not of the part that `where` names."""
        part = Batches(source="the rows", schema=rows.schema, read=lambda: iter(rows.to_batches()), rows_hint=rows.num_rows)
        found, row = list(fitted(part, self.evolved.state)), 0
        for batch in found:
            if self.check is not None:
                self.check(batch, row, self.evolved.state)
            row += batch.num_rows
        return found

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet."""
        state, files = self.evolved.state, self.files.added()
        return PreparedCommit(
            kind="delta",
            table=self.context.store.url,
            table_id=self.table_id,
            operation=operation,
            change=change,
            files=tuple(
                PreparedFile(path=path, rows=rows_of(one.stats) or 0, size=one.size)
                for path, one in zip(self.attempt.written, files, strict=True)
            ),
            staged={
                "instant_ms": self.attempt.instant_ms,
                "protocol": encode_action(state.protocol),
                "metadata": encode_action(state.metadata),
                "given": sorted(self.given),
                "files": [encode_action(one) for one in files],
            },
            prepared_ns=self.context.env.clock.now_ns(),
            attempt=attempt,
        )


def mode_of(change: Mapping[str, Any]) -> SchemaMode:
    """What an append does with columns that the table lacks; raises InvalidOption."""
    return parse_schema_mode(change.get("schema_mode", "strict"), ("strict", "merge"))


def finalize_append(table: DeltaTable, prepared: PreparedCommit) -> ChangeOutcome:
    """Commit prepared files as one append to the newest version, or say that they were. No prepared file is removed.

    Raises CorruptTable for a document that makes no sense, and as `table.append`.
    """

    def check_writable() -> None:
        context_of(table, to_write=True)

    def propose(snapshot: Snapshot[TableState], fresh: StagedRows) -> Proposal[Commit] | Tally:
        proposal = append.propose(snapshot, fresh)
        return replace(proposal, prepared=frozenset(prepared.needs)) if isinstance(proposal, Proposal) else proposal

    context = context_of(table, to_write=True)
    append = Append(env=context.env, operation=prepared.operation)
    committer = RowCommitter(
        committer=context.committer,
        propose=propose,
        check_writable=check_writable,
        mode=mode_of(prepared.change),
        operation=prepared.operation,
        kind="append",
    )
    return committer.resume(context.refresh(), _staged(context, prepared)).commit(context.committer)


def give_up(table: DeltaTable, prepared: PreparedCommit) -> None:
    """Commit that no finalization of it follows any more, unless one came first. Its document must say already that it is aborted.

    Raises CommitConflict, CommitOutcomeUnknown, StoreError.
    """
    context, operation = context_of(table, to_write=True), prepared.operation

    def propose(snapshot: Snapshot[TableState]) -> Proposal[Commit] | None:
        if snapshot.state.recognise(operation) is not None:
            return None
        said: dict[str, Json] = {"prepared": prepared.path, "app": operation.app, "checkpoint": operation.sequence}
        commit = new_commit(context.env, snapshot, ABORT, (), parameters=said)
        base = CommitPredicate(state=snapshot.state)

        def check_conflict(mine: Commit, version: int, theirs: Commit) -> Conversation[Compatible[Commit] | Conflicting]:
            if any(supersedes(operation_of(txn), operation) for txn in theirs.txns):
                return Conflicting("same application", operation.app)
            return (yield from base.check_conflict(mine, version, theirs))

        return Proposal(commit=commit, check_conflict=check_conflict)

    context.committer.land(context.refresh(), propose)


def _staged(context: DeltaContext, prepared: PreparedCommit) -> StagedRows:
    try:
        said = prepared.staged
        protocol, metadata = _action(said["protocol"], prepared.path), _action(said["metadata"], prepared.path)
        files = tuple(_action(one, prepared.path) for one in said["files"])
        assert isinstance(protocol, Protocol)
        assert isinstance(metadata, Metadata)
        adds = tuple(one for one in files if isinstance(one, AddFile))
        attempt = StagedWrite(context.env, int(said["instant_ms"]), written=[*prepared.needs])
        return StagedRows(
            attempt=attempt,
            evolved=EvolvedVersion(state=TableState(protocol=protocol, metadata=metadata)),
            files=adds,
            rows=prepared.records_written,
            given=frozenset(map(str, said["given"])),
        )
    except (KeyError, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise unreadable_files(prepared, "data files", error) from error


def _action(said: Mapping[str, Any], path: str) -> object:
    ((name, body),) = said.items()
    return decode_action(name, body, path)
