"""Compaction of Delta tables that outgrow one machine: planned and committed by the driver, written by executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.errors import GaplessError
from gapless.formats.delta.actions import AddFile, TableState
from gapless.model.protocols import Store
from gapless.runtime.environment import Environment
from gapless.spark.setup.executors import parallelism, spread_work
from gapless.spark.setup.job_context import delta_job_context
from gapless.tables.delta.care.compact import BinWriter, DeltaCompactor, WrittenFiles
from gapless.tables.delta.care.compact_plan import DeltaBin
from gapless.tables.delta.files.write import StagedWrite
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.compaction import CompactionReport, GivenUp, WrittenBin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact_delta(spark: SparkSession, handle: DeltaTable, target_size: int | None, where: str | None) -> CompactionReport:
    """`table.compact` of a Delta table, each bin written by a task."""
    delta_job_context(handle.refresh(), to_write=True)
    context = delta_job_context(handle)
    return SparkDeltaCompactor.of(handle, context, None, target_size, where, spark=spark).run(context.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinFiles:
    """What a task made of a bin."""

    files: tuple[AddFile, ...]
    written: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaBinTask:
    """Writes one bin on an executor; picklable."""

    store: Store
    state: TableState
    """The version, without its files."""
    target_size: int
    instant_ms: int

    def write(self, one: DeltaBin) -> BinFiles | GivenUp:
        """What became of it; raises StoreError, and then nothing of it is stored."""
        attempt = StagedWrite(Environment(store=self.store), self.instant_ms)
        made = BinWriter.of(self.store, self.state, self.target_size, None).write(one, attempt)
        return made if isinstance(made, GivenUp) else BinFiles(files=made.files, written=tuple(attempt.written))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDeltaCompactor(DeltaCompactor):
    """Has each bin written by a task."""

    spark: SparkSession

    def room(self) -> int:
        """See `Compaction.room`."""
        return parallelism(self.spark)

    def write(self, state: TableState, bins: Sequence[DeltaBin]) -> Iterator[WrittenFiles | GivenUp]:
        """See `Compaction.write`."""
        env = self.context.env
        bare = TableState(protocol=state.protocol, metadata=state.metadata, domains=state.domains)
        instant_ms = StagedWrite.begin(env).instant_ms
        task = DeltaBinTask(store=env.store, state=bare, target_size=self.target_size, instant_ms=instant_ms)
        for one, answer in zip(bins, spread_work(self.spark, task.write, bins), strict=True):
            if isinstance(answer, GaplessError):
                raise answer
            if isinstance(answer, GivenUp):
                yield answer
            else:
                attempt = StagedWrite(env, instant_ms, written=[*answer.written])
                yield WrittenBin(bin=one, attempt=attempt, files=answer.files)
