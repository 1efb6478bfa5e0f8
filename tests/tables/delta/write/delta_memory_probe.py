"""Run by test_delta_memory.py: makes a table of long texts, changes rows of every file, and prints what it took, as JSON.

Usage: delta_memory_probe.py CHANGE FILES PLACE.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from gapless.tables.delta.table import DeltaTable

FILE_ROWS, TEXT = 64, 1 << 20


def texts(number: int) -> pa.Table:
    """64 MiB in one column, of which each row has its own."""
    ids = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
    return pa.table({"id": ids, "text": pa.array([f"{one:08d}" * (TEXT // 8) for one in ids], pa.string())})


def keys(files: int) -> pa.Table:
    return pa.table({"id": np.arange(files) * FILE_ROWS + 3})


CHANGES: dict[str, Callable[[DeltaTable, int], int]] = {
    "delete": lambda table, files: table.delete(f"id % {FILE_ROWS} = 3").removed_rows,
    "update": lambda table, files: table.update({"id": "-id - 1"}, where=f"id % {FILE_ROWS} = 3").updated_rows,
    "merge": lambda table, files: table.merge(keys(files), "t.id = s.id").when_matched_delete().execute().deleted_rows,
    "dedup": lambda table, files: table.dedup("id").removed_rows + files,
}


if __name__ == "__main__":
    change, files, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    table = DeltaTable.create(place, texts(0).schema, properties={"delta.enableChangeDataFeed": True})
    for number in range(files):
        table.append(texts(number))
    before = pa.total_allocated_bytes()
    rows = CHANGES[change](table, files)
    pool = pa.default_memory_pool()
    print(json.dumps({"rows": rows, "left": table.count(), "arrow_mb": (pool.max_memory() - before) / 2**20}))
