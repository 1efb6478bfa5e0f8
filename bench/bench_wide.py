"""Tables of very many columns and few rows, beside Arrow's own time: `pyarrow.parquet.write_table` of the same table, and a sync of its file.

    python bench/bench_wide.py [--columns 5000] [--rows 20] [--rounds 5] [--only TEXT]

Each round does every case and its floor once, in turn, and a ratio is of one round; told are the least, the median and the largest. By
processor time too, since threads and other processes sway the wall clock. The goal is 3. The floor of a CSV file in a table that has no
columns yet is `pyarrow.csv.read_csv` of it and an append of what that gives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

import gapless as gl

GOAL = 3.0
CSV_CASE = "append a CSV file to a table without columns"
START_US = 1_767_225_600_000_000
Act = Callable[[], object]


def rows(columns: int, count: int, turn: int) -> pa.Table:
    """An instant a minute, floats and texts."""
    dice = np.random.default_rng(turn)
    at = START_US + (np.arange(count) + turn * count) * 60_000_000
    found: dict[str, pa.Array] = {"at": pa.array(at, pa.timestamp("us", "UTC"))}
    for number in range(columns - 1):
        texts = number % 3 == 0
        found[f"c{number}"] = pa.array([f"s{row % 5}" for row in range(count)]) if texts else pa.array(dice.normal(size=count))
    return pa.table(found)


def write_plain(table: pa.Table, place: Path) -> None:
    """The floor."""
    pq.write_table(table, place)
    handle = os.open(place, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def fresh_series(place: Path) -> gl.TimeSeriesTable:
    """A table that has no columns yet."""
    shutil.rmtree(place, ignore_errors=True)
    return gl.create(place, index="at", bucket="1m")


def append_by_arrow(place: Path, file: Path) -> None:
    """The floor of a CSV file."""
    fresh_series(place).append(csv.read_csv(file))


def timed(act: Act) -> tuple[float, float]:
    """Seconds by the wall, and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Everything that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    chosen = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="wide-") as folder:
        place, first = Path(folder), rows(chosen.columns, chosen.rows, 0)
        series = gl.create(place / "series", schema=first.schema, index="at", bucket="1m")
        delta = gl.delta.create(place / "delta", first.schema)
        for turn in range(chosen.rounds + 1):
            table = rows(chosen.columns, chosen.rows, turn)
            cases: dict[str, Act] = {
                "append to a time-series table": lambda table=table: series.append(table),  # type: ignore[misc]
                "append to a Delta table": lambda table=table: delta.append(table),  # type: ignore[misc]
                "open a time-series table": lambda: gl.open(place / "series"),
                "open a Delta table": lambda: gl.delta.open(place / "delta"),
            }
            floor = timed(lambda table=table: write_plain(table, place / "plain.parquet"))  # type: ignore[misc]
            for name, act in cases.items():
                took = timed(act)
                if turn and chosen.only in name:  # the first warms up
                    found.setdefault(name, []).append((took[0] / floor[0], took[1] / floor[1]))
            csv.write_csv(table, place / "wide.csv")
            base = timed(lambda: append_by_arrow(place / "by arrow", place / "wide.csv"))
            took = timed(lambda: fresh_series(place / "by file").append_file(place / "wide.csv"))
            if turn and chosen.only in CSV_CASE:
                found.setdefault(CSV_CASE, []).append((took[0] / base[0], took[1] / base[1]))
    print(f"{chosen.columns:,} columns, {chosen.rows} rows, {chosen.rounds} rounds; x Arrow's own time, goal {GOAL:g}")
    print("| | wall: min / median / max | processor, median |\n|---|---|---|")
    for name, ratios in found.items():
        wall, cpu = [one for one, _ in ratios], [one for _, one in ratios]
        print(f"| {name} | {min(wall):.1f} / {statistics.median(wall):.1f} / {max(wall):.1f} | {statistics.median(cpu):.1f} |")


if __name__ == "__main__":
    main()
