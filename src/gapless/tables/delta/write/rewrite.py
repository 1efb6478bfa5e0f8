"""Commit row changes of a Delta table, made again on a newer version where another commit came first and conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.formats.delta.actions import Action, AddFile, Commit, Json, TableState
from gapless.formats.delta.conflict import CommitPredicate, Reads
from gapless.formats.delta.file_path import canonical
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.log.format import Snapshot
from gapless.model.operation import ChangeReport, OperationId, Tally, parse_operation
from gapless.runtime.committer import Proposal
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.read.scan import select_files
from gapless.tables.delta.write.changed_files import RowChangeWriter, TellOrder
from gapless.tables.delta.write.commits import check_may_remove, new_commit
from gapless.tables.delta.write.row_edit import AffectedFile
from gapless.tables.shared.landing import land_change
from gapless.tables.shared.scan import Condition

Numbers = npt.NDArray[np.int64]


def no_rows() -> Iterable[pa.RecordBatch]:
    """No rows: for a change that inserts none."""
    return ()


def none() -> int:
    """No row was left out."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseVersion:
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
class RowChangePlan:
    """What a change does to one version."""

    affected: Iterable[AffectedFile]
    """File by file, in the order in which they are gone through; may be decided on the way."""
    inserts: Callable[[], Iterable[pa.RecordBatch]] = no_rows
    """The rows that are new, in the table's columns and types; asked for after the last affected file."""
    skipped: Callable[[], int] = none
    """How many rows of the input were left out; asked for after the last insert."""
    reads: Reads
    order: TellOrder | None = None
    """In which order the change feed tells its rows; see `TellOrder`."""
    unmatched: Numbers | None = None
    """The numbers of a merge's source rows that belong to no row; None for another change."""


class RowOperation(Protocol):
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
        """The version with the metadata that its rows need; the version itself where those fit. Raises CallError where the call is wrong."""
        ...

    def decide(self, before: BaseVersion) -> RowChangePlan:
        """What it does to a version. Raises DataError where the input does not fit."""
        ...


class FileOperation(RowOperation, Protocol):
    """One intended change of rows, which can be made to some of the files that it reaches by themselves."""

    def reaches(self, before: BaseVersion) -> Condition:
        """What is true of every row that it may touch, maybe of others too. Raises as `decide`."""
        ...

    def inserts(self, before: BaseVersion, unmatched: Numbers) -> Iterable[pa.RecordBatch]:
        """The rows that are new, of a merge's source rows with these numbers; asked for where `decide` tells of such. Raises as `decide`."""
        ...


class RowOperations(DeltaHandle):
    """What changes of rows share."""

    def _change_rows(self, change: RowOperation, operation_id: object) -> ChangeReport:
        """Make a change to the newest version, in one commit; anew where another's commit came first and clashes.

        Raises CommitConflict at the deadline, CommitOutcomeUnknown, StoreError, and what `change` raises.
        """
        operation = parse_operation(operation_id)
        committer = self._committer
        snapshot = committer.refresh(self._snapshot)
        self._check_writable()

        def propose(newest: Snapshot[TableState]) -> Proposal[Commit] | Tally:
            return self._proposed(newest, change, operation)

        outcome = land_change(committer, snapshot, propose, operation, kind_of_change(change.operation, {}))
        return self._with_publications(outcome.change_report)

    def _proposed(
        self, newest: Snapshot[TableState], change: RowOperation, operation: OperationId | None
    ) -> Proposal[Commit] | Tally:
        self._check_writable()
        state = newest.state
        check_may_remove(state, change.operation)
        after = change.fit(state)
        attempt = StagedWrite.begin(self._env)
        with attempt.discarded_on_error():
            reader = FileReader.of(self._env.store, after.metadata)
            changes = change.decide(BaseVersion(state=state, after=after, reader=reader))
            rewrite = RowChangeWriter(state=state, after=after, reader=reader, attempt=attempt, order=changes.order)
            actions = rewrite.run(changes.affected, changes.inserts)
        tally = replace(rewrite.tally, skipped_rows=changes.skipped())
        return propose_change(newest, change, operation, ChangedRows(attempt, actions, tally, changes.reads))


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A change of rows, written for one version."""

    attempt: StagedWrite
    actions: tuple[Action, ...]
    tally: Tally
    reads: Reads


def propose_change(
    newest: Snapshot[TableState], change: RowOperation, operation: OperationId | None, changed: ChangedRows
) -> Proposal[Commit] | Tally:
    """The commit of a change that was written for a version; what it counts, where there is nothing to say."""
    attempt, tally = changed.attempt, changed.tally
    if not changed.actions and operation is None:
        return tally
    return Proposal(
        commit=new_commit(
            attempt.env,
            newest,
            change.operation,
            changed.actions,
            parameters=change.parameters,
            tally=tally,
            operation_id=operation,
        ),
        check_conflict=CommitPredicate(state=newest.state, reads=changed.reads).check_conflict,
        tally=tally,
        discard=attempt.discard,
        deferred=tuple(attempt.deferred),
    )


def change_rows(table: RowOperations, change: RowOperation, operation_id: object) -> ChangeReport:
    """Make a change to the newest version of a table, in one commit, for jobs outside of a handle; raises as a method of the handle."""
    return table._change_rows(change, operation_id)  # noqa: SLF001  # of the class above


def reads_of(state: TableState, condition: Condition, files: Iterable[AddFile]) -> Reads:
    """What a change read that looked at these files for rows that a condition keeps."""

    def reaches(file: AddFile) -> bool:
        return bool(select_files(replace(state, files={file.key: file}), condition))

    return Reads(reaches=reaches, paths=frozenset(canonical(file.path) for file in files))
