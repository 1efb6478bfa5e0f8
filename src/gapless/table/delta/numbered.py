"""Rows of many files, each with where it lies, for DuckDB to match; and what it found, by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.dialects.delta.actions import AddFile
from gapless.parquet.delta.read import POSITION, Wanted
from gapless.parquet.row_filter import EVERYTHING
from gapless.scan.predicate import Predicate
from gapless.table.delta.rewrite import Before

Numbers = npt.NDArray[np.int64]
FILE = "file"
"""The column with the number of a row's file, from 0."""
CHUNK_BYTES = 64 << 20
"""Arrow memory of the rows that are matched at a time."""


def numbered_rows(
    before: Before, files: Sequence[AddFile], columns: Sequence[int], predicate: Predicate = EVERYTHING
) -> Iterator[pa.Table]:
    """The files' rows that a predicate keeps, about `CHUNK_BYTES` at a time, with `FILE`, `POSITION` and these columns by index, the one
    at 3 called c3. Raises CorruptTable, StoreError.
    """
    schema = before.schema
    wanted = Wanted(columns=tuple(schema.names[at] for at in columns), predicate=predicate, position=True)
    fields = [pa.field(f"c{at}", schema.field(at).type) for at in columns]
    shape = pa.schema([pa.field(FILE, pa.int32()), *fields, pa.field(POSITION, pa.int64())])
    held: list[pa.RecordBatch] = []
    size = 0
    for number, file in enumerate(files):
        for batch in before.reader.batches(file, wanted):
            told = pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)
            held.append(pa.RecordBatch.from_arrays([told, *batch.columns], schema=shape))
            size += held[-1].nbytes
            if size >= CHUNK_BYTES:
                yield pa.Table.from_batches(held, shape)
                held, size = [], 0
    yield pa.Table.from_batches(held, shape)


def by_file(found: pa.Table, files: int) -> list[tuple[Numbers, ...]]:
    """The columns of an answer, which are a file's number and positions in it first, as sorted arrays for each file."""
    columns: list[npt.NDArray[Any]] = [column.to_numpy() for column in found.columns]
    order = np.lexsort(tuple(reversed(columns)))
    number, *others = (column[order] for column in columns)
    ends = np.searchsorted(number, np.arange(files + 1))
    return [tuple(column[begin:end] for column in others) for begin, end in pairwise(ends)]
