"""Run by test_sink_memory.py: does one job with `rows` rows, some of one key, and prints its peak of memory, as JSON.

Usage: sink_memory_probe.py JOB KIND ROWS KEYS PLACE. Jobs: "append" (write and prepare a checkpoint that is appended), "stage" (write and prepare a checkpoint that updates keys, spilled in parts),
"finalize" (the checkpoint that was staged), "table" (the table's own upsert of the rows that stand, held in memory).
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gapless as gl
from gapless.connect import PreparedCommit, Sink, sink

SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("text", pa.string())])
START_US = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000_000
BATCH = 20_000
TEXT = 200


def batches(first: int, end: int, keys: int) -> Iterator[pa.RecordBatch]:
    """Rows `[first, end)`, a second after each other; the last `keys` of them have each key once."""
    for begin in range(first, end, BATCH):
        numbers = np.arange(begin, min(begin + BATCH, end))
        texts = np.char.zfill(numbers.astype(str), TEXT)
        ids = pa.array(numbers % keys)
        times = pa.array(START_US + numbers % keys * 1_000_000).cast(SCHEMA.field("ts").type)
        yield pa.record_batch([times, ids, pa.array(texts)], schema=SCHEMA)


def sink_into(kind: str, place: Path, name: str, **options: Any) -> Sink:
    """A sink whose table is made where it is missing."""
    if kind == "timeseries":
        options["create"] = {"index": "ts", "bucket": "1h"}
    else:
        options["create"] = {}
    return sink(f"{kind}:{place}", pipeline="p", name=name, **options)


def run(job: str, kind: str, rows: int, keys: int, place: Path) -> int:
    mine = sink_into(kind, place, "s", mode="upsert", key="id", order_by="ts", spill_bytes=16 << 20)
    if job == "append":
        mine = sink_into(kind, place, "s", spill_bytes=4 << 20)
        mine.initialize(SCHEMA)
        for batch in batches(0, rows, keys):
            mine.write(batch)
        return len(mine.prepare(1).data_files)
    if job == "stage":
        mine.initialize(SCHEMA)
        with sink_into(kind, place, "first") as first:
            first.initialize(SCHEMA)
            for batch in batches(0, keys // 2, keys):
                first.write(batch)
            first.finalize(first.prepare(1))
        for batch in batches(0, rows, keys):
            mine.write(batch)
        prepared = mine.prepare(1)
        place.with_suffix(".json").write_text(prepared.to_json())
        return len(prepared.data_files)
    if job == "finalize":
        return mine.finalize(PreparedCommit.from_json(place.with_suffix(".json").read_text())).version
    table: Any = gl.delta.open(place) if kind == "delta" else gl.open(place)
    held = pa.Table.from_batches(batches(rows - keys, rows, keys))
    if kind == "timeseries":
        return int(table.upsert(held, key="id").version)
    return int(table.merge(held, "t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute().version)


if __name__ == "__main__":
    job, kind, rows, keys, place = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = run(job, kind, rows, keys, place)
    rss_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"done": done, "arrow_mb": pa.default_memory_pool().max_memory() / 2**20, "rss_mb": rss_mb}))
