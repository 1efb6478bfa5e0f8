"""The newest release of pyspark that is declared, as `pip install gapless[spark]` brings it into an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.soak
def test_a_fresh_install_takes_the_tour_on_the_newest_pyspark(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[spark]"], check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [python, ROOT / "tests/spark/setup/tour.py", tmp_path]
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=900, check=False)
    assert printed.returncode == 0, printed.stderr[-3_000:]
    saw = json.loads(printed.stdout.splitlines()[-1])
    print(saw)
    assert saw.pop("spark") >= "4.3"
    del saw["python"]
    assert saw == {
        "written": 200, "again": True, "read": 10_000.0, "format": 10_000.0, "upserted": 10, "deleted": 100,
        "streamed": [800, 800, 800], "compacted": 1, "rows": 800,
    }  # fmt: skip
