"""Tables of hourly rows that pipelines read and write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import gapless as gl
from gapless import connect

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("v", pa.int64())])
KINDS = ("timeseries", "delta")


def rows(first: int, count: int, ids: int = 5) -> pa.Table:
    """One row an hour: `v` is its number, `id` that modulo `ids`."""
    numbers = range(first, first + count)
    columns = {"ts": [START + timedelta(hours=n) for n in numbers], "id": [n % ids for n in numbers], "v": list(numbers)}
    return pa.table(columns, schema=SCHEMA)


def made(kind: str, place: Path | str) -> Any:
    """An empty table."""
    return gl.delta.create(place, SCHEMA) if kind == "delta" else gl.create(place, index="ts", bucket="1h", schema=SCHEMA)


def all_polled(reader: Any, limit: int | None = None, *, read: Callable[[Any], list[int]]) -> list[int]:
    """What `read` makes of each poll, until one gives nothing."""
    found: list[int] = []
    while polled := read(reader.poll(limit)):
        assert limit is None or len(polled) <= limit
        found += polled
    return found


def opened(kind: str, place: Path | str) -> Any:
    """The table there."""
    return gl.delta.open(place) if kind == "delta" else gl.open(place)


def added_by_commit(kind: str, place: Path | str) -> list[list[int]]:
    """`v` of the rows that each commit added, in order."""
    table = opened(kind, place)
    added = list[list[int]]()
    for version in range(1 if kind == "delta" else 2, table.version + 1):
        reader = connect.source(f"{kind}:{place}", start=version, until=version)
        reader.start()
        polled = reader.poll()
        added += [[v for batch in polled for v in batch["v"].to_pylist()]] if polled.rows else []
    return added
