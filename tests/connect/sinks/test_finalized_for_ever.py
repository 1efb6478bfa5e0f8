"""What was finalized stays known to its table: past log checkpoints, cleaned logs, expired versions and retentions of ids."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import sink
from gapless.tables.hudi.table import HudiTable
from support.moved_clock import MONTH_S, MovedClock, clock
from support.pipelines import SCHEMA, SINK_KINDS, made, opened, rows

__all__ = ["clock"]

APPENDED = 32
"""Commits of others: more than Hudi has in its timeline."""


def made_with_short_retention(kind: str, path: Path) -> None:
    """A Delta table whose owner lets other writers' ids go after an hour."""
    if kind == "delta":
        properties = {"delta.setTransactionRetentionDuration": "interval 1 hours"}
        gl.delta.create(path, SCHEMA, properties=properties)
    else:
        made(kind, path)


def clean(kind: str, path: Path) -> None:
    """Check-point the log twice, remove what may go of it, and of versions before the newest; a row more comes meanwhile."""
    table = opened(kind, path)
    if kind == "delta":
        table.checkpoint()
    table.append(rows(1000, 1))
    if kind == "delta":
        table.checkpoint()
        table.cleanup_log(timedelta(0), enforce_retention=False)
        table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
        oldest = min(int(file.stem) for file in (path / "_delta_log").glob("*.json"))
    elif kind == "timeseries":
        table.expire(keep_versions=1, clean_log=True)
        table.vacuum(timedelta(0), dry_run=False)
        oldest = min(int(file.stem) for file in (path / "_timeseries_log").glob("*.json"))
    elif kind == "iceberg":
        table.sweep()
        oldest = min(one.sequence_number for one in table.table.snapshots())
    else:
        # Commits archive and clean by themselves.
        HudiTable.open(str(path)).clean(1)
        left = len(list((path / ".hoodie" / "timeline").glob("*.commit")))
        oldest = APPENDED + 3 - left
    assert oldest > 3


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("kind", SINK_KINDS)
def test_eo_07_finalize_is_idempotent_after_the_log_was_cleaned_and_ids_of_others_expired(
    kind: str, mode: str, tmp_path: Path, clock: MovedClock
) -> None:
    path = tmp_path / "t"
    made_with_short_retention(kind, path)
    options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}

    def new_sink() -> Any:
        found = sink(f"{kind}:{path}", pipeline="orders", name="main", mode=mode, **options)
        found.initialize(SCHEMA)
        return found

    mine = new_sink()
    finalized = []
    for number in (1, 2):
        mine.write(rows(3 * number, 3))
        finalized.append(mine.prepare(number))
        mine.finalize(finalized[-1])
    table = opened(kind, path)
    for number in range(APPENDED):
        table.append(rows(100 + number, 1))
    clock.ahead_s = MONTH_S
    clean(kind, path)
    before = opened(kind, path)
    for prepared in finalized:
        other = new_sink()
        assert other.last_committed() == 2
        assert other.finalize(prepared).already_committed
    after = opened(kind, path)
    assert after.version == before.version
    assert sorted(after.scan().to_arrow()["v"].to_pylist()) == [*range(3, 9), *range(100, 100 + APPENDED), 1000]
