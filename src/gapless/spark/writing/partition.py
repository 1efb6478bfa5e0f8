"""What executors do: a partition's rows in, data files out, and what the log needs to know of them back to the driver."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.errors import DataError, InvalidValue
from gapless.files.ingest.batches import Batches, checked_values, read_once
from gapless.model.convert import Misfit, cast_leaves
from gapless.model.protocols import Store

RESULT = "outcome binary"
"""The schema, for Spark, of what a partition answers: one pickled `PartitionOutcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """What became of one partition; each kind of table says what it must know of the files besides."""

    written: tuple[str, ...] = ()
    """All objects, relative to the table root."""
    refusal: DataError | None = None
    """Why its rows cannot be kept; nothing of it is stored then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEncoder(ABC):
    """Writes the rows of one partition; picklable. An attempt that fails removes what it wrote, one that is killed leaves orphans."""

    store: Store
    given: pa.Schema
    """The columns of the rows, in types that the table takes."""

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `DataFrame.mapInArrow`: one row of `RESULT`."""
        # Rows that are wrong stay so when they are tried again: an answer, while whatever else is raised has Spark try again.
        yield pa.record_batch({"outcome": pa.array([pickle.dumps(self.outcome(batches))], pa.binary())})

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> PartitionOutcome:
        """Store the rows of a partition; raises StoreError and whatever `batches` raise."""
        return self.stored(self._part(batches))

    @abstractmethod
    def stored(self, part: Batches) -> PartitionOutcome:
        """Store rows that have the columns `given`; raises StoreError and whatever reading them raises."""

    def _part(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        source = f"partition {context.partitionId() if context else 0} of the DataFrame"
        # Spark's strings may hold bytes that are not UTF-8.
        return checked_values(Batches(source=source, schema=self.given, read=read_once(source, self._fitting(batches, source))))

    def _fitting(self, batches: Iterable[pa.RecordBatch], source: str) -> Iterator[pa.RecordBatch]:
        """The rows in the types of `given`; raises InvalidValue for a value that its type does not hold."""
        row = 0
        for batch in batches:
            columns = [_cast(column, field, row, source) for column, field in zip(batch.columns, self.given, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.given)
            row += batch.num_rows


@contextmanager
def placed(source: str, first_row: int = 0) -> Iterator[None]:
    """Errors about rows say which rows these are, if those that are looked at begin with this one of the source."""
    try:
        yield
    except DataError as error:
        counted = f", counted from its row {first_row}" if first_row else ""
        raise type(error)(f"{source}{counted}: {error.what}", why=error.why, fix=error.fix, **error.facts) from error


def _cast(column: pa.Array, field: pa.Field, first_row: int, source: str) -> pa.Array:
    try:
        return column if column.type == field.type else cast_leaves(column, field.type)
    except Misfit as error:
        row = next((row for row in range(len(column)) if not _fits(column.slice(row, 1), field.type)), 0)
        raise InvalidValue(
            f"{source}: column {field.name!r} cannot keep the value {column[row].as_py()!r} of row {first_row + row}",
            why=f"As {field.type}: {error}",
            fix="Change the value, or make a table whose column holds it",
            column=field.name,
            row=first_row + row,
            value=column[row].as_py(),
        ) from error


def _fits(column: pa.Array, type_: pa.DataType) -> bool:
    try:
        cast_leaves(column, type_)
    except Misfit:
        return False
    return True
