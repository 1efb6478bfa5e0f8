"""What publishing costs: one commit at 10 to 100,000 files as a ratio to 10, and reading through each format beside the engine's own table.

- publish: a table of synthetic metadata (bench_scale.py), published in one format, then commits of one row each to it and to one of 10
  files in turns, each brought into the format by `table.publish()`; medians of wall seconds, and the ratio of the two. The goal is 3.
- remove: the same of commits that remove one file, any of them, each by a handle that was just opened, which has read no metadata.
- read: rows of a real table, read whole and by a filter on one symbol, through the published description and from a table of the same
  rows that the same engine wrote itself, in turns. The goal is 1.1.

`--format delta --format iceberg` chooses formats, `--largest 1000` stops earlier, `--rows N`, `--rounds N`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench_scale import START_NS, make, world

import gapless as gl
from gapless.formats.timeseries.actions import Commit, RemoveSegment
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.publish import publishers

FORMATS = ("delta", "iceberg", "hudi")
READABLE = ("delta", "iceberg")
"""Formats that a library here writes and reads; Hudi's own tables take Spark (tests/interop)."""
SIZES = (10, 1_000, 100_000)
COMMITS = 15
REMOVALS = 6
FILES = 20


def published(place: Path, files: int, name: str) -> gl.TimeSeriesTable:
    """A table of so many files, published once; its own commits leave publishing to `publish()`."""
    make(place, files)
    publishers.older_types = lambda *_: {}  # nothing is in the files
    table = gl.open(place)
    (place / "data").mkdir(exist_ok=True)
    for segment in table.segments():
        (place / segment.path).touch()  # what lists the files has so many names to look at
    table.set_properties({"publish": [name], "publish_on_commit": False})
    table.publish()
    return table


