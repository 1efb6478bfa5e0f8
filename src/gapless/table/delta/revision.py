"""The files that a change of rows makes of one version: which go, which come, and what the change feed is told."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from gapless.dialects.delta.actions import Action, AddFile, Metadata, RemoveFile, TableState
from gapless.dialects.delta.deletion_vector import Positions
from gapless.dialects.delta.features import supports
from gapless.dialects.delta.properties import Settings
from gapless.model.report import Tally
from gapless.parquet.ahead import one_ahead
from gapless.parquet.delta.attempt import Attempt
from gapless.parquet.delta.read import POSITION, FileReader, Wanted
from gapless.parquet.delta.write import Target, write_rows
from gapless.parquet.threads import WORTH_THREADS_BYTES
from gapless.table.delta.change_log import ChangeLog
from gapless.table.delta.row_edit import Edit, Touch, all_gone, edited
from gapless.table.delta.vector_plan import Struck, live_rows, strike, write_struck
from gapless.table.delta.written import row_schema

_HELD_BYTES = 64 << 20
"""Rows of a file that are held until the first of them turns out to change; of more, the file is read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows by what happened to them."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some rows of a file, and what becomes of those at `places` among them."""

    rows: pa.Table
    places: Positions
    positions: Positions
    """Where those lie in the file."""
    edit: Edit


