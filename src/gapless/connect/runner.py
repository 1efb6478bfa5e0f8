"""A pipeline in plain Python: rows from a source, through a function, into sinks, each row once in each."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from gapless.connect.backlog import Backlog
from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore, Recovered
from gapless.connect.limits import Filling, Limits, check_seconds
from gapless.connect.pace import Pace, on_signals
from gapless.connect.refusals import (
    refuse_one_sequence,
    refuse_pipeline,
    refuse_sinks,
    refuse_store,
    refuse_transform,
    refuse_transform_argument,
)
from gapless.connect.sinks.protocol import CommitInfo, Sink
from gapless.connect.sources.protocol import Cursor, Source
from gapless.errors import (
    GaplessError,
    LogWarning,
    NoCheckpointing,
    OperationReused,
    RetractingInput,
    SinkCannotDedup,
    SourceCannotReplay,
)
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.model.protocols import Clock, IdSource
from gapless.runtime.environment import RandomIds, SystemClock
from gapless.runtime.metrics import PIPELINE_CHECKPOINTS, PIPELINE_RESUMED, PIPELINE_ROWS
from gapless.tables.shared.prepared import PreparedCommit

_LOGGER = logging.getLogger("gapless.connect")

Transform = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | Mapping[str, pa.RecordBatch | pa.Table]]
"""Of a batch of the source, the rows for the sinks: the same for all, or a mapping by the sink's name. A function of the batch alone."""
ONCE_STALL_S, FOLLOW_STALL_S = 60.0, 3600.0
"""How long a run waits for a sink that stands still, where nothing is said."""
_LAST = "last_with_rows"
"""In the state of a checkpoint: by the sink's name, the newest one that has rows for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """What one run did, at its end or so far."""

    checkpoints: int
    """How many with rows it committed in all sinks, those among them that it found decided."""
    rows: int
    """How many rows it polled."""
    commits: Mapping[str, CommitInfo]
    """The last commit of each sink, by its name."""
    backlog: int = 0
    """How many checkpoints are decided and not in all sinks yet: the next run commits them first."""
    stalls: int = 0
    """How often a sink, or the checkpoint store, began to stand still."""
    stopped: bool = False
    """Whether `stop` ended it."""


@dataclass(slots=True)
class Runner:
    """Runs a pipeline with two-phase commits: what is in the sinks is always what some checkpoint of the source gave, each row once.

    Args of the constructor: the source; a function of each batch, None for rows as they come; sinks by name; the checkpoint store; and what
    follows, by name. Begun
    anew over the same store, it first does what was decided (finalize, in order), then takes back what was prepared and not decided (abort),
    then goes on at the stored cursor.

    A sink that cannot commit for now, for an error that may pass, does not hold up the others. Checkpoints are decided meanwhile, each
    larger than the one before, up to `max_backlog`; then nothing is polled until the sink is back, which commits them in order.
    """

    source: Source
    transform: Transform | None
    sinks: Mapping[str, Sink]
    store: CheckpointStore
    checkpoint_rows: int = 1_000_000
    """A checkpoint is made after so many rows at the latest,"""
    checkpoint_bytes: int | None = None
    """or after about so many bytes of Arrow memory that were polled, if given;"""
    checkpoint_seconds: float | None = None
    """or so long after its first row. A run that follows its source makes one no sooner, where this is given, unless it is full."""
    max_backlog: int = 12
    """How many checkpoints may be decided and not yet in all sinks."""
    stall_seconds: float | None = None
    """How long a run waits, with nothing else to do, for a sink or the checkpoint store, before it raises the error: a minute where None, an
    hour where it follows its source."""
    progress: Callable[[RunnerReport], None] | None = None
    """Told what was done so far, after each poll with rows and each commit."""
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=RandomIds)
    _limits: Limits = field(init=False, repr=False)
    _backlog: Backlog = field(init=False, repr=False)
    _last: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By the sink's name: the newest checkpoint that has rows for it."""
    _rows: int = field(default=0, init=False, repr=False)
    _pace: Pace = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Nothing is asked of source, sinks and store before `run`."""
        self._pace = Pace(self.clock, self.ids)

    def run(self, *, checkpoints: int | None = None, follow: bool = False, poll_interval: float = 1.0) -> RunnerReport:
        """Poll until there are no rows for now, or so many checkpoints were made; with `follow` until `stop`, polling again `poll_interval`
        seconds after there were none.

        Raises what sources, sinks and the store raise: running again goes on, and loses or doubles nothing. Rows before an error of the source
        are committed first. Errors of sinks and of the store that may pass are raised only after `stall_seconds`.

        A source that moved on without rows, as past a compaction, has its cursor stored too: versions that it left out need not be kept.
        Where its columns change, the rows before are committed first, and the sinks initialized with the new ones. One that has ended ends it.

        Raises before the first row SourceCannotReplay, SinkCannotDedup, NoCheckpointing, and RetractingInput where the source tells of rows that
        were taken back, a sink does not take those, and no transform says what becomes of them; InvalidOption where a sink has committed checkpoints that the store does not know.
        """
        self._check()
        check_seconds("poll_interval", poll_interval)
        self._pace.patience_s = self.stall_seconds or (FOLLOW_STALL_S if follow else ONCE_STALL_S)
        try:
            self._run(checkpoints, poll_interval if follow else None)
            return self._report()
        finally:
            self._pace.stopped = False

    def stop(self) -> None:
        """End `run` at its next checkpoint, which is made at once of the rows that were polled. From any thread, or a signal's handler; before
        a run, it ends that one. What a sink that stands still has not committed by then is committed by the next run.
        """
        self._pace.stopped = True

    def stopping_on(self, *signals: signal.Signals) -> AbstractContextManager[None]:
        """While a block `with` it runs, `stop` on the first of these signals (SIGINT and SIGTERM, where none is given); the second one does
        what it did before. In the main thread alone.
        """
        return on_signals(self.stop, *(signals or (signal.SIGINT, signal.SIGTERM)))

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _run(self, checkpoints: int | None, poll_interval: float | None) -> None:
        recovered = self._recover()
        number, made = recovered.next_id, len(recovered.unfinished)
        stored = None if recovered.decided is None else recovered.decided.cursor
        while checkpoints is None or made < checkpoints:
            if len(self._backlog) >= self._limits.backlog:
                _LOGGER.warning(
                    "%s: %d checkpoints wait, and nothing is polled until they are fewer", self.store.url, len(self._backlog)
                )
                if not self._drain(self._limits.backlog):
                    return
            filling, cursor = self._fill(poll_interval), self.source.cursor
            moved = stored is None or cursor.state != stored.state
            if filling.rows or (moved and not len(self._backlog)):
                self._commit(number, cursor, rows=filling.rows > 0)
                number, made, stored = number + 1, made + (filling.rows > 0), cursor
            if filling.other_columns:
                self._pace.insist(self._initialize)
            elif self._pace.stopped or self.source.ended or (poll_interval is None and not filling.rows):
                break
            if filling.dry and poll_interval is not None:
                self._pace.pause(poll_interval)
        self._drain(1)

    def _drain(self, length: int) -> bool:
        """Wait until fewer checkpoints wait than `length`; False where the run was stopped before. Raises the error of what stands still."""
        since = self._pace.now()
        while (before := len(self._backlog)) >= length and not self._pace.stopped:
            self._finalize()
            since = self._pace.now() if len(self._backlog) < before else since
            if len(self._backlog) >= length and (stall := self._backlog.longest_stall) is not None:
                self._pace.wait_for(stall, self._backlog.retry_at, since)
        return len(self._backlog) < length

    def _check(self) -> None:
        self._limits = Limits(
            rows=self.checkpoint_rows, size=self.checkpoint_bytes, seconds=self.checkpoint_seconds, backlog=self.max_backlog
        )
        if self.stall_seconds is not None:
            check_seconds("stall_seconds", self.stall_seconds)
        if self.transform is not None and not callable(self.transform):
            raise refuse_transform_argument(self.transform)
        sinks: object = self.sinks
        if not isinstance(sinks, Mapping) or not sinks:
            raise refuse_sinks(sinks)
        if not isinstance(self.store, CheckpointStore):
            raise refuse_pipeline(
                NoCheckpointing,
                "the pipeline has no checkpoint store",
                "After a crash nobody would know which rows are in its sinks",
                'Pass a CheckpointStore("…")',
            )
        if not self.source.capabilities.replays:
            raise refuse_pipeline(
                SourceCannotReplay,
                "the source cannot be read again from a cursor",
                "What was read and not committed would be lost in a crash",
            )
        for name, sink in self.sinks.items():
            if not sink.capabilities.exactly_once:
                raise refuse_pipeline(
                    SinkCannotDedup,
                    f"the sink {name!r} does not know what it has committed",
                    "A checkpoint sent again would be doubled",
                    sink=name,
                )
            if self.source.capabilities.retracts and self.transform is None and not sink.capabilities.takes_changes:
                raise refuse_pipeline(
                    RetractingInput,
                    f"the source tells of rows that were changed or removed, and the sink {name!r} takes no such rows",
                    "Without a transform all of them would be written, those that were removed too",
                    'Make the sink with mode="cdc", or pass a transform',
                    column=CHANGE_TYPE,
                )

    def _recover(self) -> Recovered:
        """Where to go on; what was decided and is not known to be finished is committed, or waits to be."""
        recovered = self.store.recover()
        decided = recovered.decided
        self._last = {} if decided is None else dict(decided.state.get(_LAST, {}))
        self._rows, self._backlog = 0, Backlog(self.sinks, self.store, self.source.acknowledge, self._pace)
        # The columns are known once the source stands where it goes on.
        self.source.start(None if decided is None else decided.cursor)
        for sink in self.sinks.values():
            sink.abort(None)
        self._initialize()
        self._check_known(recovered)
        for checkpoint in recovered.unfinished:
            _LOGGER.info("%s: checkpoint %d was decided and not finished: it is committed now", self.store.url, checkpoint.id)
            self._backlog.add(checkpoint, rows=True)
            PIPELINE_RESUMED.add(1, self.store.url)
        self._abort_undecided(recovered)
        self._finalize()
        for checkpoint in recovered.aborted:
            _LOGGER.info("%s: checkpoint %d was prepared and not decided: it is taken back", self.store.url, checkpoint.id)
            self.store.forget(checkpoint)
            PIPELINE_CHECKPOINTS.add(1, "aborted", self.store.url)
        return recovered

    def _initialize(self) -> None:
        """Make the sinks ready for the columns that come next; raises what they raise where they do not take them."""
        for name, schema in self._columns().items():
            self.sinks[name].initialize(schema)

    def _check_known(self, recovered: Recovered) -> None:
        """Raise InvalidOption where a sink knows checkpoints after the last decision, which it would take new ones for, or fewer than are
        finished, VersionNotFound where another table lies in its place: the rows before are not in it.
        """
        decided = recovered.decided
        for name, sink in self.sinks.items():
            last = sink.last_committed()
            if last is not None and last > (-1 if decided is None else decided.id):
                known = "none" if decided is None else f"{decided.id} as the last one"
                raise refuse_store(
                    f"the sink {name!r} has committed checkpoint {last}, and the checkpoint store knows {known}",
                    "The store is empty, older or another pipeline's, or another coordinator was quicker; the table would take new"
                    " checkpoints for those that it has, and leave their rows out",
                    self.store.url,
                )
            if decided is not None and name not in decided.prepared:
                if last is not None:
                    raise refuse_store(
                        f"the sink {name!r} was left out of the last checkpoints: it has those up to {last}",
                        f"Rows that came since went into {', '.join(map(repr, decided.prepared))} alone; they would be missing in it",
                        self.store.url,
                    )
                what = (
                    f"{self.store.url}: the sink {name!r} is new, and begins where the pipeline is; rows before are not in it"
                )
                warnings.warn(what, LogWarning, stacklevel=2)
            prepared = decided.prepared.get(name) if decided is not None and recovered.finished else None
            if prepared is None or decided is None or (last or -1) >= prepared.checkpoint_id:
                continue
            wanted = prepared.checkpoint_id if prepared.files else int(decided.state.get(_LAST, {}).get(name, -1))
            if last is not None and last < wanted:
                raise refuse_store(
                    f"the sink {name!r} has committed checkpoint {last} as the last one, and by the checkpoint store it has"
                    f" {wanted}",
                    "An older copy of the table was brought back; what came after it would be missing",
                    self.store.url,
                )
            sink.finalize(prepared)  # which it has, unless the table is another one

    def _abort_undecided(self, recovered: Recovered) -> None:
        """Take back what was prepared by a coordinator that died, or was told that it does not decide: its rows come again.

        First of all, since a checkpoint cannot be finalized while one before it is prepared.
        """
        waiting = self._backlog.paths
        for sink in self.sinks.values():
            for prepared in sink.pending():
                if prepared.checkpoint_id < recovered.next_id and prepared.path not in waiting:
                    sink.abort(prepared)

    def _columns(self) -> Mapping[str, pa.Schema]:
        empty = pa.RecordBatch.from_pylist([], schema=self.source.schema)
        return {name: rows.schema for name, rows in self._transformed(empty).items()}

    def _transformed(self, batch: pa.RecordBatch) -> Mapping[str, pa.RecordBatch | pa.Table]:
        made = batch if self.transform is None else self.transform(batch)
        given = made if isinstance(made, Mapping) else dict.fromkeys(self.sinks, made)
        if odd := sorted(map(str, self.sinks.keys() ^ given.keys())):
            raise refuse_transform(f"rows for other names than those of the sinks: {', '.join(odd)} is on one side only")
        for name, rows in given.items():
            if not isinstance(rows, pa.RecordBatch | pa.Table):
                raise refuse_transform(f"a {type(rows).__name__} for the sink {name!r}")
        return given

    def _fill(self, poll_interval: float | None) -> Filling:
        """Write the rows of one checkpoint. What waits for sinks is finalized meanwhile, where that is due."""
        filling = Filling()
        while (room := filling.room(self._limits)) and not self._pace.stopped:
            try:
                polled = self.source.poll(room)
            except GaplessError:
                if not filling.rows:
                    raise
                break  # it comes again with the next poll, once the rows before it are committed
            self._finalize()
            hold, now = self._limits.hold_seconds(len(self._backlog)), self._pace.now()
            filling.other_columns = polled.schema_changed
            filling.dry = not polled.rows and not polled.schema_changed
            if polled.rows:
                for batch in polled:
                    for name, rows in self._transformed(batch).items():
                        self.sinks[name].write(rows)
                filling.add(polled.rows, sum(batch.nbytes for batch in polled), now)
                self._rows += polled.rows
                PIPELINE_ROWS.add(polled.rows, self.store.url)
                self._tell()
            elif filling.dry:
                if poll_interval is None or filling.begun is None or filling.age(now) >= hold:
                    break
                self._pace.pause(min(poll_interval, hold - filling.age(now)))
            if filling.other_columns or filling.age(self._pace.now()) >= self._limits.longest_seconds(len(self._backlog)):
                break
        return filling

    def _commit(self, number: int, cursor: Cursor, *, rows: bool) -> None:
        """Prepare in all sinks, record and decide; then finalize what can be."""
        prepared = {}
        try:
            for name, sink in self.sinks.items():
                prepared[name] = self._pace.insist(partial(sink.prepare, number))
        except OperationReused:
            self.store.check_free(number)  # the rows that the table has under it may be another coordinator's
            raise
        self._check_apart(prepared)
        self._last |= {name: number for name, one in prepared.items() if one.files}
        checkpoint = Checkpoint(
            id=number, cursor=cursor, prepared=prepared, state={_LAST: dict(self._last)}, unfinished=self._backlog.numbers
        )
        self._pace.insist(partial(self.store.record, checkpoint))
        self._pace.insist(partial(self.store.decide, checkpoint))
        self._backlog.add(checkpoint, rows=rows)
        self._finalize()

    def _finalize(self) -> None:
        if len(self._backlog):
            self._backlog.finalize()
            self._tell()

    def _report(self) -> RunnerReport:
        done = self._backlog
        return RunnerReport(
            checkpoints=done.finished,
            rows=self._rows,
            commits=dict(done.commits),
            backlog=len(done),
            stalls=done.stalled,
            stopped=self._pace.stopped,
        )

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(self._report())

    def _check_apart(self, prepared: Mapping[str, PreparedCommit]) -> None:
        """Raise InvalidOption where two sinks are one to their table, which would take the second's commit for the first's."""
        seen: dict[tuple[str, str], str] = {}
        for name, one in prepared.items():
            other = seen.setdefault((one.table_id, one.operation.app), name)
            if other != name:
                for mine, made in prepared.items():
                    self.sinks[mine].abort(made)
                raise refuse_one_sequence(other, name, one.operation.app)
