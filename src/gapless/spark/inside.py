"""The one door from a table that a user holds to what it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.coverage.bucket import Grid
from gapless.dialects.timeseries.actions import TableState
from gapless.errors import NotSupported
from gapless.log.dialect import Snapshot
from gapless.runtime.driver import Rim
from gapless.runtime.series import SeriesCommitter
from gapless.table.coverage import CoverageCache
from gapless.table.handle import Handle

# ruff: noqa: SLF001  # jobs on executors take the parts, not the handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """A handle's place, and the version it sees."""

    rim: Rim
    snapshot: Snapshot[TableState]
    committer: SeriesCommitter
    cache: CoverageCache
    grid: Grid


def inside(handle: Handle) -> Inside:
    """What this handle stands on at this moment; raises NotSupported for a table in memory, which no other process sees."""
    if handle.url.startswith("memory:"):
        raise NotSupported(
            f"Spark cannot reach {handle.url}",
            why="The table lies in the memory of this process, and Spark has others",
            fix="Make the table on disk or in a bucket; or read it with table.scan()",
            feature="spark",
        )
    return Inside(
        rim=handle._rim, snapshot=handle._snapshot, committer=handle._committer, cache=handle._cache, grid=handle._grid
    )


def inside_to_write(handle: Handle) -> Inside:
    """The same, to be written to; raises UpgradeNeeded and UnsupportedTable too."""
    handle._check_writable()
    return inside(handle)
