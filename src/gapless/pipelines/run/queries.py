"""The streaming queries of a run: started, followed until they end, and counted."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, PipelineFailed
from gapless.model.protocols import Clock
from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.language.statements import CreateSource
from gapless.pipelines.run.connected import CONNECTED
from gapless.pipelines.run.frames import frame_of_query, refused_at
from gapless.pipelines.run.plan import SinkPlan
from gapless.pipelines.run.progress import RunProgress, waiting_in
from gapless.pipelines.run.shared import SharedBatches
from gapless.pipelines.run.sinks import SPARK_MODES, BatchSink
from gapless.pipelines.run.spark_connect import is_connected, query_session, told_of_server
from gapless.pipelines.run.state import PipelineState
from gapless.spark.reading.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_S = 0.1
_LOST_REPORT = re.compile(r'NullPointerException|the return value of "scala\.Option\.get\(\)" is null')
"""What Spark says of an error in its own report of a batch: the class of it is not in its text, or is."""


@dataclass(slots=True, kw_only=True)
class _Query:
    """A streaming query, and the sinks that it fills."""

    name: str
    plans: tuple[SinkPlan, ...]
    running: StreamingQuery | None = None
    seen: int = -1
    """The newest batch whose progress was counted."""
    rows: int = 0
    """Rows that came in this round."""
    restarts: int = 0
    failed: list[BaseException] = field(default_factory=list)
    """What a batch raised: Spark gives back its text alone, and some time later."""


@dataclass(slots=True, kw_only=True)
class StreamingQueries:
    """The queries that fill sinks batch by batch, each with a checkpoint of its own. Not for several threads."""

    pipeline: Pipeline
    name: str
    """The pipeline's."""
    state: PipelineState
    spark: SparkSession
    clock: Clock
    writer: Callable[[SinkPlan], BatchSink]
    """What writes the batches of a sink."""
    progress: RunProgress
    stop: threading.Event
    """Set once they are to end after their batches."""
    _held: ExitStack = field(default_factory=ExitStack)
    """What ends with a round: its queries, and the sessions that they have in Spark Connect."""

    def run(self, plans: Sequence[SinkPlan], *, continuous: bool) -> None:
        """Fill sinks with all that there is, or until they are stopped. Raises InvalidPipeline, PipelineFailed, and what a sink raised."""
        from pyspark.errors import PySparkException

        queries = self._queries(plans)
        # What a limit left for later, or the Python source of Spark 4.1 did, comes in further rounds.
        while queries and not self.stop.is_set():
            try:
                self._round(queries, continuous=continuous)
            except PySparkException as error:
                raise pipeline_failed(
                    self.name, tuple(plan.sink.name for one in queries for plan in one.plans), error
                ) from error
            if continuous or not any(one.rows and _may_leave_some(one, self.pipeline) for one in queries):
                return
            for one in queries:
                one.rows = 0

    def _queries(self, plans: Sequence[SinkPlan]) -> list[_Query]:
        shared: dict[str, list[SinkPlan]] = {}
        for plan in plans:
            if plan.kind == "shared":
                shared.setdefault(plan.source, []).append(plan)
        alone = [(one,) for one in plans if one.kind == "own"]
        return [_Query(name=these[0].numbered_by, plans=these) for these in (*map(tuple, shared.values()), *alone)]

    def _round(self, queries: list[_Query], *, continuous: bool) -> None:
        """Start the queries, and follow them until they end, or one fails, or the run is stopped; none runs when it comes back."""
        with ExitStack() as self._held:
            for one in queries:
                one.running = self._started(one, continuous=continuous)
            while True:
                # Looked for before: what ended of an error since then is for the next look.
                ended = not _any_active(queries)
                self._count(queries)
                for one in queries:
                    self._check(one, continuous=continuous)
                if self.stop.is_set() or (ended and not _any_active(queries)):
                    break
                self.clock.sleep(_LOOK_S)
            if self.stop.is_set():
                self._finish_batches(queries)
                for one in queries:
                    self._check(one, continuous=continuous)
            self._count(queries)

    def _started(self, one: _Query, *, continuous: bool) -> StreamingQuery:
        source = self.pipeline.defined.get(one.plans[0].source)
        plan = one.plans[0]
        spark = self._held.enter_context(query_session(self.spark))
        if source is not None:
            frame = spark.table(quoted(source.name))
            sinks = {each.sink.name: self.writer(each) for each in one.plans}
            act: Any = SharedBatches(
                pipeline=self.pipeline,
                source=plan.source,
                plans=one.plans,
                sinks=sinks,
                clock=self.clock,
            )
            output = "append"
        else:
            frame = frame_of_query(spark, self.pipeline, plan.query)
            output = SPARK_MODES[plan.mode]
            act = None if plan.sink.type == "parquet" else self.writer(plan)
        writer = frame.writeStream.queryName(f"{self.name}/{one.name}").outputMode(output)
        writer = writer.option("checkpointLocation", self.state.checkpoint(one.name))
        if continuous:
            intervals = [each.options.get("poll_interval") for each in self.pipeline.of(CreateSource)]
            seconds = min((each.total_seconds() for each in intervals if each is not None), default=0.0)
            writer = writer.trigger(processingTime=f"{seconds} seconds")
        else:
            writer = writer.trigger(availableNow=True)
        if act is None:
            if plan.sink.options["partition_by"]:
                writer = writer.partitionBy(*plan.sink.options["partition_by"])
            started = lambda: writer.format("parquet").start(plan.sink.options["location"])  # noqa: E731  # one of two
        else:
            act = act if is_connected(self.spark) else _Kept(act, one.failed)
            started = lambda: writer.foreachBatch(act).start()  # noqa: E731
        with told_of_server(self.spark):
            query: StreamingQuery = refused_at(self.pipeline, plan.query, started)
        if not is_connected(self.spark):  # where its session ends it
            self._held.callback(lambda: query.stop() if query.isActive else None)
        return query

    def _finish_batches(self, queries: list[_Query]) -> None:
        """Let the batches at work come to their end, which a stop would break off; for a minute at most."""
        until = self.clock.monotonic() + 60
        for one in queries:
            query = one.running
            while query is not None and query.isActive and query.status["isTriggerActive"] and self.clock.monotonic() < until:
                self.clock.sleep(_LOOK_S)
        self._count(queries)

    def _check(self, one: _Query, *, continuous: bool) -> None:
        """Raise what a query failed of."""
        error: BaseException | None = next(iter(one.failed), None)
        if error is None and one.running is not None and not one.running.isActive:
            error = one.running.exception()
            if error is not None and not continuous and one.restarts < 3 and _LOST_REPORT.search(str(error)):
                # Spark 4.1 dies so in its own report of a batch of Kafka's that is committed, with availableNow after a kill.
                one.restarts += 1
                one.running = self._started(one, continuous=continuous)
                return
        if error is None:
            return
        if isinstance(error, GaplessError):
            raise error
        raise pipeline_failed(self.name, tuple(plan.sink.name for plan in one.plans), error) from error

    def _count(self, queries: list[_Query]) -> None:
        """Take what the queries tell of their batches."""
        told = False
        for one in queries:
            for batch in one.running.recentProgress if one.running is not None else ():
                # Spark tells of looks that found nothing, too.
                if batch["batchId"] <= one.seen or "addBatch" not in batch["durationMs"]:
                    continue
                # What it says of the batch as a whole is missing in Spark Connect.
                rows = sum(source["numInputRows"] for source in batch["sources"])
                pace = sum(source.get("processedRowsPerSecond") or 0.0 for source in batch["sources"])
                one.seen, one.rows, told = batch["batchId"], one.rows + rows, True
                facts = {"batch": batch["batchId"], "rows_per_second": float(pace), "waiting": waiting_in(batch["sources"])}
                for plan in one.plans:
                    self.progress.change(plan.sink.name, more_rows=rows, **facts)
        if told:
            self.progress.tell()


