"""What Spark jobs on tables work with."""

from __future__ import annotations

from gapless.errors import NotSupported
from gapless.tables.delta.handle import DeltaContext, DeltaHandle
from gapless.tables.delta.handle import context_of as delta_context_of
from gapless.tables.timeseries.context import SeriesContext
from gapless.tables.timeseries.handle import Handle, context_of


def job_context(handle: Handle, *, to_write: bool = False) -> SeriesContext:
    """What a Spark job on a table works with; raises NotSupported for a table in memory, which no other process sees.

    With `to_write` raises UpgradeNeeded or UnsupportedTable where the handle may not write.
    """
    context = context_of(handle, to_write=to_write)
    check_reachable(handle.url)
    return context


def delta_job_context(handle: DeltaHandle, *, to_write: bool = False) -> DeltaContext:
    """`job_context` of a Delta table."""
    context = delta_context_of(handle, to_write=to_write)
    check_reachable(handle.url)
    return context


def check_reachable(url: str) -> None:
    """Raise NotSupported for the URL of a table in memory."""
    if url.startswith("memory:"):
        raise NotSupported(
            f"Spark cannot reach {url}",
            why="The table lies in the memory of this process, and Spark has others",
            fix="Make the table on disk or in a bucket; or read it with table.scan()",
            feature="spark",
        )
