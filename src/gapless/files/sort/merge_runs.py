"""Rows gathered into sorted runs of bounded memory, and sorted runs merged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from gapless.coverage.bucket import Grid
from gapless.files.sort.run import Run, as_int, index_values, sort_run
from gapless.model.index import Identity, IndexSpec


def gather_runs(
    batches: Iterable[pa.RecordBatch], stored: pa.Schema, index: IndexSpec, grid: Grid, limit: int
) -> Iterator[Run]:
    """Runs of up to `limit` bytes of Arrow memory each, or of one batch that has more, from batches of the stored schema; none without rows.

    Equal keys of one run stay in the order in which they came. What a run was made of is let go before the run is given out.
    """
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if held:
            # To measure a batch takes longer than to sort a small one, and one alone need not be.
            size, held_bytes = batch.nbytes, held_bytes or held[0].nbytes
            if held_bytes + size > limit and any(one.num_rows for one in held):
                run = sort_run(pa.Table.from_batches(held, stored), index, grid)
                held, held_bytes = [], 0
                yield run
                del run
            else:
                held_bytes += size
        held.append(batch)
    if any(batch.num_rows for batch in held):
        run = sort_run(pa.Table.from_batches(held, stored), index, grid)
        held = []
        yield run


def pieces(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """A batch in slices of one length and about `limit` bytes at most, so that one huge batch costs no huge copies."""
    # No column holds more than all buffers do, whose size is known at once.
    if batch.get_total_buffer_size() * batch.num_columns <= limit:
        yield batch
        return
    rows = max(1, -(-batch.num_rows // max(1, -(-batch.nbytes // limit))))
    for start in range(0, max(1, batch.num_rows), rows):
        yield batch.slice(start, rows)


def merge_runs(stretches: Iterable[pa.Table], arrivals: Run, index: IndexSpec, grid: Grid) -> Iterator[Run]:
    """The rows of `stretches`, which are sorted by entity and index one after the other, and those of `arrivals`, in one order.

    All have one schema. A run for each stretch that has rows, and one for what comes after the last of them. Where keys are equal,
    arrivals come last.
    """
    taken, end = 0, arrivals.table.num_rows
    for rows in stretches:
        if not rows.num_rows:
            continue
        upto = _place_before(arrivals, rows.slice(rows.num_rows - 1), index) if taken < end else end
        due = arrivals.table.slice(taken, upto - taken)
        yield sort_run(_joined(rows, due, index), index, grid)
        taken = upto
    if taken < end:
        yield arrivals.part(taken, end)


_FEW = 64
"""Up to so many rows are put in their places one by one, without moving the others."""


def _joined(rows: pa.Table, due: pa.Table, index: IndexSpec) -> pa.Table:
    """Both, sorted where `due` are few; else one after the other."""
    if not due.num_rows or due.num_rows > _FEW:
        return pa.concat_tables([rows, due]) if due.num_rows else rows
    keys = [rows.column(name) for name in index.keys]
    pieces, at = [], 0
    for number in range(due.num_rows):
        row = due.slice(number, 1)
        wanted = _key([row.column(name) for name in index.keys], 0)
        place = bisect_right(range(rows.num_rows), wanted, lo=at, key=lambda position: _key(keys, position))
        pieces += [rows.slice(at, place - at), row]
        at = place
    # Each kernel that follows would pay for the pieces.
    return pa.concat_tables([*pieces, rows.slice(at)]).combine_chunks()


def _key(columns: list[pa.ChunkedArray], position: int) -> tuple[Any, ...]:
    """What a row is sorted by."""
    *entity, index = columns
    return (*(column[position].as_py() for column in entity), as_int(index[position]))


def _place_before(run: Run, row: pa.Table, index: IndexSpec) -> int:
    """How many rows of a run come before the key of a row."""
    identity: Identity = tuple(row.column(name)[0].as_py() for name in index.entity)
    place = bisect_left(run.identities, identity)
    start, end = np.searchsorted(run.codes, [place, place + 1])
    if place == len(run.identities) or run.identities[place] != identity:
        return int(start)
    values = index_values(run.table.column(index.column).slice(start, end - start))
    return int(start + np.searchsorted(values, as_int(row.column(index.column)[0]), side="left"))
