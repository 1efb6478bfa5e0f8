"""What one call on a table works with, whatever the table's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from gapless.log.format import Entry, Snapshot, State
from gapless.model.protocols import Store
from gapless.runtime.committer import Committer
from gapless.runtime.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext(Generic[Entry, State]):
    """The table of one call: the version that the handle saw when the call began, and how it commits. Handles make one per call."""

    snapshot: Snapshot[State]
    committer: Committer[Entry, State]

    @property
    def env(self) -> Environment:
        """The environment that the table is reached by."""
        return self.committer.env

    @property
    def store(self) -> Store:
        """Where the table lies."""
        return self.committer.env.store

    def refresh(self) -> Snapshot[State]:
        """The newest version, to which the handle moves; raises StoreError."""
        return self.committer.refresh(self.snapshot)
