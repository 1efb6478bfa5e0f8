"""Maintenance of a Delta table beside writers that are at work: nothing is lost, nothing comes back, nothing is doubled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from gapless.tables.delta.table import DeltaTable
from support.clocked_delta import SCHEMA, numbered
from support.delta_tables import LAYOUTS, replayed

ROUNDS = 6


@pytest.mark.parametrize("layout", ["copies and feed", "vectors and feed"])
def test_writers_and_maintenance_run_side_by_side(layout: str, tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA, properties=LAYOUTS[layout])
    table.append(numbered(*range(10_000, 10_000 + 10 * ROUNDS)))

    def append(turn: int) -> None:
        DeltaTable.open(tmp_path / "t").append(numbered(*range(turn * 10, turn * 10 + 10)))

    def delete(turn: int) -> None:
        DeltaTable.open(tmp_path / "t").delete(f"id between {10_000 + turn * 10} and {10_004 + turn * 10}")

    def compact(turn: int) -> None:
        handle = DeltaTable.open(tmp_path / "t")
        handle.zorder("id") if turn % 3 == 2 else handle.compact()

    def vacuum(_turn: int) -> None:
        DeltaTable.open(tmp_path / "t").vacuum(timedelta(0), dry_run=False, enforce_retention=False)

    def repeat(act: Callable[[int], None]) -> None:
        for turn in range(ROUNDS):
            act(turn)

    acts = [append, delete, compact]
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(repeat, act) for act in acts]:
            done.result()
    table.refresh()
    expected = [*range(10 * ROUNDS), *(one for one in range(10_000, 10_000 + 10 * ROUNDS) if one % 10 >= 5)]
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == expected
    assert replayed(table).total() == len(expected)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(repeat, act) for act in (append, vacuum)]:
            done.result()
    assert sorted(table.refresh().scan().to_arrow().column("id").to_pylist()) == sorted([*expected, *range(10 * ROUNDS)])
    report = table.compact()
    assert report.given_up == ()
    assert table.compact().version == report.version
