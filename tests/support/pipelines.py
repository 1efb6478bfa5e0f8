"""Tables of hourly rows that pipelines read and write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import gapless as gl
from gapless import connect
from support import hudi_targets, iceberg_tables

START = datetime(2026, 1, 5, tzinfo=UTC)
SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us", "UTC"), nullable=False), ("id", pa.int64()), ("v", pa.int64())])
KINDS = ("timeseries", "delta")
SINK_KINDS = (*KINDS, "iceberg", "hudi")
"""Tables that sinks write; tests make, change and read Iceberg's by pyiceberg, and read Hudi's by hudi-rs."""


def rows(first: int, count: int, ids: int = 5) -> pa.Table:
    """One row an hour: `v` is its number, `id` that modulo `ids`."""
    numbers = range(first, first + count)
    columns = {"ts": [START + timedelta(hours=n) for n in numbers], "id": [n % ids for n in numbers], "v": list(numbers)}
    return pa.table(columns, schema=SCHEMA)


def made(kind: str, place: Path | str) -> Any:
    """An empty table."""
    if kind == "iceberg":
        return iceberg_tables.make(str(place), None)
    if kind == "hudi":
        return hudi_targets.make(str(place), None, SCHEMA)
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
    if kind == "iceberg":
        return iceberg_tables.Handle(str(place), None)
    if kind == "hudi":
        return hudi_targets.HudiTarget(str(place), None)
    return gl.delta.open(place) if kind == "delta" else gl.open(place)


def added_by_commit(kind: str, place: Path | str) -> list[list[int]]:
    """`v` of the rows that each commit added, in order; of a Hudi table as its rows say who added them, by hudi-rs."""
    if kind == "hudi":
        return hudi_targets.added_by_commit(str(place))
    table = opened(kind, place)
    newest = table.table.metadata.last_sequence_number if kind == "iceberg" else table.version
    added = list[list[int]]()
    for version in range(2 if kind == "timeseries" else 1, newest + 1):
        reader = connect.source(f"{kind}:{place}", start=version, until=version)
        reader.start()
        polled = reader.poll()
        added += [[v for batch in polled for v in batch["v"].to_pylist()]] if polled.rows else []
    return added
