"""The life of a change of rows, from the version it finds to the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from gapless.dialects.delta.actions import AddFile, Commit, Json, TableState
from gapless.dialects.delta.arrow_types import to_arrow
from gapless.dialects.delta.conflict import Reads, Terms
from gapless.dialects.delta.file_path import canonical
from gapless.log.dialect import Snapshot
from gapless.model.operation import OperationId, parse_operation_id
from gapless.model.report import ChangeReport, Tally
from gapless.parquet.delta.attempt import Attempt
from gapless.parquet.delta.read import FileReader
from gapless.runtime.committer import Proposal
from gapless.table.delta.append_only import check_may_remove
from gapless.table.delta.commits import new_commit
from gapless.table.delta.handle import DeltaHandle
from gapless.table.delta.revision import Revision
from gapless.table.delta.row_edit import Touch
from gapless.table.delta.scan import Condition, select_files
from gapless.table.done import Done

OperationArgument = tuple[str, int] | str | None


def no_rows() -> Iterable[pa.RecordBatch]:
    """What a change inserts that inserts nothing."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The version of a table that a change is made to."""

    state: TableState
    after: TableState
    """The same, with the metadata that the change's rows are written for."""
    reader: FileReader
    """Reads files with the columns of `after`."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of `after`, logical names."""
        return to_arrow(self.after.metadata.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a change does to one version."""

    touches: Iterable[Touch]
    """File by file, in the order in which they are gone through; may be decided on the way."""
    inserts: Callable[[], Iterable[pa.RecordBatch]] = no_rows
    """The rows that are new, in the table's columns and types; asked for after the last touch."""
    reads: Reads


class RowChange(Protocol):
    """One intended change of rows."""

    @property
    def operation(self) -> str:
        """Delta's name for it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Json]:
        """What the log says of it."""
        ...

    def fit(self, state: TableState) -> TableState:
        """The version with the metadata that its rows need; the version itself where those fit. Raises what a wrong call deserves."""
        ...

    def decide(self, before: Before) -> Decision:
        """What it does to a version. Raises what a wrong input deserves."""
        ...


class RowChanging(DeltaHandle):
    """What changes of rows share."""

    def _change_rows(self, change: RowChange, operation_id: object) -> ChangeReport:
        """Make a change to the newest version, in one commit; anew where another's commit came first and clashes.

        Raises CommitConflict at the deadline, CommitOutcomeUnknown, StoreError, and what `change` raises.
        """
        operation = None if operation_id is None else parse_operation_id(operation_id)
        committer = self._committer
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()
        counted = Tally()

        def propose(newest: Snapshot[TableState]) -> Proposal[Commit] | None:
            nonlocal snapshot, counted
            snapshot, counted = newest, Tally()
            if Done.before(newest, operation) is not None:
                return None
            proposal, counted = self._proposed(newest, change, operation)
            return proposal

        landed = committer.change(snapshot, propose)
        if landed is not None:
            return ChangeReport.of(counted, landed.version)
        done = Done.before(snapshot, operation) or Done(Tally(), snapshot.version)
        return ChangeReport.of(done.tally, done.version, already_applied=done.already)

    def _proposed(
        self, newest: Snapshot[TableState], change: RowChange, operation: OperationId | None
    ) -> tuple[Proposal[Commit] | None, Tally]:
        self._check_writable()
        state = newest.state
        check_may_remove(state, change.operation)
        after = change.fit(state)
        attempt = Attempt.begin(self._rim)
        with attempt.discarded_on_error():
            reader = FileReader.of(self._rim.store, after.metadata)
            decision = change.decide(Before(state=state, after=after, reader=reader))
            revision = Revision(state=state, after=after, reader=reader, attempt=attempt)
            actions = revision.run(decision.touches, decision.inserts)
        if not actions and operation is None:
            return None, Tally()
        commit = new_commit(
            self._rim,
            newest,
            change.operation,
            actions,
            parameters=change.parameters,
            tally=revision.tally,
            operation_id=operation,
        )
        judge = Terms(state=state, reads=decision.reads).judge
        return Proposal(commit=commit, judge=judge, discard=attempt.discard, ahead=tuple(attempt.ahead)), revision.tally


def reads_of(state: TableState, condition: Condition, files: Iterable[AddFile]) -> Reads:
    """What a change read that looked at these files for rows that a condition keeps."""

    def reaches(file: AddFile) -> bool:
        return bool(select_files(replace(state, files={file.key: file}), condition))

    return Reads(reaches=reaches, paths=frozenset(canonical(file.path) for file in files))
