"""The state of a pipeline, beside its checkpoints: who it is, whether it runs, how far it came."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from gapless.errors import CommitConflict, CorruptTable, InvalidOption, ObjectExists, ObjectNotFound
from gapless.model.protocols import Clock, IdSource, Store
from gapless.runtime.environment import RandomIds, SystemClock
from gapless.store.open import open_store

_IDENTITY, _RUN, _SINKS, _STOP = "pipeline.json", "run.json", "sinks.json", "stop"
_STOPPED_WITHIN_S, _LOOK_S = 120.0, 0.2
_DEAD_AFTER_S = 30.0
"""Of a run on another machine: how long after its last word it is taken for dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress:
    """How far one sink came."""

    batch: int | None = None
    """The newest batch that it has."""
    version: int | None = None
    """The version of its table after that."""
    rows: int = 0
    """Rows of the source that came in batches of this run."""
    rows_per_second: float = 0.0
    waiting: str = ""
    """What its sources say that waits to be read, such as "3 files" or "1,200 records"; empty where they say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """How a run was started, so that the same can be started again."""

    file: str = ""
    """The absolute path of its SQL; empty where it came from a text."""
    continuous: bool = False
    master: str = ""
    """Where Spark runs, as it was said on the command line; empty where it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The newest run of a pipeline."""

    number: int
    """The pipeline's runs are counted from 1."""
    status: Literal["running", "stopped", "finished", "failed", "died"]
    """"died" is what a reader makes of one that says it runs, and whose process is gone."""
    pid: int
    host: str
    started: str
    """ISO text in UTC, as the other times."""
    heard: str
    error: str = ""
    process: str = ""
    """Tells the process from a later one of its number, where the machine says so."""
    start: RunStart = field(default_factory=RunStart)
    sinks: Mapping[str, SinkProgress] = field(default_factory=dict)


