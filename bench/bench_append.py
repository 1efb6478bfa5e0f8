"""Append rate as a ratio to `pyarrow.parquet.write_table` (zstd level 1) of the same 2M-row table, interleaved in one run.

The floor writes one file to the same disk without sync, sort, coverage, statistics or checksum; gapless does all of these.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl

ROWS, SYMBOLS, REPEATS = 2_000_000, 50, 5


def ticks() -> pa.Table:
    """One table in arrival order: time rises, symbols alternate."""
    dice = np.random.default_rng(7)
    prices = {name: np.round(100 + dice.normal(0, 1, ROWS).cumsum() * 0.01, 4) for name in ("open", "high", "low", "close")}
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + np.arange(ROWS) // SYMBOLS * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (np.arange(ROWS) % SYMBOLS).astype(str))),
            **prices,
            "volume": dice.integers(0, 10_000, ROWS),
        }
    )


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def main() -> None:
    table = ticks()
    by_symbol = table.sort_by([("symbol", "ascending"), ("ts", "ascending")])
    ratios: dict[str, list[float]] = {"in arrival order": [], "sorted already": [], "40 appends of 50k rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(REPEATS):
            root = Path(folder) / str(repeat)
            root.mkdir()
            floor = seconds(
                lambda root=root: pq.write_table(table, root / "floor.parquet", compression="zstd", compression_level=1)
            )
            for name, data in (("in arrival order", table), ("sorted already", by_symbol)):
                target = gl.create(root / name, index="ts", entity=["symbol"], bucket="1m")
                ratios[name].append(floor / seconds(lambda target=target, data=data: target.append(data)))
            target = gl.create(root / "many", index="ts", entity=["symbol"], bucket="1m")
            slices = [table.slice(at, 50_000) for at in range(0, ROWS, 50_000)]
            # Slices end in the middle of a minute, so the table must take a bucket twice.
            took = seconds(lambda target=target, slices=slices: [target.append(part, on_overlap="allow") for part in slices])
            ratios["40 appends of 50k rows"].append(floor / took)
    print(f"append rate x the floor, {ROWS:,} rows, {REPEATS} interleaved repeats: min / median / max")
    for name, values in ratios.items():
        print(f"  {name:24} {min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}")


if __name__ == "__main__":
    main()
