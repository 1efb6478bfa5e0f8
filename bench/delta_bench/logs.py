"""Delta logs and tables made by hand, so that making them costs neither side anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_US = 1_767_225_600_000_000
"""2026-01-01, UTC."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("site", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("note", pa.string()),
    ]
)
_NAMES = {"id": "long", "at": "timestamp", "site": "string", "value": "double", "note": "string"}
FILE_ROWS = 100


def rows(count: int, start: int = 0, seed: int = 0) -> pa.Table:
    """Rows whose ids follow each other, a second apart."""
    dice = np.random.default_rng(seed + start)
    ids = np.arange(start, start + count, dtype=np.int64)
    return pa.table(
        {
            "id": ids,
            "at": pa.array(START_US + ids * 1_000_000, pa.timestamp("us", "UTC")),
            "site": pa.array(np.char.add("site-", (ids % 50).astype(str))),
            "value": dice.normal(size=count),
            "note": pa.array(np.char.add("note ", dice.integers(0, 1_000, count).astype(str))),
        },
        schema=SCHEMA,
    )


def _instant(us: int) -> str:
    return f"{np.datetime64(us, 'us')}"[:23] + "Z"


def _add(number: int, size: int) -> dict[str, Any]:
    first, last = number * FILE_ROWS, (number + 1) * FILE_ROWS - 1
    low = {"id": first, "at": _instant(START_US + first * 1_000_000), "site": "site-0", "value": -3.5, "note": "note 0"}
    high = {"id": last, "at": _instant(START_US + last * 1_000_000), "site": "site-9", "value": 3.5, "note": "note 999"}
    stats = {"numRecords": FILE_ROWS, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
    return {
        "add": {
            "path": f"part-{number:06d}.parquet",
            "partitionValues": {},
            "size": size,
            "modificationTime": 1_767_225_600_000 + number,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


def _opening() -> list[dict[str, Any]]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _NAMES.items()]
    metadata = {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_767_225_600_000,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _commits(count: int, sizes: Sequence[int], each: int) -> Iterator[list[dict[str, Any]]]:
    for version in range(count):
        info = {
            "commitInfo": {"timestamp": 1_767_225_600_000 + version * 1_000, "operation": "WRITE", "operationParameters": {}}
        }
        adds = [_add(number, sizes[number % len(sizes)]) for number in range(version * each, (version + 1) * each)]
        yield [info, *(_opening() if version == 0 else ()), *adds]


def write_log(place: Path, commits: int, *, checkpoint: bool, each: int = 1, sizes: Sequence[int] = (4_000,)) -> None:
    """A log of so many commits, with `each` files in every one; deltalake writes the checkpoint."""
    log = place / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(_commits(commits, sizes, each)):
        (log / f"{version:020d}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    if checkpoint:
        deltalake.DeltaTable(str(place)).create_checkpoint()


def write_many_files(place: Path, files: int, *, checkpoint: bool = True) -> None:
    """A table of so many small files, in log entries of 100 files each, by default with a checkpoint."""
    place.mkdir(parents=True)
    paths = [place / f"part-{number:06d}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        pq.write_table(rows(FILE_ROWS, number * FILE_ROWS), path, compression="snappy")
    write_log(place, files // 100, checkpoint=checkpoint, each=100, sizes=[path.stat().st_size for path in paths])
