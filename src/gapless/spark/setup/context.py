"""The one door from a table that a user holds to what it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.coverage.bucket import Grid
from gapless.errors import NotSupported
from gapless.formats.timeseries.actions import TableState
from gapless.log.format import Snapshot
from gapless.runtime.environment import Environment
from gapless.tables.timeseries.context import SeriesCommitter
from gapless.tables.timeseries.handle import Handle
from gapless.tables.timeseries.read.coverage import CoverageCache

# ruff: noqa: SLF001  # jobs on executors take the parts, not the handle


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInternals:
    """A handle's place, and the version it sees."""

    env: Environment
    snapshot: Snapshot[TableState]
    committer: SeriesCommitter
    cache: CoverageCache
    grid: Grid


def inside(handle: Handle) -> TableInternals:
    """What this handle stands on at this moment; raises NotSupported for a table in memory, which no other process sees."""
    if handle.url.startswith("memory:"):
        raise NotSupported(
            f"Spark cannot reach {handle.url}",
            why="The table lies in the memory of this process, and Spark has others",
            fix="Make the table on disk or in a bucket; or read it with table.scan()",
            feature="spark",
        )
    return TableInternals(
        env=handle._env, snapshot=handle._snapshot, committer=handle._committer, cache=handle._cache, grid=handle._grid
    )


def inside_to_write(handle: Handle) -> TableInternals:
    """The same, to be written to; raises UpgradeNeeded and UnsupportedTable too."""
    handle._check_writable()
    return inside(handle)
