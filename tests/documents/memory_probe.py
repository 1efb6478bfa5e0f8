"""Run by test_spill.py: makes a collection, or runs one pipeline over it and prints what it took, as JSON.

Usage: memory_probe.py make PLACE DOCUMENTS, memory_probe.py JOB PLACE MEMORY_LIMIT
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import gapless as gl

BATCH = 20_000
JOBS: dict[str, list[dict[str, Any]]] = {
    "read": [{"$match": {"x": -1}}],
    "sort": [{"$sort": {"x": -1}}],
    "group": [{"$group": {"_id": "$u", "n": {"$sum": 1}, "x": {"$sum": "$x"}}}],
    "push": [{"$group": {"_id": "$k", "all": {"$push": "$$ROOT"}}}, {"$project": {"n": {"$size": "$all"}}}],
    "buckets": [{"$bucketAuto": {"groupBy": "$x", "buckets": 10}}],
    "window": [
        {"$setWindowFields": {"partitionBy": "$k", "sortBy": {"x": 1}, "output": {"r": {"$rank": {}}, "of": {"$max": "$x"}}}}
    ],
    "facet": [{"$facet": {"kinds": [{"$sortByCount": "$k"}, {"$limit": 1}], "all": [{"$count": "n"}]}}, {"$unwind": "$all"}],
}


def make(place: str, count: int) -> None:
    """Documents of about 200 bytes."""
    collection, chance = gl.documents.collection(place), random.Random(5)
    for start in range(0, count, BATCH):
        collection.insert_many(
            {
                "_id": number,
                "k": number % 500,
                "u": chance.randrange(count),
                "x": chance.random(),
                "name": f"customer {number % 977}",
                "items": [{"sku": f"s{number % 311}", "n": number % 7}],
            }
            for number in range(start, min(start + BATCH, count))
        )


def peak_mb() -> float:
    """What this process took at most; `ru_maxrss` begins with what its parent took."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def run(job: str, place: str, limit: int) -> None:
    """One pipeline, whose answer is counted and told by a sum."""
    collection = gl.documents.collection(place, create=False, memory_limit=limit)
    started, count, told = time.perf_counter(), 0, 0
    for one in collection.aggregate(JOBS[job]):
        count += 1
        told = (told * 31 + hash(one["_id"] if isinstance(one.get("_id"), int) else 0)) % (1 << 61)
    print(json.dumps({"count": count, "told": told, "mb": peak_mb(), "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    job, place, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if job == "make":
        make(place, number)
    else:
        run(job, place, number)
