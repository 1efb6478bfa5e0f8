"""Rows of a change that can only be decided against the newest version (all but appends): staged as Parquet until it is finalized."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, ObjectNotFound, StoreError
from gapless.files.ingest.batches import Batches
from gapless.files.pages.footer import checksum
from gapless.model.operation import SequenceId
from gapless.model.protocols import Store
from gapless.tables.shared.prepared import PreparedCommit, PreparedFile, folder_of, missing_files

if TYPE_CHECKING:
    from gapless.connect.sinks.opened_table import SinkTable


@dataclass(slots=True, kw_only=True)
class RowsEpoch:
    """Rows beside the prepared commits of a sink, where no reader of the table looks and no vacuum takes them."""

    table: SinkTable
    app: str
    check: Callable[[pa.Table], pa.Table]
    """What is to be stored of rows that the table takes; raises DataError for others."""
    files: list[PreparedFile] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)

    def fit(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """The rows as they came, if the table takes them. Raises DataError."""
        return list(self.check(rows).to_batches())

    def add(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Store rows as one more file. Raises StoreError."""
        table, onto = pa.Table.from_batches(rows), pa.BufferOutputStream()
        pq.write_table(table, onto, store_schema=True, compression="zstd")
        data = onto.getvalue()
        path = f"{folder_of(self.app)}/rows-{self.table.env.ids.uuid()}.parquet"
        try:
            self.table.env.store.put(path, memoryview(data), mode="overwrite")
        except BaseException:
            with contextlib.suppress(StoreError):
                self.table.env.store.delete(path)
            raise
        self.files.append(PreparedFile(path=path, rows=table.num_rows, size=data.size))
        self.checksums.append(checksum(memoryview(data)))

    def prepared(self, operation: SequenceId, change: Mapping[str, Any], attempt: str) -> PreparedCommit:
        """The document that says all; not stored yet."""
        env = self.table.env
        return PreparedCommit(
            kind=self.table.kind,
            table=env.store.url,
            table_id=self.table.table_id,
            operation=operation,
            change=change,
            files=tuple(self.files),
            staged={"checksums": list(self.checksums)},
            prepared_ns=env.clock.now_ns(),
            attempt=attempt,
        )

    def discard(self) -> None:
        """Remove what was stored."""
        for file in self.files:
            self.table.env.store.delete(file.path)


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The staged rows of a prepared commit, read file by file."""

    store: Store
    prepared: PreparedCommit

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of each file in the order in which they came, in some columns or all. Raises PreparedFilesMissing, CorruptTable where a
        file is not what was written, StoreError.
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
            yield pq.read_table(pa.BufferReader(data), columns=None if columns is None else list(columns))

    def table(self) -> pa.Table:
        """All rows in memory."""
        return pa.concat_tables(self.tables())

    def batches(self) -> Batches:
        """The rows as one part of an input, which is read file by file, again and again."""
        schema = next(self.tables()).schema
        return Batches(
            source="the prepared rows",
            schema=schema,
            read=lambda: (batch for rows in self.tables() for batch in rows.to_batches()),
            rows_hint=self.prepared.records_written,
        )
