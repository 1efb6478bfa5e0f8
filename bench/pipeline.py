"""A pipeline in SQL beside the same query in plain Spark, into Delta tables: how much longer it takes. Not part of `make bench`: it needs Maven Central.

Both sides read the same Parquet files, so many in a batch, filter and compute a column, and write a Delta table; ours by `gl.pipeline`, theirs
by Spark's stream and the sink of delta-spark. Each side is a process of its own with the same session; rounds alternate. The time is that
from the start of the query to its end, without the session's start; a first run of each process over one small file is not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
COLUMNS = "id BIGINT, ts TIMESTAMP, symbol STRING, price DOUBLE, volume BIGINT"
QUERY = "SELECT id, ts, symbol, price * volume AS turnover, volume FROM ticks WHERE volume > 10"
GOAL = 1.05
SIDES = ("delta-spark", "gapless")


def make_input(folder: Path, files: int, rows: int) -> None:
    """Parquet files of ticks, and one small one beside them."""
    random = np.random.default_rng(1)
    for name, first, count in [("small", 0, 1000), *((f"ticks/{number:03d}", number, rows) for number in range(files))]:
        path = folder / f"{name}.parquet" if "/" in name else folder / name / "0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = np.arange(count, dtype=np.int64) + first * rows
        columns = {
            "id": ids,
            "ts": pa.array(1_767_571_200_000_000 + ids * 1000, pa.timestamp("us", "UTC")),
            "symbol": pa.array(np.char.add("SYM", random.integers(0, 50, count).astype(str))),
            "price": random.normal(100, 5, count).round(2),
            "volume": random.integers(1, 1000, count),
        }
        pq.write_table(pa.table(columns), path)


def session(folder: Path) -> Any:
    """The same for both sides."""
    import gapless as gl

    config = {
        "spark.jars.packages": DELTA,
        "spark.jars.ivy": str(ROOT / "build" / "ivy"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    return gl.spark.session("bench", master="local[2]", config=config)


def run_ours(spark: Any, source: Path, out: Path, files_a_batch: int) -> None:
    """The pipeline."""
    import gapless as gl

    sql = f"""CREATE SOURCE ticks ({COLUMNS}) WITH (type='parquet', location='{source}', max_files={files_a_batch});
    CREATE SINK out WITH (type='delta', location='{out / "table"}') AS {QUERY};"""
    gl.pipeline(sql=sql, name="bench", checkpoints=str(out / "checkpoints")).run(spark)


def run_theirs(spark: Any, source: Path, out: Path, files_a_batch: int) -> None:
    """Plain Spark, with Delta's own sink."""
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", files_a_batch).parquet(str(source))
    stream.createOrReplaceTempView("ticks")
    writer = spark.sql(QUERY).writeStream.format("delta").option("checkpointLocation", str(out / "checkpoints"))
    writer.trigger(availableNow=True).start(str(out / "table")).awaitTermination()


def side(name: str, folder: Path, files_a_batch: int) -> None:
    """One side in this process; prints the seconds."""
    spark = session(folder)
    act = run_ours if name == "gapless" else run_theirs
    for source in ("small", "ticks"):
        out = folder / f"{name}-{source}"
        shutil.rmtree(out, ignore_errors=True)
        begun = time.perf_counter()
        act(spark, folder / source, out, files_a_batch)
        seconds = time.perf_counter() - begun
    rows = spark.read.format("delta").load(str(folder / f"{name}-ticks" / "table")).count()
    spark.stop()
    print(json.dumps({"seconds": seconds, "rows": rows}))


def main() -> None:
    """Run the rounds and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=500_000, help="of each file")
    parser.add_argument("--files-a-batch", type=int, default=2)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench-pipeline")
    asked = parser.parse_args()
    if asked.side:
        side(asked.side, asked.folder, asked.files_a_batch)
        return
    shutil.rmtree(asked.folder, ignore_errors=True)
    make_input(asked.folder, asked.files, asked.rows)
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    counted = set()
    for number in range(asked.rounds):
        for name in SIDES if number % 2 == 0 else reversed(SIDES):
            command = [sys.executable, str(HERE), "--side", name, "--folder", str(asked.folder)]
            command += ["--files-a-batch", str(asked.files_a_batch)]
            ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            told = json.loads(ended.stdout.splitlines()[-1])
            times[name].append(told["seconds"])
            counted.add(told["rows"])
            print(f"round {number + 1}, {name}: {told['seconds']:.1f} s, {told['rows']:,} rows", flush=True)
    assert len(counted) == 1, counted
    theirs, ours = (median(times[name]) for name in SIDES)
    print(
        f"gapless {ours:.1f} s, delta-spark {theirs:.1f} s (medians of {asked.rounds}): ratio {ours / theirs:.2f}, goal {GOAL}"
    )


if __name__ == "__main__":
    main()
