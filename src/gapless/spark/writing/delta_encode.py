"""Executors' writes into a Delta table: data files with their partition values and statistics."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.errors import DataError
from gapless.files.ingest.batches import Batches
from gapless.formats.delta.actions import AddFile
from gapless.runtime.environment import Environment
from gapless.spark.writing.partition import PartitionEncoder, PartitionOutcome
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.write.landing import FittedRows
from gapless.tables.delta.write.merge_schema import EvolvedVersion
from gapless.tables.delta.write.overwrite import check_matches


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOutcome(PartitionOutcome):
    """What became of one partition."""

    files: tuple[AddFile, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEncoding(PartitionEncoder):
    """Writes the rows of one partition as data files, each with rows of one partition of the table."""

    evolved: EvolvedVersion
    """The version, without its files, with the columns that it has once it has taken the rows."""
    names: frozenset[str]
    """The table's columns that the rows have; others are filled in."""
    instant_ms: int
    """When the write began: the same for all partitions."""
    where: str | None = None
    """Of an overwrite, what every row must satisfy."""

    def stored(self, part: Batches) -> DeltaOutcome:
        """See `PartitionEncoder.stored`."""
        attempt = StagedWrite(Environment(store=self.store), self.instant_ms)
        check = None if self.where is None else check_matches(self.where)
        try:
            with attempt.discarded_on_error():
                staged = FittedRows.of(self.evolved, [part], check).stage(attempt)
        except DataError as error:
            return DeltaOutcome(refusal=error)
        return DeltaOutcome(files=staged.files, rows=staged.rows, written=tuple(attempt.written))
