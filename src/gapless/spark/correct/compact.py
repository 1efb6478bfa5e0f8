"""Compaction of tables that outgrow one machine: planned and committed by the driver, written by executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless.coverage.bucket import Grid
from gapless.errors import GaplessError
from gapless.files.write.staged_write import StagedWrite
from gapless.formats.timeseries.actions import TableMeta, TableState
from gapless.model.index import EntityType
from gapless.model.protocols import Store
from gapless.model.schema import entity_types
from gapless.runtime.environment import Environment
from gapless.spark.correct.delta_compact import compact_delta
from gapless.spark.setup.executors import parallelism, spread_work
from gapless.spark.setup.job_context import job_context
from gapless.spark.setup.tables import Table, open_to_write, refuse_given
from gapless.spark.writing.encode import Outcome
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.compaction import TARGET_BYTES, CompactionReport, GivenUp, WrittenBin
from gapless.tables.shared.handle import Location
from gapless.tables.timeseries.care.compact import Compactor, SegmentBin, write_bin
from gapless.tables.timeseries.care.compact_plan import Bin, CompactOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(
    spark: SparkSession,
    table: Table | Location,
    *,
    target_size: int | None = None,
    where: str | None = None,
    window: str | int | None = None,
    codec: str | None = None,
    cluster_by: str | Sequence[str] = (),
    resort: bool = False,
) -> CompactionReport:
    """Compact a table as `table.compact` does, by the same plan, each bin written by a task of Spark's.

    Args:
        spark: A session; as many bins are written at once, and committed together, as its executors run tasks.
        table: A table, or the path or URL of one, that executors can reach.
        target_size: Bytes of Parquet that a file shall have, 128 MiB where neither this nor a Delta table says it; this and the others as in
            `table.compact`.
        where: Of a Delta table, only files that may hold a row for which it is true; the others below are of time-series tables.
        window: No segment that is written crosses an edge of these windows.
        codec: Segments of another codec are written again with this one.
        cluster_by: Columns along whose z-order rows shall lie.
        resort: Segments that scans must sort are written again.

    Runs beside appends, changes and readers, and gives up the bins that these overtook. A task that is tried again, or killed, leaves
    files that `table.vacuum` takes away, and each row once. A task takes up to about 1 GiB of its executor's memory beside Spark's own.

    Raises as `table.compact`; NotSupported for a table in memory, InvalidOption for a view. Errors of Spark itself are not touched; what
    was committed until then stands.
    """
    handle = open_to_write(table)
    if isinstance(handle, DeltaTable):
        given = {"window": window, "codec": codec, "cluster_by": cluster_by, "resort": resort or None}
        refuse_given(given, "a Delta table", "Leave it out; table.zorder(columns) lays rows along a curve")
        return compact_delta(spark, handle, target_size, where)
    refuse_given({"where": where}, "a time-series table", "Leave it out")
    context = job_context(handle, to_write=True)
    options = CompactOptions.parse(
        target_size=TARGET_BYTES if target_size is None else target_size,
        window=window,
        codec=codec,
        cluster_by=cluster_by,
        resort=resort,
        index=handle.index,
        schema=handle.schema,
    )
    return _SparkCompactor(context=context, options=options, spark=spark).compact(context.refresh())


@dataclass(frozen=True, slots=True, kw_only=True)
class BinTask:
    """Writes one bin on an executor; picklable."""

    store: Store
    meta: TableMeta
    options: CompactOptions
    grid: Grid
    instant: str

    @property
    def types(self) -> tuple[EntityType, ...]:
        """The types of the entity columns."""
        assert self.meta.schema is not None
        return entity_types(self.meta.schema, self.meta.index)

    def write(self, one: Bin) -> Outcome | GivenUp:
        """What became of it; raises StoreError, and then nothing of it is stored."""
        attempt = StagedWrite(Environment(store=self.store), self.instant)
        made = write_bin(one, attempt, TableState(meta=self.meta, live={}), self.options, self.grid)
        if isinstance(made, GivenUp):
            return made
        return replace(Outcome.of(attempt, self.types), segments=made.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SparkCompactor(Compactor):
    """Has each bin written by a task."""

    spark: SparkSession

    def room(self) -> int:
        return parallelism(self.spark)

    def write(self, state: TableState, bins: Sequence[Bin]) -> Iterator[SegmentBin | GivenUp]:
        env, grid = self.context.env, self.context.grid
        instant = StagedWrite.begin(env).instant
        task = BinTask(store=env.store, meta=state.meta, options=self.options, grid=grid, instant=instant)
        for one, answer in zip(bins, spread_work(self.spark, task.write, [_bare(one) for one in bins]), strict=True):
            if isinstance(answer, GaplessError):
                raise answer
            yield self._written(one, answer, task) if isinstance(answer, Outcome) else answer

    def _written(self, one: Bin, outcome: Outcome, task: BinTask) -> SegmentBin:
        attempt = StagedWrite(self.context.env, task.instant)
        outcome.add_to(attempt, task.types)
        return WrittenBin(bin=one, attempt=attempt, files=outcome.segments, coverage=attempt.coverage)


def _bare(one: Bin) -> Bin:
    """The bin without the coverage of its segments, which no task needs and which may be most of its bytes."""
    return replace(one, files=tuple(replace(segment, coverage=None) for segment in one.segments))
