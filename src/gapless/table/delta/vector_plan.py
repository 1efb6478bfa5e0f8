"""Rows deleted by deletion vectors: which vectors files get, and which files go altogether."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gapless.dialects.delta.actions import AddFile
from gapless.dialects.delta.deletion_vector import Positions
from gapless.parquet.delta.attempt import Attempt
from gapless.parquet.delta.read import FileReader, Wanted
from gapless.parquet.delta.vectors import read_vector, write_vectors


@dataclass(frozen=True, slots=True)
class Struck:
    """A live file, and all positions in it that are deleted now."""

    file: AddFile
    positions: Positions
    rows: int
    """Of the data file, deleted ones too."""


def strike(reader: FileReader, file: AddFile, positions: Positions) -> Struck | None:
    """A live file with more of its rows deleted; None where none is left. Raises CorruptTable, StoreError."""
    if file.deletion_vector is not None:
        positions = np.union1d(read_vector(reader.places, file.deletion_vector), positions)
    rows = _rows_in(reader, file)
    if len(positions) >= rows:
        # Before a file goes, it is asked itself: statistics may be wrong.
        rows = _counted(reader, file)
    return None if len(positions) >= rows else Struck(file, positions, rows)


def write_struck(attempt: Attempt, struck: list[Struck]) -> list[AddFile]:
    """The files told anew with their vectors, which are stored. Raises StoreError."""
    deleted = {one.file.path: one.positions for one in struck}
    vectors = write_vectors(attempt.put, attempt.rim.ids.uuid, deleted)
    return [
        replace(one.file, deletion_vector=vectors[one.file.path], stats=loosened(one.file.stats, one.rows), data_change=True)
        for one in struck
    ]


def loosened(stats: str | None, rows: int) -> str:
    """Statistics that say of themselves that rows were deleted since they were taken; all else byte for byte.

    `rows` are the data file's, which must be said beside a deletion vector.

    >>> loosened('{"numRecords":2,"minValues":{"v":1.10}}', 2)
    '{"numRecords":2,"minValues":{"v":1.10},"tightBounds":false}'
    """
    known = _parsed(stats)
    if stats is None or known is None or known.get("numRecords") != rows:
        return json.dumps({"numRecords": rows, "tightBounds": False}, separators=(",", ":"))
    if known.get("tightBounds") is True:
        return _rewritten(stats)
    if "tightBounds" in known:
        return stats if known["tightBounds"] is False else json.dumps({**known, "tightBounds": False})
    return f'{stats.rstrip()[:-1].rstrip()},"tightBounds":false}}'


def _parsed(stats: str | None) -> Mapping[str, object] | None:
    try:
        known = json.loads(stats or "")
    except ValueError:
        return None
    return known if isinstance(known, dict) else None


def _rewritten(stats: str) -> str:
    """The text with its own `tightBounds` made false: the first such name that is not inside another object."""
    decoder, at, depth = json.JSONDecoder(), 0, 0
    while at < len(stats):
        letter = stats[at]
        if letter == '"':
            name, end = decoder.raw_decode(stats, at)
            if depth == 1 and name == "tightBounds":
                begin = stats.index("t", end)
                return f"{stats[:begin]}false{stats[begin + len('true') :]}"
            at = end
            continue
        depth += (letter in "{[") - (letter in "}]")
        at += 1
    return stats


def known_rows(file: AddFile) -> int | None:
    """The rows of a data file, deleted ones too, where the log says them."""
    known = (_parsed(file.stats) or {}).get("numRecords")
    return known if isinstance(known, int) else None


def _rows_in(reader: FileReader, file: AddFile) -> int:
    known = known_rows(file)
    return _counted(reader, file) if known is None else known


def _counted(reader: FileReader, file: AddFile) -> int:
    return reader.count([file], Wanted(deleted=True))


def live_rows(reader: FileReader, file: AddFile) -> int:
    """The rows of a live file, less those that its deletion vector deletes. Raises CorruptTable, StoreError."""
    return _rows_in(reader, file) - (0 if file.deletion_vector is None else file.deletion_vector.cardinality)
