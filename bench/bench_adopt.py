"""Adopting a Parquet file, as a ratio of its time to that of a plain file copy, in turns in one run.

The floors copy the same file to the same disk: `shutil.copyfile`, and the same with an fsync, as every segment has one. An adoption
copies (or links) and syncs the file, hashes all of its bytes, reads the index and entity columns, takes coverage and statistics, and
commits, which syncs twice more. The append reads and encodes the rows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bench_append import ticks

import gapless as gl

WAYS = ("copy", "link", "move")


def inputs() -> Iterator[tuple[str, pa.Table]]:
    """Files to adopt: the ticks in arrival order and sorted, and wide rows of which the keys are a small part."""
    table = ticks()
    yield "2M ticks, 7 columns, in arrival order", table
    by_symbol = table.sort_by([("symbol", "ascending"), ("ts", "ascending")])
    yield "the same, sorted", by_symbol
    wide = by_symbol
    for number in range(2, 6):
        for name in ("open", "high", "low", "close"):
            wide = wide.append_column(f"{name}{number}", by_symbol.column(name))
    yield "the same with 23 columns", wide


def copy_synced(source: Path, target: Path) -> None:
    """A plain copy that a power cut does not take back."""
    shutil.copyfile(source, target)
    handle = os.open(target, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def measured(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of all processors."""
    began, used = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - began, time.process_time() - used


def one_round(folder: Path, source: Path, *, append: bool) -> dict[str, tuple[float, float]]:
    """Each way once, in a folder of its own; the append of the rows only where asked, since it takes as long as all else together."""
    took = {
        "copy": measured(lambda: shutil.copyfile(source, folder / "copied")),
        "copy + fsync": measured(lambda: copy_synced(source, folder / "synced")),
    }
    for way in WAYS:
        mine = folder / f"{way}.parquet"
        shutil.copyfile(source, mine)
        os.sync()
        table = gl.create(folder / f"t-{way}", index="ts", entity=["symbol"], bucket="1m")
        took[f"adopt={way}"] = measured(partial(table.append_file, mine, adopt=way))
    if append:
        table = gl.create(folder / "t", index="ts", entity=["symbol"], bucket="1m")
        took["append_file"] = measured(lambda: table.append_file(source))
    return took


def show(name: str, rounds: list[dict[str, tuple[float, float]]]) -> None:
    """Ratios to the synced copy and to the plain one."""
    print(f"\n{name}: time x the floor, min / median / max over {len(rounds)} rounds")
    print(f"  {'':16}{'x copy + fsync':>24}{'x copy':>24}{'processor x copy':>20}")
    for way in rounds[0]:
        measured_in = [one for one in rounds if way in one]
        synced = [one[way][0] / one["copy + fsync"][0] for one in measured_in]
        plain = [one[way][0] / one["copy"][0] for one in measured_in]
        used = statistics.median(one[way][1] / one["copy"][1] for one in measured_in)
        texts = (f"{min(v):.2f} / {statistics.median(v):.2f} / {max(v):.2f}" for v in (synced, plain))
        print(f"  {way:16}" + "".join(f"{text:>24}" for text in texts) + f"{used:20.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as place:
        for number, (name, table) in enumerate(inputs()):
            source = Path(place) / f"{number}.parquet"
            pq.write_table(table, source, compression="zstd", compression_level=1)
            rounds = []
            for repeat in range(repeats + 1):
                folder = Path(place) / f"{number}-{repeat}"
                folder.mkdir()
                rounds.append(one_round(folder, source, append=repeat % 4 == 1))
                shutil.rmtree(folder)
            # The first round loads libraries.
            show(f"{name} ({source.stat().st_size / 1e6:.0f} MB)", rounds[1:])


if __name__ == "__main__":
    main()
