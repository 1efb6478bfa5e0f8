"""What handles of every kind of table have: where the table is, and which version they see."""

from __future__ import annotations

from typing import Generic

from gapless.log.dialect import Snapshot, State
from gapless.runtime.driver import Rim
from gapless.runtime.locks import ForkSafeLock


class AtVersion(Generic[State]):
    """A table at one version."""

    def __init__(self, rim: Rim, name: str, snapshot: Snapshot[State]) -> None:
        """The table that `rim` reaches, at the version of `snapshot`."""
        self._rim, self._name, self._snapshot = rim, name, snapshot
        self._moving = ForkSafeLock()

    @property
    def name(self) -> str:
        """The last part of its path, by which SQL knows it."""
        return self._name

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._rim.store.url

    @property
    def version(self) -> int:
        """The version this handle sees."""
        return self._snapshot.version

    def _move_to(self, snapshot: Snapshot[State]) -> None:
        # Threads that share the handle may publish in any order; it never moves back.
        with self._moving:
            if snapshot.version > self._snapshot.version:
                self._snapshot = snapshot
