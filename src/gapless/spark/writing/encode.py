"""What executors do: a partition's rows in, segments out, and what the log needs to know of them back to the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from gapless.coverage.bucket import index_grid
from gapless.coverage.codec import decode, encode
from gapless.errors import DataError, InvalidValue
from gapless.files.ingest.batches import Batches, checked_values, read_once
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.model.convert import Misfit, cast_leaves
from gapless.model.index import EntityType
from gapless.model.protocols import Store
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.write.stage import Stager

RESULT = "outcome binary"
"""The schema, for Spark, of what a partition answers: one pickled `Outcome`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one partition."""

    segments: tuple[Segment, ...] = ()
    coverage: tuple[bytes, ...] = ()
    """What each segment covers, encoded."""
    written: tuple[str, ...] = ()
    """All objects, relative to the table root."""
    refusal: DataError | None = None
    """Why its rows cannot be kept; nothing of it is stored then."""

    @classmethod
    def of(cls, attempt: StagedWrite, types: tuple[EntityType, ...]) -> Outcome:
        """What an executor's attempt has written; `types` are those of the entity columns."""
        coverage = tuple(encode(one, types) for one in attempt.coverage)
        return cls(segments=tuple(attempt.segments), coverage=coverage, written=tuple(attempt.written))

    def add_to(self, attempt: StagedWrite, types: tuple[EntityType, ...]) -> None:
        """Put what was written into the driver's attempt."""
        attempt.written += self.written
        attempt.segments += self.segments
        attempt.coverage += [decode(data, types) for data in self.coverage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Writes the rows of one partition; picklable. An attempt that fails removes what it wrote, one that is killed leaves orphans."""

    store: Store
    meta: TableMeta
    """The table, with the schema that it has once it has taken the rows."""
    given: pa.Schema
    """The columns of the rows, in types that the table takes."""
    instant: str
    """When the write began, as file names say it: the same for all partitions."""

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """For `DataFrame.mapInArrow`: one row of `RESULT`."""
        # Rows that are wrong stay so when they are tried again: an answer, while whatever else is raised has Spark try again.
        yield pa.record_batch({"outcome": pa.array([pickle.dumps(self.outcome(batches))], pa.binary())})

    def taking(self, part: Batches) -> Encoding:
        """The same for the columns of other rows; raises SchemaMismatch and UnsupportedType where the table does not take them."""
        schema = self._stager(Environment(store=self.store)).schema_for((part,))
        return replace(self, meta=replace(self.meta, schema=schema), given=part.schema)

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        """Store the rows of a partition; raises StoreError and whatever `batches` raise."""
        return self.stored(self._part(batches))

    def stored(self, part: Batches) -> Outcome:
        """Store rows that have the columns `given`; raises StoreError and whatever reading them raises."""
        schema = self.meta.schema
        assert schema is not None
        types = entity_types(schema, self.meta.index)
        attempt = StagedWrite(Environment(store=self.store), self.instant)
        stager = self._stager(attempt.env)
        try:
            with attempt.discarded_on_error():
                for run in stager.runs((part,), schema):
                    stager.write(run, attempt, types)
        except DataError as error:
            return Outcome(refusal=error)
        return Outcome.of(attempt, types)

    def _stager(self, env: Environment) -> Stager:
        grid = index_grid(self.meta.index)
        state = TableState(meta=self.meta, live={})
        return Stager(env=env, state=state, cache=CoverageCache(env.store, grid), on_overlap="allow")

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
