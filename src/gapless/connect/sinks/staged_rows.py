"""Rows of a change that can only be decided against the newest version (all but appends): staged as Parquet until it is finalized."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.connect.sinks.staged_columns import NamesNow, TableColumns
from gapless.errors import CorruptTable, ObjectNotFound
from gapless.files.ingest.batches import Batches
from gapless.files.pages.footer import checksum
from gapless.files.write.staged_files import StagedFiles
from gapless.model.operation import SequenceId
from gapless.model.protocols import Store
from gapless.runtime.committer import calling_on_error
from gapless.tables.shared.prepared import PreparedCommit, PreparedFile, folder_of, missing_files, unreadable_files

if TYPE_CHECKING:
    from gapless.connect.sinks.opened_table import SinkTable


@dataclass(slots=True, kw_only=True)
class RowFiles:
    """Files of rows beside the prepared commits of a sink, where no reader of the table looks and no vacuum takes them."""

    app: str
    check: Callable[[pa.Table], pa.Table]
    """What is to be stored of rows that the table takes; raises DataError for others."""
    attempt: StagedFiles
    files: list[PreparedFile] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """The rows as they came, if the table takes them. Raises DataError."""
        return list(self.check(rows).to_batches())

    def add(self, rows: Sequence[pa.RecordBatch], *, close: bool) -> Callable[[], None]:  # noqa: ARG002  # each file is finished at once
        """Write rows as one more file, which `finalize` holds whole. Gives what undoes it; see `Epoch.add`. Raises StoreError."""
        undo = partial(self._undo, len(self.files))
        if rows:
            table, onto = pa.Table.from_batches(rows), pa.BufferOutputStream()
            pq.write_table(table, onto, store_schema=True, compression="zstd")
            data = onto.getvalue()
            path = f"{folder_of(self.app)}/rows-{self.attempt.env.ids.uuid()}.parquet"
            with calling_on_error(undo):
                self.attempt.put(path, memoryview(data))
            self.files.append(PreparedFile(path=path, rows=table.num_rows, size=data.size))
            self.checksums.append(checksum(memoryview(data)))
        return undo

    def _undo(self, mark: int) -> None:
        self.attempt.undo(mark)
        del self.files[mark:], self.checksums[mark:]


@dataclass(slots=True, kw_only=True)
class RowsEpoch(RowFiles):
    """The rows of one checkpoint, staged."""

    table: SinkTable
    columns: list[dict[str, list[str]]]
    """What the prepared commit says of the table's columns; see `told_columns`."""

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet."""
        staged = {"checksums": list(self.checksums), "columns": self.columns}
        return prepared_of(self.table, operation, change, self.files, staged, attempt)


def prepared_of(
    table: SinkTable,
    operation: SequenceId,
    change: Mapping[str, Any],
    files: Sequence[PreparedFile],
    staged: Mapping[str, Any],
    attempt: str,
) -> PreparedCommit:
    """What says all of a change of an opened table; not stored."""
    return PreparedCommit(
        kind=table.kind,
        table=table.env.store.url,
        table_id=table.table_id,
        operation=operation,
        change=change,
        files=tuple(files),
        staged=staged,
        prepared_ns=table.env.clock.now_ns(),
        attempt=attempt,
    )


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged rows of a prepared commit, read file by file, under the names that their columns have in a version of the table."""

    store: Store
    prepared: PreparedCommit
    names: NamesNow

    @classmethod
    def of(cls, store: Store, prepared: PreparedCommit, table: TableColumns) -> StagedRows:
        """For a table of these columns. Raises CorruptTable where the document makes no sense."""
        try:
            return cls(store, prepared, NamesNow.of(prepared.staged.get("columns", ()), table))
        except (KeyError, TypeError, AttributeError) as error:
            raise unreadable_files(prepared, "columns", error) from error

    @property
    def change(self) -> dict[str, Any]:
        """What is to be done with the rows, in these names. Raises SchemaMismatch where a column that it names is gone."""
        return self.names.change(self.prepared.change)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of each file in the order in which they came, in some columns or all. Raises PreparedFilesMissing, CorruptTable where a
        file is not what was written, SchemaMismatch where the table lacks a column by now, StoreError.
        """
        for file, told in zip(self.prepared.files, self.prepared.staged["checksums"], strict=True):
            try:
                data = self.store.get(file.path)
            except ObjectNotFound:  # since it was looked for
                raise missing_files(self.prepared, [file.path]) from None
            if checksum(data) != told:
                raise CorruptTable(
                    f"{file.path} does not hold the rows that were prepared",
                    why="Its checksum is another one: it was altered, or damaged",
                    fix="Abort the prepared commit, and send its rows again from the source",
                    path=file.path,
                )
            then = None if columns is None else self.names.then(columns)
            yield self.names.rows(pq.read_table(pa.BufferReader(data), columns=then))

    def table(self) -> pa.Table:
        """All rows in memory."""
        return pa.concat_tables(self.tables())

    def batches(self) -> list[Batches]:
        """The rows as one part of an input, which is read file by file, again and again; none where no rows came."""
        if not self.prepared.files:
            return []
        schema = next(self.tables()).schema
        return [
            Batches(
                source="the prepared rows",
                schema=schema,
                read=lambda: (batch for rows in self.tables() for batch in rows.to_batches()),
                rows_hint=self.prepared.records_written,
            )
        ]
