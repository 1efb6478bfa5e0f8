"""Write the files of a DELETE, UPDATE or MERGE on one version: data files, deletion vectors and change data files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE
from gapless.formats.delta.actions import Action, AddFile, CdcFile, Metadata, RemoveFile, TableState
from gapless.formats.delta.deletion_vector import Positions
from gapless.formats.delta.features import supports
from gapless.formats.delta.properties import Settings
from gapless.model.operation import Tally
from gapless.runtime.concurrency import WORTH_THREADS_BYTES, one_ahead
from gapless.tables.delta.files.open_file import POSITION, Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.row_tracking import RowTracking
from gapless.tables.delta.files.write import StagedWrite, Target, write_changes, write_rows
from gapless.tables.delta.write.inputs import row_schema
from gapless.tables.delta.write.row_edit import (
    AffectedFile,
    Edit,
    FileWithDeletions,
    all_gone,
    delete_positions,
    edited,
    live_rows,
    write_deletion_vectors,
)

TellOrder = Callable[[pa.Table], Positions]
"""Of rows that a change took away and brought (all columns of the table, and `_change_type`), the positions in the order in which they are told."""


@dataclass(slots=True, kw_only=True)
class ChangeLog:
    """What a change took away and brought, as the feed tells it."""

    attempt: StagedWrite
    target: Target
    order: TellOrder | None = None
    """In which order the rows are told, all of which are held then; None for the order in which they are found."""
    _held: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _files: list[CdcFile] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was told yet."""
        return not (self._held or self._files)

    def add(self, rows: pa.Table, change: str) -> None:
        """Tell of rows, all of the table's columns, that all changed in one way."""
        if not rows.num_rows:
            return
        told = rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change, pa.string()), rows.num_rows))
        self._held.append(told)
        self._bytes += told.nbytes
        if self._bytes >= _HELD_BYTES and self.order is None:
            self._flush()

    def add_edit(self, rows: pa.Table, edit: Edit) -> None:
        """Tell what became of some rows."""
        self.add(rows.filter(pa.array(edit.gone)), DELETE)
        self.add(rows.filter(pa.array(edit.changed)), PREIMAGE)
        self.add(edit.after, POSTIMAGE)

    def add_inserts(self, rows: pa.Table) -> None:
        """Tell of rows that are new."""
        self.add(rows, INSERT)

    def add_deletes(self, rows: pa.Table) -> None:
        """Tell of rows that are gone."""
        self.add(rows, DELETE)

    def finish(self) -> list[CdcFile]:
        """Its files, all stored."""
        self._flush()
        return self._files

    def _flush(self) -> None:
        told = self._held
        if self.order is not None and told:
            rows = pa.concat_tables(told)
            told = [rows.take(pa.array(self.order(rows)))]
        batches = (batch for table in told for batch in table.to_batches())
        if told:
            self._files += write_changes(self.attempt, self.target, batches)
        self._held, self._bytes = [], 0


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
    ids: pa.Table | None = None
    """Which rows they are, where the table promises to tell."""


