"""Row changes hold a bounded part of the table, however large it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).with_name("delta_memory_probe.py")


LONG = [pytest.param(change, marks=pytest.mark.long) for change in ("delete", "update", "merge")]


@pytest.mark.parametrize("change", ["dedup", *LONG])
def test_maint_16_delta_row_changes_stream_long_texts(tmp_path: Path, change: str) -> None:
    """A table of 2 GiB of text in one column, of which no batch holds more than a part."""
    files = 32
    ran = subprocess.run(
        [sys.executable, str(PROBE), change, str(files), str(tmp_path / "table")], capture_output=True, text=True, check=True
    )
    took = json.loads(ran.stdout)
    assert took["rows"] == files
    assert took["left"] == files * 64 - (files if change in ("delete", "merge") else 0)
    assert took["arrow_mb"] < 700
