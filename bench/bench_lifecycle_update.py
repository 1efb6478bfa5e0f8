"""What an update of one row costs in a table of 5M rows in 50 segments, against pyarrow's read and rewrite of one segment.

Both meet the same disk in turns; the ratio of the medians is the figure (goal: 1.5). `--peer` also times `update_rows` of
timeseries-table-format 0.9.0 on the same rows, which takes minutes. `--quick` takes a fiftieth of the rows in each segment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl

SEGMENTS, SEGMENT_ROWS = 50, 100_000
START_US = 1_700_000_040_000_000
STEP_US = 60_000_000
SYMBOLS = 10


def segment_rows(number: int, rows: int) -> pa.Table:
    """One segment: `SYMBOLS` series, each a row a minute."""
    each = rows // SYMBOLS
    times = START_US + (number * each + np.tile(np.arange(each), SYMBOLS)) * STEP_US
    random = np.random.default_rng(number)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.repeat([f"SYM{k:02d}" for k in range(SYMBOLS)], each)),
            "price": pa.array(np.round(100 + random.normal(size=rows).cumsum() * 0.01, 2)),
            "size": pa.array(random.integers(1, 1_000, rows)),
        }
    )


def one_row(rows: pa.Table, change: float) -> pa.Table:
    """A row from the middle of a segment, with another price."""
    row = rows.slice(rows.num_rows // 2, 1)
    return row.set_column(2, "price", pa.array([change]))


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def rewrite(file: Path, folder: Path, *, synced: bool = False) -> None:
    """What no update of one row can do without: read a segment, write a segment; and have it and a commit outlive a power cut."""
    table = pq.read_table(file)
    pq.write_table(table, folder / "again.parquet", compression="zstd", compression_level=1)
    if synced:
        (folder / "commit").write_bytes(b"{}")
        for path in (folder / "again.parquet", folder, folder / "commit", folder):
            with open_descriptor(path) as descriptor:
                os.fsync(descriptor)


@contextlib.contextmanager
def open_descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def measure(root: Path, segment: int, times: int) -> tuple[float, float, float]:
    """Medians of (upsert of one row, pyarrow's read and rewrite of one segment, the same synced), in seconds, taken in turns."""
    table = gl.create(root / "ours", index="ts", bucket="1m", entity="symbol")
    for number in range(SEGMENTS):
        table.append(segment_rows(number, segment))
    middle = segment_rows(SEGMENTS // 2, segment)
    ours, theirs, synced = [], [], []
    for change in range(times):
        file = root / "ours" / table.segments()[change % SEGMENTS].path
        theirs.append(seconds(lambda file=file: rewrite(file, root)))
        synced.append(seconds(lambda file=file: rewrite(file, root, synced=True)))
        ours.append(seconds(lambda change=change: table.upsert(one_row(middle, float(change)))))
    assert table.segments()[-1].rows == segment
    return statistics.median(ours[1:]), statistics.median(theirs[1:]), statistics.median(synced[1:])


def measure_peer(root: Path, segment: int) -> float:
    """Seconds of one `update_rows` of timeseries-table-format on the same rows."""
    import timeseries_table_format as ttf  # type: ignore[import-untyped]  # it has no types

    peer = ttf.TimeSeriesTable.create(
        table_root=str(root / "peer"),
        index_column="ts",
        index_type="timestamp",
        index_granularity="1m",
        entity_columns=["symbol"],
    )
    for number in range(SEGMENTS):
        peer.append(segment_rows(number, segment))
    row = one_row(segment_rows(SEGMENTS // 2, segment), 1.0)
    return seconds(lambda: peer.update_rows(row.drop_columns(["size"]), columns=["price"], expected_version=peer.version()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--times", type=int, default=15)
    arguments = parser.parse_args()
    segment = SEGMENT_ROWS // 50 if arguments.quick else SEGMENT_ROWS
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, synced = measure(Path(folder), segment, arguments.times)
        print(f"{SEGMENTS * segment:,} rows in {SEGMENTS} segments")
        print(f"upsert of one row          {ours * 1e3:8.1f} ms")
        print(f"pyarrow, one segment       {theirs * 1e3:8.1f} ms")
        print(f"the same, synced           {synced * 1e3:8.1f} ms")
        print(f"ratio                      {ours / theirs:8.2f}   (goal 1.5)")
        print(f"ratio to synced            {ours / synced:8.2f}")
        if arguments.peer:
            took: Any = measure_peer(Path(folder), segment)
            print(f"timeseries-table-format    {took * 1e3:8.1f} ms   {took / ours:,.0f} times ours")


if __name__ == "__main__":
    main()
