"""File actions of a Parquet checkpoint as Arrow columns, decoded on access; `stats_parsed` columns as their JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.formats.delta.action_codec import decode_vector
from gapless.formats.delta.actions import AddFile, DeletionVector, RemoveFile, file_key
from gapless.formats.delta.replay import LazyFiles


def stats_text(body: Mapping[str, Any] | None) -> str | None:
    """The JSON text of a file's statistics that were read as a struct; None where there are none."""
    return None if body is None else _text(body)


def _text(value: Any) -> str:
    match value:
        case dict():
            inner = (f"{json.dumps(name)}:{_text(one)}" for name, one in value.items() if _is_told(one))
            return f"{{{','.join(inner)}}}"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case int() | float():
            return repr(value)
        case datetime():
            zone = "" if value.tzinfo is None else "Z"
            naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            # Many writers cut bounds to milliseconds, and readers widen texts of so many digits again.
            grain = "microseconds" if value.microsecond % 1_000 else "milliseconds"
            return f'"{naive.isoformat(timespec=grain)}{zone}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return json.dumps(value.decode(errors="replace"), ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def _is_told(value: Any) -> bool:
    """Whether JSON can say it; a bound that is no number proves nothing."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


V = TypeVar("V")
Rows = list[pa.StructArray]
"""The rows of one action, piece by piece."""
_MOST_RUNS = 4
"""Rows in fewer runs are not copied together."""
_PERCENT, _COLON = b"%:"


def valid_rows(column: pa.ChunkedArray) -> Rows:
    """Of a column of one action, the rows that have it, in order."""
    return [rows for chunk in column.chunks for rows in _valid(chunk)]


def _valid(chunk: pa.StructArray) -> Rows:
    if chunk.null_count == len(chunk):
        return []
    if not chunk.null_count:
        return [chunk]
    there = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
    breaks = np.flatnonzero(np.diff(there) > 1) + 1
    if len(breaks) >= _MOST_RUNS:
        return [chunk.take(pa.array(there))]
    return [chunk.slice(int(run[0]), len(run)) for run in np.split(there, breaks)]


def lazy_adds(pieces: Rows) -> LazyFiles[AddFile]:
    """Live files. Raises ValueError where one is there twice."""
    return _lazy(pieces, _adds, partial(_all_stats, pieces))


def lazy_removes(pieces: Rows) -> LazyFiles[RemoveFile]:
    """Tombstones. Raises ValueError where one is there twice."""
    return _lazy(pieces, _removes)


def _all_stats(pieces: Rows) -> pa.Array:
    columns = [_stats_column(rows) for rows in pieces]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _stats_column(rows: pa.StructArray) -> pa.Array:
    stats = _child(rows, "stats")
    if stats is None or _child(rows, "stats_parsed") is not None:
        return pa.array(_stats(rows), pa.large_string())
    return stats.cast(pa.large_string())


def _lazy(pieces: Rows, make: Callable[[pa.StructArray], list[V]], stats: Callable[[], pa.Array] | None = None) -> LazyFiles[V]:
    keys: list[str] = []
    starts: list[int] = []
    for rows in pieces:
        starts.append(len(keys))
        keys += _keys(rows)
    index = dict(zip(keys, range(len(keys)), strict=True))
    if len(index) < len(keys):
        raise ValueError("a file is there twice")
    return LazyFiles(keys, partial(_make, pieces, starts, make), stats, index)


def _keys(rows: pa.StructArray) -> list[str]:
    """See `file_key`; most paths are their own key."""
    paths = _texts(rows, "path")
    if _child(rows, "deletionVector") is None and _are_plain(rows.field("path")):
        return paths
    return list(map(file_key, paths, _vectors(rows)))


def _are_plain(paths: pa.Array) -> bool:
    """Whether no path is encoded, absolute or a URI; a look at all bytes at once, which a regular expression takes ten times as long for."""
    texts = paths.cast(pa.large_binary())
    _, offsets, data = texts.buffers()
    first, last = np.frombuffer(offsets, np.int64)[[texts.offset, texts.offset + len(texts)]]
    data_bytes = np.frombuffer(data or b"", np.uint8)[first:last]
    return not (_PERCENT in data_bytes or _COLON in data_bytes or pc.any(pc.starts_with(paths, "/")).as_py())


def _make(pieces: Rows, starts: Sequence[int], make: Callable[[pa.StructArray], list[V]], start: int, end: int) -> list[V]:
    made: list[V] = []
    for first, rows in zip(starts, pieces, strict=True):
        low, high = max(start - first, 0), min(end - first, len(rows))
        if low < high:
            made += make(rows.slice(low, high - low))
    return made


def _adds(rows: pa.StructArray) -> list[AddFile]:
    columns = zip(
        _texts(rows, "path"),
        _maps(rows, "partitionValues"),
        _wholes(rows, "size"),
        _values(rows, "modificationTime"),
        _values(rows, "dataChange"),
        _stats(rows),
        _maps(rows, "tags"),
        _vectors(rows),
        _values(rows, "baseRowId"),
        _values(rows, "defaultRowCommitVersion"),
        _values(rows, "clusteringProvider"),
        strict=True,
    )
    return [
        AddFile(
            path=path,
            partition_values=values or {},
            size=size,
            modified_ms=modified or 0,
            data_change=change is not False,
            stats=stats,
            tags=tags,
            deletion_vector=vector,
            base_row_id=row_id,
            default_row_commit_version=version,
            clustering_provider=provider,
        )
        for path, values, size, modified, change, stats, tags, vector, row_id, version, provider in columns
    ]


def _removes(rows: pa.StructArray) -> list[RemoveFile]:
    columns = zip(
        _texts(rows, "path"),
        _values(rows, "deletionTimestamp"),
        _values(rows, "dataChange"),
        _maps(rows, "partitionValues"),
        _values(rows, "size"),
        _vectors(rows),
        _values(rows, "baseRowId"),
        _values(rows, "defaultRowCommitVersion"),
        strict=True,
    )
    return [
        RemoveFile(
            path=path,
            deleted_ms=deleted,
            data_change=change is not False,
            partition_values=values,
            size=size,
            deletion_vector=vector,
            base_row_id=row_id,
            default_row_commit_version=version,
        )
        for path, deleted, change, values, size, vector, row_id, version in columns
    ]


def _child(rows: pa.StructArray, name: str) -> pa.Array | None:
    """A field of every row; None where the file has none, or it is null everywhere."""
    if rows.type.get_field_index(name) < 0:
        return None
    child = rows.field(name)
    return None if child.null_count == len(child) else child


def _values(rows: pa.StructArray, name: str) -> list[Any]:
    child = _child(rows, name)
    return [None] * len(rows) if child is None else child.to_pylist()


def _texts(rows: pa.StructArray, name: str) -> list[str]:
    found = _values(rows, name)
    if None in found:
        raise ValueError(f"{name} is null")
    return found


def _wholes(rows: pa.StructArray, name: str) -> list[int]:
    found = _values(rows, name)
    return found if None not in found else [value or 0 for value in found]


def _maps(rows: pa.StructArray, name: str) -> list[dict[str, str | None] | None]:
    child = _child(rows, name)
    if child is None:
        return [None] * len(rows)
    offsets, valid = child.offsets.to_pylist(), child.is_valid().to_pylist()
    if offsets[0] == offsets[-1]:
        return [{} if there else None for there in valid]
    keys, items = child.keys.to_pylist(), child.items.to_pylist()
    bounds = zip(valid, offsets, offsets[1:], strict=False)
    return [dict(zip(keys[start:end], items[start:end], strict=True)) if there else None for there, start, end in bounds]


def _vectors(rows: pa.StructArray) -> list[DeletionVector | None]:
    child = _child(rows, "deletionVector")
    return [None] * len(rows) if child is None else [decode_vector(body) for body in child.to_pylist()]


def _stats(rows: pa.StructArray) -> list[str | None]:
    found: list[str | None] = _values(rows, "stats")
    parsed = _child(rows, "stats_parsed")
    if parsed is None:
        return found
    try:
        bodies = parsed.to_pylist()
    except (ValueError, OverflowError):  # a year that Python does not have: statistics may be missing
        return found
    return [stats_text(body) if text is None else text for text, body in zip(found, bodies, strict=True)]
