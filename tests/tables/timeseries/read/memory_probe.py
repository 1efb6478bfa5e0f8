"""Run by test_memory.py: does one job over `rows` rows and prints what it took, as JSON.

Usage: memory_probe.py JOB ROWS PLACE [SCALE]. SCALE divides the sizes that gapless works in, so that a small table shows what a large
one would.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import gapless as gl
from gapless.files.write import file_writer
from gapless.predicate import plan
from gapless.tables.shared.compaction import TARGET_BYTES
from gapless.tables.timeseries.care.compact_plan import SORT_BYTES, CompactOptions
from gapless.tables.timeseries.write import stage

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("site", pa.string()), ("x", pa.float64()), ("n", pa.int64())])
BATCH = 20_000
SITES = 40


def by_time(rows: int) -> Iterator[pa.RecordBatch]:
    """Rows in the order of time, all sites together."""
    for first in range(0, rows, BATCH):
        yield _batch(np.arange(first, min(first + BATCH, rows)), np.arange(first, min(first + BATCH, rows)) % SITES)


def by_site(rows: int) -> Iterator[pa.RecordBatch]:
    """One site after the other, each over the whole time: no two segments lie apart."""
    for first in range(0, rows, BATCH):
        number = np.arange(first, min(first + BATCH, rows))
        yield _batch(number % (rows // SITES), number * SITES // rows)


def _batch(second: np.ndarray, site: np.ndarray) -> pa.RecordBatch:
    noise = (second * 2_654_435_761 + site) % 1_000_003
    names = pa.DictionaryArray.from_arrays(pa.array(site, pa.int32()), pa.array([f"site-{n:03d}" for n in range(SITES)]))
    columns = [
        pa.array(second * 1_000_000, pa.int64()).cast(pa.timestamp("us")),
        names.cast(pa.string()),
        pa.array(noise / 7),
        pa.array(noise),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def run(job: str, rows: int, place: str, scale: int) -> int:
    if job.startswith("append"):
        table = gl.create(place, index="ts", entity=["site"], bucket="1h")
        batches = by_site(rows) if job.endswith("by site") else by_time(rows)
        return table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches)).rows
    table = gl.open(place)
    if job == "compact":
        options = CompactOptions(resort=True, target_size=TARGET_BYTES // scale, sort_bytes=SORT_BYTES // scale)
        assert table._compactor(options).compact(table._snapshot).bins
        return sum(segment.rows for segment in table.segments())
    order = "index" if job.endswith("by index") else None
    where = "x > 0" if "where" in job else None
    return sum(batch.num_rows for batch in table.scan(order=order, where=where).to_batches())


if __name__ == "__main__":
    job, rows, place, scale = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    stage.RUN_BYTES //= scale
    file_writer.ROW_GROUP_BYTES //= scale
    plan.SORT_BYTES //= scale
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = run(job, rows, place, scale)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps({"rows": done, "rss_mb": (peak - before) / 1024, "arrow_mb": pa.default_memory_pool().max_memory() / 2**20})
    )
