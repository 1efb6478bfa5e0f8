"""What the staged rows of a checkpoint come to: the newest of each key, or how many equal rows come and go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gapless.connect.sinks.change import KeyedChange
from gapless.connect.sinks.change_kinds import PUT, REMOVED, REPLACED
from gapless.connect.sinks.staged_rows import StagedRows
from gapless.files.compare.keys import KeySet
from gapless.files.compare.ordering import newest_of_each, ranks
from gapless.files.compare.row_diff import surplus_rows
from gapless.model.convert import opened
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges

Positions = npt.NDArray[np.int64]


def resolve_keyed(staged: StagedRows, change: KeyedChange) -> KeyedChanges:
    """The newest row of each key: the highest by `order_by`, of those with equal values the one that came last.

    A row before an update counts where no row of its key comes after it: the update gave the row another key. In memory are the columns of
    the key and of `order_by` of all rows, and the rows that stand. Raises CorruptTable, StoreError.
    """
    columns = (*change.known, *(() if change.change_type is None else (change.change_type,)))
    held = pa.concat_tables(staged.tables(columns))
    kinds = change.kinds(held)
    known = _opened(held.select(change.known))
    keys = KeySet.of(known, change.key)
    last = np.zeros(keys.count, dtype=np.int64)
    last[keys.ids] = np.arange(len(keys.ids))
    counting = np.flatnonzero((kinds != REPLACED) | (last[keys.ids] == np.arange(len(keys.ids))))
    order = ranks(known.select(change.order_by).take(pa.array(counting))) if change.order_by else None
    newest = newest_of_each(keys.ids[counting], keys.count, order)
    stands, arrived = counting[newest.rows], newest.count - newest.late
    in_order = np.argsort(stands)
    stands, arrived = stands[in_order], arrived[in_order]
    is_put = kinds[stands] == PUT
    return KeyedChanges(
        puts=_rows_at(staged, change, stands[is_put]),
        deletes=known.take(pa.array(stands[~is_put])),
        key=change.key,
        order_by=change.order_by,
        arrived=np.concatenate([arrived[is_put], arrived[~is_put]]),
        late=int(newest.late.sum()),
    )


def resolve_counted(staged: StagedRows, change: KeyedChange) -> CountedChanges:
    """The rows that come less those that go, each told apart by all its values. Raises CorruptTable, StoreError."""
    held = staged.table()
    kinds = change.kinds(held)
    rows = _opened(change.without_kind(held))
    gone = (kinds == REMOVED) | (kinds == REPLACED)
    removed, added = surplus_rows(rows.filter(pa.array(gone)), rows.filter(pa.array(~gone)))
    return CountedChanges(added=added, removed=removed)


def _rows_at(staged: StagedRows, change: KeyedChange, positions: Positions) -> pa.Table:
    """The rows at these positions, which ascend, as the table would have them: file by file, so that others are not held."""
    taken, first = list[pa.Table](), 0
    for rows in staged.tables():
        begin, end = np.searchsorted(positions, (first, first + rows.num_rows))
        found = _opened(change.without_kind(rows))
        taken.append(found if end - begin == rows.num_rows else found.take(pa.array(positions[begin:end] - first)))
        first += rows.num_rows
        if end == len(positions):
            break
    return pa.concat_tables(taken)


def _opened(rows: pa.Table) -> pa.Table:
    """Rows without encodings."""
    columns = [
        pa.chunked_array([opened(chunk) for chunk in column.chunks] or [opened(pa.nulls(0, column.type))])
        for column in rows.columns
    ]
    return pa.table(columns, names=rows.column_names)