class PipelineState:
    """The documents about a pipeline in a folder or bucket; Spark's checkpoints of its queries lie there too."""

    def __init__(self, location: str, *, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        """At a path or URL. Raises InvalidPath."""
        self._store: Store = open_store(location)
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._store.url

    def checkpoint(self, query: str) -> str:
        """Where Spark keeps the checkpoint of a query."""
        return self._as_spark_names("queries", query)

    @property
    def document(self) -> str:
        """Where the document about the newest run lies, as Spark names it."""
        return self._as_spark_names(_RUN)

    @property
    def kept(self) -> str:
        """Where rows of planned batches are kept until they are committed."""
        return f"{self.url.rstrip('/')}/rows"

    def _as_spark_names(self, *below: str) -> str:
        return "/".join([self.url.rstrip("/"), *below]).replace("s3://", "s3a://")

    def incarnation(self) -> str:
        """The pipeline's own id since its first run, or the first one after a reset, which its sinks know its batches by. Raises CorruptTable,
        StoreError.
        """
        made = {"incarnation": self._ids.uuid(), "made": self._now()}
        try:
            self._store.put(_IDENTITY, json.dumps(made).encode())
        except ObjectExists:
            return str(self._document(_IDENTITY)["incarnation"])
        return str(made["incarnation"])

    def numbering(self) -> dict[str, str]:
        """What numbers the batches of each sink that was filled, by its name in lower case. Raises CorruptTable, StoreError."""
        try:
            return {str(name): str(one) for name, one in self._document(_SINKS).items()}
        except ObjectNotFound:
            return {}

    def record_numbering(self, found: Mapping[str, str]) -> None:
        """Say what numbers the batches of sinks, before their first; what was said of others stays."""
        known = self.numbering()
        if not found.items() <= known.items():
            self._store.put(_SINKS, json.dumps({**known, **found}, sort_keys=True).encode(), mode="overwrite")

    def begin(self, start: RunStart | None = None) -> RunState:
        """A run that begins now, by `start`; raises CommitConflict where another one is at work."""
        if (other := self.run()) is not None and other.status == "running":
            raise CommitConflict(
                f"the pipeline at {self.url} runs already, as process {other.pid} on {other.host} since {other.started}",
                why="Two runs would read the same rows, and each would find the other's checkpoints",
                fix="Stop that one with `gapless pipelines stop`, or wait for its end",
                version=0,
                reason="another coordinator",
            )
        self._delete(_STOP)
        now = self._now()
        number = 1 if other is None else other.number + 1
        begun = RunState(
            number=number,
            status="running",
            pid=os.getpid(),
            host=socket.gethostname(),
            process=process_mark(os.getpid()),
            start=start or RunStart(),
            started=now,
            heard=now,
        )
        self.tell(begun)
        return begun

    def tell(self, run: RunState) -> RunState:
        """Record how a run stands now."""
        told = replace(run, heard=self._now())
        self._store.put(_RUN, json.dumps(asdict(told)).encode(), mode="overwrite", durable=False)
        return told

    def run(self) -> RunState | None:
        """The newest run, as it is: one whose process is gone has died. None where there was none. Raises CorruptTable, StoreError."""
        try:
            told = self._document(_RUN)
        except ObjectNotFound:
            return None
        try:
            sinks = {name: SinkProgress(**one) for name, one in told.pop("sinks").items()}
            start = RunStart(**told.pop("start", {}))
            run = RunState(**told, start=start, sinks=sinks)
            heard = datetime.fromisoformat(run.heard)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise self._damaged(_RUN, error) from error
        if run.status != "running":
            return run
        silent = datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC) - heard
        here = run.host == socket.gethostname()
        dead = not _is_alive(run.pid, run.process) if here else silent.total_seconds() > _DEAD_AFTER_S
        return replace(run, status="died") if dead else run

    def ask_to_stop(self) -> None:
        """Have the run end after its batch."""
        self._store.put(_STOP, b"", mode="overwrite", durable=False)

    def stop_and_wait(self) -> RunState | None:
        """Have the run end after its batch, and wait until it has; how the newest run stands then.

        Raises CommitConflict where it is at work still after two minutes.
        """
        until = self._clock.monotonic() + _STOPPED_WITHIN_S
        run = self.run()
        if run is not None and run.status == "running":
            self.ask_to_stop()
        while run is not None and run.status == "running":
            if self._clock.monotonic() > until:
                raise CommitConflict(
                    f"the pipeline at {self.url} has not ended: process {run.pid} on {run.host} is at work",
                    why=f"It was asked to stop {_STOPPED_WITHIN_S:.0f} seconds ago, and ends after its batches",
                    fix="Wait for its end and start it again; or end that process, and what it had begun comes again, once",
                    version=0,
                    reason="another coordinator",
                )
            self._clock.sleep(_LOOK_S)
            run = self.run()
        return run

    def is_asked_to_stop(self) -> bool:
        """Whether somebody did."""
        try:
            self._store.head(_STOP)
        except ObjectNotFound:
            return False
        return True

    def reset(self) -> int:
        """Forget how far it came: checkpoints and state go; how many objects went. What its sinks have stays in them.

        Raises CommitConflict while it runs.
        """
        run = self.run()
        if run is not None and run.status == "running":
            raise CommitConflict(
                f"the pipeline at {self.url} runs, as process {run.pid} on {run.host}",
                why="It needs its checkpoints",
                fix="Stop it first, with `gapless pipelines stop`",
                version=0,
                reason="another coordinator",
            )
        found = [one.path for one in self._store.list()]
        if found and not any(one in (_IDENTITY, _RUN) for one in found):
            raise InvalidOption(
                f"{self.url} holds no pipeline",
                why=f"There is no {_IDENTITY} in it, and other files would be lost",
                fix="Name the folder of its checkpoints",
                option="checkpoints",
                value=self.url,
            )
        for path in found:
            self._delete(path)
        return len(found)

    def _document(self, path: str) -> dict[str, Any]:
        try:
            told = json.loads(self._store.get(path))
        except ValueError as error:
            raise self._damaged(path, error) from error
        if not isinstance(told, dict):
            raise self._damaged(path, "It is no object")
        return told

    def _damaged(self, path: str, why: object) -> CorruptTable:
        return CorruptTable(
            f"{path} in {self.url} cannot be read",
            why=str(why),
            fix="Bring it back, or forget how far the pipeline came with `gapless pipelines reset`",
            path=path,
        )

    def _delete(self, path: str) -> None:
        try:
            self._store.delete(path)
        except ObjectNotFound:
            return

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")


def _is_alive(pid: int, mark: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    found = process_mark(pid)
    return found != _ZOMBIE and (not mark or not found or mark == found)


_ZOMBIE = "zombie"


def process_mark(pid: int) -> str:
    """What tells a process from a later one of the same number: when this machine was started, and when it was. Empty where it is not known."""
    try:
        boot = _kernel_says("sys/kernel/random/boot_id").strip()
        # The name before the last bracket may hold anything; the start is the 22nd field of all.
        fields = _kernel_says(f"{pid}/stat").rpartition(")")[2].split()
        return _ZOMBIE if fields[0] == "Z" else f"{boot}/{fields[19]}"
    except (OSError, IndexError):
        return ""


def _kernel_says(name: str) -> str:
    return (Path("/proc") / name).read_text(encoding="utf-8", errors="replace")
