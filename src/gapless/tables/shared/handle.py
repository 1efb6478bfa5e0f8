"""What handles of every kind of table share: where the table is, which version they see, and what became of a change sent before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gapless.log.format import Snapshot, State
from gapless.model.operation import OperationId, Tally
from gapless.runtime.concurrency import ForkSafeLock
from gapless.runtime.environment import Environment


class AtVersion(Generic[State]):
    """A table at one version."""

    def __init__(self, env: Environment, name: str, snapshot: Snapshot[State]) -> None:
        """The table that `env` reaches, at the version of `snapshot`."""
        self._env, self._name, self._snapshot = env, name, snapshot
        self._moving = ForkSafeLock()

    @property
    def name(self) -> str:
        """The last part of its path, by which SQL knows it."""
        return self._name

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._env.store.url

    @property
    def version(self) -> int:
        """The version this handle sees."""
        return self._snapshot.version

    def _move_to(self, snapshot: Snapshot[State]) -> None:
        # Threads that share the handle may publish in any order; it never moves back.
        with self._moving:
            if snapshot.version > self._snapshot.version:
                self._snapshot = snapshot


class AppliedOperation(Protocol):
    """An operation that was applied, as the log tells of it."""

    @property
    def version(self) -> int | None:
        """The version that holds it; None where the log does not say that any more."""
        ...

    def tally_of(self, asked: OperationId) -> Tally:
        """What the operation asked for counted, as far as it is known."""
        ...


class Recognises(Protocol):
    """The state of a table, which remembers operations."""

    def recognise(self, operation: OperationId) -> AppliedOperation | None:
        """The operation, or its app's higher sequence, if this or a later one was applied."""
        ...


Memory = TypeVar("Memory", bound=Recognises)


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a change counted, and the version that holds it; `already` where its operation id was known."""

    tally: Tally
    version: int
    already: bool = False

    @classmethod
    def before(cls, snapshot: Snapshot[Memory], operation: OperationId | None) -> ChangeOutcome | None:
        """What was counted when the operation was applied, if this version has applied it."""
        if operation is None or (known := snapshot.state.recognise(operation)) is None:
            return None
        version = snapshot.version if known.version is None else known.version
        return cls(known.tally_of(operation), version, already=True)
