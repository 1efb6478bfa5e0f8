"""Two checkouts of gapless beside each other, interleaved in one run: is anything slower, larger or hungrier than it was?

    python bench/two_checkouts.py OLD [NEW]

OLD and NEW are roots of clones (NEW: this one); both run on this interpreter's packages, each round in a fresh process. A line per task: the
median seconds of each, and NEW / OLD. Memory is the most that a process ever had; bytes are those of the table's files, and
`logs` says whether both wrote the same bytes: the table is made with the same clock and ids.

`--rounds N` interleaved rounds (5); `--only NAME …` some tasks.
"""

from __future__ import annotations

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import hashlib, json, os, pathlib, resource, sys, time
source, place, task = sys.argv[1:]
sys.path.insert(0, source)
begun = time.perf_counter()
import gapless as gl
import numpy as np, pyarrow as pa
from datetime import datetime, timedelta

START = 1_700_000_000_000_000

def ticks(count, first=0, symbols=50):
    at = START + (first + np.arange(count) // symbols) * 1_000_000
    names = pa.array([f"S{n:03}" for n in range(symbols)])
    symbol = names.take(pa.array(np.arange(count) % symbols))
    random = np.random.default_rng(first)
    columns = {"ts": pa.array(at, pa.timestamp("us", "UTC")), "symbol": symbol}
    return pa.table(columns | {n: pa.array(np.round(random.normal(100, 1, count), 2)) for n in ("bid", "ask")} | {"size": random.integers(0, 500, count)})

def series(name="t"):
    return gl.create(f"{place}/{name}", index="ts", entity="symbol", bucket="1m")

def trips(count=200_000, name="d"):
    table = gl.delta.create(f"{place}/{name}", pa.schema({"id": pa.int64(), "day": pa.string(), "fare": pa.float64()}), partition_by=["day"])
    table.append(pa.table({"id": np.arange(count), "day": [f"d{n % 8}" for n in range(count)], "fare": np.arange(count) * 0.5}))
    return table

def timed(act, times=1):
    start = time.perf_counter()
    for n in range(times):
        act(n)
    return (time.perf_counter() - start) / times

if task == "import and first append":
    series().append(ticks(100))
    seconds = time.perf_counter() - begun
elif task == "bulk append":
    rows, table = ticks(1_000_000), series()
    seconds = timed(lambda _n: table.append(rows))
elif task == "100-row appends":
    table = series()
    parts = [ticks(100, first=n * 60 * 10) for n in range(101)]
    table.append(parts.pop())
    seconds = timed(lambda n: table.append(parts[n]), 100)
elif task == "open":
    table = series()
    for n in range(120):
        table.append(ticks(100, first=n * 600))
    seconds = timed(lambda _n: gl.open(f"{place}/t").version, 30)
elif task in ("scan a minute of one symbol", "scan all", "gaps", "sql"):
    table = series()
    table.append(ticks(1_000_000))
    act = {
        "scan a minute of one symbol": lambda _n: table.scan("2023-11-14T23:00Z", "2023-11-14T23:01Z", where="symbol = 'S007'").to_arrow(),
        "scan all": lambda _n: table.scan().to_arrow(),
        "gaps": lambda _n: table.coverage().gaps(),
        "sql": lambda _n: table.sql("select symbol, max(bid) from t group by symbol").to_arrow(),
    }[task]
    act(0)
    seconds = timed(act, {"scan all": 5, "sql": 10}.get(task, 40))
elif task == "update of a row":
    table = series()
    table.append(ticks(200_000))
    one = ticks(50).slice(7, 1)
    table.upsert(one)
    seconds = timed(lambda _n: table.upsert(one.set_column(4, "size", pa.array([_n]))), 10)
elif task == "compact":
    table = series()
    for n in range(40):
        table.append(ticks(5_000, first=n * 6_000))
    seconds = timed(lambda _n: table.compact())
elif task == "delta appends":
    table = trips(1_000)
    seconds = timed(lambda n: table.append([{"id": n, "day": "d1", "fare": 1.0}]), 40)
elif task == "delta scan":
    table = trips()
    act = lambda _n: table.scan(where="day = 'd3' and id < 5000").to_arrow()
    act(0)
    seconds = timed(act, 30)
elif task == "delta merge":
    table = trips()
    def merge(n):
        rows = [{"id": k * 100 + n, "day": f"d{(k * 100 + n) % 8}", "fare": -1.0} for k in range(200)]
        table.merge(rows, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    merge(0)
    seconds = timed(lambda n: merge(n + 1), 5)
elif task == "delta optimize":
    table = trips(1_000)
    for n in range(60):
        table.append([{"id": n, "day": f"d{n % 4}", "fare": 1.0}])
    seconds = timed(lambda _n: table.compact())
elif task == "logs":
    import itertools
    from unittest import mock
    # The same clock and ids for both, patched where both checkouts have them.
    import importlib
    for module in ("gapless.runtime.environment", "gapless.runtime.clock"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        if hasattr(found, "SystemClock"):
            ticking, numbers = itertools.count(1_760_000_000_000_000_000, 1_000_000), itertools.count(1)
            found.SystemClock.now_ns = lambda self: next(ticking)
            found.SystemClock.monotonic = lambda self: 0.0
            for method in [m for m in dir(found.RandomIds) if not m.startswith("_")]:
                if method == "uuid":
                    found.RandomIds.uuid = lambda self: f"00000000-0000-4000-8000-{next(numbers):012d}"
    table = series()
    for n in range(12):
        table.append(ticks(500, first=n * 600))
    table.upsert(ticks(50).slice(3, 2))
    table.delete(where="symbol = 'S001'")
    table.compact()
    table.restore(version=5)
    lake = trips(2_000)
    for n in range(11):
        lake.append([{"id": -n, "day": "d1", "fare": 1.0}])
    lake.delete("id = 5")
    lake.update({"fare": "fare + 1"}, where="id = 6")
    lake.compact()
    seconds = 0.0
files = sorted(p for p in pathlib.Path(place).rglob("*") if p.is_file())
digest = hashlib.sha256()
for path in files:
    digest.update(str(path.relative_to(place)).encode() + b"\\0" + path.read_bytes())
print(json.dumps({"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                  "bytes": sum(p.stat().st_size for p in files), "digest": digest.hexdigest(),
                  "files": {str(p.relative_to(place)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files} if task == "logs" else {}}))
"""
TASKS = [
    "import and first append", "bulk append", "100-row appends", "open", "scan a minute of one symbol", "scan all", "gaps", "sql",
    "update of a row", "compact", "delta appends", "delta scan", "delta merge", "delta optimize",
]  # fmt: skip


def run(root: Path, task: str) -> dict[str, object]:
    """One task in a fresh process on a checkout."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", PROGRAM, str(root / "src"), place, task]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{task} failed on {root}:\n{done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[*TASKS, "logs"])
    given = parser.parse_args()
    sides = {"old": given.old.resolve(), "new": given.new.resolve()}
    for root in sides.values():
        compileall.compile_dir(root / "src", quiet=2)  # whether bytecode lies there already is not what is measured
    print(f"{'task':28} {'old s':>9} {'new s':>9} {'new/old':>8} {'best':>6} {'memory':>7} {'bytes':>6}")
    for task in given.only:
        if task == "logs":
            made = {side: run(root, task)["files"] for side, root in sides.items()}
            old, new = (made[side] for side in ("old", "new"))
            assert isinstance(old, dict)
            assert isinstance(new, dict)
            differ = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            print(f"logs: {len(old)} files, {'the same bytes' if not differ else f'{len(differ)} differ: {differ[:6]}'}")
            continue
        found: dict[str, list[dict[str, object]]] = {"old": [], "new": []}
        for number in range(given.rounds):
            for side in ("old", "new") if number % 2 else ("new", "old"):
                found[side].append(run(sides[side], task))

        def values(side: str, name: str) -> list[float]:
            return [float(str(one[name])) for one in found[side]]  # noqa: B023  # called in this round of the loop alone

        old_s, new_s = (statistics.median(values(side, "seconds")) for side in ("old", "new"))
        ratios = [min(values("new", "seconds")) / min(values("old", "seconds"))]
        ratios += [
            statistics.median(values("new", name)) / statistics.median(values("old", name)) for name in ("memory", "bytes")
        ]
        print(
            f"{task:28} {old_s:9.5f} {new_s:9.5f} {new_s / old_s:8.2f} {ratios[0]:6.2f} {ratios[1]:7.2f} {ratios[2]:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
