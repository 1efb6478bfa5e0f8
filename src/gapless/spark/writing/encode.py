"""Executors' writes into a time-series table: segments with their coverage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from gapless.coverage.bucket import index_grid
from gapless.coverage.codec import decode, encode
from gapless.errors import DataError
from gapless.files.ingest.batches import Batches
from gapless.files.sort.run import Run
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.model.index import EntityType
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.runtime.environment import Environment
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.tables.timeseries.read.coverage import CoverageCache
from gapless.tables.timeseries.write.stage import Stager


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(PartitionOutcome):
    """What became of one partition."""

    segments: tuple[Segment, ...] = ()
    coverage: tuple[bytes, ...] = ()
    """What each segment covers, encoded."""

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
class Encoding(PartitionEncoder):
    """Writes the rows of one partition as segments."""

    meta: TableMeta
    """The table, with the schema that it has once it has taken the rows."""
    instant: str
    """When the write began, as file names say it: the same for all partitions."""

    def outcome(self, batches: Iterable[pa.RecordBatch]) -> Outcome:
        """See `PartitionEncoder.outcome`."""
        return self.stored(self._part(batches))

    def taking(self, part: Batches) -> Encoding:
        """The same for the columns of other rows; raises SchemaMismatch and UnsupportedType where the table does not take them."""
        schema = self._stager(Environment(store=self.store)).schema_for((part,))
        return replace(self, meta=replace(self.meta, schema=schema), given=part.schema)

    def stored(self, part: Batches) -> Outcome:
        """See `PartitionEncoder.stored`."""
        schema = self.meta.schema
        assert schema is not None
        types = entity_types(schema, self.meta.index)
        attempt = StagedWrite(Environment(store=self.store), self.instant)
        stager = self._stager(attempt.env)
        try:
            with attempt.discarded_on_error():
                for run in stager.runs((part,), schema):
                    stager.write(self.kept(run, types), attempt, types)
        except DataError as error:
            return Outcome(refusal=error)
        return Outcome.of(attempt, types)

    def kept(self, run: Run, types: tuple[EntityType, ...]) -> Run:  # noqa: ARG002  # of encodings that choose
        """The rows of a run that are written; `types` are those of the entity columns."""
        return run

    def _stager(self, env: Environment) -> Stager:
        grid = index_grid(self.meta.index)
        state = TableState(meta=self.meta, live={})
        return Stager(env=env, state=state, cache=CoverageCache(env.store, grid), on_overlap="allow")
