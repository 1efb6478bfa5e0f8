"""Commits as the command line shows them."""

from __future__ import annotations

from datetime import timedelta

from gapless.cli.texts import Plain
from gapless.cli.values import plain_index_value
from gapless.table.history import HistoryEntry


def commit_document(entry: HistoryEntry) -> dict[str, Plain]:
    """A commit as JSON has it; `duration_s` is in seconds, and null where the writer did not say."""
    return {
        "version": entry.version,
        "time": plain_index_value(entry.time, aware=True),
        "operation": entry.operation,
        "parameters": dict(entry.parameters),
        "rows": entry.rows,
        "removed_rows": entry.removed_rows,
        "segments": entry.segments,
        "removed_segments": entry.removed_segments,
        "bytes": entry.bytes,
        "removed_bytes": entry.removed_bytes,
        "duration_s": None if entry.duration is None else entry.duration / timedelta(seconds=1),
        "tags": list(entry.tags),
        "engine": entry.engine,
        "commit_id": entry.commit_id,
    }
