"""Executors' part of a change that the driver decides about: rows as Parquet beside an Iceberg or Hudi table, where no reader looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from gapless.connect.sinks.staged_rows import RowFiles
from gapless.errors import DataError
from gapless.files.ingest.batches import Batches
from gapless.files.write.staged_files import StagedFiles
from gapless.runtime.environment import Environment
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome, placed
from gapless.tables.shared.prepared import PreparedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome(PartitionOutcome):
    """What became of one partition."""

    files: tuple[PreparedFile, ...] = ()
    checksums: tuple[str, ...] = ()
    """Of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEncoding(PartitionEncoder):
    """Stages the rows of one partition."""

    app: str
    """Whose prepared commits they lie beside."""
    check: Callable[[pa.Table], pa.Table]
    """What is to be stored of rows that the table takes; raises DataError for others."""
    columns: list[dict[str, list[str]]]
    """What the driver says of the table's columns; see `told_columns`."""
    held_bytes: int
    """Arrow memory of the rows of one file."""

    def stored(self, part: Batches) -> RowOutcome:
        """See `PartitionEncoder.stored`."""
        rows = RowFiles(app=self.app, check=self.check, attempt=StagedFiles(Environment(store=self.store)))
        try:
            with rows.attempt.discarded_on_error():
                for first, chunk in _chunks(part, self.held_bytes):
                    with placed(part.source, first):
                        fitted = rows.fit(chunk)
                    rows.add(fitted, close=True)
        except DataError as error:
            return RowOutcome(refusal=error)
        return RowOutcome(written=tuple(rows.attempt.written), files=tuple(rows.files), checksums=tuple(rows.checksums))


def _chunks(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows in tables of about so many bytes, each with the number of its first row."""
    held, size, first = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            table = pa.Table.from_batches(held)
            yield first, table
            held, size, first = [], 0, first + table.num_rows
    if sum(batch.num_rows for batch in held):
        yield first, pa.Table.from_batches(held)
