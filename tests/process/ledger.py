"""What writers in other processes append, and the audit of a table they wrote to.

Append `number` of a writer is one bucket of ROWS rows whose values follow from their keys, so that a lost, doubled, torn or
altered append shows in the rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import xxhash

import gapless as gl
from gapless.store.open import open_store

ROWS = 10
"""Rows of one append."""

Append = tuple[str, int]
"""(writer, number): also its operation id."""
Place = tuple[str, dict[str, str]]
"""URL or path of a table, and the storage options for it."""

SCHEMA = pa.schema([("at", pa.int64()), ("writer", pa.string()), ("value", pa.int64())])


def rows_of(append: Append) -> pa.Table:
    """The rows of one append: `at` runs through its bucket."""
    writer, number = append
    at = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"at": at, "writer": [writer] * ROWS, "value": [_value(writer, one) for one in at]}, schema=SCHEMA)


def make_table(place: Place, *, checkpoint_interval: int = 100) -> gl.TimeSeriesTable:
    """An empty table for such appends."""
    location, options = place
    properties = {"checkpoint_interval": checkpoint_interval}
    return gl.create(
        location,
        index="at",
        index_type="int64",
        bucket=ROWS,
        entity="writer",
        properties=properties,
        storage_options=options or None,
    )


def open_at(place: Place) -> gl.TimeSeriesTable:
    """A new handle on the table there."""
    location, options = place
    return gl.open(location, storage_options=options or None)


def append_at(place: Place, append: Append) -> None:
    """Append through a handle of one's own."""
    open_at(place).append(rows_of(append))


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a table holds."""

    version: int
    present: frozenset[Append]
    """Appends of which all rows are there once, with their values."""
    faults: tuple[str, ...]
    """All that is wrong with the rows or the files."""
    orphans: tuple[str, ...]
    """Files below data/ and _coverage/ that no live segment names."""


def audit(place: Place) -> Audit:
    """Open the table anew and read all of it; its commits, rows and segment files are compared with each other."""
    table = open_at(place)
    # Without a schema nothing was appended.
    present, faults = appends_of(SCHEMA.empty_table() if table.schema is None else table.scan().to_arrow())
    history = table.history()
    if [entry.version for entry in history] != list(range(1, table.version + 1)):
        faults.append(f"the history is {[entry.version for entry in history]}")
    if len({entry.commit_id for entry in history}) != len(history):
        faults.append("two versions hold one commit")
    covered = table.coverage().covered if present else 0
    if covered != len(present):
        faults.append(f"coverage says {covered} buckets, the rows {len(present)}")
    orphans, missing = _files(place, table)
    return Audit(version=table.version, present=frozenset(present), faults=(*faults, *missing), orphans=orphans)


def check(place: Place, acknowledged: Iterable[Append], unanswered: Iterable[Append] = ()) -> Audit:
    """The audit, after failing on any fault, on a lost acknowledged append and on one that nobody sent."""
    found, acked = audit(place), set(acknowledged)
    assert not found.faults, found.faults
    assert not acked - found.present, f"acknowledged and lost: {sorted(acked - found.present)}"
    strange = found.present - acked - set(unanswered)
    assert not strange, f"not sent, or sent twice: {sorted(strange)}"
    return found


def _value(writer: str, at: int) -> int:
    return xxhash.xxh32_intdigest(f"{writer}:{at}".encode())


def appends_of(rows: pa.Table) -> tuple[set[Append], list[str]]:
    """The appends of which all rows are there once, with their values; and what is wrong with any."""
    counts: Counter[tuple[str, int]] = Counter()
    faults = []
    for writer, at, value in zip(*(rows.column(name).to_pylist() for name in ("writer", "at", "value")), strict=True):
        counts[writer, at] += 1
        if value != _value(writer, at):
            faults.append(f"row {at} of {writer} is altered")
    faults += [f"row {at} of {writer} is there {count} times" for (writer, at), count in counts.items() if count != 1]
    sizes = Counter((writer, at // ROWS) for writer, at in counts)
    faults += [f"append {number} of {writer} is torn: {size} rows" for (writer, number), size in sizes.items() if size != ROWS]
    return {append for append, size in sizes.items() if size == ROWS}, faults


def _files(place: Place, table: gl.TimeSeriesTable) -> tuple[tuple[str, ...], list[str]]:
    """Files that no segment names, and what is wrong with those that one names."""
    store = open_store(place[0], place[1] or None)
    sizes: Mapping[str, int] = {info.path: info.size for folder in ("data", "_coverage") for info in store.list(folder)}
    live = {segment.path: segment.size for segment in table.segments() if segment.data is None}
    faults = [f"{path} has {sizes.get(path)} bytes, not {size}" for path, size in live.items() if sizes.get(path) != size]
    sidecars = {getattr(segment.coverage, "path", "") for segment in table.segments()}
    return tuple(path for path in sizes if path not in live and path not in sidecars), faults
