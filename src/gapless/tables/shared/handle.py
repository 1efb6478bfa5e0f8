"""What handles of every kind of table share: where the table is, and which version they see."""

from __future__ import annotations

from typing import Generic

from gapless.log.format import Snapshot, State
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
