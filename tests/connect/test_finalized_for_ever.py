"""What was finalized stays known to its table: past log checkpoints, cleaned logs, expired versions and retentions of ids."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import gapless as gl
from gapless.connect import sink
from support.moved_clock import MONTH_S, MovedClock, clock
from support.pipelines import KINDS, SCHEMA, made, opened, rows

__all__ = ["clock"]


def made_with_short_retention(kind: str, path: Path) -> None:
    """A Delta table whose owner lets other writers' ids go after an hour."""
    if kind == "delta":
        properties = {"delta.setTransactionRetentionDuration": "interval 1 hours"}
        gl.delta.create(path, SCHEMA, properties=properties)
    else:
        made(kind, path)


def cleaned(kind: str, path: Path) -> list[str]:
    """Check-point the log twice, remove what may go of it; the commits that are left."""
    table = opened(kind, path)
    if kind == "delta":
        table.checkpoint()
        table.append(rows(1000, 1))
        table.checkpoint()
        table.cleanup_log(timedelta(0), enforce_retention=False)
        table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
        return sorted(file.name for file in (path / "_delta_log").glob("*.json"))
    table.append(rows(1000, 1))
    table.expire(keep_versions=1, clean_log=True)
    table.vacuum(timedelta(0), dry_run=False)
    return sorted(file.name for file in (path / "_timeseries_log").glob("*.json"))


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("kind", KINDS)
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
    for number in range(25):
        table.append(rows(100 + number, 1))
    clock.ahead_s = MONTH_S
    left = cleaned(kind, path)
    assert int(left[0].partition(".")[0]) > 20
    before = opened(kind, path)
    for prepared in finalized:
        other = new_sink()
        assert other.last_committed() == 2
        assert other.finalize(prepared).already_committed
    after = opened(kind, path)
    assert after.version == before.version
    assert sorted(after.scan().to_arrow()["v"].to_pylist()) == [*range(3, 9), *range(100, 125), 1000]
