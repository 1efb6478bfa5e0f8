"""The files written for one change of a Delta table, and not committed yet."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.model.instant import NS_PER
from gapless.parquet.staged_files import StagedFiles
from gapless.runtime.driver import Rim
from gapless.store.probe import probe_put_if_absent


@dataclass(slots=True)
class Attempt(StagedFiles):
    """The files of one change: data, change rows, deletion vectors. `put` stores one, `discard` removes all."""

    instant_ms: int
    """When it began, in milliseconds since 1970 UTC: its files' modification time, as the log says it."""

    @classmethod
    def begin(cls, rim: Rim, *, committed_here: bool = True) -> Attempt:
        """An attempt with nothing in it, begun now; pass its `ahead` and `discard` to its `Proposal`.

        The first one in a process tries the store; raises StoreError where that lets two creates of one object win.
        """
        probe_put_if_absent(rim.store)
        return cls(rim, rim.clock.now_ns() // NS_PER["ms"], committed_here=committed_here)
