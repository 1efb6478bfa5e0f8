"""What changed between two sets of rows, as a change feed says it: exactly, and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.compare.keys import Codes, row_codes, same_rows
from gapless.model.index import IndexSpec

Mask = npt.NDArray[np.bool_]

CHANGE_TYPE = "_change_type"
INSERT, PREIMAGE, POSTIMAGE, DELETE = "insert", "update_preimage", "update_postimage", "delete"
_TYPES = (DELETE, PREIMAGE, POSTIMAGE, INSERT)
_DELETE, _PREIMAGE, _POSTIMAGE, _INSERT = range(4)
PIECE_ROWS = 131_072
"""Rows that are taken from a stream at a time."""
_LAST = {"int64": 2**63 - 1, "uint64": 2**64 - 1}


def diff_ordered(
    removed: Iterable[pa.RecordBatch], added: Iterable[pa.RecordBatch], schema: pa.Schema, index: IndexSpec
) -> Iterator[pa.Table]:
    """What a change took away and brought, from the rows before and after it: two streams of `schema` in index order.

    See `diff_rows` for what comes out; tables come in index order. Held at a time: a batch of each stream, or all rows
    of one index value where those are more.
    """
    sides = [_Side(_pieces(stream), schema, index) for stream in (removed, added)]
    while sum(side.fill() for side in sides):
        # Whatever else comes, it is at or past the last value that a stream which goes on has shown.
        cut = min((side.last for side in sides if not side.ended), default=None)
        gone, new = (side.take(cut) for side in sides)
        if gone.num_rows or new.num_rows:
            yield diff_rows(gone, new, index)
            continue
        for side in sides:
            if not side.ended and side.last == cut:
                side.extend()


def diff_rows(removed: pa.Table, added: pa.Table, index: IndexSpec) -> pa.Table:
    """The rows by which `added` differs from `removed`, two tables of one schema, with a column `_change_type` behind.

    Rows are told apart bit for bit (see `row_codes`), and counted: of rows that are on both sides equally often nothing comes out.
    What is left pairs up within each identity and index value, in the order it came, as an update: its preimage and right behind it
    its postimage. Rows come by index, then by identity; in each, deletes before updates before inserts.
    """
    removed, added = _drop_same(removed, added)
    both = pa.concat_tables([removed, added])
    at = surplus(row_codes(both.columns, both.num_rows), removed.num_rows)
    left, is_added = both.take(pa.array(at)), at >= removed.num_rows
    keys = row_codes([left.column(name) for name in index.keys], left.num_rows)
    rank, pairs = _ranks(keys, is_added), np.minimum(*_counts(keys, is_added))[keys]
    single, paired = np.where(is_added, _INSERT, _DELETE), np.where(is_added, _POSTIMAGE, _PREIMAGE)
    kind = np.where(rank < pairs, paired, single)
    stage = np.where(kind == _DELETE, 0, np.where(kind == _INSERT, 2, 1))
    order = _order(left, index, (stage, rank, kind))
    return left.append_column(CHANGE_TYPE, pa.array(_TYPES).take(pa.array(kind))).take(order)


def all_rows(batch: pa.RecordBatch, change: str) -> pa.Table:
    """All rows of a batch as one kind of change, with a column `_change_type` behind."""
    return pa.Table.from_batches([batch]).append_column(CHANGE_TYPE, pa.repeat(change, batch.num_rows))


def _drop_same(removed: pa.Table, added: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both without rows that are equal at the same place, counted from the front and then from the back: most rows that were
    written anew as they were.
    """
    for front in (True, False):
        rows = min(removed.num_rows, added.num_rows)
        at = [0 if front else one.num_rows - rows for one in (removed, added)]
        same = same_rows(removed.slice(at[0], rows), added.slice(at[1], rows))
        removed, added = (
            one.filter(pa.array(np.pad(~same, (start, one.num_rows - rows - start), constant_values=True)))
            for one, start in zip((removed, added), at, strict=True)
        )
    return removed, added


def surplus_rows(removed: pa.Table, added: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of each of two tables of one schema that it has more often than the other: the later ones of equal rows."""
    both = pa.concat_tables([removed, added])
    at = surplus(row_codes(both.columns, both.num_rows), removed.num_rows)
    left, right = at[at < removed.num_rows], at[at >= removed.num_rows]
    return both.take(pa.array(left)), both.take(pa.array(right))


def surplus(codes: Codes, removed: int) -> Codes:
    """The positions of rows that their side has more often than the other, `removed` of them being on the first: the later ones of each code."""
    is_added = np.arange(len(codes)) >= removed
    gone, new = _counts(codes, is_added)
    at = np.flatnonzero((gone != new)[codes])
    common = np.minimum(gone, new)[codes[at]]
    return at[_ranks(codes[at], is_added[at]) >= common]


def _counts(codes: Codes, is_added: Mask) -> tuple[Codes, Codes]:
    """How often each code occurs among what is not added, and among what is."""
    length = int(codes.max()) + 1 if len(codes) else 0
    gone, new = (np.bincount(codes[mask], minlength=length) for mask in (~is_added, is_added))
    return gone, new


def _ranks(codes: Codes, is_added: Mask) -> Codes:
    """How many rows of the same code and side are before each row."""
    sides = codes * 2 + is_added
    order = np.argsort(sides, kind="stable")
    ordered = sides[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(begins, np.diff(np.r_[begins, len(ordered)]))
    return ranks


def _order(rows: pa.Table, index: IndexSpec, within: tuple[Codes, ...]) -> pa.Array:
    """The order of rows by index, identity, and then by further numbers."""
    columns = [*(rows.column(name) for name in (index.column, *index.entity)), *map(pa.array, within)]
    keys = pa.table(columns, names=[str(at) for at in range(len(columns))])
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(at, PIECE_ROWS) for at in range(0, batch.num_rows, PIECE_ROWS))


@dataclass(slots=True)
class _Side:
    """One stream of rows in index order, of which some are held."""

    left: Iterator[pa.RecordBatch]
    schema: pa.Schema
    index: IndexSpec
    held: list[pa.RecordBatch] = field(default_factory=list)
    ended: bool = False
    last: Any = None
    """The largest index value that is held, as numpy's int64 or uint64; only while more may come."""

    def fill(self) -> bool:
        """Hold at least one batch, if there is one; whether any is held."""
        if not self.held:
            self.extend()
        return bool(self.held)

    def extend(self) -> None:
        """Hold one more batch, unless the stream has ended."""
        batch = next(self.left, None)
        if batch is None:
            self.ended = True
            return
        self.held.append(batch)
        self.last = self._values(batch.slice(batch.num_rows - 1))[0]

    def take(self, cut: Any) -> pa.Table:
        """Give away what is held before an index value; all where `cut` is None."""
        taken = self.held
        self.held = []
        if cut is not None:
            split = [int(np.searchsorted(self._values(batch), cut)) for batch in taken]
            self.held = [batch.slice(at) for batch, at in zip(taken, split, strict=True) if at < batch.num_rows]
            taken = [batch.slice(0, at) for batch, at in zip(taken, split, strict=True) if at]
        return pa.Table.from_batches(taken, self.schema)

    def _values(self, batch: pa.RecordBatch) -> npt.NDArray[Any]:
        kind = "uint64" if self.index.type == "uint64" else "int64"
        values = batch.column(self.index.column).view(pa.type_for_alias(kind))
        # Other writers leave rows without an index value, which come last.
        filled: npt.NDArray[Any] = values.fill_null(_LAST[kind]).to_numpy(zero_copy_only=False)
        return filled
