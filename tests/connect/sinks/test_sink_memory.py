"""A checkpoint larger than the memory cap is spilled, and merged with hardly more memory than the table takes for the rows that stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.pipelines import KINDS, SINK_KINDS

PROBE = Path(__file__).with_name("sink_memory_probe.py")
ROWS = 200_000
ROW_BYTES = 220
SPILL_MB = 16


def took(job: str, kind: str, keys: int, place: Path) -> dict[str, float]:
    command = [sys.executable, str(PROBE), job, kind, str(ROWS), str(keys), str(place)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{job} of {keys} keys into {kind}: {found}")
    return found


@pytest.mark.parametrize(
    "kind", ["timeseries", *(pytest.param(one, marks=pytest.mark.long) for one in ("delta", "iceberg", "hudi"))]
)
def test_a_checkpoint_is_merged_with_the_memory_of_the_rows_that_stand(kind: str, tmp_path: Path) -> None:
    epoch_mb = ROWS * ROW_BYTES / 2**20
    keys = ROWS // 10
    staged = took("stage", kind, keys, tmp_path / "t")
    assert staged["done"] >= 2
    assert staged["arrow_mb"] < 2 * SPILL_MB < epoch_mb
    finalized = took("finalize", kind, keys, tmp_path / "t")
    assert finalized["done"] >= 2  # after the creation and one append
    # A tenth of the rows stands: those, one file of the others at a time, and the numbers by which they are told.
    assert finalized["arrow_mb"] < 2 * SPILL_MB + epoch_mb / 10 + 8


@pytest.mark.parametrize("kind", SINK_KINDS)
def test_an_append_larger_than_the_memory_cap_stays_within_it(kind: str, tmp_path: Path) -> None:
    """Rows that are held, sorted, waiting, merged and encoded take each about the cap at most; a table of ours gets one file of them."""
    appended = took("append", kind, ROWS // 10, tmp_path / "t")
    assert appended["done"] == 1 or kind not in KINDS
    assert appended["arrow_mb"] < 5 * 4 < ROWS * ROW_BYTES / 2**20 / 2


@pytest.mark.parametrize(
    "kind", [pytest.param("timeseries", marks=pytest.mark.long), pytest.param("delta", marks=pytest.mark.soak)]
)
def test_a_merge_of_a_checkpoint_takes_hardly_more_than_the_tables_own(kind: str, tmp_path: Path) -> None:
    for place in ("one", "other"):
        took("stage", kind, ROWS, tmp_path / place)
    by_sink, by_table = (took(job, kind, ROWS, tmp_path / place) for job, place in (("finalize", "one"), ("table", "other")))
    numbers_mb = ROWS * 16 / 2**20
    assert by_sink["arrow_mb"] < by_table["arrow_mb"] + 4 * numbers_mb
