"""Compaction beside `pyarrow` reading the same files and writing one (zstd level 1), interleaved in one run; its peak memory; z-order.

The floor reads each file, puts them together and writes one to the same disk, without sync, sort, coverage, statistics or checksum; "sorted"
sorts the rows by entity and index before it writes. Memory is that of a process of its own (`VmHWM`), over what it had when the
table was open. The last part counts the row groups and rows that a selective filter must read before and after `cluster_by`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import gapless as gl

SYMBOLS, PER_APPEND = 50, 25_000


def ticks(rows: int) -> pa.Table:
    """Rows in arrival order: time rises, symbols alternate."""
    dice = np.random.default_rng(7)
    prices = {name: np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4) for name in ("open", "high", "low", "close")}
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + np.arange(rows) // SYMBOLS * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (np.arange(rows) % SYMBOLS).astype(str))),
            **prices,
            "volume": dice.integers(0, 10_000, rows),
            "venue": pa.array(np.char.add("V", dice.integers(0, 400, rows).astype(str))),
        }
    )


def filled(root: Path, table: pa.Table, per_append: int = PER_APPEND) -> gl.TimeSeriesTable:
    target = gl.create(root, index="ts", entity=["symbol"], bucket="1s")
    for start in range(0, table.num_rows, per_append):
        target.append(table.slice(start, per_append), on_overlap="allow")
    return target


def paths(table: gl.TimeSeriesTable, root: Path) -> list[Path]:
    return [root / segment.path for segment in table.segments()]


def floor(files: list[Path], target: Path, *, sort: bool) -> None:
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    if sort:
        rows = rows.sort_by([("symbol", "ascending"), ("ts", "ascending")])
    pq.write_table(rows, target, compression="zstd", compression_level=1)


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def processor_seconds(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds that passed, and those that this process's threads were at work: the machine may have other things to do."""
    before = time.process_time()
    passed = seconds(act)
    return passed, time.process_time() - before


def speed(folder: Path, rows: int, repeats: int) -> dict[str, tuple[float, float]]:
    """By floor the median rate x the floor's, by the clock and by processor time."""
    data = ticks(rows)
    floors = {"read + write": False, "read + sort + write": True}
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in floors}
    rates = []
    for repeat in range(repeats):
        root = folder / f"speed-{repeat}"
        table = filled(root, data)
        files = paths(table, root)
        took = {
            name: processor_seconds(lambda files=files, sort=sort: floor(files, folder / "floor.parquet", sort=sort))
            for name, sort in floors.items()
        }
        ours = processor_seconds(table.compact)
        rates.append(rows / ours[0])
        for name in floors:
            ratios[name].append((took[name][0] / ours[0], took[name][1] / ours[1]))
    print(f"compaction of {rows:,} rows in {len(files)} segments of {PER_APPEND:,}: {statistics.median(rates):,.0f} rows/s")
    print(f"  rate x pyarrow's, min / median / max of {repeats}:")
    for name, pairs in ratios.items():
        for by, values in zip(("by the clock", "by processor time"), zip(*pairs, strict=True), strict=True):
            print(f"  {name:20} {by:18} {min(values):.2f} / {statistics.median(values):.2f} / {max(values):.2f}")
    return {
        name: (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)) for name, pairs in ratios.items()
    }


def memory(folder: Path, rows: int) -> list[str]:
    """What was found for each target size."""
    print(f"peak memory of a compaction of {rows:,} rows, in a process of its own:")
    data, found = ticks(rows), []
    for size in (32, 128):
        root = folder / f"memory-{size}"
        filled(root, data, 100_000)
        run = [sys.executable, __file__, "--compact", str(root), "--target", str(size << 20)]
        found.append(subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip())
        print("  " + found[-1])
    return found


def peak_kib() -> int:
    """The most this process has held. Not `ru_maxrss`, in which a child begins with what its parent held."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def compact_here(root: Path, target_size: int) -> None:
    table = gl.open(root)
    before = peak_kib()
    report = table.compact(target_size=target_size)
    peak = peak_kib()
    print(
        f"target {target_size >> 20} MiB: {report.segments_before} segments of {report.bytes_before / 2**20:,.0f} MiB become"
        f" {report.segments_after}, peak {(peak - before) / 1024:,.0f} MiB"
    )


def read_share(root: Path, table: gl.TimeSeriesTable, column: str, value: object) -> str:
    """Of all row groups and rows, those whose statistics do not rule the value out."""
    groups = kept = kept_rows = rows = 0
    for path in paths(table, root):
        with pq.ParquetFile(path) as file:
            where = file.schema_arrow.names.index(column)
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                found = group.column(where).statistics
                groups, rows = groups + 1, rows + group.num_rows
                if found.min <= value <= found.max:
                    kept, kept_rows = kept + 1, kept_rows + group.num_rows
    return f"{kept} of {groups} row groups, {kept_rows / rows:.0%} of the rows"


def z_order(folder: Path, rows: int) -> None:
    root = folder / "z-order"
    data = ticks(rows)
    table = filled(root, data)
    table.compact()
    filters = {"volume": 5_000, "venue": "V200"}
    print(f"row groups that a filter on one value must read, {rows:,} rows:")
    for name in ("by entity and index", "along the z-order"):
        for column, value in filters.items():
            question = pc.field(column) == pa.scalar(value)
            took = statistics.median(seconds(lambda question=question: table.scan(where=question).count()) for _ in range(3))
            print(f"  {name:20} {column} = {value}: {read_share(root, table, column, value)}, {took * 1000:,.0f} ms")
        table.compact(cluster_by=list(filters))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows, fewer repeats")
    parser.add_argument("--compact", type=Path, help="compact this table and print the peak memory")
    parser.add_argument("--target", type=int, default=128 << 20)
    given = parser.parse_args()
    if given.compact is not None:
        compact_here(given.compact, given.target)
        return
    share = 5 if given.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder), 2_000_000 // share, 3 if given.quick else 5)
        memory(Path(folder), 10_000_000 // share)
        z_order(Path(folder), 2_000_000 // share)


if __name__ == "__main__":
    main()
