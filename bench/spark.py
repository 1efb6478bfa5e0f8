"""gapless in Spark beside Spark's own Parquet, Delta and Iceberg: ratios, interleaved in one run.

Run by name: `.venv/bin/python bench/spark.py` (`--rows`, `--repeats`, `--only TEXT`, `--no-peers`). Reads are of the same files: the table's segments,
which Delta and Iceberg are given as hard links, so what differs is how they are found, pruned and scanned. A read's seconds begin with
the call that makes the DataFrame and end with the answer, which must be DuckDB's. Writes are of one cached DataFrame in arrival order;
gapless also sorts, takes coverage, statistics and checksums, and syncs. Ratios are to the first line of each block, in the same round;
below 1 is faster. Start-up is a process of its own, from its beginning to the first answer. All figures go to build/bench/spark.json.
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
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from spark_contenders import Read, readers, session, writers, written_rows
from spark_data import CASES, FILES, SMALL_FILES, SMALL_ROWS, Case, Ticks, make_ticks, normal
from spark_delta import THEIRS, delta_rows, read_ours, read_theirs, streams_into_delta, writers_of_delta

Seconds = dict[str, list[float]]
"""By contender, a figure a round."""
OUT = Path("build/bench/spark.json")
_START_UP = "start-up, from import to the first answer"

_OURS = """
import sys, gapless as gl
spark = gl.spark.session(quick={quick})
print(gl.spark.read(spark, sys.argv[1]).count())
"""
_PLAIN = """
import os, sys
from gapless.spark.setup.start import find_java
os.environ["JAVA_HOME"] = str(find_java(os.environ))
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
print(spark.read.parquet(sys.argv[1] + "/data").count())
"""
_STARTS = {
    "pyspark alone": _PLAIN,
    "gapless.spark.session": _OURS.format(quick=False),
    "  … with quick=True": _OURS.format(quick=True),
}


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def rounds(acts: Mapping[str, Callable[[], object]], repeats: int) -> Seconds:
    """Seconds of each act in each round, after one that is not counted; who fails in that one is left out, with a word."""
    fit = {name: act for name, act in acts.items() if _works(name, act)}
    took: Seconds = {name: [] for name in fit}
    for _ in range(repeats):
        for name, act in fit.items():
            took[name].append(seconds(act))
    return took


def _works(name: str, act: Callable[[], object]) -> bool:
    try:
        act()
    except AssertionError:
        raise
    except Exception as error:
        print(f"  left out: {name.strip()}, {str(error).strip().splitlines()[0][:160]}")
        return False
    return True


def reading(case: Case, ways: Mapping[str, Read], ticks: Ticks, repeats: int) -> Seconds:
    expected = ticks.answer(case)

    def ask(name: str, read: Read) -> None:
        found = [normal(row) for row in case.ask(read(case)).collect()]
        assert found == expected, f"{name} answers {found[:3]} to {case.name}, and DuckDB {expected[:3]}"

    return rounds({name: lambda name=name, read=read: ask(name, read) for name, read in ways.items()}, repeats)


def writing(spark: Any, ticks: Ticks, folder: Path, repeats: int, *, peers: bool) -> Seconds:
    frame = spark.read.parquet(*map(str, ticks.arrived)).cache()
    expected = tuple(frame.selectExpr("count(*)", "sum(volume)").first())
    took = writes(writers(frame, peers=peers), lambda name, place: written_rows(spark, name, place), expected, folder, repeats)
    frame.unpersist()
    return took


def writing_delta(spark: Any, ticks: Ticks, folder: Path, repeats: int) -> Seconds:
    frame = spark.read.parquet(*map(str, ticks.arrived)).cache()
    expected = tuple(frame.selectExpr("count(*)", "sum(volume)").first())
    took = writes(writers_of_delta(frame, ticks), lambda _, place: delta_rows(place), expected, folder / "delta", repeats)
    frame.unpersist()
    return took


def streaming_delta(spark: Any, ticks: Ticks, folder: Path, repeats: int) -> Seconds:
    expected = tuple(spark.read.parquet(*map(str, ticks.arrived)).selectExpr("count(*)", "sum(volume)").first())
    ways = streams_into_delta(spark, ticks)
    took = writes(ways, lambda _, place: delta_rows(place), expected, folder / "streams", repeats)
    for name, values in took.items():
        print(f"  {name:32} {expected[0] / statistics.median(values):,.0f} rows/s")
    return took


def writes(
    ways: Mapping[str, Callable[[Path], object]],
    count: Callable[[str, Path], object],
    expected: object,
    folder: Path,
    repeats: int,
) -> Seconds:
    """Seconds of each way to write in each round, each to a place of its own that is looked at and removed."""
    places = iter(folder / f"written_{number}" for number in range(1_000_000))
    folder.mkdir(exist_ok=True)

    def write(name: str, act: Callable[[Path], object]) -> float:
        place = next(places)
        took = seconds(lambda: act(place))
        found = count(name, place)
        assert found == expected, f"{name} wrote {found}, and was given {expected}"
        shutil.rmtree(place, ignore_errors=True)
        return took

    fit = {name: act for name, act in ways.items() if _works(name, lambda name=name, act=act: write(name, act))}
    took: Seconds = {name: [] for name in fit}
    for _ in range(repeats):
        for name, act in fit.items():
            took[name].append(write(name, act))
    return took


def starting(table: str, repeats: int) -> Seconds:
    took: Seconds = {name: [] for name in _STARTS}
    for _ in range(repeats):
        for name, code in _STARTS.items():
            run = [sys.executable, "-c", code, table]
            took[name].append(seconds(lambda run=run: subprocess.run(run, check=True, capture_output=True)))
    return took


def show(title: str, took: Seconds) -> dict[str, Any]:
    """Print a block of ratios, and give it back as what JSON keeps."""
    base = next(iter(took.values()))
    print(f"{title}: x {next(iter(took)).strip()}, which takes {statistics.median(base):.3f} s; min / median / max")
    found = {}
    for name, values in took.items():
        ratios = [value / against for value, against in zip(values, base, strict=True)]
        print(f"  {name:32} {min(ratios):.2f} / {statistics.median(ratios):.2f} / {max(ratios):.2f}", flush=True)
        found[name.strip(" …")] = {"seconds": values, "ratios": ratios, "median": statistics.median(ratios)}
    return found


def measure(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    print(f"{given.rows:,} rows in {FILES} files", flush=True)
    few = max(1, given.repeats // 2)
    ticks = make_ticks(folder / "ticks", given.rows, FILES)
    count = min(SMALL_FILES, max(FILES, given.rows // SMALL_ROWS))
    small = make_ticks(folder / "small", count * SMALL_ROWS, count) if given.only in f"{count:,} small files" else None
    spark, peers = session(folder, peers=not given.no_peers)
    found: dict[str, Any] = {"rows": given.rows, "repeats": given.repeats, "spark": spark.version}
    for title, block in blocks(spark, ticks, small, folder, given.repeats, peers=peers):
        if given.only in title:
            found[title] = show(title, block())
    spark.stop()
    if given.only in _START_UP:
        found[_START_UP] = show(_START_UP, starting(ticks.table.url, few))
    return found


def blocks(
    spark: Any, ticks: Ticks, small: Ticks | None, folder: Path, repeats: int, *, peers: bool
) -> Iterator[tuple[str, Callable[[], Seconds]]]:
    """Titles, and what measures under each of them in the session."""
    # Made when they are first asked: peers must be given their tables.
    ways = cache(lambda: readers(spark, ticks, peers=peers))
    for case in CASES:
        yield case.name, lambda case=case: reading(case, ways(), ticks, repeats)
    few = max(1, repeats // 2)
    yield "write", lambda: writing(spark, ticks, folder, few, peers=peers)
    if peers:
        both = {
            THEIRS: lambda case: read_theirs(spark, ticks, case),
            "gapless.spark.read, Delta": lambda case: read_ours(spark, ticks, case),
        }
        for case in CASES:
            yield f"Delta, {case.name}", lambda case=case: ways() and reading(case, both, ticks, repeats)
        yield "Delta, write", lambda: writing_delta(spark, ticks, folder, few)
        yield "Delta, stream of batches, each once", lambda: streaming_delta(spark, ticks, folder, few)
    if small is None:
        return
    ways_of_many = cache(lambda: readers(spark, small, peers=peers, many=True))
    for case in (CASES[0], CASES[3]):
        yield (
            f"{len(small.segments):,} small files, {case.name}",
            lambda case=case: reading(case, ways_of_many(), small, repeats),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="only blocks whose title contains it, such as 'small files'")
    parser.add_argument("--no-peers", action="store_true", help="leave Delta and Iceberg out")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)  # pyspark's sockets
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), given)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    print(f"all of it is in {OUT}")


if __name__ == "__main__":
    main()
