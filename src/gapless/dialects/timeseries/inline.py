"""How much of a table may lie in its log. Pure."""

from __future__ import annotations

from gapless.dialects.timeseries.actions import TableState

MAX_INLINED_BYTES = 8 << 20
"""Bytes of Parquet of the live segments that lie in commits, about: log checkpoints hold them all, and so does whoever opens the table."""


def inline_limit(state: TableState) -> int:
    """Bytes up to which the next append may lie in its commit: what the table's properties say, or 0 where enough lies there already."""
    limit = state.meta.properties.inline_bytes
    return limit if state.inlined_bytes + limit <= MAX_INLINED_BYTES else 0
