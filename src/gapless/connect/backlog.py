"""Checkpoints that are decided and not in all sinks yet: finalized in order, each sink by itself, with backoff while one stands still."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gapless.connect.checkpoint_store import Checkpoint, CheckpointStore
from gapless.connect.pace import Pace, Stall, may_pass
from gapless.connect.sinks.protocol import CommitInfo, Sink
from gapless.errors import CommitConflict, CorruptTable, GaplessError, StoreError
from gapless.runtime.metrics import PIPELINE_BACKLOG, PIPELINE_CHECKPOINTS, PIPELINE_STALLS
from gapless.tables.shared.findings import count
from gapless.tables.shared.prepared import PreparedCommit

_LOGGER = logging.getLogger("gapless.connect")
_STORE = "the checkpoint store"


@dataclass(slots=True)
class Backlog:
    """What is decided and not finished, of one run."""

    sinks: Mapping[str, Sink]
    store: CheckpointStore
    acknowledge: Callable[[int], None]
    """Told of each checkpoint that is finished, in order."""
    pace: Pace
    commits: dict[str, CommitInfo] = field(default_factory=dict)
    """The last commit of each sink that had rows, or its first."""
    finished: int = 0
    """How many checkpoints with rows were finished."""
    stalled: int = 0
    """How often a sink, or the checkpoint store, began to stand still."""
    _waiting: deque[tuple[Checkpoint, bool]] = field(default_factory=deque)
    """In order; with whether it has rows."""
    _queues: dict[str, deque[PreparedCommit]] = field(default_factory=dict)
    """By the name of the sink: what it has not committed yet, in order."""
    _stalls: dict[str, Stall] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many checkpoints wait."""
        return len(self._waiting)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of those that wait, in order."""
        return tuple(checkpoint.id for checkpoint, _ in self._waiting)

    @property
    def paths(self) -> frozenset[str]:
        """The documents of prepared commits that are still to be finalized."""
        return frozenset(one.path for queue in self._queues.values() for one in queue)

    @property
    def retry_at(self) -> float:
        """When something that stands still is tried again, by the monotonic clock; 0 where nothing does."""
        return min((stall.retry_at for stall in self._stalls.values()), default=0.0)

    @property
    def longest_stall(self) -> Stall | None:
        """Of what stands still, what began first."""
        return min(self._stalls.values(), key=lambda stall: stall.since, default=None)

    def add(self, checkpoint: Checkpoint, *, rows: bool) -> None:
        """Take in a decided checkpoint, the next in order. Raises CorruptTable where it has rows for a sink that is not there."""
        if lost := sorted(checkpoint.prepared.keys() - self.sinks.keys()):
            raise CorruptTable(
                f"checkpoint {checkpoint.id} has rows for the sink {lost[0]!r}, which this pipeline does not have",
                why="It was decided to commit them before the sink was left out",
                fix="Run the pipeline once with that sink, then without",
                path=self.store.url,
            )
        self._waiting.append((checkpoint, rows))
        PIPELINE_BACKLOG.set(len(self), self.store.url)
        for name, prepared in checkpoint.prepared.items():
            self._queues.setdefault(name, deque()).append(prepared)

    def finalize(self) -> None:
        """Finalize what waits, but for sinks that stand still and whose next attempt is not due. Raises what no attempt mends, once each of the
        other sinks had its turn.
        """
        certain: GaplessError | None = None
        now = self.pace.now()
        # Who answered last time goes first, so that nobody waits for the deadline of one that does not.
        for name in sorted(self._queues, key=lambda name: (name in self._stalls, name)):
            if name in self._stalls and self._stalls[name].retry_at > now:
                continue
            try:
                self._finalize(name, self._queues[name])
            except GaplessError as error:
                if may_pass(error):
                    self._stall(name, error)
                else:
                    certain = certain or error
            else:
                self._resume(name)
        self._finish()
        if certain is not None:
            raise certain

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _finalize(self, name: str, queue: deque[PreparedCommit]) -> None:
        while queue:
            prepared = queue[0]
            try:
                done = self.sinks[name].finalize(prepared)
            except CommitConflict:
                if not self._abort_given_up(name, prepared):
                    raise
                done = self.sinks[name].finalize(prepared)
            queue.popleft()
            if prepared.records_written or name not in self.commits:
                self.commits[name] = done

    def _abort_given_up(self, name: str, before: PreparedCommit) -> bool:
        """Take back what another coordinator prepared late, under a number that was given up when this one recovered; whether there was any."""
        known = self.paths
        odd = [one for one in self.sinks[name].pending() if one.checkpoint_id < before.checkpoint_id and one.path not in known]
        for prepared in odd:
            _LOGGER.warning("%s: checkpoint %d was given up, and is taken back", self.store.url, prepared.checkpoint_id)
            self.sinks[name].abort(prepared)
        return bool(odd)

    def _finish(self) -> None:
        """Say so of all checkpoints that every sink has followed, in order."""
        if _STORE in self._stalls and self._stalls[_STORE].retry_at > self.pace.now():
            return
        held = {one.checkpoint_id for queue in self._queues.values() for one in queue}
        while self._waiting and self._waiting[0][0].id not in held:
            checkpoint, rows = self._waiting[0]
            try:
                self.store.finish(checkpoint)
            except StoreError as error:
                if not may_pass(error):
                    raise
                self._stall(_STORE, error)
                return
            self._waiting.popleft()
            self.finished += rows
            PIPELINE_CHECKPOINTS.add(1, "committed" if rows else "empty", self.store.url)
            PIPELINE_BACKLOG.set(len(self), self.store.url)
            self.acknowledge(checkpoint.id)
        self._resume(_STORE)

    def _stall(self, name: str, error: GaplessError) -> None:
        self.stalled += name not in self._stalls
        PIPELINE_STALLS.add(name not in self._stalls, self.store.url)
        stall = self._stalls[name] = self.pace.delay(self._stalls.get(name), error)
        level = logging.WARNING if stall.attempts == 1 else logging.INFO
        waiting = f"{count(len(self), 'checkpoint')} {'waits' if len(self) == 1 else 'wait'}"
        _LOGGER.log(level, "%s: %s stands still, %s: %s", self.store.url, _shown(name), waiting, error.what)

    def _resume(self, name: str) -> None:
        if (stall := self._stalls.pop(name, None)) is not None:
            lasted = self.pace.now() - stall.since
            _LOGGER.warning("%s: %s goes on after %.0f s", self.store.url, _shown(name), lasted)


def _shown(name: str) -> str:
    return name if name == _STORE else f"the sink {name!r}"
