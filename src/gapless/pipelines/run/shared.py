"""One batch of a source for several sinks: it is read once, and each sink's query is run over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless.model.protocols import Clock
from gapless.pipelines.definitions import Defined, Pipeline
from gapless.pipelines.language.statements import CreateLookupTable, CreateSource
from gapless.pipelines.run.frames import define_views, frame_of_query, is_continuous, lookup_frame, source_frame
from gapless.pipelines.run.plan import SinkPlan
from gapless.pipelines.run.sinks import BatchSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True, kw_only=True)
class SharedBatches:
    """What `foreachBatch` calls for a source that several sinks share.

    A batch that comes again is written again into each sink, which knows by its number whether it has it: where a run died between two of
    them, the second gets its rows, and the first one its rows once.
    """

    pipeline: Pipeline
    source: str
    """In lower case."""
    plans: tuple[SinkPlan, ...]
    sinks: Mapping[str, BatchSink]
    """By the name of the sink."""
    clock: Clock
    _held: dict[str, tuple[float, DataFrame]] = field(default_factory=dict)
    """Rows of lookup tables by name, and when they were read."""
    _read: Pipeline = field(init=False)
    """The pipeline, with what these sinks read alone."""

    def __post_init__(self) -> None:
        """Look once what the sinks read."""
        needed = {one.name.casefold() for plan in self.plans for one in self.pipeline.read_by(plan.query)}
        defined = {name: one for name, one in self.pipeline.defined.items() if name in needed}
        self._read = Pipeline(sql=self.pipeline.sql, defined=defined)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a batch into all sinks, in their order."""
        spark = frame.sparkSession
        held = frame.persist() if len(self.plans) > 1 else frame
        try:
            define_views(spark, self._read, streaming=False, given={self.source: held, **self._static(spark)})
            for plan in self.plans:
                rows = frame_of_query(spark, self.pipeline, plan.query)
                self.sinks[plan.sink.name](rows, batch)
        finally:
            if held is not frame:
                held.unpersist()

    def _static(self, spark: SparkSession) -> dict[str, DataFrame]:
        """What else the queries read: lookup tables, read anew where their time has come, and sources that are read whole."""
        found = {}
        for name, one in self._read.defined.items():
            if isinstance(one.statement, CreateLookupTable):
                found[name] = self._looked_up(spark, name, one)
            elif isinstance(one.statement, CreateSource) and not is_continuous(one):
                found[name] = source_frame(spark, self.pipeline, one, streaming=False)
        return found

    def _looked_up(self, spark: SparkSession, name: str, one: Defined) -> DataFrame:
        now, ttl = self.clock.monotonic(), one.options["ttl"]
        if name in self._held:
            read, frame = self._held[name]
            if ttl is not None and now - read < ttl.total_seconds():
                return frame
        frame = lookup_frame(spark, self.pipeline, one)
        if ttl is not None:
            # Not persisted: Spark would give what it holds to whoever reads the same files later.
            frame = frame.localCheckpoint(eager=True)
        self._held[name] = (now, frame)
        return frame
