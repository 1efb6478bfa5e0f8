"""The quick slice of bench/lake.py, which holds every answer against DuckDB's own."""

import re
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def test_the_quick_slice_prints_each_ratio_with_its_goal() -> None:
    ended = subprocess.run([sys.executable, str(BENCH / "lake.py"), "--quick"], capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()[1:]
    assert [one.partition(",")[0] for one in lines] == ["run"] * 3 + ["view", "lake.query"] * 6
    for one in lines:
        least, middle, most = map(float, re.findall(r"\d+\.\d\d", one)[:3])
        assert 0 < least <= middle <= most
    assert [one.rpartition("goal ")[2] for one in lines if "goal" in one] == ["0.8"] * 2 + ["1.1"] * 6
