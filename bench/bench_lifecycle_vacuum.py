"""Vacuum of 10,000 files: seconds a file as a ratio to a bare loop of `os.unlink` over as many files, interleaved in one run.

The floor only removes names. Vacuum lists the folders, reads the log, judges each file, commits what goes, and deletes it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa

import gapless as gl

FILES, REPEATS = 10_000, 5
NAME = "{:08x}-1234-4234-8234-123456789abc-0_0-0-0_20200101000000000.parquet"


def litter(folder: Path, count: int) -> None:
    """Old files of 4 kB, by names that interrupted writes leave."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / NAME.format(number)
        path.write_bytes(b"x" * 4_096)
        os.utime(path, (0, 0))


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def unlink_all(folder: Path) -> None:
    """The floor."""
    for path in [entry.path for entry in os.scandir(folder)]:
        os.unlink(path)  # noqa: PTH108  # pathlib would slow the floor down


def table_at(path: Path) -> gl.TimeSeriesTable:
    """A table with one row."""
    table = gl.create(path, index="ts", bucket="1h")
    table.append(pa.table({"ts": pa.array([0], pa.timestamp("us", "UTC")), "v": [1.0]}))
    return table


def measure(files: int, repeats: int) -> dict[str, list[float]]:
    """The ratios of a dry run and of a vacuum to the floor."""
    ratios: dict[str, list[float]] = {"dry run": [], "vacuum": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            bare, table = Path(folder) / f"bare-{repeat}", table_at(Path(folder) / f"table-{repeat}")
            litter(bare, files)
            litter(Path(folder) / f"table-{repeat}" / "data", files)
            floor = seconds(partial(unlink_all, bare))
            ratios["dry run"].append(seconds(partial(table.vacuum, timedelta(0))) / floor)
            took = seconds(partial(table.vacuum, timedelta(0), dry_run=False))
            if len(list((Path(folder) / f"table-{repeat}" / "data").iterdir())) != 1:
                raise AssertionError("not all files went, or one too many")
            ratios["vacuum"].append(took / floor)
            print(f"  {floor / files * 1e6:.1f} µs a file by os.unlink, {took / files * 1e6:.1f} µs by vacuum")
    return ratios


def main() -> None:
    for name, values in measure(FILES, REPEATS).items():
        print(f"{name} of {FILES:,} files x the floor: {min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}")


if __name__ == "__main__":
    main()
