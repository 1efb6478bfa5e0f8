"""The processes of pipelines: each has its handles, which die with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.connect import CheckpointStore, CommitInfo, Cursor, PreparedCommit, Runner, sink
from gapless.connect.sinks.table_sink import TableSink
from gapless.connect.sources.table.delta_table import DeltaSourceTable
from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.series_table import SeriesSourceTable
from gapless.connect.sources.table.source import TableSource
from gapless.errors import (
    AccessDenied,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    GaplessError,
    InvalidOption,
    PreparedFilesMissing,
    StorageFull,
    StoreUnavailable,
    VersionNotFound,
)
from gapless.runtime.environment import Environment
from gapless.testing.simulation.pipelines.stores import FolderStore
from gapless.testing.simulation.pipelines.tasks import (
    ByHand,
    Mode,
    Pipeline,
    PipelineHistory,
    PreparedRows,
    Ran,
    RunPipeline,
    removes,
)
from gapless.testing.simulation.process import Kind
from gapless.testing.simulation.series import SCHEMA, rows_of, to_batch
from gapless.testing.simulation.tasks import Intent, Maintenance, Pause, PauseUntil, Sent
from gapless.testing.simulation.timeline import START_NS, SimClock, SimIds
from gapless.testing.store.stores import Killed, SimStore

LOCATION = "memory://sim"
EXCUSED = (StoreUnavailable, AccessDenied, StorageFull, CommitOutcomeUnknown, CommitConflict)
"""What a run may come to for the faults of stores, and for other coordinators."""
STALL_S = 2.0
"""How long a run waits for a sink or the checkpoint store that gives no answer."""
MAX_ACTS = 3
"""How often one act by hand is tried."""


class JumpingClock(SimClock):
    """A clock that is set, now and then, by up to an hour."""

    def __init__(self, store: SimStore, *, skew_ns: int, jump_ns: int) -> None:
        """Set by `jump_ns` after each twenty calls of the store, and back."""
        super().__init__(store.timeline, skew_ns=skew_ns)
        self._store, self._jump_ns = store, jump_ns

    def now_ns(self) -> int:
        """See `Clock.now_ns`."""
        return super().now_ns() + (self._jump_ns if self._store.calls // 20 % 2 else 0)


@dataclass(slots=True, kw_only=True)
class Host:
    """One life of an actor that runs pipelines."""

    source: Kind
    sink: Kind
    store: SimStore
    """Over all that it reaches."""
    clock: SimClock
    ids: SimIds
    history: PipelineHistory
    deadline_s: float
    excused: Callable[[GaplessError, RunPipeline], bool]
    """Whether a run may come to an error beside `EXCUSED`."""
    runners: dict[Pipeline, Runner] = field(default_factory=dict)

    def env(self, folder: str) -> Environment:
        """That of one table."""
        return Environment(store=FolderStore(self.store, folder), clock=self.clock, ids=self.ids, deadline_s=self.deadline_s)

    def runner(self, pipeline: Pipeline) -> Runner:
        """The pipeline, as this process runs it."""
        if pipeline not in self.runners:
            handle = self.source.open(self.env("source"))
            table = DeltaSourceTable(handle) if self.source.name == "delta" else SeriesSourceTable(handle, on_change="skip")
            options = {"on_change": "skip"} if pipeline.start is None else {"on_change": "skip", "start": pipeline.start}
            reader = NotedSource(table, TableSourceOptions.parse(options))
            checkpoints = CheckpointStore("memory://checkpoints")
            checkpoints._store = FolderStore(self.store, pipeline.folder)  # noqa: SLF001  # as an open store
            self.runners[pipeline] = Runner(
                reader,
                _marking(pipeline),
                {"main": NotedSink(self, pipeline.name, "main", pipeline.mode, reader, pipeline)},
                checkpoints,
                checkpoint_rows=pipeline.checkpoint_rows,
                max_backlog=pipeline.max_backlog,
                stall_seconds=STALL_S,
                clock=self.clock,
                ids=self.ids,
            )
        return self.runners[pipeline]


def _marking(pipeline: Pipeline) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def transform(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True)
        rows = tuple(pipeline.marked(row) for row in columns)
        if pipeline.mode != "cdc":
            return to_batch(rows)
        kinds = ["delete" if removes("cdc", row) else "upsert" for row in rows]
        return to_batch(rows).append_column("_change_type", pa.array(kinds, pa.string()))

    return transform


class NotedSource(TableSource):
    """A source that notes where it began."""

    began: dict[str, Any] | None = None
    """The state of its first cursor, where it was started without one."""

    def start(self, cursor: Cursor | None = None) -> None:
        """See `Source.start`."""
        super().start(cursor)
        self.began = dict(self.cursor.state) if cursor is None else None


class NotedSink(TableSink):
    """A sink whose rows and commits are put into the history."""

    def __init__(
        self,
        host: Host,
        pipeline: str,
        name: str,
        mode: Mode,
        reader: NotedSource | None = None,
        of: Pipeline | None = None,
    ) -> None:
        """Into the sink's table of a process."""
        options: dict[str, Any] = {"key": ["ts", "entity"]} if mode in ("upsert", "cdc", "delete") else {}
        self._entities = () if of is None else of.entities
        if mode == "overwrite":
            names = ", ".join(map(repr, self._entities))
            part = {"where": f"entity IN ({names})"} if host.sink.name == "delta" else {"entity": {"entity": self._entities}}
            options |= part
        if mode == "append" and host.sink.name != "delta":
            options["on_overlap"] = "allow"
        made = sink(
            f"{'delta' if host.sink.name == 'delta' else 'timeseries'}:{LOCATION}",
            pipeline=pipeline,
            name=name,
            mode=mode,
            generation=1 if of is None else of.generation,
            spill_bytes=1 << 20 if of is None else of.spill_bytes,
            **options,
        )
        vars(self).update(vars(made))
        made._table._table = host.sink.open(host.env("sink"))  # type: ignore[attr-defined]  # noqa: SLF001  # opened in the process's own way
        self._host, self._mode, self._reader = host, mode, reader
        self._noted: list[Any] = []

    def write(self, batch: object) -> int:
        """See `Sink.write`."""
        assert isinstance(batch, pa.RecordBatch)
        written = super().write(batch)
        self._noted += rows_of(pa.Table.from_batches([batch]))
        return written

    def prepare(self, checkpoint_id: int) -> PreparedCommit:
        """See `Sink.prepare`."""
        with self._taking_back():
            prepared = super().prepare(checkpoint_id)
        began = None if self._reader is None else self._reader.began
        rows, self._noted = tuple(self._noted), []
        said = PreparedRows(rows=rows, start=began, mode=self._mode, entities=self._entities)
        self._host.history.prepared[prepared.attempt] = said
        return prepared

    def finalize(self, prepared: PreparedCommit) -> CommitInfo:
        """See `Sink.finalize`."""
        with self._sending(self._host.history.prepared[prepared.attempt].intent):
            return super().finalize(prepared)

    def abort(self, prepared: PreparedCommit | None = None) -> bool:
        """See `Sink.abort`."""
        if prepared is None:
            self._noted = []
            with self._taking_back():
                return super().abort()
        with self._sending(Maintenance(care="abort")):
            return super().abort(prepared)

    def _taking_back(self) -> contextlib.AbstractContextManager[None]:
        """Put into the history that documents of tries that failed are aborted first, where there may be some."""
        tried = self._running is not None and self._running.tried
        return self._sending(Maintenance(care="abort")) if tried else contextlib.nullcontext()

    @contextlib.contextmanager
    def _sending(self, intent: Intent) -> Iterator[None]:
        """Put into the history that a change was sent, whatever comes of it."""
        host = self._host
        started_ns, drawn = host.store.timeline.now_ns, len(host.ids.given)
        try:
            yield
        finally:
            host.history.sent.append(
                Sent(
                    actor=host.store.name,
                    intent=intent,
                    outcome="unknown",
                    ids=frozenset(host.ids.given[drawn:]),
                    started_ns=started_ns,
                    ended_ns=host.store.timeline.now_ns,
                )
            )


