"""Batches of Spark into Iceberg and Hudi tables: what executors store, and one commit that says which batch it is.

The tables are those of `gapless.connect.sink`: opened, made, evolved and committed to as it does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import pyarrow as pa

from gapless.connect.sinks.applying import apply_staged
from gapless.connect.sinks.opened_table import SinkTable
from gapless.connect.sinks.prepared_checks import check_table
from gapless.connect.sinks.refusals import refuse_old
from gapless.connect.sinks.row_check import RowCheck
from gapless.connect.sinks.staged_columns import told_columns
from gapless.connect.sinks.staged_rows import StagedRows, prepared_of
from gapless.errors import GaplessError
from gapless.files.write.staged_files import StagedFiles
from gapless.model.operation import AppendReport, SequenceId
from gapless.model.protocols import is_old
from gapless.runtime.metrics import DUPLICATES
from gapless.spark.reading.arrow_columns import arriving_schema
from gapless.spark.setup.job_context import check_reachable
from gapless.spark.writing.append import written
from gapless.spark.writing.distinct import check_distinct
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.spark.writing.staged_encode import RowEncoding, RowOutcome
from gapless.spark.writing.target import BatchTarget
from gapless.tables.shared.landing import AppliedOperation, ChangeOutcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from gapless.connect.sinks.table.iceberg_table import IcebergSinkTable

Encoder = TypeVar("Encoder", bound=PartitionEncoder)
Answer = TypeVar("Answer", bound=PartitionOutcome)


class BatchSinkTable(SinkTable, Protocol):
    """A table of a sink that tells which operations it knows, and commits one without rows."""

    def applied(self) -> Mapping[str, AppliedOperation]:
        """The last operation of each app in the newest version, by `operation_key`; moves to that version. Raises StoreError."""
        ...

    def record(self, operation: SequenceId, mode: str) -> ChangeOutcome:
        """Commit an operation of this mode without rows, unless it is known."""
        ...

    def while_checked(self, check: Callable[[], None]) -> AbstractContextManager[None]:
        """Within it, `check` is called for each version that a commit is made to, and may raise."""
        ...


Table = TypeVar("Table", bound=BatchSinkTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTarget(BatchTarget, ABC, Generic[Table, Encoder, Answer]):
    """A table of a sink, for batches that make one kind of change."""

    table: Table
    change: Mapping[str, Any]
    """The `mode` and its options, as a prepared commit has them."""
    held_bytes: int
    """Arrow memory of rows that a task holds."""

    @property
    def mode(self) -> str:
        """What becomes of the rows: "append", "overwrite" or "upsert"."""
        return str(self.change["mode"])

    @property
    def url(self) -> str:
        """See `BatchTarget.url`."""
        return self.table.place

    def applied(self) -> Mapping[str, AppliedOperation]:
        """See `BatchTarget.applied`."""
        return self.table.applied()

    def known_report(self, known: AppliedOperation, operation: SequenceId) -> AppendReport:
        """See `BatchTarget.known_report`."""
        DUPLICATES.add(1, self.table.kind, self.mode, self.table.env.store.url)
        version = self.table.version if known.version is None else known.version
        return AppendReport.of(known.tally_of(operation), version, already_applied=True)

    def record(self, operation: SequenceId) -> None:
        """See `BatchTarget.record`."""
        self.table.record(operation, "append")

    def open(self, given: pa.Schema) -> None:
        """Open the table at its newest version for rows of these columns, as Spark has them; it is made, or its columns are changed, where the
        options say so. Raises as `TableSink.initialize`, and NotSupported for a table in memory.
        """
        schema = arriving_schema(given, None)
        self.table.open(schema, self.change)
        check_reachable(self.table.env.store.url)
        self.table.check(schema, self.change)

    def write(self, frame: DataFrame, given: pa.Schema, operation: SequenceId) -> ChangeOutcome:
        """Commit a batch that the table does not know; `given` are its columns, as for `open`. Raises DataError for a row that it does not take, DuplicateKey, CommitConflict,
        CommitOutcomeUnknown, StoreError; what was stored and is not committed then is removed, or left for the sweep of the format.
        """
        env = self.table.env
        begun_ns = env.clock.now_ns()
        encoder = self.begin(arriving_schema(given, self.table.columns.schema), operation)
        outcomes: list[Answer] = written(frame, encoder)  # type: ignore[assignment]  # what this encoder answers
        refusal: GaplessError | None = next((one.refusal for one in outcomes if one.refusal is not None), None)
        if refusal is None and is_old(env.clock.now_ns(), begun_ns):
            refusal = refuse_old(f"batch {operation.sequence} of {operation.app}", self.table.version)
        if refusal is not None:
            self.discard(path for one in outcomes for path in one.written)
            raise refusal
        return self.commit(operation, encoder, outcomes)

    def discard(self, paths: Iterable[str]) -> None:
        """Remove files that no version names or will name."""
        StagedFiles(self.table.env, written=[*paths]).discard()

    @abstractmethod
    def begin(self, given: pa.Schema, operation: SequenceId) -> Encoder:
        """What executors need to store rows of these columns."""

    @abstractmethod
    def commit(self, operation: SequenceId, encoder: Encoder, outcomes: Sequence[Answer]) -> ChangeOutcome:
        """Commit what executors stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTarget(SinkTarget[BatchSinkTable, RowEncoding, RowOutcome]):
    """A table into which the driver writes the rows that executors staged, once it knows the newest version."""

    def begin(self, given: pa.Schema, operation: SequenceId) -> RowEncoding:
        """See `SinkTarget.begin`."""
        table = self.table
        return RowEncoding(
            store=table.env.store,
            given=given,
            app=operation.app,
            check=table.row_check(given, self.change),
            columns=told_columns(given, table.columns),
            held_bytes=self.held_bytes,
        )

    def commit(self, operation: SequenceId, encoder: RowEncoding, outcomes: Sequence[RowOutcome]) -> ChangeOutcome:
        """See `SinkTarget.commit`. In memory are the columns of the key of all rows of the batch, and the rows that stand."""
        table, files = self.table, [file for one in outcomes for file in one.files]
        checksums = [told for one in outcomes for told in one.checksums]
        try:
            if not files and self.mode != "overwrite":
                return table.record(operation, self.mode)
            staged = {"checksums": checksums, "columns": encoder.columns}
            prepared = prepared_of(table, operation, self.change, files, staged, table.env.ids.uuid())
            self._check_distinct(encoder, StagedRows.of(table.env.store, prepared, table.columns))

            def checked(columns: Callable[[], None]) -> AbstractContextManager[None]:
                def check() -> None:
                    check_table(prepared, table)
                    columns()

                return table.while_checked(check)

            return apply_staged(table, prepared, checked)
        finally:
            # Files of the table are others.
            self.discard(file.path for file in files)

    def _check_distinct(self, encoder: RowEncoding, staged: StagedRows) -> None:
        """Raise DuplicateKey where rows of an upsert share a key, and nothing says which is newer."""
        change = encoder.check.change if isinstance(encoder.check, RowCheck) else None
        if change is not None and change.key and not change.order_by:
            check_distinct(pa.concat_tables(staged.tables(change.key)), change.key)


def sink_target(table: SinkTable, change: Mapping[str, Any], held_bytes: int) -> SinkTarget[Any, Any, Any]:
    """How batches of Spark make a change of an Iceberg or Hudi table."""
    if table.kind == "iceberg" and change["mode"] != "upsert":
        # It loads pyiceberg.
        from gapless.spark.writing.iceberg_target import IcebergTarget

        return IcebergTarget(table=cast("IcebergSinkTable", table), change=change, held_bytes=held_bytes)
    return RowsTarget(table=cast("BatchSinkTable", table), change=change, held_bytes=held_bytes)
