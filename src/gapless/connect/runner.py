"""A pipeline in plain Python: rows from a source, through a function, into sinks, each row once in each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore, Recovered
from gapless.connect.sink import CommitInfo, Sink
from gapless.connect.source import Source
from gapless.errors import CorruptTable, NotSupported

_LOGGER = logging.getLogger("gapless.connect")

Transform = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | Mapping[str, pa.RecordBatch | pa.Table]]
"""Of a batch of the source, the rows for the sinks: the same for all, or a mapping by the sink's name. A function of the batch alone."""
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """What one run did."""

    checkpoints: int
    """How many it committed, one that it found decided among them."""
    rows: int
    """How many rows it polled."""
    commits: Mapping[str, CommitInfo]
    """The last commit of each sink, by its name."""


@dataclass(slots=True)
class Runner:
    """Runs a pipeline with two-phase commits: what is in the sinks is always what some checkpoint of the source gave, each row once.

    Args of the constructor: the source; a function of each batch; sinks by name; the checkpoint store. Begun anew over the same store, it
    first does what the last decision says (finalize), then takes back what was prepared without one (abort), then goes on at the stored cursor.
    """

    source: Source
    sinks: Mapping[str, Sink]
    store: CheckpointStore
    transform: Transform = lambda batch: batch
    checkpoint_rows: int = 1_000_000
    """A checkpoint is made after so many rows at the latest."""

    def run(self, *, checkpoints: int | None = None) -> RunnerReport:
        """Poll until there are no rows for now, or so many checkpoints were made. Raises what sources, sinks and the store raise: running
        again goes on, and loses or doubles nothing.

        Raises NotSupported before the first row where a source cannot replay, or retracts and a sink appends.
        """
        self._check()
        recovered = self._recover()
        number, made, rows = recovered.next_id, 0, 0
        commits: dict[str, CommitInfo] = {}
        while checkpoints is None or made < checkpoints:
            taken = self._fill()
            if not taken:
                break
            commits = self._commit(number)
            number, made, rows = number + 1, made + 1, rows + taken
        return RunnerReport(checkpoints=made, rows=rows, commits=commits)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self.source.capabilities.replays:
            raise _refuse(
                "the source cannot be read again from a cursor", "What was read and not committed would be lost in a crash"
            )
        for name, sink in self.sinks.items():
            if not sink.capabilities.exactly_once:
                raise _refuse(
                    f"the sink {name!r} does not know what it has committed", "A checkpoint sent again would be doubled"
                )

    def _recover(self) -> Recovered:
        recovered = self.store.recover()
        decided = recovered.decided
        # The columns are known once the source stands where it goes on.
        self.source.start(None if decided is None else decided.cursor)
        for sink in self.sinks.values():
            sink.abort(None)
        if self.sinks and (first := self._columns()) is not None:
            for name, sink in self.sinks.items():
                sink.initialize(first[name])
        if decided is not None and not recovered.finished:
            _LOGGER.info("%s: checkpoint %d was decided and not finished: it is committed now", self.store.url, decided.id)
            self._finalize(decided)
        for checkpoint in recovered.aborted:
            _LOGGER.info("%s: checkpoint %d was prepared and not decided: it is taken back", self.store.url, checkpoint.id)
            for name, prepared in checkpoint.prepared.items():
                if name in self.sinks:
                    self.sinks[name].abort(prepared)
            self.store.forget(checkpoint)
        # Prepared by a process that died before it recorded them: no checkpoint has them, so their rows come again.
        for sink in self.sinks.values():
            for prepared in sink.pending():
                if prepared.checkpoint_id < recovered.next_id:
                    sink.abort(prepared)
        return recovered

    def _columns(self) -> Mapping[str, pa.Schema] | None:
        empty = pa.RecordBatch.from_pylist([], schema=self.source.schema)
        return {name: rows.schema for name, rows in self._transformed(empty).items()}

    def _transformed(self, batch: pa.RecordBatch) -> Mapping[str, pa.RecordBatch | pa.Table]:
        made = self.transform(batch)
        if isinstance(made, Mapping):
            missing = self.sinks.keys() - made.keys()
            if missing:
                raise _refuse(
                    f"the transform gave no rows for {', '.join(sorted(missing))}", "A mapping has rows for each sink"
                )
            return {name: made[name] for name in self.sinks}
        return dict.fromkeys(self.sinks, made)

    def _fill(self) -> int:
        """Write the rows of one checkpoint; how many were polled."""
        taken = 0
        while taken < self.checkpoint_rows:
            polled = self.source.poll(min(BATCH_ROWS, self.checkpoint_rows - taken))
            if not polled.rows:
                break
            for batch in polled:
                for name, rows in self._transformed(batch).items():
                    self.sinks[name].write(rows)
            taken += polled.rows
        return taken

    def _commit(self, number: int) -> dict[str, CommitInfo]:
        prepared = {name: sink.prepare(number) for name, sink in self.sinks.items()}
        checkpoint = Checkpoint(id=number, cursor=self.source.cursor, prepared=prepared)
        self.store.record(checkpoint)
        self.store.decide(checkpoint)
        return self._finalize(checkpoint)

    def _finalize(self, checkpoint: Checkpoint) -> dict[str, CommitInfo]:
        if lost := sorted(checkpoint.prepared.keys() - self.sinks.keys()):
            raise CorruptTable(
                f"checkpoint {checkpoint.id} has rows for the sink {lost[0]!r}, which this pipeline does not have",
                why="It was decided to commit them before the sink was left out",
                fix="Run the pipeline once with that sink, then without",
                path=self.store.url,
            )
        done = {name: self.sinks[name].finalize(prepared) for name, prepared in checkpoint.prepared.items()}
        self.store.finish(checkpoint)
        self.source.acknowledge(checkpoint.id)
        return done


def _refuse(what: str, why: str) -> NotSupported:
    return NotSupported(what, why=why, fix="Use another source or sink for it", feature="exactly-once pipelines")
