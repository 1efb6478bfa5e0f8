"""A pipeline in plain Python: rows from a source, through a function, into sinks, each row once in each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore, Recovered
from gapless.connect.sinks.protocol import CommitInfo, Sink
from gapless.connect.sources.protocol import Source
from gapless.errors import (
    CorruptTable,
    GaplessError,
    InvalidOption,
    NoCheckpointing,
    NotSupported,
    RetractingInput,
    SinkCannotDedup,
    SourceCannotReplay,
)
from gapless.files.compare.row_diff import CHANGE_TYPE
from gapless.tables.shared.prepared import PreparedCommit

_LOGGER = logging.getLogger("gapless.connect")

Transform = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table | Mapping[str, pa.RecordBatch | pa.Table]]
"""Of a batch of the source, the rows for the sinks: the same for all, or a mapping by the sink's name. A function of the batch alone."""
BATCH_ROWS = 1 << 16


def unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as they come."""
    return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerReport:
    """What one run did."""

    checkpoints: int
    """How many with rows it committed, and one that it found decided."""
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
    transform: Transform = unchanged
    checkpoint_rows: int = 1_000_000
    """A checkpoint is made after so many rows at the latest."""

    def run(self, *, checkpoints: int | None = None) -> RunnerReport:
        """Poll until there are no rows for now, or so many checkpoints were made. Raises what sources, sinks and the store raise: running
        again goes on, and loses or doubles nothing. Rows before an error of the source are committed first.

        A source that moved on without rows, as past a compaction, has its cursor stored too: versions that it left out need not be kept.

        Raises before the first row SourceCannotReplay, SinkCannotDedup, NoCheckpointing, and RetractingInput where the source tells of rows that
        were taken back, a sink does not take those, and no transform says what becomes of them; InvalidOption where a sink has committed checkpoints that the store does not know.
        """
        self._check()
        recovered, commits = self._recover()
        number, made, rows = recovered.next_id, 1 if commits else 0, 0
        stored = None if recovered.decided is None else recovered.decided.cursor
        while checkpoints is None or made < checkpoints:
            taken, cursor = self._fill(), self.source.cursor
            if not taken and stored is not None and cursor.state == stored.state:
                break
            done = self._commit(number)
            commits, stored = done if taken or not commits else commits, cursor
            number, made, rows = number + 1, made + (1 if taken else 0), rows + taken
            if not taken:
                break
        return RunnerReport(checkpoints=made, rows=rows, commits=commits)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if type(self.checkpoint_rows) is not int or self.checkpoint_rows < 1:
            raise InvalidOption(
                f"checkpoint_rows={self.checkpoint_rows!r} is no number of rows",
                why="A checkpoint is made after so many rows at the latest",
                fix="Pass 1 or more",
                option="checkpoint_rows",
                value=self.checkpoint_rows,
            )
        if not isinstance(self.store, CheckpointStore):
            raise _refuse(
                NoCheckpointing,
                "the pipeline has no checkpoint store",
                "After a crash nobody would know which rows are in its sinks",
                'Pass a CheckpointStore("…")',
            )
        if not self.source.capabilities.replays:
            raise _refuse(
                SourceCannotReplay,
                "the source cannot be read again from a cursor",
                "What was read and not committed would be lost in a crash",
            )
        for name, sink in self.sinks.items():
            if not sink.capabilities.exactly_once:
                raise _refuse(
                    SinkCannotDedup,
                    f"the sink {name!r} does not know what it has committed",
                    "A checkpoint sent again would be doubled",
                    sink=name,
                )
            if self.source.capabilities.retracts and self.transform is unchanged and not sink.capabilities.takes_changes:
                raise _refuse(
                    RetractingInput,
                    f"the source tells of rows that were changed or removed, and the sink {name!r} takes no such rows",
                    "Without a transform all of them would be written, those that were removed too",
                    'Make the sink with mode="cdc", or pass a transform',
                    column=CHANGE_TYPE,
                )

    def _recover(self) -> tuple[Recovered, dict[str, CommitInfo]]:
        """Where to go on, and what a checkpoint did that was decided and not known to be finished."""
        recovered = self.store.recover()
        decided = recovered.decided
        # The columns are known once the source stands where it goes on.
        self.source.start(None if decided is None else decided.cursor)
        for sink in self.sinks.values():
            sink.abort(None)
        for name, schema in self._columns().items():
            self.sinks[name].initialize(schema)
        self._check_known(decided)
        self._abort_undecided(recovered)
        commits: dict[str, CommitInfo] = {}
        if decided is not None and not recovered.finished:
            _LOGGER.info("%s: checkpoint %d was decided and not finished: it is committed now", self.store.url, decided.id)
            commits = self._finalize(decided)
        for checkpoint in recovered.aborted:
            _LOGGER.info("%s: checkpoint %d was prepared and not decided: it is taken back", self.store.url, checkpoint.id)
            self.store.forget(checkpoint)
        return recovered, commits

    def _check_known(self, decided: Checkpoint | None) -> None:
        """Raise InvalidOption where a sink knows checkpoints after the last decision: it would take new ones for those."""
        for name, sink in self.sinks.items():
            last = sink.last_committed()
            if last is not None and last > (-1 if decided is None else decided.id):
                known = "none" if decided is None else f"{decided.id} as the last one"
                raise InvalidOption(
                    f"the sink {name!r} has committed checkpoint {last}, and the checkpoint store knows {known}",
                    why="The store is empty, older or another pipeline's, or another coordinator was quicker; the table would take new"
                    " checkpoints for those that it has, and leave their rows out",
                    fix="Bring the store back, or begin anew with a higher generation of the sink, whose rows then come again",
                    option="store",
                    value=self.store.url,
                )

    def _abort_undecided(self, recovered: Recovered) -> None:
        """Take back what was prepared by a coordinator that died, or was told that it does not decide: its rows come again.

        First of all, since a checkpoint cannot be finalized while one before it is prepared.
        """
        decided = {} if recovered.decided is None or recovered.finished else recovered.decided.prepared
        for name, sink in self.sinks.items():
            mine = decided[name].path if name in decided else ""
            for prepared in sink.pending():
                if prepared.checkpoint_id < recovered.next_id and prepared.path != mine:
                    sink.abort(prepared)

    def _columns(self) -> Mapping[str, pa.Schema]:
        empty = pa.RecordBatch.from_pylist([], schema=self.source.schema)
        return {name: rows.schema for name, rows in self._transformed(empty).items()}

    def _transformed(self, batch: pa.RecordBatch) -> Mapping[str, pa.RecordBatch | pa.Table]:
        made = self.transform(batch)
        given = made if isinstance(made, Mapping) else dict.fromkeys(self.sinks, made)
        if odd := sorted(map(str, self.sinks.keys() ^ given.keys())):
            raise _refuse_transform(f"rows for other names than those of the sinks: {', '.join(odd)} is on one side only")
        for name, rows in given.items():
            if not isinstance(rows, pa.RecordBatch | pa.Table):
                raise _refuse_transform(f"a {type(rows).__name__} for the sink {name!r}")
        return given

    def _fill(self) -> int:
        """Write the rows of one checkpoint; how many were polled."""
        taken = 0
        while taken < self.checkpoint_rows:
            try:
                polled = self.source.poll(min(BATCH_ROWS, self.checkpoint_rows - taken))
            except GaplessError:
                if not taken:
                    raise
                break  # it comes again with the next poll, once the rows before it are committed
            if not polled.rows:
                break
            for batch in polled:
                for name, rows in self._transformed(batch).items():
                    self.sinks[name].write(rows)
            taken += polled.rows
        return taken

    def _commit(self, number: int) -> dict[str, CommitInfo]:
        prepared = {name: sink.prepare(number) for name, sink in self.sinks.items()}
        self._check_apart(prepared)
        checkpoint = Checkpoint(id=number, cursor=self.source.cursor, prepared=prepared)
        self.store.record(checkpoint)
        self.store.decide(checkpoint)
        return self._finalize(checkpoint)

    def _check_apart(self, prepared: Mapping[str, PreparedCommit]) -> None:
        """Raise InvalidOption where two sinks are one to their table, which would take the second's commit for the first's."""
        seen: dict[tuple[str, str], str] = {}
        for name, one in prepared.items():
            other = seen.setdefault((one.table_id, one.operation.app), name)
            if other != name:
                for made in prepared.values():
                    self.sinks[name].abort(made)
                raise InvalidOption(
                    f"the sinks {other!r} and {name!r} are both {one.operation.app} of one table",
                    why="The table knows checkpoints by that, and would leave out the rows of one of them",
                    fix="Give each sink of a table a name of its own",
                    option="name",
                    value=name,
                )

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


def _refuse_transform(what: str) -> InvalidOption:
    return InvalidOption(
        f"the transform gave {what}",
        why="It gives a record batch or table for all sinks, or a mapping with one for each of them",
        fix="Give each sink its rows, an empty batch of the same columns where there are none",
        option="transform",
        value=None,
    )


def _refuse(
    kind: type[NotSupported], what: str, why: str, fix: str = "Use another source or sink for it", **facts: str
) -> NotSupported:
    return kind(what, why=why, fix=fix, feature="exactly-once pipelines", **facts)
