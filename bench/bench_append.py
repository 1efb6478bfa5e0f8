"""Append rate and bytes beside `pyarrow.parquet.write_table` (zstd level 1, one thread) of the same 2M rows, interleaved in one run.

The floor writes one file to the same disk without sync, sort, coverage, statistics or checksum; gapless does all of these.
Rates are ratios of wall time and, after "cpu", of processor time over all threads. Bytes are those of the floor's one file for the same rows
in the same order. `--codec NAME` (several times), `--walk one` or `own`, `--whole` (no 40 appends) and `--repeats N` for a quick run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl
from gapless.files.write.segment_encoder import SegmentEncoder

ROWS, SYMBOLS = 2_000_000, 50
PART = 50_000
CODECS = ("fastest", "balanced", "smallest")
PRICES = ("open", "high", "low", "close")


def _one_walk(dice: np.random.Generator) -> np.ndarray:
    """All symbols trade at one price: what is next to each other in order of arrival is near."""
    return np.round(100 + dice.normal(0, 1, ROWS).cumsum() * 0.01, 4)


def _own_walks(dice: np.random.Generator) -> np.ndarray:
    """Each symbol has a price of its own, as symbols have: what is next to each other in order of arrival is far apart."""
    steps = dice.normal(0, 1, (ROWS // SYMBOLS, SYMBOLS)).cumsum(axis=0)
    return np.round((dice.uniform(20, 400, SYMBOLS) + steps * 0.01).reshape(-1), 4)


def ticks(walk: Callable[[np.random.Generator], np.ndarray] = _one_walk) -> pa.Table:
    """Rows in arrival order: time rises, symbols alternate."""
    dice = np.random.default_rng(7)
    prices = {name: walk(dice) for name in PRICES}
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + np.arange(ROWS) // SYMBOLS * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (np.arange(ROWS) % SYMBOLS).astype(str))),
            **prices,
            "volume": dice.integers(0, 10_000, ROWS),
        }
    )


class Cost(NamedTuple):
    """Seconds that something took."""

    wall: float
    cpu: float


def cost(act: Callable[[], object]) -> Cost:
    """What an act takes, once."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def write_floor(table: pa.Table, path: Path) -> None:
    """What all else is compared with."""
    pq.write_table(table, path, compression="zstd", compression_level=1)


class Figures:
    """Ratios by name, as they are measured."""

    def __init__(self) -> None:
        """None yet."""
        self.rates: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, list[float]] = defaultdict(list)
        self.bytes: dict[str, float] = {}

    def add(self, name: str, floor: Cost, took: Cost, size: float) -> None:
        """Take in one measurement beside its floor, with its bytes as a ratio."""
        self.rates[name].append(floor.wall / took.wall)
        self.cpu[name].append(floor.cpu / took.cpu)
        self.bytes[name] = size

    def lines(self) -> Iterable[str]:
        """One line a name."""
        for name, rates in self.rates.items():
            cpu = statistics.median(self.cpu[name])
            yield f"  {name:36} {min(rates):5.2f} / {statistics.median(rates):5.2f} / {max(rates):5.2f}  {cpu:5.2f}  {self.bytes[name]:5.2f}"


def append_all(target: gl.TimeSeriesTable, inputs: list[pa.Table]) -> None:
    """One append for each of the inputs."""
    for part in inputs:
        target.append(part)


def stored(root: Path) -> int:
    """Bytes of the segments of a table."""
    return sum(file.stat().st_size for file in (root / "data").iterdir())


def measure(data: dict[str, pa.Table], folder: Path, figures: Figures, codecs: Iterable[str], *, whole: bool) -> None:
    """One repeat: for each order a floor, then an append with each codec; then 40 appends with each."""
    for order, table in data.items():
        floor = cost(partial(write_floor, table, folder / "floor.parquet"))
        size = (folder / "floor.parquet").stat().st_size
        parts = [table.slice(at, PART) for at in range(0, ROWS, PART)]
        for codec in codecs:
            # Slices end in the middle of a minute, so the table must take a bucket twice.
            for name, inputs in ((order, [table]), (f"{order}, 40 appends", parts))[: 1 if whole else 2]:
                root = folder / f"{codec} {name}"
                target = gl.create(
                    root, index="ts", entity=["symbol"], bucket="1m", properties={"codec": codec, "on_overlap": "allow"}
                )
                took = cost(partial(append_all, target, inputs))
                figures.add(f"{codec}, {name}", floor, took, stored(root) / size)


def described(table: pa.Table, folder: Path, codec: str) -> float:
    """Share of an append's processor time that coverage and statistics take beside the pages, which have the bounds of numbers themselves."""
    describe, took = SegmentEncoder._describe, 0.0  # noqa: SLF001 - what is timed

    def timed(encoder: SegmentEncoder, held: Any) -> None:
        nonlocal took
        began = time.thread_time()
        describe(encoder, held)
        took += time.thread_time() - began

    target = gl.create(folder / f"described {codec}", index="ts", entity=["symbol"], bucket="1m", properties={"codec": codec})
    with mock.patch.object(SegmentEncoder, "_describe", timed):
        whole = cost(lambda: target.append(table)).cpu
    return took / whole


def main() -> None:
    """Print all figures."""
    known = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known.add_argument("--repeats", type=int, default=5)
    known.add_argument("--codec", action="append", choices=CODECS)
    known.add_argument("--walk", choices=["one", "own"])
    known.add_argument("--whole", action="store_true", help="leave out the 40 appends")
    asked = known.parse_args()
    codecs = asked.codec or CODECS
    for walk in (_one_walk, _own_walks):
        if asked.walk and not walk.__name__.startswith(f"_{asked.walk}"):
            continue
        table = ticks(walk)
        data = {"arrival": table, "sorted": table.sort_by([("symbol", "ascending"), ("ts", "ascending")]).combine_chunks()}
        figures = Figures()
        for _ in range(asked.repeats):
            with tempfile.TemporaryDirectory() as folder:
                measure(data, Path(folder), figures, codecs, whole=asked.whole)
        print(f"{walk.__name__.strip('_').replace('_', ' ')}, {ROWS:,} rows, {asked.repeats} interleaved repeats")
        print(f"  {'x the floor':36} {'rate: min / median / max':22}  cpu   bytes")
        print(*figures.lines(), sep="\n")
        with tempfile.TemporaryDirectory() as folder:
            shares = ", ".join(f"{described(table, Path(folder), codec):.1%} of {codec}" for codec in codecs)
        print(f"  processor time of an append that coverage and statistics take: {shares}")


if __name__ == "__main__":
    main()
