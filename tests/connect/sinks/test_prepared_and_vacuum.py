"""What a prepared commit names stays, however old it is and whatever is tidied, until it is finalized or aborted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gapless.connect import sink
from gapless.errors import CommitConflict, CorruptTable
from support.moved_clock import MONTH_S, MovedClock, clock
from support.pipelines import KINDS, SCHEMA, made, opened, rows

__all__ = ["clock"]


@pytest.mark.parametrize("mode", ["append", "upsert", "overwrite"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_prepared_a_month_ago_is_finalized_whole(kind: str, mode: str, tmp_path: Path, clock: MovedClock) -> None:
    place = tmp_path / "t"
    made(kind, place).append(rows(0, 2))
    options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}
    mine = sink(f"{kind}:{place}", pipeline="orders", name="main", mode=mode, **options)
    mine.initialize(SCHEMA)
    mine.write(rows(2, 3))
    prepared = mine.prepare(1)
    clock.ahead_s = MONTH_S
    table = opened(kind, place)
    table.append(rows(10, 1))
    table.append(rows(11, 1))
    table.compact()
    shown = table.vacuum(timedelta(0), **({"enforce_retention": False} if kind == "delta" else {}))
    reasons = {entry.path: entry.reason for entry in shown.entries}
    assert {reasons[path] for path in (prepared.path, *prepared.needs)} == {"prepared"}
    table.vacuum(timedelta(0), dry_run=False, **({"enforce_retention": False} if kind == "delta" else {}))
    if kind == "delta":
        table.cleanup_log(timedelta(0), enforce_retention=False)
    late = sink(f"{kind}:{place}", pipeline="orders", name="main", mode=mode, **options)
    late.initialize(SCHEMA)
    assert late.pending() == [prepared]
    late.finalize(prepared)
    found = sorted(opened(kind, place).scan().to_arrow()["v"].to_pylist())
    assert found == ([2, 3, 4] if mode == "overwrite" else [0, 1, 2, 3, 4, 10, 11])
    assert opened(kind, place).verify(deep=True).ok


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_aborted_or_never_prepared_is_an_orphan(kind: str, tmp_path: Path, clock: MovedClock) -> None:
    place = tmp_path / "t"
    made(kind, place).append(rows(0, 1))
    for mode in ("append", "upsert"):
        options: dict[str, Any] = {"key": ["ts"]} if mode == "upsert" else {}
        mine = sink(f"{kind}:{place}", pipeline="orders", name=mode, mode=mode, spill_bytes=1, **options)
        mine.initialize(SCHEMA)
        mine.write(rows(5, 1))  # staged, and then the process is gone
    left = {one for one in place.rglob("*.parquet") if "_log" not in str(one)}
    assert len(left) == 3
    clock.ahead_s = MONTH_S
    opened(kind, place).vacuum(dry_run=False)
    assert len({one for one in place.rglob("*.parquet") if "_log" not in str(one)}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_were_staged_for_half_a_day_are_not_prepared(kind: str, tmp_path: Path, clock: MovedClock) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="orders", name="main", spill_bytes=1)
    mine.initialize(SCHEMA)
    mine.write(rows(0, 1))
    clock.ahead_s = MONTH_S
    with pytest.raises(CommitConflict, match="half a day"):
        mine.prepare(1)
    assert mine.pending() == []
    mine.write(rows(0, 1))
    mine.finalize(mine.prepare(1))
    assert opened(kind, place).scan().count() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_cannot_be_read_stops_vacuum(kind: str, tmp_path: Path, clock: MovedClock) -> None:
    place = tmp_path / "t"
    made(kind, place)
    mine = sink(f"{kind}:{place}", pipeline="orders", name="main")
    mine.initialize(SCHEMA)
    mine.write(rows(0, 1))
    prepared = mine.prepare(1)
    (place / prepared.path).write_bytes(b"{")
    clock.ahead_s = MONTH_S
    with pytest.raises(CorruptTable, match=prepared.attempt):
        opened(kind, place).vacuum(dry_run=False)
    assert all((place / file).exists() for file in prepared.needs)


def test_verify_calls_prepared_segments_prepared_until_they_are_committed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = made("timeseries", place)
    mine = sink(f"timeseries:{place}", pipeline="orders", name="main")
    mine.initialize(SCHEMA)
    mine.write(rows(0, 2))
    prepared = mine.prepare(1)
    report = table.verify(deep=True)
    assert report.ok
    assert {note.path: note.code for note in report.notes} == dict.fromkeys(prepared.needs, "prepared")
    assert "checkpoint 1 of orders/main#1" in report.notes[0].what
    mine.finalize(prepared)
    assert table.verify(deep=True).findings == ()


def test_verify_tells_of_a_prepared_commit_that_cannot_be_read(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = made("timeseries", place)
    mine = sink(f"timeseries:{place}", pipeline="orders", name="main")
    mine.initialize(SCHEMA)
    mine.write(rows(0, 2))
    prepared = mine.prepare(1)
    document = place / prepared.path
    document.write_bytes(document.read_bytes()[:-20])
    report = table.verify()
    assert [problem.code for problem in report.problems] == ["prepared-unreadable"]
    with pytest.raises(CorruptTable):
        table.vacuum(dry_run=False)
