"""What writes of Spark need of a table of any kind: the driver's half, before executors run and after."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import pyarrow as pa

from gapless.log.snapshot import is_there
from gapless.model.operation import AppendReport, ChangeReport, OperationId, SequenceId
from gapless.model.properties import OnOverlap
from gapless.runtime.metrics import DUPLICATES
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.tables.delta.write.merge_schema import SchemaMode
from gapless.tables.shared.handle import AtVersion, TableContext
from gapless.tables.shared.landing import AppliedOperation, ChangeOutcome, skip_applied

Change = Literal["append", "overwrite"]
Handle = TypeVar("Handle", bound=AtVersion[Any])
Encoder = TypeVar("Encoder", bound=PartitionEncoder)
Answer = TypeVar("Answer", bound=PartitionOutcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One intended write, as the log must know it."""

    on_overlap: OnOverlap | None = None
    """Of a time-series table, whose policy it is where None."""
    operation: OperationId | None = None
    schema_mode: SchemaMode = "strict"
    """Of a Delta table: what becomes of columns that it lacks."""
    where: str | None = None
    """Of an overwrite of a Delta table: which rows give way, all where None."""
    partitions: str | None = None
    """Of an overwrite of a Delta table: "dynamic" where the partitions give way that rows come for."""


class BatchTarget(Protocol):
    """A table that knows which batches of streams it has."""

    @property
    def url(self) -> str:
        """Where it lies, or what its catalog calls it."""
        ...

    def applied(self) -> Mapping[str, AppliedOperation]:
        """The operations that the newest version has applied, by `operation_key`; moves the handle to that version."""
        ...

    def known_report(self, known: AppliedOperation, operation: SequenceId) -> AppendReport:
        """The report of an operation that the handle's version has applied, which is counted as a duplicate."""
        ...

    def record(self, operation: SequenceId) -> None:
        """Commit an operation that adds no row, unless it was applied."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget(ABC, Generic[Handle, Encoder, Answer]):
    """A table of one kind that executors write to."""

    handle: Handle

    @property
    @abstractmethod
    def context(self) -> TableContext[Any, Any]:
        """What a write that begins now works with; raises as `job_context(…, to_write=True)`."""

    @property
    def url(self) -> str:
        """See `BatchTarget.url`."""
        return self.handle.url

    @abstractmethod
    def kind_of(self, change: Change) -> str:
        """What the log calls the kind of a change."""

    def find_applied(self, delivery: Delivery, change: Change) -> AppendReport | None:
        """The first report of an operation that the newest version has applied already; moves the handle to that version.

        Raises OperationReused where it was another change than this one, UpgradeNeeded, UnsupportedTable, NotSupported for a table in
        memory, StoreError.
        """
        known = self._known(delivery.operation, self.kind_of(change))
        return None if known is None else known.append_report

    def find_applied_change(self, operation: OperationId | None, kind: str) -> ChangeReport | None:
        """`find_applied` of a change of another kind."""
        known = self._known(operation, kind)
        return None if known is None else known.change_report

    def _known(self, operation: OperationId | None, kind: str) -> ChangeOutcome | None:
        context = self.context
        return skip_applied(context.committer, context.refresh(), operation, kind)

    def applied(self) -> Mapping[str, AppliedOperation]:
        """See `BatchTarget.applied`."""
        found: Mapping[str, AppliedOperation] = self.context.refresh().state.applied
        return found

    def known_report(self, known: AppliedOperation, operation: SequenceId) -> AppendReport:
        """See `BatchTarget.known_report`."""
        context = self.context
        context.committer.count(DUPLICATES, 1, self.kind_of("append"))
        version = context.snapshot.version if known.version is None else known.version
        return AppendReport.of(known.tally_of(operation), version, already_applied=True)

    def lies_there(self) -> bool:
        """Whether the version that the handle sees is still in the log there: the table may have been made anew since."""
        known = self.context
        table_format = known.committer.table_format
        return known.env.drive(is_there(table_format, known.snapshot.version, known.snapshot.time_ns))

    @abstractmethod
    def record(self, operation: SequenceId) -> None:
        """See `BatchTarget.record`."""

    @abstractmethod
    def begin(self, given: pa.Schema, delivery: Delivery) -> Encoder:
        """What executors need to write rows of these columns, in types as Spark has them, into the version that the handle sees.

        It is of now: its instant is that of one write. Raises SchemaMismatch, UnsupportedType, NotSupported, StoreError.
        """

    @abstractmethod
    def append(self, delivery: Delivery, encoder: Encoder, outcomes: Iterable[Answer]) -> AppendReport:
        """Commit what executors wrote as one append to the newest version, or nothing.

        Where rows must be looked at again the driver reads back what was staged and appends those. Raises as `table.append`, and what
        executors refused; no staged file is left then, but where the outcome is unknown.
        """

    @abstractmethod
    def overwrite(self, delivery: Delivery, encoder: Encoder, outcomes: Iterable[Answer]) -> ChangeReport:
        """Commit what executors wrote in the place of rows that the table has at that moment. Raises as `append`."""

    @abstractmethod
    def discard(self, encoder: Encoder, outcomes: Sequence[Answer]) -> None:
        """Remove what executors wrote of a batch that is not to be committed, unless a version has it."""

    @abstractmethod
    def spread(self, frame: Any) -> Any:
        """The rows of a DataFrame, those that belong to one file in one task."""
