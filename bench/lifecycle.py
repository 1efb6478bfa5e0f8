"""The life of a table against its goals, in one run: update, compaction, vacuum, growth and opening; a table of ratios at the end.

Runs the measurements of `bench_lifecycle_*.py`, whose pages say what each floor is. `--quick` takes a fraction of the rows, files and
commits, and shows no more than that all of it runs. `--peer` times timeseries-table-format's update too, which takes minutes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bench_lifecycle_compaction as compaction
import bench_lifecycle_growth as growth
import bench_lifecycle_update as update
import bench_lifecycle_vacuum as vacuum


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    found: float | str
    """A ratio, or what was found in words."""
    goal: float | None = None
    at_least: bool = False

    def __str__(self) -> str:
        if isinstance(self.found, str):
            return f"{self.what:72} {self.found}"
        if self.goal is None:
            return f"{self.what:72} {self.found:7.2f}"
        met = self.found >= self.goal if self.at_least else self.found <= self.goal
        return f"{self.what:72} {self.found:7.2f}   {'>=' if self.at_least else '<='} {self.goal:.1f}  {'met' if met else 'missed'}"


def updates(share: int, *, peer: bool) -> Iterator[Figure]:
    segment = update.SEGMENT_ROWS // share
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, synced = update.measure(Path(folder), segment, 15)
        rows = f"{update.SEGMENTS * segment:,} rows in {update.SEGMENTS} segments"
        print(f"update of 1 row in {rows}: {ours * 1e3:.1f} ms; floor {theirs * 1e3:.1f} ms, synced {synced * 1e3:.1f} ms")
        yield Figure(f"update of 1 row in {rows}, x floor", ours / theirs, 1.5)
        yield Figure("  x the floor with its file and a commit synced", ours / synced)
        if peer:
            took = update.measure_peer(Path(folder), segment)
            yield Figure("  timeseries-table-format's update_rows, x ours", took / ours)


def compactions(share: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for name, (clock, processor) in compaction.speed(Path(folder), 2_000_000 // share, 5).items():
            goal = 0.8 if name == "read + write" else None
            yield Figure(f"compaction, rows/s x pyarrow's {name}", clock, goal, at_least=True)
            yield Figure("  by processor time", processor)
        for found in compaction.memory(Path(folder), 10_000_000 // share):
            yield Figure("compaction, memory", found)


def vacuums(share: int) -> Iterator[Figure]:
    files = vacuum.FILES // share
    for name, values in vacuum.measure(files, vacuum.REPEATS).items():
        yield Figure(f"{name} of {files:,} files, x os.unlink", statistics.median(values))


def growths(share: int) -> Iterator[Figure]:
    commits = 10_000 // share
    for case in growth.CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = growth.measure(case, commits, Path(folder))
        yield Figure(f"append p50 at commit {commits:,} x at 10, {case.name}", found.append, 1.2)
        yield Figure(
            f"  open at {commits:,} commits", f"{found.open_grown * 1e3:7.1f} ms ({found.open_young * 1e3:.1f} ms at 10)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", action="store_true")
    given = parser.parse_args()
    share = 10 if given.quick else 1
    figures = [*updates(share, peer=given.peer), *compactions(share), *vacuums(share), *growths(share)]
    print("\n" + "\n".join(map(str, figures)))


if __name__ == "__main__":
    main()
