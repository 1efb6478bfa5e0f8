"""A run of a pipeline: its streaming queries, from their start to their end."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, PipelineFailed, StoreError
from gapless.model.protocols import Clock
from gapless.pipelines.definitions import Pipeline
from gapless.pipelines.language.statements import CreateSource
from gapless.pipelines.run.backfills import PlannedBackfill, plan_backfills, run_backfill
from gapless.pipelines.run.connected import CONNECTED
from gapless.pipelines.run.frames import define_views, frame_of_query, refused_at
from gapless.pipelines.run.plan import SinkPlan, check_numbering, plan_pipeline
from gapless.pipelines.run.shared import SharedBatches
from gapless.pipelines.run.sinks import SPARK_MODES, BatchSink, batch_sink
from gapless.pipelines.run.spark_connect import check_server, is_connected, query_session, told_of_server
from gapless.pipelines.run.state import PipelineState, RunStart, RunState, SinkProgress
from gapless.spark.correct.fill_gaps import GapFill
from gapless.spark.reading.columns import quoted
from gapless.tables.shared.findings import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Progress = Callable[[Mapping[str, SinkProgress]], None]
_LOOK_S = 0.1
_LOST_REPORT = re.compile(r'NullPointerException|the return value of "scala\.Option\.get\(\)" is null')
"""What Spark says of an error in its own report of a batch: the class of it is not in its text, or is."""
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
class PipelineRun:
    """Runs a pipeline once. Not for several threads, but for `stop`."""

    pipeline: Pipeline
    name: str
    state: PipelineState
    spark: SparkSession
    clock: Clock
    progress: Progress | None = None
    start: RunStart = field(default_factory=RunStart)
    """What its state says of how it was started; `continuous` is the run's own."""
    _sinks: dict[str, SinkProgress] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _held: ExitStack = field(default_factory=ExitStack)
    """What ends with a round: its queries, and the sessions that they have in Spark Connect."""

    def stop(self) -> None:
        """Have it end after its batches. From any thread, or a signal's handler."""
        self._stop.set()

    def run(self, *, continuous: bool) -> PipelineReport:
        """Fill the sinks with all that there is, or until it is stopped.

        Raises before the first row InvalidPipeline, and what the sinks refuse; PipelineFailed where Spark stops at a batch, or what a sink
        raised there; CommitConflict where the pipeline runs already.
        """
        from pyspark.errors import PySparkException

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
            self._sinks = {plan.sink.name: SinkProgress() for plan in plans}
            app = f"{self.name}@{self.state.incarnation()[:8]}"
            check_numbering(self.pipeline, plans, self.state.numbering())
            self.state.record_numbering({plan.sink.name.casefold(): plan.numbered_by for plan in plans})
            self._run_once(plans, app, state.number)
            queries = self._queries(plans)
            # What a limit left for later, or the Python source of Spark 4.1 did, comes in further rounds.
            while queries and not self._stop.is_set():
                try:
                    self._round(queries, app, continuous=continuous)
                except PySparkException as error:
                    raise _stopped(self.name, tuple(plan.sink.name for plan in plans), error) from error
                if continuous or not any(one.rows and _may_leave_some(one, self.pipeline) for one in queries):
                    break
                for one in queries:
                    one.rows = 0
            filled = tuple(self._fill(backfills, app))
            status = "stopped" if self._stop.is_set() else "finished"
            return PipelineReport(sinks=dict(self._sinks), stopped=self._stop.is_set(), backfills=filled)
        except BaseException as error:
            text = str(error).partition("\n")[0] or type(error).__name__
            raise
        finally:
            self._ended.set()
            heartbeat.join()
            self.state.tell(replace(state, status=status, error=text, sinks=dict(self._sinks)))  # type: ignore[arg-type]

    def _beat(self, state: RunState) -> None:
        """Say now and then that the run lives, and hear whether it is to stop; until it has ended. In a thread of its own."""
        beats = 0
        while not self._ended.wait(_ASK_S):
            beats += 1
            try:
                if self.state.is_asked_to_stop():
                    self.stop()
                if beats % HEARTBEATS == 0:
                    with self._lock:
                        sinks = dict(self._sinks)
                    self.state.tell(replace(state, sinks=sinks))
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
                raise _stopped(self.name, (plan.sink.name,), error) from error
            if self.progress is not None:
                self.progress(dict(self._sinks))
        if once:
            define_views(self.spark, self.pipeline, streaming=True, kept=self.state.kept)

    def _write_once(self, plan: SinkPlan, app: str, number: int, rows: DataFrame) -> None:
        if plan.sink.type == "parquet":
            writer = rows.write.mode("overwrite").partitionBy(*(plan.sink.options["partition_by"] or ()))
            writer.parquet(plan.sink.options["location"])
            return
        report = self._sink(plan, app)(rows, number)
        with self._lock:
            before = self._sinks[plan.sink.name]
            self._sinks[plan.sink.name] = replace(before, batch=number, rows=getattr(report, "rows", 0))

    def _fill(self, backfills: list[PlannedBackfill], app: str) -> Iterator[tuple[str, GapFill]]:
        """Fill gaps, once the sinks have what there is."""
        for one in backfills:
            if self._stop.is_set():
                return
            name = one.plan.sink.name
            filled = run_backfill(one, app)
            if filled.version is not None:
                self._sinks[name] = replace(self._sinks[name], version=filled.version)
            yield name, filled

    def _sink(self, plan: SinkPlan, app: str) -> BatchSink:
        write, name = batch_sink(plan.sink, plan.mode, f"{app}/{plan.numbered_by}/{plan.sink.name}"), plan.sink.name
        if plan.kind != "once" and is_connected(self.spark):
            return write  # it goes to the server, without this process's locks

        def noted(frame: DataFrame, batch: int) -> object:
            report = write(frame, batch)
            with self._lock:
                self._sinks[name] = replace(self._sinks[name], version=getattr(report, "version", None))
            return report

        return noted

    def _queries(self, plans: list[SinkPlan]) -> list[_Query]:
        shared: dict[str, list[SinkPlan]] = {}
        for plan in plans:
            if plan.kind == "shared":
                shared.setdefault(plan.source, []).append(plan)
        alone = [(one,) for one in plans if one.kind == "own"]
        return [_Query(name=these[0].numbered_by, plans=these) for these in (*map(tuple, shared.values()), *alone)]

    def _round(self, queries: list[_Query], app: str, *, continuous: bool) -> None:
        """Start the queries, and follow them until they end, or one fails, or the run is stopped; none runs when it comes back."""
        with ExitStack() as self._held:
            for one in queries:
                one.running = self._started(one, app, continuous=continuous)
            while True:
                self._count(queries)
                for one in queries:
                    self._check(one, app, continuous=continuous)
                if self._stop.is_set() or not any(one.running is not None and one.running.isActive for one in queries):
                    break
                self.clock.sleep(_LOOK_S)
            if self._stop.is_set():
                self._finish_batches(queries)
                for one in queries:
                    self._check(one, app, continuous=continuous)
            self._count(queries)

    def _started(self, one: _Query, app: str, *, continuous: bool) -> StreamingQuery:
        source = self.pipeline.defined.get(one.plans[0].source)
        plan = one.plans[0]
        spark = self._held.enter_context(query_session(self.spark))
        if source is not None:
            frame = spark.table(quoted(source.name))
            sinks = {each.sink.name: self._sink(each, app) for each in one.plans}
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
            act = None if plan.sink.type == "parquet" else self._sink(plan, app)
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

    def _check(self, one: _Query, app: str, *, continuous: bool) -> None:
        """Raise what a query failed of."""
        error: BaseException | None = next(iter(one.failed), None)
        if error is None and one.running is not None and not one.running.isActive:
            error = one.running.exception()
            if error is not None and not continuous and one.restarts < 3 and _LOST_REPORT.search(str(error)):
                # Spark 4.1 dies so in its own report of a batch of Kafka's that is committed, with availableNow after a kill.
                one.restarts += 1
                one.running = self._started(one, app, continuous=continuous)
                return
        if error is None:
            return
        if isinstance(error, GaplessError):
            raise error
        raise _stopped(self.name, tuple(plan.sink.name for plan in one.plans), error) from error

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
                for plan in one.plans:
                    with self._lock:
                        before = self._sinks[plan.sink.name]
                        self._sinks[plan.sink.name] = replace(
                            before,
                            batch=batch["batchId"],
                            rows=before.rows + rows,
                            rows_per_second=float(pace),
                            waiting=_waiting(batch["sources"]),
                        )
        if told and self.progress is not None:
            self.progress(dict(self._sinks))


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


def _may_leave_some(one: _Query, pipeline: Pipeline) -> bool:
    """Whether a query with availableNow may end before it has taken all that there is."""
    read = [found for plan in one.plans for found in pipeline.read_by(plan.query)]
    return any(found.type in ("timeseries", "delta", *CONNECTED) for found in read)


_LAGS = (("maxOffsetsBehindLatest", "record"), ("numFilesOutstanding", "file"))
"""What sources of Spark count of what waits, and of what."""


def _waiting(sources: Iterable[Mapping[str, Any]]) -> str:
    """What waits in the sources of a query, by its progress.

    >>> _waiting([{"metrics": {"numFilesOutstanding": "3", "numBytesOutstanding": "900"}}, {"metrics": None}])
    '3 files'
    """
    found = dict[str, int]()
    for source in sources:
        metrics = source.get("metrics") or {}
        for name, noun in _LAGS:
            with suppress(KeyError, ValueError):
                found[noun] = found.get(noun, 0) + int(float(metrics[name]))
    return " and ".join(count(number, noun) for noun, number in found.items() if number)


def _stopped(pipeline: str, sinks: tuple[str, ...], error: BaseException) -> PipelineFailed:
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