@dataclass(slots=True)
class _Kept:
    """An act whose error is kept: Spark gives back its text alone."""

    act: Callable[..., Any]
    failed: list[BaseException]

    def __call__(self, frame: Any, batch: int) -> Any:
        try:
            return self.act(frame, batch)
        except BaseException as error:
            self.failed.append(error)
            raise


def _any_active(queries: Sequence[_Query]) -> bool:
    return any(one.running is not None and one.running.isActive for one in queries)


def _may_leave_some(one: _Query, pipeline: Pipeline) -> bool:
    """Whether a query with availableNow may end before it has taken all that there is."""
    read = [found for plan in one.plans for found in pipeline.read_by(plan.query)]
    return any(found.type in ("timeseries", "delta", *CONNECTED) for found in read)


def pipeline_failed(pipeline: str, sinks: tuple[str, ...], error: BaseException) -> PipelineFailed:
    """The error for a pipeline that Spark stopped at a batch of these sinks, with the innermost reason that it gives."""
    return PipelineFailed(
        f"the pipeline {pipeline!r} stopped while it filled {' and '.join(map(repr, sinks))}",
        why=_cause(error),
        fix="Mend the cause and run it again: it goes on with that batch",
        sinks=sinks,
    )


def _cause(error: BaseException) -> str:
    """The innermost reason that Spark gives, in one line."""
    text = str(error)
    # What gapless raised in a process of Spark's comes as the traceback of that.
    if ours := re.findall(r"^\s*gapless\.errors\.\w+: (.+)$", text, re.MULTILINE):
        return str(ours[-1])[:500]
    # What the client of Spark Connect says of a server that is gone.
    if gone := re.search(r'^\s*details = "(.+)"$', text, re.MULTILINE):
        return f"The server of Spark Connect answers no more: {gone[1]}"[:500]
    causes = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Caused by: ")]
    lines = [line.strip() for line in (causes[-1] if causes else text).splitlines() if line.strip()]
    said = re.sub(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+$", "", lines[0]) if lines else type(error).__name__
    return said[:500]
