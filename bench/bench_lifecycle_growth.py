"""What a small append and an opening cost as a table grows: medians at commit 10 and at the last commit, interleaved in one run.

Every commit is a real append of one handle on local disk, synced; `--commits` of them (10,000). Then appends to that table and to young
ones (at commits 8 to 12) take turns, so that both meet the same disk. Three tables: without entity columns, with ten identities in each
append, and with 10,000 identities that one append brought before. `--quick` takes a tenth of the commits.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gapless as gl

MINUTE_US = 60_000_000
START_US = 1_700_000_040_000_000
YOUNG = range(8, 13)
"""The commits that count as commit 10."""
PAIRS = 200


@dataclass(frozen=True)
class Case:
    name: str
    entity: tuple[str, ...]
    present: int
    """Identities that a first append brings, one row each."""
    each: int
    """Rows of each further append: one minute of so many identities."""


CASES = (
    Case("no entity columns", (), 0, 1),
    Case("10 identities", ("symbol",), 0, 10),
    Case("10,000 identities, 10 in each append", ("symbol",), 10_000, 10),
)


def rows(case: Case, minute: int, count: int, first: int) -> pa.Table:
    """One minute of `count` identities from number `first` on."""
    columns: dict[str, Any] = {"ts": pa.array(np.full(count, START_US + minute * MINUTE_US), pa.timestamp("us", "UTC"))}
    if case.entity:
        columns["symbol"] = pa.array([f"SYM{number:05d}" for number in range(first, first + count)])
    return pa.table(columns | {"price": pa.array(np.arange(count) * 0.5)})


def growing(case: Case, root: Path) -> tuple[Any, Iterator[pa.Table]]:
    """A table with what is present, and the rows of its further appends."""
    table = gl.create(root, index="ts", bucket="1m", entity=case.entity)
    if case.present:
        table.append(rows(case, 0, case.present, 0))
    return table, (rows(case, at, case.each, at * 7 % max(1, case.present - case.each)) for at in itertools.count(1))


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def young_appends(case: Case, folder: Path) -> Iterator[float]:
    """Seconds of appends that make commits 8 to 12, table after table."""
    for number in itertools.count():
        table, parts = growing(case, folder / f"young{number}")
        while table.version < YOUNG.start - 1:
            table.append(next(parts))
        for _ in YOUNG:
            part = next(parts)
            yield seconds(lambda table=table, part=part: table.append(part))


def opening(path: Path) -> float:
    return statistics.median(seconds(lambda: gl.open(path)) for _ in range(5))


@dataclass(frozen=True)
class Growth:
    """How an append at the end compares to one at commit 10, and seconds of opening the table then."""

    append: float
    open_young: float
    open_grown: float


def measure(case: Case, commits: int, folder: Path) -> Growth:
    table, parts = growing(case, folder / "grown")
    began = time.perf_counter()
    while table.version < commits - PAIRS // 2:
        table.append(next(parts))
    built = time.perf_counter() - began
    young, old = [], []
    for _, quick in zip(range(PAIRS), young_appends(case, folder), strict=False):
        young.append(quick)
        part = next(parts)
        old.append(seconds(lambda part=part: table.append(part)))
    at10, at_end = statistics.median(young), statistics.median(old)
    p95 = statistics.quantiles(old, n=20)[-1] / statistics.quantiles(young, n=20)[-1]
    print(f"  {case.name}: {table.version:,} commits ({built:.0f} s to build)")
    print(
        f"    append p50: {at10 * 1e3:.2f} ms at commit 10, {at_end * 1e3:.2f} ms at the end: {at_end / at10:.2f}x (p95 {p95:.2f}x)"
    )
    reopened = gl.open(folder / "grown")
    first = seconds(lambda: reopened.append(next(parts)))
    found = Growth(at_end / at10, opening(folder / "young0"), opening(folder / "grown"))
    print(f"    open: {found.open_young * 1e3:.1f} ms young, {found.open_grown * 1e3:.1f} ms grown;", end=" ")
    print(f"first append after it {first * 1e3:.1f} ms")
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commits", type=int, default=10_000)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--case", type=int, choices=range(len(CASES)))
    chosen = options.parse_args()
    print(f"growth: appends of one row an identity, {PAIRS} interleaved pairs")
    for case in CASES if chosen.case is None else [CASES[chosen.case]]:
        with tempfile.TemporaryDirectory() as folder:
            measure(case, chosen.commits // 10 if chosen.quick else chosen.commits, Path(folder))


if __name__ == "__main__":
    main()
