"""Rows of a batch, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.integer[Any]]
_FEW = 1 << 16


def split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[tuple[pa.Scalar, ...], pa.RecordBatch]]:
    """The rows of each partition, with its values, in their order; whole batches are not copied.

    >>> batch = pa.record_batch({"p": ["a", "b", "a"], "x": [1, 2, 3]})
    >>> [(key[0].as_py(), rows["x"].to_pylist()) for key, rows in split(batch, ["p"])]
    [('a', [1, 3]), ('b', [2])]
    """
    if not batch.num_rows:
        return
    if not columns:
        yield (), batch
        return
    codes = _codes([batch.column(name) for name in columns], batch.num_rows)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1])
    rows = batch if len(starts) == 1 else batch.take(pa.array(order))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        piece = rows.slice(start, end - start)
        yield tuple(piece.column(name)[0] for name in columns), piece


def _codes(columns: Sequence[pa.Array], rows: int) -> Codes:
    """For each row, a number that is that of all rows with the same values."""
    codes, size = np.zeros(rows, np.int64), 1
    for column in columns:
        encoded: Any = pc.dictionary_encode(column, null_encoding="encode")
        count = len(encoded.dictionary)
        codes = codes * count + encoded.indices.to_numpy(zero_copy_only=False)
        size *= count
        if size > _FEW:
            # Narrowed again, so that the numbers cannot grow out of 64 bits.
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
    # Numbers of 16 bits are sorted many times as fast.
    return codes.astype(np.uint16) if size <= _FEW else codes
