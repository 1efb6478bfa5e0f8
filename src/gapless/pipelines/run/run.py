"""A run of a pipeline, from its plan to its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from gapless.errors import GaplessError, StoreError
from gapless.model.protocols import Clock
from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.run.backfills import PlannedBackfill, plan_backfills, run_backfill
from gapless.pipelines.run.frames import define_views, frame_of_query
from gapless.pipelines.run.plan import SinkPlan, check_numbering, plan_pipeline
from gapless.pipelines.run.progress import RunProgress
from gapless.pipelines.run.queries import StreamingQueries, pipeline_failed
from gapless.pipelines.run.sinks import BatchSink, batch_sink
from gapless.pipelines.run.spark_connect import check_server, is_connected
from gapless.pipelines.run.state import PipelineState, RunStart, RunState, SinkProgress
from gapless.spark.correct.fill_gaps import GapFill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ASK_S = 1.0
HEARTBEATS = 5
"""After so many looks whether it is to stop, a run says that it lives."""
_LOGGER = logging.getLogger("gapless.pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """What a run did."""

    sinks: Mapping[str, SinkProgress]
    """By the name of the sink."""
    stopped: bool = False
    """Whether it was asked to stop before its end."""
    backfills: tuple[tuple[str, GapFill], ...] = ()
    """What each BACKFILL did, with the name of its sink, in their order."""


@dataclass(slots=True, kw_only=True)
class PipelineRun:
    """Runs a pipeline once. Not for several threads, but for `stop`."""

    pipeline: Pipeline
    name: str
    state: PipelineState
    spark: SparkSession
    clock: Clock
    progress: RunProgress = field(default_factory=RunProgress)
    start: RunStart = field(default_factory=RunStart)
    """What its state says of how it was started; `continuous` is the run's own."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Have it end after its batches. From any thread, or a signal's handler."""
        self._stop.set()

    def run(self, *, continuous: bool) -> PipelineReport:
        """Fill the sinks with all that there is, or until it is stopped.

        Raises before the first row InvalidPipeline, and what the sinks refuse; PipelineFailed where Spark stops at a batch, or what a sink
        raised there; CommitConflict where the pipeline runs already.
        """
        state = self.state.begin(replace(self.start, continuous=continuous))
        status, text = "failed", ""
        heartbeat = threading.Thread(target=self._beat, args=(state,), name=f"gapless pipeline {self.name}", daemon=True)
        heartbeat.start()
        try:
            plans = plan_pipeline(self.spark, self.pipeline, kept=self.state.kept)
            if plans and is_connected(self.spark):
                check_server(self.spark, plans, self.state.document)
            backfills = plan_backfills(self.spark, self.pipeline, plans, continuous=continuous)
            if backfills:
                define_views(self.spark, self.pipeline, streaming=True, kept=self.state.kept)
            self.progress.begin(plan.sink.name for plan in plans)
            app = f"{self.name}@{self.state.incarnation()[:8]}"
            check_numbering(self.pipeline, plans, self.state.numbering())
            self.state.record_numbering({plan.sink.name.casefold(): plan.numbered_by for plan in plans})
            self._run_once(plans, app, state.number)
            self._queries(app).run(plans, continuous=continuous)
            filled = tuple(self._fill(backfills, app))
            status = "stopped" if self._stop.is_set() else "finished"
            return PipelineReport(sinks=self.progress.current(), stopped=self._stop.is_set(), backfills=filled)
        except BaseException as error:
            text = str(error).partition("\n")[0] or type(error).__name__
            raise
        finally:
            self._ended.set()
            heartbeat.join()
            self.state.tell(replace(state, status=status, error=text, sinks=self.progress.current()))  # type: ignore[arg-type]

    def _beat(self, state: RunState) -> None:
        """Say now and then that the run lives, and hear whether it is to stop; until it has ended. In a thread of its own."""
        beats = 0
        while not self._ended.wait(_ASK_S):
            beats += 1
            try:
                if self.state.is_asked_to_stop():
                    self.stop()
                if beats % HEARTBEATS == 0:
                    self.state.tell(replace(state, sinks=self.progress.current()))
            except StoreError as error:
                # What it is about, the sinks and checkpoints, has its own way to the store, and its own errors.
                _LOGGER.warning("the state of the pipeline %s cannot be told: %s", self.name, error)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _run_once(self, plans: list[SinkPlan], app: str, number: int) -> None:
        """Fill the sinks whose queries read only what is there as the run begins."""
        once = [plan for plan in plans if plan.kind == "once"]
        if once:
            define_views(self.spark, self.pipeline, streaming=False)
        for plan in once:
            if self._stop.is_set():
                return
            rows = frame_of_query(self.spark, self.pipeline, plan.query)
            try:
                self._write_once(plan, app, number, rows)
            except GaplessError:
                raise
            except Exception as error:
                raise pipeline_failed(self.name, (plan.sink.name,), error) from error
            self.progress.tell()
        if once:
            define_views(self.spark, self.pipeline, streaming=True, kept=self.state.kept)

    def _write_once(self, plan: SinkPlan, app: str, number: int, rows: DataFrame) -> None:
        if plan.sink.type == "parquet":
            writer = rows.write.mode("overwrite").partitionBy(*(plan.sink.options["partition_by"] or ()))
            writer.parquet(plan.sink.options["location"])
            return
        report = self._sink(plan, app)(rows, number)
        self.progress.change(plan.sink.name, batch=number, more_rows=getattr(report, "rows", 0))

    def _fill(self, backfills: list[PlannedBackfill], app: str) -> Iterator[tuple[str, GapFill]]:
        """Fill gaps, once the sinks have what there is."""
        for one in backfills:
            if self._stop.is_set():
                return
            name = one.plan.sink.name
            filled = run_backfill(one, app)
            if filled.version is not None:
                self.progress.change(name, version=filled.version)
            yield name, filled

    def _queries(self, app: str) -> StreamingQueries:
        return StreamingQueries(
            pipeline=self.pipeline,
            name=self.name,
            state=self.state,
            spark=self.spark,
            clock=self.clock,
            writer=partial(self._sink, app=app),
            progress=self.progress,
            stop=self._stop,
        )

    def _sink(self, plan: SinkPlan, app: str) -> BatchSink:
        write, name = batch_sink(plan.sink, plan.mode, f"{app}/{plan.numbered_by}/{plan.sink.name}"), plan.sink.name
        if plan.kind != "once" and is_connected(self.spark):
            return write  # it goes to the server, without this process's locks

        def noted(frame: DataFrame, batch: int) -> object:
            report = write(frame, batch)
            self.progress.change(name, version=getattr(report, "version", None))
            return report

        return noted
