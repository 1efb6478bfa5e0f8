"""Changes of a Delta table's rows by executors: planned by the driver, each file's change written by a task, one commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gapless.errors import GaplessError
from gapless.formats.delta.actions import Action, AddFile, CdcFile, Commit, Metadata, Protocol, TableState
from gapless.formats.delta.operation_ids import kind_of_change
from gapless.log.format import Snapshot
from gapless.model.operation import ChangeReport, OperationId, Tally
from gapless.model.protocols import Store
from gapless.runtime.committer import Proposal
from gapless.runtime.environment import Environment
from gapless.spark.setup.executors import parallelism, required, spread_work
from gapless.spark.setup.job_context import delta_job_context
from gapless.spark.setup.packs import packs_of
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.handle import DeltaContext
from gapless.tables.delta.read.scan import select_files
from gapless.tables.delta.table import DeltaTable
from gapless.tables.delta.write.changed_files import RowChangeWriter
from gapless.tables.delta.write.commits import check_may_remove
from gapless.tables.delta.write.rewrite import (
    BaseVersion,
    ChangedRows,
    FileOperation,
    Numbers,
    no_rows,
    propose_change,
    reads_of,
)
from gapless.tables.shared.landing import land_change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
_PATIENCE = 10
"""How many times as long as other changes it may be made anew: executors take minutes where one process takes seconds."""
_INSERTED_ROWS = 1 << 20
"""New rows of a merge that one task writes."""


def change_rows(spark: SparkSession, handle: DeltaTable, change: FileOperation, operation: OperationId | None) -> ChangeReport:
    """Make a change to the newest version with executors, in one commit; anew where another's commit came first and clashes.

    An operation that was applied already changes nothing, and computes nothing. Raises what `change` raises, CommitConflict at the deadline,
    CommitOutcomeUnknown, StoreError; what was written for an attempt that was not committed is removed, but where that is not known.
    """
    context = delta_job_context(handle.refresh(), to_write=True)
    env = dataclasses.replace(context.env, deadline_s=context.env.deadline_s * _PATIENCE)
    context = dataclasses.replace(context, committer=dataclasses.replace(context.committer, env=env))

    def propose(newest: Snapshot[TableState]) -> Proposal[Commit] | Tally:
        delta_job_context(handle, to_write=True)
        check_may_remove(newest.state, change.operation)
        changed = _Change(spark=spark, context=context, change=change).made(newest.state)
        return propose_change(newest, change, operation, changed)

    kind = kind_of_change(change.operation, {})
    return land_change(context.committer, context.snapshot, propose, operation, kind).change_report


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFiles:
    """What one task wrote."""

    actions: tuple[Action, ...]
    tally: Tally
    written: tuple[str, ...]
    unmatched: Numbers | None = None
    """As in `RowChangePlan`, of the task's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanger:
    """Makes a change to some files on an executor; picklable. An attempt that fails removes what it wrote, one that is killed leaves orphans."""

    store: Store
    state: TableState
    """The version, without its files, with the columns that the change's rows are written for."""
    change: FileOperation
    instant_ms: int
    tells_all: bool = False
    """As in `RowChangeWriter`."""

    def changed(self, files: Sequence[AddFile]) -> ChangedFiles:
        """Change rows of these files. Raises what the change raises, CorruptTable, StoreError."""
        state = replace(self.state, files={file.key: file for file in files})
        attempt, before = self._begun(state)
        with attempt.discarded_on_error():
            plan = self.change.decide(before)
            writer = RowChangeWriter(state=state, after=state, reader=before.reader, attempt=attempt, tells_all=self.tells_all)
            actions = writer.run(plan.affected, no_rows)
        return ChangedFiles(actions=actions, tally=writer.tally, written=tuple(attempt.written), unmatched=plan.unmatched)

    def inserted(self, numbers: Numbers) -> ChangedFiles:
        """Write the rows that a merge makes of these rows of its source. Raises as `changed`."""
        attempt, before = self._begun(self.state)
        with attempt.discarded_on_error():
            writer = RowChangeWriter(
                state=self.state, after=self.state, reader=before.reader, attempt=attempt, tells_all=self.tells_all
            )
            actions = writer.run((), partial(self.change.inserts, before, numbers))
        return ChangedFiles(actions=actions, tally=writer.tally, written=tuple(attempt.written))

    def _begun(self, state: TableState) -> tuple[StagedWrite, BaseVersion]:
        reader = FileReader.of(self.store, state.metadata)
        attempt = StagedWrite(Environment(store=self.store), self.instant_ms)
        return attempt, BaseVersion(state=state, after=state, reader=reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One change on its way."""

    spark: SparkSession
    context: DeltaContext
    change: FileOperation

    def made(self, state: TableState) -> ChangedRows:
        """The change, written for one version."""
        env, after = self.context.env, self.change.fit(state)
        attempt = StagedWrite.begin(env)
        before = BaseVersion(state=state, after=after, reader=FileReader.of(env.store, after.metadata))
        condition = self.change.reaches(before)
        files = [one.file for one in select_files(after, condition)]
        # Executors look at the files that they are given.
        bare = TableState(protocol=after.protocol, metadata=after.metadata, domains=after.domains)
        # A commit's change files are all that readers of its change feed look at, whichever task wrote them.
        changer = FileChanger(
            store=env.store, state=bare, change=self.change, instant_ms=attempt.instant_ms, tells_all=len(files) > 1
        )
        packs = packs_of(files, parallelism(self.spark) if len(files) > 1 else 1)
        # Without files too, what is wrong with the change is found, and what is new.
        done = self._spread(changer.changed, packs or [()], attempt)
        told = any(isinstance(action, CdcFile) for one in done for action in one.actions)
        with attempt.discarded_on_error():
            unmatched = _in_all([one.unmatched for one in done])
        if unmatched is not None and len(unmatched):
            parts = np.array_split(unmatched, -(-len(unmatched) // _INSERTED_ROWS))
            done += self._spread(replace(changer, tells_all=told).inserted, parts, attempt)
        actions = (*_new_metadata(state, after), *(action for one in done for action in one.actions))
        tally = reduce(_added, (one.tally for one in done))
        return ChangedRows(
            attempt, actions if any(one.actions for one in done) else (), tally, reads_of(after, condition, files)
        )

    def _spread(self, work: Callable[[Task], ChangedFiles], tasks: Sequence[Task], attempt: StagedWrite) -> list[ChangedFiles]:
        """What tasks made, put into the attempt; raises what one of them raised, with nothing of it stored any more."""
        with attempt.discarded_on_error():
            answers: list[ChangedFiles | GaplessError] = spread_work(self.spark, work, tasks)
            for answer in answers:
                attempt.written += answer.written if isinstance(answer, ChangedFiles) else ()
            return required(answers)


def _in_all(unmatched: Iterable[Numbers | None]) -> Numbers | None:
    """The numbers that all tasks tell of; None where none tells of any."""
    known = [one for one in unmatched if one is not None]
    return reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), known) if known else None


def _new_metadata(before: TableState, after: TableState) -> tuple[Protocol | Metadata, ...]:
    protocol = (after.protocol,) if after.protocol != before.protocol else ()
    return (*protocol, after.metadata) if after.metadata != before.metadata else protocol


def _added(one: Tally, other: Tally) -> Tally:
    names = [field.name for field in dataclasses.fields(Tally)]
    return Tally(**{name: getattr(one, name) + getattr(other, name) for name in names})
