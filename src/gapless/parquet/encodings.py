"""Which Parquet encoding each column of a table deserves, by a sample of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE_ROWS = 8_192
_UNIQUE = 0.95
"""A column is not called repeating whose sample has a larger share of distinct values."""

_DENSE = 4
"""Whole numbers lie dense where their range is less than so many times as wide as they are many."""

_DELTA = "DELTA_BINARY_PACKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """How the columns of one file are encoded."""

    dictionary: bool | list[str]
    """The columns that get a dictionary; True for all."""
    others: Mapping[str, str]
    """By column without one, its encoding; those that are not named here are plain."""


def choose_encodings(table: pa.Table, ascending: str | None) -> Encodings:
    """The encodings for rows like these; `ascending` names the column of whole numbers that mostly rises by small steps, if one does.

    A dictionary where values repeat, so that it is worth its making: the writer would find out too, row group by row group, after it made
    most of one. Differences for whole numbers that rise, lie dense or do not repeat. A dictionary for all of a small or nested table.
    """
    if table.num_rows < _SAMPLE_ROWS or any(pa.types.is_nested(field.type) for field in table.schema):
        return Encodings(dictionary=True, others={})
    rows = pa.array(np.linspace(0, table.num_rows - 1, _SAMPLE_ROWS).astype(np.int64))
    dictionary, others = [], {}
    for field in table.schema:
        whole = _is_whole(field.type)
        if whole and field.name == ascending:
            others[field.name] = _DELTA
            continue
        values = table.column(field.name).take(rows)
        values = values.drop_null() if values.null_count else values
        distinct = pc.unique(values)
        repeats = len(distinct) <= _UNIQUE * len(values)
        if whole and (not repeats or _is_dense(distinct)):
            others[field.name] = _DELTA
        elif repeats:
            dictionary.append(field.name)
    return Encodings(dictionary=dictionary, others=others)


def _is_whole(kind: pa.DataType) -> bool:
    """Whether files hold the values as 32 or 64 bit integers."""
    return pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _is_dense(distinct: pa.Array) -> bool:
    """Whether there are many different values, and so near each other that differences take no more bits than numbers of a dictionary."""
    if len(distinct) <= _SAMPLE_ROWS // 4:
        return False
    # Arrow does not order every type of time.
    width = distinct.type.bit_width
    ends = pc.min_max(distinct.view(pa.int64() if width == 64 else pa.int32()) if width >= 32 else distinct)
    spread: int = ends["max"].as_py() - ends["min"].as_py()
    return spread < _DENSE * len(distinct)
