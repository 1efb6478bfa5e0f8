"""Real processes on one table of a real disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gapless as gl

ROUNDS = 20
WORKER = """
import sys
import gapless as gl
place, number = sys.argv[1], int(sys.argv[2])
table = gl.open(place)
print("ready", flush=True)
for line in sys.stdin:
    month = int(line) * 2 + number
    report = table.append({"month": [month], "worker": [number]})
    print(report.version, report.rows, flush=True)
"""


def _worker(place: Path, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(place), str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_log_06_two_processes_append_different_months_at_once(tmp_path: Path) -> None:
    place = tmp_path / "months"
    gl.create(place, index="month", index_type="int64", bucket=1)
    workers = [_worker(place, number) for number in (0, 1)]
    versions: list[int] = []
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for turn in range(ROUNDS):
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(f"{turn}\n")
                worker.stdin.flush()
            for worker in workers:
                assert worker.stdout is not None
                version, rows = worker.stdout.readline().split()
                assert rows == "1"
                versions.append(int(version))
    finally:
        for worker in workers:
            worker.communicate()
    assert sorted(versions) == list(range(2, 2 + 2 * ROUNDS)), "every append has a version of its own, and none is lost"
    table = gl.open(place)
    assert table.scan().to_arrow().column("month").to_pylist() == list(range(2 * ROUNDS))
    assert table.coverage().gaps() == []
    assert [entry.version for entry in table.history()] == list(range(1, 2 + 2 * ROUNDS))