@dataclass(slots=True, kw_only=True)
class RowChangeWriter:
    """One change on its way into files. Call `run` once, then ask for `actions` and `tally`."""

    state: TableState
    """The version it is made to."""
    after: TableState
    """The same with the metadata that rows are written for."""
    reader: FileReader
    """Reads files with the columns of `after`."""
    attempt: StagedWrite
    tells_all: bool = False
    """Whether the change feed, where the table has one, gets files for whatever goes and comes: of a commit that others write parts of."""
    order: TellOrder | None = None
    """See `ChangeLog.order`."""
    _schema: pa.Schema = field(init=False)
    _tracking: RowTracking | None = field(init=False)
    _pieces_reader: FileReader = field(init=False)
    """Reads which row each is, too, where that is to be preserved."""
    _log: ChangeLog | None = None
    _removed: list[AddFile] = field(default_factory=list)
    _whole: list[AddFile] = field(default_factory=list)
    """Those removed of which no row was read."""
    _struck: list[FileWithDeletions] = field(default_factory=list)
    _added: list[AddFile] = field(default_factory=list)
    _counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        """Know the schema of rows on their way."""
        self._schema = row_schema(self.after)
        self._tracking = RowTracking.of(self.after)
        self._pieces_reader = self.reader
        if self._tracking is not None:
            self._pieces_reader = FileReader.of(self.reader.places, self._tracking.metadata(self.after.metadata))

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

    def run(self, affected: Iterable[AffectedFile], inserts: Callable[[], Iterable[pa.RecordBatch]]) -> tuple[Action, ...]:
        """Write what becomes of the affected files, then the rows that are new (asked for when all of these are done).

        The log entry's actions, none where the table stays as it is. Raises what the edits raise, CorruptTable, StoreError.
        """
        settings, protocol = Settings.of(self.after.configuration), self.after.protocol
        target = Target.of(self.after)
        if settings.change_data_feed and supports(protocol, "changeDataFeed"):
            self._log = ChangeLog(attempt=self.attempt, target=target, order=self.order)
        strikes = settings.deletion_vectors and supports(protocol, "deletionVectors")
        remake = self._strike if strikes else self._copy
        rows = (batch for one in affected if not self._is_whole(one) for batch in remake(one))
        # What tells the change feed writes files too, and there is one hand for that.
        with closing(rows if self._log is not None else _ahead_of_writing(rows)) as kept:
            hidden = () if self._tracking is None else self._tracking.fields
            self._added = write_rows(self.attempt, replace(target, hidden=hidden), chain(kept, self._inserted(inserts)))
        self._tell_whole()
        struck = write_deletion_vectors(self.attempt, self._struck) if self._struck else []
        return self._actions(struck)

    def _is_whole(self, affected: AffectedFile) -> bool:
        if affected.is_removal:
            self._whole.append(affected.file)
            self._count(deleted=live_rows(self.reader, affected.file))
        return affected.is_removal

    def _copy(self, affected: AffectedFile) -> Iterator[pa.RecordBatch]:
        """The file's rows, edited, for a file that takes its place; none where every row stays as it is."""
        pieces = _begun(lambda: self._pieces(affected))
        if pieces is None:
            return
        self._removed.append(affected.file)
        for piece in pieces:
            self._heed(piece)
            yield from self._identified(edited(piece.rows, piece.places, piece.edit), piece).to_batches()

    def _strike(self, affected: AffectedFile) -> Iterator[pa.RecordBatch]:
        """The rows that take the place of the file's own, which a deletion vector strikes out."""
        positions = affected.positions
        if positions is None or affected.edit is not None or self._log is not None:
            found = []
            for piece in self._pieces(affected, only=positions):
                self._heed(piece)
                found.append(piece.positions[piece.edit.touched])
                yield from self._updated(piece).to_batches()
            positions = np.concatenate([np.empty(0, np.int64), *found])
        else:
            self._count(deleted=len(positions))
        if len(positions):
            struck = delete_positions(self.reader, affected.file, positions)
            self._removed.append(affected.file)
            self._struck += [] if struck is None else [struck]

    def _pieces(self, affected: AffectedFile, only: Positions | None = None) -> Iterator[_Piece]:
        edit = all_gone if affected.edit is None else affected.edit
        for batch in self._pieces_reader.batches(affected.file, Projection(position=True), only=only):
            places, positions = _meeting(batch.column(POSITION), affected.positions)
            rows, ids = self._shaped(batch.select(self._schema.names)), self._ids(batch, affected.file)
            chosen = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
            yield _Piece(rows, places, positions, edit(chosen, positions), ids)

    def _ids(self, batch: pa.RecordBatch, file: AddFile) -> pa.Table | None:
        if self._tracking is None:
            return None
        return self._tracking.told(pa.Table.from_batches([batch.select([*self._tracking.names, POSITION])]), file)

    def _identified(self, rows: pa.Table, piece: _Piece) -> pa.Table:
        """A piece's rows once they were edited, with the ids that they had."""
        if self._tracking is None or piece.ids is None:
            return rows
        gone = np.zeros(piece.rows.num_rows, dtype=bool)
        changed = gone.copy()
        gone[piece.places[piece.edit.gone]] = True
        changed[piece.places[piece.edit.changed]] = True
        return _beside(rows, self._tracking.kept(piece.ids, changed).filter(pa.array(~gone)))

    def _updated(self, piece: _Piece) -> pa.Table:
        """The rows that take the place of changed ones, with the ids that those had."""
        if self._tracking is None or piece.ids is None:
            return piece.edit.after
        ids = piece.ids.take(pa.array(piece.places[piece.edit.changed]))
        return _beside(piece.edit.after, self._tracking.kept(ids, np.ones(ids.num_rows, dtype=bool)))

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
            if self._log is not None and self._tells(self._log):
                self._log.add_inserts(pa.Table.from_batches([batch]))
            if self._tracking is None:
                yield batch
            else:
                yield from self._tracking.fresh(pa.Table.from_batches([batch])).to_batches()

    def _tells(self, log: ChangeLog) -> bool:
        return self.tells_all or not log.is_empty

    def _tell_whole(self) -> None:
        if self._log is None or not self._tells(self._log):
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


def _beside(rows: pa.Table, ids: pa.Table) -> pa.Table:
    for name in ids.column_names:
        rows = rows.append_column(ids.schema.field(name), ids.column(name))
    return rows


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
