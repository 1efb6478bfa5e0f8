"""Delta's own test tables under our maintenance: however they were written, it keeps their rows."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from gapless.errors import CorruptTable, TableNotFound, UnsupportedTable
from gapless.files.sort.curve_sort import has_rank
from gapless.tables.delta.table import DeltaTable
from support.delta_rows import counted_table

GOLDEN = Path(__file__).resolve().parents[5] / "shared" / "golden" / "delta"


def names() -> list[str]:
    return sorted(path.name for path in GOLDEN.iterdir()) if GOLDEN.is_dir() else []


@pytest.mark.filterwarnings("ignore::gapless.errors.LogWarning")  # some of their checkpoints are damaged on purpose
@pytest.mark.parametrize("name", names())
def test_maintenance_keeps_the_rows_of_a_golden_table(name: str, tmp_path: Path, shared: Path) -> None:
    assert shared.is_dir()
    shutil.copytree(GOLDEN / name / "delta", tmp_path / "t")
    try:
        table = DeltaTable.open(tmp_path / "t")
        before = counted_table(table.scan().to_arrow())
    except (CorruptTable, UnsupportedTable, TableNotFound):
        return  # what is broken in it, and how that is told: test_delta_golden.py
    read = table.version
    report = table.compact()
    assert report.given_up == ()
    assert counted_table(table.scan().to_arrow()) == before
    assert table.compact().bins == 0
    ranked = [field.name for field in table.schema if has_rank(field.type) and field.name not in table.partition_by]
    if ranked:
        table.zorder(ranked[:3], curve="hilbert")
        assert counted_table(table.scan().to_arrow()) == before
    later = table.version
    table.restore(read)
    table.restore(later)
    table.checkpoint()
    table.vacuum(timedelta(0), dry_run=False, enforce_retention=False)
    found = DeltaTable.open(tmp_path / "t")
    assert counted_table(found.scan().to_arrow()) == before
    assert {entry.reason for entry in found.vacuum().entries} <= {"live", "unknown", "in-flight"}