def one_more(table: gl.TimeSeriesTable, number: int) -> float:
    """Seconds that publishing took of an append of one row."""
    ts = pa.array([(START_NS // 1_000) + 10**15 + number * 60_000_000], pa.timestamp("us", "UTC"))
    table.append(pa.table({"ts": ts, "symbol": ["SYM007"], "price": [float(number)]}))
    begun = time.perf_counter()
    table.publish()
    return time.perf_counter() - begun


def one_fewer(place: Path, number: int) -> float:
    """Seconds that publishing took of a removal of one file, by a handle that was just opened."""
    table = gl.open(place)
    env, snapshot = world(place)
    version, paths = snapshot.version + 1, sorted(segment.path for segment in snapshot.state.segments)
    entry = Commit(
        id=f"fewer-{number}", operation="delete", engine="bench", actions=(RemoveSegment(paths[number * 7919 % len(paths)]),)
    )
    env.store.put(TIME_SERIES.path_of(version), TIME_SERIES.encode(entry, version, time.time_ns()))
    table.refresh()
    begun = time.perf_counter()
    table.publish()
    return time.perf_counter() - begun


def publish_costs(root: Path, name: str, sizes: tuple[int, ...]) -> None:
    """Print a line for each size."""
    small = published(root / f"{name}-small", SIZES[0], name)
    number = 0
    for size in sizes:
        table = published(root / f"{name}-{size}", size, name)
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(COMMITS + 2):
            number += 1
            seconds[0].append(one_more(table, number))
            seconds[1].append(one_more(small, number))
        this, least = (statistics.median(turns[2:]) for turns in seconds)
        print(f"{name:8} {size:>8,} {this * 1e3:9.1f} {this / least:9.2f}", flush=True)
        seconds = ([], [])
        for _ in range(REMOVALS):
            number += 1
            seconds[0].append(one_fewer(root / f"{name}-{size}", number))
            seconds[1].append(one_fewer(root / f"{name}-small", number))
        this, least = (statistics.median(turns[1:]) for turns in seconds)
        print(f"{name:8} {size:>8,} {this * 1e3:9.1f} {this / least:9.2f} remove", flush=True)


def ticks(rows: int) -> pa.Table:
    """Rows of fifty symbols, ordered by time."""
    dice = np.random.default_rng(7)
    return pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + np.arange(rows) // 50 * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", (np.arange(rows) % 50).astype(str))),
            **{name: np.round(100 + dice.normal(0, 1, rows).cumsum() * 0.01, 4) for name in ("bid", "ask")},
            "volume": dice.integers(0, 10_000, rows),
        }
    )


Read = Callable[[str | None], int]
"""Rows of one symbol, or of all, counted after they were read."""


def delta_reader(place: Path) -> Read:
    """deltalake's rows of a Delta table."""
    from deltalake import DeltaTable

    def read(symbol: str | None) -> int:
        wanted = None if symbol is None else [("symbol", "=", symbol)]
        return DeltaTable(str(place)).to_pyarrow_table(filters=wanted).num_rows

    return read


def delta_pair(root: Path, table: gl.TimeSeriesTable, slices: list[pa.Table]) -> tuple[Read, Read]:
    """Through the published table, and from one that deltalake wrote."""
    from deltalake import write_deltalake

    for part in slices:
        write_deltalake(str(root / "own-delta"), part.sort_by([("symbol", "ascending"), ("ts", "ascending")]), mode="append")
    return delta_reader(Path(table.url.removeprefix("file://"))), delta_reader(root / "own-delta")


def iceberg_reader(load: Callable[[], Any]) -> Read:
    """pyiceberg's rows of an Iceberg table."""
    from pyiceberg.expressions import AlwaysTrue, EqualTo

    def read(symbol: str | None) -> int:
        wanted = AlwaysTrue() if symbol is None else EqualTo("symbol", symbol)
        return int(load().scan(row_filter=wanted).to_arrow().num_rows)

    return read


def iceberg_pair(root: Path, table: gl.TimeSeriesTable, slices: list[pa.Table]) -> tuple[Read, Read]:
    """Through the published table, and from one that pyiceberg wrote."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import StaticTable

    own = root / "own-iceberg"
    own.mkdir()
    catalog = SqlCatalog("own", uri=f"sqlite:///{own}/catalog.db", warehouse=f"file://{own}")
    catalog.create_namespace("bench")
    theirs = catalog.create_table("bench.ticks", schema=slices[0].schema)
    for part in slices:
        theirs.append(part.sort_by([("symbol", "ascending"), ("ts", "ascending")]))
    place = Path(table.url.removeprefix("file://"))
    (hint,) = place.rglob("version-hint.text")
    head = f"{hint.parent}/v{hint.read_text().strip()}.metadata.json"
    return iceberg_reader(lambda: StaticTable.from_metadata(head)), iceberg_reader(lambda: catalog.load_table("bench.ticks"))


def read_costs(root: Path, name: str, rows: int, rounds: int) -> None:
    """Print the ratio of reading through a format to reading the engine's own table."""
    all_rows = ticks(rows)
    table = gl.create(
        root / f"{name}-rows", index="ts", entity="symbol", bucket="1h", properties={"on_overlap": "allow", "publish": [name]}
    )
    slices = [all_rows.slice(at * (rows // FILES), rows // FILES) for at in range(FILES)]
    for part in slices:
        table.append(part)
    ours, theirs = {"delta": delta_pair, "iceberg": iceberg_pair}[name](root, table, slices)
    for what, symbol in (("all", None), ("a symbol", "SYM7")):
        ratios = []
        for _ in range(rounds + 1):
            begun = time.perf_counter()
            found = ours(symbol)
            middle = time.perf_counter()
            assert theirs(symbol) == found > 0
            ratios.append((middle - begun) / (time.perf_counter() - middle))
        print(f"{name:8} read {what:9} {statistics.median(ratios[1:]):6.2f} of the engine's own table", flush=True)


def main() -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    sizes = tuple(size for size in SIZES if size <= chosen.largest)
    print("format      files  publish ms   x of 10")
    for name in chosen.format or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            publish_costs(Path(folder), name, sizes)
            if name in READABLE:
                read_costs(Path(folder), name, chosen.rows, chosen.rounds)


if __name__ == "__main__":
    main()
