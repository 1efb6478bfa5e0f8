"""What opening, planning, appending and log checkpoints cost at 10 to 1,000,000 segments, as ratios to a table of 10.

The metadata are made: segments of 100 series, one an hour each, as appends would have described them, in log checkpoints that the
table's own writer makes from commit to commit, a log cleaned up to the last but a few, and 50 commits of one segment each after the
last checkpoint. No Parquet data lie behind them but what the measured appends write. Each figure comes from a fresh process:

- open + plan: `gl.open`, then the plan of one series' newest day, after the imports; the median of several processes, and of the
  same for a table of 10 in turns with it; memory is what the process has grown by meanwhile;
- append: one row to this table and to one of 10 in turns, on one disk, synced; medians;
- checkpoint: twenty in a row, each after 100 new segments, its parts among them; processor seconds, and bytes written, each.

`--largest 100000` stops earlier; `--keep FOLDER` makes the tables there and uses those that it finds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SIZES = (10, 1_000, 10_000, 100_000, 1_000_000)
SERIES = 100
HOUR_NS = 3_600 * 10**9
START_NS = 1_700_000_000 // 3_600 * HOUR_NS
EACH = 100
"""Segments of one commit."""
LATER = 50
"""Commits of one segment each after the last log checkpoint."""
OPENS, PAIRS, CHECKPOINTS = 7, 200, 20


# -- making a table ----------------------------------------------------------------------------------------------------


def segment(number: int) -> Any:
    """Segment `number`: one series' hour, 60 rows, described as an append describes it."""
    from pyroaring import BitMap64

    from gapless.coverage.bitmap import CoverageMap
    from gapless.coverage.codec import encode
    from gapless.formats.timeseries.actions import instant_digits, segment_path
    from gapless.model.segment import Bounds, InlineCoverage, Segment, checksum
    from gapless.model.stats import ColumnStats

    symbol, hour = f"SYM{number % SERIES:03d}", number // SERIES
    start_ns = START_NS + hour * HOUR_NS
    digest = checksum(b"%d" % number).partition(":")[2]
    covered = CoverageMap({(symbol,): BitMap64([start_ns // HOUR_NS + 2**63])})
    return Segment(
        path=segment_path(
            f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}", 0, instant_digits(start_ns)
        ),
        rows=60,
        size=2_000 + number % 1_000,
        bounds=Bounds(first=start_ns, last=start_ns + 59 * 60 * 10**9),
        identity=(symbol,),
        identity_types=("utf8",),
        coverage=InlineCoverage(encode(covered, ("utf8",))),
        stats={
            "symbol": ColumnStats(min=symbol, max=symbol, nulls=0),
            "price": ColumnStats(min=1.5, max=number / 7, nulls=0, nans=0),
        },
        checksum=f"xxh3-128:{digest}",
        footer_checksum=f"xxh3-128:700:{digest[::-1]}",
        sorted_by=("symbol", "ts"),
    )


def commits(first: int, numbers: range, time_ns: int, each: int) -> Iterator[tuple[int, Any, int]]:
    """Commits from version `first` on that add the segments of these numbers, `each` of them at a time."""
    from gapless.formats.timeseries.actions import AddSegment, Commit

    for step, start in enumerate(range(numbers.start, numbers.stop, each)):
        added = tuple(AddSegment(segment(number)) for number in range(start, min(start + each, numbers.stop)))
        entry = Commit(id=f"made-{first + step}", operation="append", engine="bench", actions=added)
        yield first + step, entry, time_ns + (first + step) * 1_000


def make(place: Path, count: int) -> None:
    """A table of `count` segments and `LATER` more, whose log begins at its only log checkpoint."""
    import pyarrow as pa

    import gapless as gl
    from gapless.formats.timeseries.actions import Commit, UpdateTableMeta
    from gapless.formats.timeseries.codec.metadata import CLEANUP_FEATURE
    from gapless.formats.timeseries.format import TIME_SERIES
    from gapless.log.format import Snapshot
    from gapless.log.snapshot import advance, write_checkpoint

    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("symbol", pa.string(), nullable=False),
            ("price", pa.float64()),
        ]
    )
    gl.create(place, index="ts", bucket="1h", entity="symbol", schema=schema, properties={"on_overlap": "allow"})
    env, snapshot = world(place)
    meta = replace(snapshot.state.meta, reader_features=snapshot.state.meta.reader_features | {CLEANUP_FEATURE})
    with_features = Commit(id="made", operation="alter", engine="bench", actions=(UpdateTableMeta(meta),))
    snapshot = advance(TIME_SERIES, snapshot, [(2, with_features, snapshot.time_ns + 1_000)])
    time_ns, log = snapshot.time_ns, place / "_timeseries_log"
    for start in range(0, count, 100 * EACH):
        numbers = range(start, min(start + 100 * EACH, count))
        snapshot = advance(TIME_SERIES, snapshot, commits(snapshot.version + 1, numbers, time_ns, EACH))
        (log / f"{snapshot.version - EACH:010d}.checkpoint.parquet").unlink(missing_ok=True)
        env.drive(write_checkpoint(TIME_SERIES, snapshot))
        # As a writer that opens the table anew: parts that were written are not held in memory.
        path = TIME_SERIES.checkpoint_path(snapshot.version)
        snapshot = TIME_SERIES.decode_checkpoint(env.store.get(path), snapshot.version, env.drive)
    for path in log.glob("*.checkpoint.parquet"):
        if TIME_SERIES.checkpoint_of(f"_timeseries_log/{path.name}") != snapshot.version:
            path.unlink()
    (log / "0000000001.json").unlink()
    base, at = snapshot.version, snapshot.time_ns
    later = list(commits(base + 1, range(count, count + LATER), time_ns, 1))
    for version, entry, when in later:
        env.store.put(TIME_SERIES.path_of(version), TIME_SERIES.encode(entry, version, max(when, at + version)))
    env.store.put(TIME_SERIES.hint, b"%d\n" % (base + LATER), mode="overwrite")
    assert isinstance(snapshot, Snapshot)


# -- measuring, each in a process of its own ---------------------------------------------------------------------------


def grown_bytes() -> int:
    """The most memory this process ever had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def world(place: Path) -> tuple[Any, Any]:
    """A table as `gl.open` opens it: its environment and its snapshot."""
    from gapless.tables.shared.handle import open_environment
    from gapless.tables.timeseries.lifecycle import open_table

    env = open_environment(place, None)
    return env, open_table(env, str(place))


def measure_open(place: Path) -> dict[str, float]:
    """Seconds and bytes of opening and planning, once all that they import is imported."""
    import pyarrow.parquet

    import gapless.tables.timeseries.table
    from gapless.tables.timeseries.read.scan import ScanRequest

    assert pyarrow.parquet
    assert gapless.tables.timeseries.table
    before, begun, cpu = grown_bytes(), time.perf_counter(), time.process_time()
    state = world(place)[1].state
    count = len(state.live)
    newest_ns = START_NS + count // SERIES * HOUR_NS
    start = datetime.fromtimestamp((newest_ns - 24 * HOUR_NS) // 10**9, UTC)
    request = ScanRequest(start=start, end=None, where=None, entity={"symbol": "SYM007"}, columns=None, order=None)
    plan = request.plan(state)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    planned = sum(len(group.segments) for group in plan.groups) if plan else 0
    return {"seconds": seconds, "cpu": cpu, "bytes": grown_bytes() - before, "segments": count, "planned": planned}


def measure_appends(place: Path, small: Path) -> dict[str, float]:
    """Median seconds of an append of one row to a table, and to a small one in turns with it."""
    import pyarrow as pa

    import gapless as gl

    tables, taken = [gl.open(place), gl.open(small)], ([], [])  # type: ignore[var-annotated]
    for number in range(PAIRS + 10):
        ts = pa.array([(START_NS // 1_000) + 10**15 + number * 60_000_000], pa.timestamp("us", "UTC"))
        row = pa.table({"ts": ts, "symbol": ["SYM007"], "price": [float(number)]})
        for table, seconds in zip(tables, taken, strict=True):
            begun = time.perf_counter()
            table.append(row)
            seconds.append(time.perf_counter() - begun)
    return {"this": statistics.median(taken[0][10:]), "small": statistics.median(taken[1][10:])}


def measure_checkpoints(place: Path) -> dict[str, float]:
    """Processor seconds and bytes of a log checkpoint after 100 new segments, parts among them: means of twenty in a row."""
    from gapless.formats.timeseries.format import TIME_SERIES
    from gapless.log.snapshot import advance, write_checkpoint

    env, snapshot = world(place)
    count, cpu, wall, written = len(snapshot.state.live), 0.0, 0.0, 0
    for turn in range(CHECKPOINTS):
        numbers = range(count + turn * 100, count + turn * 100 + 100)
        snapshot = advance(TIME_SERIES, snapshot, list(commits(snapshot.version + 1, numbers, snapshot.time_ns, 100)))
        before = set((place / "_log_parts").glob("*"))
        begun, spent = time.perf_counter(), time.process_time()
        env.drive(write_checkpoint(TIME_SERIES, snapshot))
        wall, cpu = wall + time.perf_counter() - begun, cpu + time.process_time() - spent
        made = [place / TIME_SERIES.checkpoint_path(snapshot.version), *(set((place / "_log_parts").glob("*")) - before)]
        written += sum(path.stat().st_size for path in made)
    return {"cpu": cpu / CHECKPOINTS, "wall": wall / CHECKPOINTS, "bytes": written / CHECKPOINTS}


def fresh(act: str, *places: Path) -> dict[str, float]:
    """What a process of its own measured."""
    command = [sys.executable, __file__, "--act", act, *map(str, places)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


# -- the table of ratios -----------------------------------------------------------------------------------------------


def compare(root: Path, count: int) -> str:
    """One line: a table of `count` segments beside one of 10."""
    place, small = root / f"t{count}", root / "t10"
    opened = [(fresh("open", place), fresh("open", small)) for _ in range(OPENS)]
    seconds, cpu, most = (statistics.median(one[key] for one, _ in opened) for key in ("seconds", "cpu", "bytes"))
    base, base_cpu = (statistics.median(one[key] for _, one in opened) for key in ("seconds", "cpu"))
    copies = [root / "copy", root / "copy10"]
    for source, copy in zip((place, small), copies, strict=True):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)
    append = fresh("append", *copies)
    written = [fresh("checkpoint", copy) for copy in copies]
    planned = opened[0][0]["planned"]
    return (
        f"{count:>9,} {seconds * 1e3:9.0f} {seconds / base:7.2f} {cpu / base_cpu:7.2f} {most / 2**20:8.0f} {planned:8.0f} "
        f"{append['this'] / append['small']:8.2f} {written[0]['cpu'] / written[1]['cpu']:10.2f} "
        f"{written[0]['bytes'] / written[1]['bytes']:7.2f} {written[0]['bytes'] / 1024:8.0f}"
    )


def main() -> None:
    """Print the curve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--act", choices=["open", "append", "checkpoint"])
    parser.add_argument("places", nargs="*", type=Path)
    chosen = parser.parse_args()
    if chosen.act:
        act = {"open": measure_open, "append": measure_appends, "checkpoint": measure_checkpoints}[chosen.act]
        print(json.dumps(act(*chosen.places)))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = chosen.keep or Path(folder)
        sizes = [size for size in SIZES if size <= chosen.largest]
        print("            open+plan of a day of one series             append  checkpoint after 100 segments")
        print(" segments   ms     x of 10  cpu x   MiB  segments  x of 10     cpu x of 10  bytes x   KiB")
        for size in sizes:
            if not (root / f"t{size}").exists():
                make(root / f"t{size}", size)
            print(compare(root, size), flush=True)


if __name__ == "__main__":
    main()
