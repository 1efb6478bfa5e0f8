"""Where the value of a column changes from one row to the next."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.model.numbers import numbers_of

Positions = npt.NDArray[np.integer[Any]]

_BLOCK_ROWS = 1 << 15
"""What there is to say of so many texts stays in a processor's cache."""

_RARELY = 64
"""Rows a change from which on texts are compared byte by byte with those before."""


def first_rows(values: pa.Array) -> Positions:
    """The rows, ascending, that do not have the value of the row before, of values without nulls; the first of them is 0 if there is one."""
    found = _first_texts(values) if pa.types.is_string(values.type) and len(values) else None
    if found is None:
        ends = numbers_of(pc.run_end_encode(values).run_ends)
        found = np.concatenate([np.zeros(min(1, len(ends)), ends.dtype), ends[:-1]])
    return found


def _first_texts(texts: pa.Array) -> Positions | None:
    """The same of texts; None where they change so often that to look at one after the other is faster."""
    _, where, data = texts.buffers()
    offsets = np.frombuffer(where, np.int32, len(texts) + 1, 4 * texts.offset)
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    found: list[Positions] = [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(texts) - 1, _BLOCK_ROWS):
        # A block begins with the last row of the one before.
        changes = _changes(offsets[start : start + _BLOCK_ROWS + 2], text)
        if changes is None:
            return None
        found.append(changes + start)
    return np.concatenate(found)


def _changes(offsets: npt.NDArray[np.int32], text: npt.NDArray[np.uint8]) -> Positions | None:
    """The places, after the first, of texts that differ from the one before; None where they are many."""
    lengths = np.diff(offsets)
    edges = np.flatnonzero(lengths[1:] != lengths[:-1]) + 1
    if len(edges) * _RARELY > len(lengths):
        return None
    found: list[Positions] = [edges]
    for start, end in pairwise([0, *edges.tolist(), len(lengths)]):
        width = int(lengths[start])
        # Texts of one length lie a text apart.
        alike = text[offsets[start] : offsets[end]]
        differs = alike[width:] != alike[: len(alike) - width]
        if (count := np.count_nonzero(differs)) * _RARELY > len(alike):
            return None
        if count:
            found.append(np.flatnonzero(differs) // width + start + 1)
    return np.unique(np.concatenate(found)) if len(found) > 1 else edges