@dataclass(slots=True, kw_only=True)
class Revision:
    """One change on its way into files. Call `run` once, then ask for `actions` and `tally`."""

    state: TableState
    """The version it is made to."""
    after: TableState
    """The same with the metadata that rows are written for."""
    reader: FileReader
    """Reads files with the columns of `after`."""
    attempt: Attempt
    _schema: pa.Schema = field(init=False)
    _log: ChangeLog | None = None
    _removed: list[AddFile] = field(default_factory=list)
    _whole: list[AddFile] = field(default_factory=list)
    """Those removed of which no row was read."""
    _struck: list[Struck] = field(default_factory=list)
    _added: list[AddFile] = field(default_factory=list)
    _counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        """Know the schema of rows on their way."""
        self._schema = row_schema(self.after)

    @property
    def tally(self) -> Tally:
        """What it counted: `rows` are inserted and updated ones, `removed_rows` deleted and updated ones."""
        counts = self._counts
        return Tally(
            rows=counts.inserted + counts.updated,
            segments=len(self._added),
            removed_rows=counts.deleted + counts.updated,
            removed_segments=len(self._removed) + len(self._whole),
            updated_rows=counts.updated,
        )

    def run(self, touches: Iterable[Touch], inserts: Callable[[], Iterable[pa.RecordBatch]]) -> tuple[Action, ...]:
        """Write what the touches make of their files, then the rows that are new (asked for when all touches are done).

        The log entry's actions, none where the table stays as it is. Raises what the edits raise, CorruptTable, StoreError.
        """
        settings, protocol = Settings.of(self.after.configuration), self.after.protocol
        target = Target.of(self.after)
        if settings.change_data_feed and supports(protocol, "changeDataFeed"):
            self._log = ChangeLog(attempt=self.attempt, target=target)
        strikes = settings.deletion_vectors and supports(protocol, "deletionVectors")
        remake = self._strike if strikes else self._copy
        rows = (batch for touch in touches if not self._is_whole(touch) for batch in remake(touch))
        # What tells the change feed writes files too, and there is one hand for that.
        with closing(rows if self._log is not None else _ahead_of_writing(rows)) as kept:
            self._added = write_rows(self.attempt, target, chain(kept, self._inserted(inserts)))
        self._tell_whole()
        struck = write_struck(self.attempt, self._struck) if self._struck else []
        return self._actions(struck)

    def _is_whole(self, touch: Touch) -> bool:
        if touch.is_removal:
            self._whole.append(touch.file)
            self._count(deleted=live_rows(self.reader, touch.file))
        return touch.is_removal

    def _copy(self, touch: Touch) -> Iterator[pa.RecordBatch]:
        """The file's rows, edited, for a file that takes its place; none where every row stays as it is."""
        pieces = _begun(lambda: self._pieces(touch))
        if pieces is None:
            return
        self._removed.append(touch.file)
        for piece in pieces:
            self._heed(piece)
            yield from edited(piece.rows, piece.places, piece.edit).to_batches()

    def _strike(self, touch: Touch) -> Iterator[pa.RecordBatch]:
        """The rows that take the place of the file's own, which a deletion vector strikes out."""
        positions = touch.positions
        if positions is None or touch.edit is not None or self._log is not None:
            found = []
            for piece in self._pieces(touch, only=positions):
                self._heed(piece)
                found.append(piece.positions[piece.edit.touched])
                yield from piece.edit.after.to_batches()
            positions = np.concatenate([np.empty(0, np.int64), *found])
        else:
            self._count(deleted=len(positions))
        if len(positions):
            struck = strike(self.reader, touch.file, positions)
            self._removed.append(touch.file)
            self._struck += [] if struck is None else [struck]

    def _pieces(self, touch: Touch, only: Positions | None = None) -> Iterator[_Piece]:
        edit = all_gone if touch.edit is None else touch.edit
        for batch in self.reader.batches(touch.file, Wanted(position=True), only=only):
            places, positions = _meeting(batch.column(POSITION), touch.positions)
            rows = self._shaped(batch.drop_columns([POSITION]))
            chosen = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
            yield _Piece(rows, places, positions, edit(chosen, positions))

    def _heed(self, piece: _Piece) -> None:
        """Count what a piece changes, and tell the change feed."""
        self._count(updated=int(piece.edit.changed.sum()), deleted=int(piece.edit.gone.sum()))
        if self._log is not None and piece.edit.touched.any():
            whole = len(piece.places) == piece.rows.num_rows
            self._log.add_edit(piece.rows if whole else piece.rows.take(pa.array(piece.places)), piece.edit)

    def _inserted(self, inserts: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        for batch in inserts():
            self._count(inserted=batch.num_rows)
            # Where files only come and go whole, they say themselves what changed.
            if self._log is not None and not self._log.is_empty:
                self._log.add_inserts(pa.Table.from_batches([batch]))
            yield batch

    def _tell_whole(self) -> None:
        if self._log is None or self._log.is_empty:
            return
        for file in self._whole:
            for batch in self.reader.batches(file):
                self._log.add_deletes(self._shaped(batch))

    def _shaped(self, batch: pa.RecordBatch) -> pa.Table:
        """Rows of a file under the schema that new rows have."""
        return pa.Table.from_arrays(batch.columns, schema=self._schema)

    def _count(self, *, inserted: int = 0, updated: int = 0, deleted: int = 0) -> None:
        now = self._counts
        self._counts = Counts(inserted=now.inserted + inserted, updated=now.updated + updated, deleted=now.deleted + deleted)

    def _actions(self, struck: list[AddFile]) -> tuple[Action, ...]:
        at = self.attempt.instant_ms
        told = [] if self._log is None else self._log.finish()
        removed = [RemoveFile.of(file, at) for file in (*self._removed, *self._whole)]
        return (*_metadata(self.state, self.after), *removed, *struck, *self._added, *told)


def _ahead_of_writing(rows: Generator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """The rows; where they are many, the next are read and edited while some are encoded."""
    first = list(islice(rows, 1))
    yield from first
    yield from one_ahead(rows) if any(batch.nbytes >= WORTH_THREADS_BYTES for batch in first) else rows


def _metadata(before: TableState, after: TableState) -> tuple[Action, ...]:
    metadata: tuple[Metadata, ...] = (after.metadata,) if after.metadata != before.metadata else ()
    return (*((after.protocol,) if after.protocol != before.protocol else ()), *metadata)


def _meeting(column: pa.Array, wanted: Positions | None) -> tuple[Positions, Positions]:
    """Of rows at ascending positions: which are wanted, by their place among them and by their position."""
    there = column.to_numpy()
    if wanted is None:
        return np.arange(len(there)), there
    near = wanted[np.searchsorted(wanted, there[0]) : np.searchsorted(wanted, there[-1], side="right")]
    places = np.searchsorted(there, near)
    return places, near


def _begun(pieces: Callable[[], Iterator[_Piece]]) -> Iterator[_Piece] | None:
    """A file's pieces, if one of them changes anything."""
    coming, held, size = pieces(), list[_Piece](), 0
    for piece in coming:
        held.append(piece)
        if piece.edit.touched.any():
            return chain(held, coming) if size < _HELD_BYTES else pieces()
        size += piece.rows.nbytes
        if size >= _HELD_BYTES:
            held.clear()
    return None