# -- tasks -------------------------------------------------------------------------------------------------------------


def _run(host: Host, task: RunPipeline) -> None:
    answer: Any = None
    error: BaseException | None = None
    try:
        answer = host.runner(task.pipeline).run(checkpoints=task.checkpoints)
    except GaplessError as raised:
        error = raised
        if not isinstance(raised, EXCUSED) and not host.excused(raised, task):
            raise
    except Killed as killed:
        error = killed
        raise
    finally:
        host.history.ran.append(Ran(actor=host.store.name, task=task, answer=answer, error=error))


def _by_hand(host: Host, task: ByHand) -> None:
    for _ in range(MAX_ACTS):
        if _try_by_hand(host, task):
            return
        host.clock.sleep(host.ids.jitter())


def _try_by_hand(host: Host, task: ByHand) -> bool:
    """Whether the act has an answer."""
    answer: Any = None
    error: BaseException | None = None
    try:
        if task.act != "prepare" and task.number not in host.history.handed:
            return False
        mine = NotedSink(host, "hand", task.name, task.mode)
        mine.initialize(SCHEMA)
        if task.act == "prepare":
            mine.write(to_batch(task.rows))
            host.history.handed[task.number] = mine.prepare(1)
            answer = True
        elif task.act == "finalize":
            answer = mine.finalize(host.history.handed[task.number])
        else:
            answer = mine.abort(host.history.handed[task.number])
    except (*EXCUSED, PreparedFilesMissing) as raised:
        error = raised
    except Killed as killed:
        error = killed
        raise
    finally:
        host.history.ran.append(Ran(actor=host.store.name, task=task, answer=answer, error=error))
    return answer is not None


def excuse(error: GaplessError, *, coordinators: int, cleaned: bool) -> bool:
    """Whether a run may come to an error: another coordinator was quicker, or the source lost versions."""
    match error:
        case InvalidOption(option="store"):
            return coordinators > 1
        case VersionNotFound() | CorruptTable():
            return cleaned
    return False


def act(host: Host, task: Any) -> None:
    """Do one task; raises Killed, and what no fault excuses."""
    match task:
        case RunPipeline():
            _run(host, task)
        case ByHand():
            _by_hand(host, task)
        case Pause(seconds=seconds):
            host.clock.sleep(seconds)
        case PauseUntil(until_s=until_s):
            host.clock.sleep(max(0.0, until_s - (host.store.timeline.now_ns - START_NS) / 1e9))


def may_run_again(task: Any) -> bool:
    """Whether a process that was killed in the middle of a task is started again with it."""
    return isinstance(task, RunPipeline)
