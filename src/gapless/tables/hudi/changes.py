"""Changes of rows of a Hudi table, decided on one state of it: which files are written anew, and which come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gapless.errors import CommitConflict
from gapless.files.compare.keys import KeySet
from gapless.files.compare.ordering import is_older
from gapless.formats.hudi.arrow_schema import META_COLUMNS
from gapless.formats.hudi.slices import BaseFile
from gapless.formats.hudi.table_commits import WrittenFile
from gapless.model.operation import Tally
from gapless.tables.hudi.data_files import SMALL_SHARE, FileWriter, read_file
from gapless.tables.hudi.rows import fitted, fitted_column
from gapless.tables.hudi.timeline import HudiState
from gapless.tables.shared.row_changes import KeyedChanges

Numbers = npt.NDArray[np.int64]
_PARTITION = META_COLUMNS[3]
_RECORD_KEY = META_COLUMNS[2]
_CLUSTERING = ("replacecommit", "clustering")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a change is made to."""

    state: HudiState
    live: Sequence[BaseFile]
    writer: FileWriter

    @property
    def schema(self) -> pa.Schema:
        """The columns that files are written with."""
        return self.writer.schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Files that are written, and what a commit says of them."""

    operation: str
    """What Hudi calls it."""
    files: tuple[WrittenFile, ...] = ()
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tally: Tally


Decide = Callable[[Base], Change]
"""Writes the files of a change. Raises DataError, CorruptTable, CommitConflict, StoreError."""


@dataclass(slots=True, kw_only=True)
class _Edit:
    """What becomes of one file."""

    gone: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The positions of rows that leave it."""
    put: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Those of rows that others take the place of, and"""
    by: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """which of the puts these are."""
    added: list[pa.Table] = field(default_factory=list)
    """Rows that come into it, with Hudi's columns."""


def append_rows(base: Base, parts: Iterable[pa.Table]) -> Change:
    """All rows come; those of the first part into small files, too."""
    files: list[WrittenFile] = []
    rows = 0
    for number, part in enumerate(parts):
        edits: dict[BaseFile, _Edit] = {}
        new = list(_placed(base, base.writer.new_rows(fitted(part, base.schema)), edits, grow=not number))
        files += _written(base, edits, pa.table({}), new)
        rows += part.num_rows
    return Change(operation="INSERT", files=tuple(files), tally=Tally(rows=rows, segments=len(files)))


def overwrite_rows(base: Base, parts: Iterable[pa.Table], *, dynamic: bool) -> Change:
    """Rows take the place of all that is there; with `dynamic` of what is in their partitions."""
    files: list[WrittenFile] = []
    rows, partitions = 0, set[str]()
    for part in parts:
        new = list(_placed(base, base.writer.new_rows(fitted(part, base.schema)), {}, grow=False))
        partitions.update(partition for partition, _ in new)
        files += [base.writer.write(partition, piece, inserted=piece.num_rows) for partition, piece in new]
        rows += part.num_rows
    gone = [one for one in base.live if not dynamic or one.partition in partitions]
    _check_clustering(base, gone)
    replaced: dict[str, list[str]] = {}
    for one in gone:
        replaced.setdefault(one.partition, []).append(one.file_id)
    return Change(
        operation="INSERT_OVERWRITE" if dynamic else "INSERT_OVERWRITE_TABLE",
        files=tuple(files),
        replaced={partition: tuple(ids) for partition, ids in replaced.items()},
        tally=Tally(rows=rows, segments=len(files), removed_segments=len(gone)),
    )


def change_rows(base: Base, changes: KeyedChanges, operation: str) -> Change:
    """Rows take the place of those with their key, whatever partition these are in, and keys lose their rows; later rows of the table stay."""
    puts = fitted(changes.puts, base.schema)
    known = _keys_of(base, changes, puts)
    keys = KeySet.of(known, changes.key)
    of_key = np.zeros(keys.count, dtype=np.int64)
    of_key[keys.ids] = np.arange(known.num_rows)
    partitions = np.asarray(base.writer.new_rows(puts).column(_PARTITION).to_pylist(), dtype=object)
    found, late = np.zeros(known.num_rows, dtype=bool), np.zeros(known.num_rows, dtype=bool)
    stays, moved = np.zeros(known.num_rows, dtype=bool), np.zeros(known.num_rows, dtype=bool)
    edits: dict[BaseFile, _Edit] = {}
    removed = 0
    for file in base.live:
        rows = read_file(base.writer.env, file, base.schema, known.column_names)
        ids = keys.match(rows)
        places = np.flatnonzero(ids >= 0)
        change = of_key[ids[places]]
        found[change] = True
        older = _older(known, rows, changes.order_by, change, places)
        late[change[older]] = True
        places, change = places[~older], change[~older]
        if not len(places):
            continue
        is_put = change < puts.num_rows
        here = np.zeros(len(change), dtype=bool)
        here[is_put] = partitions[change[is_put]] == file.partition
        stays[change[here]] = True
        moved[change[is_put & ~here]] = True
        edits[file] = _Edit(gone=places[~here], put=places[here], by=change[here])
        removed += len(places)
    _check_clustering(base, edits)
    comes = np.zeros(known.num_rows, dtype=bool)
    comes[: puts.num_rows] = ~found[: puts.num_rows] | (moved & ~stays)[: puts.num_rows]
    inserts = base.writer.new_rows(puts.take(pa.array(np.flatnonzero(comes))))
    new = list(_placed(base, inserts, edits, grow=True))
    files = _written(base, edits, puts, new)
    skipped = int(changes.arrived[late & ~stays & ~moved].sum()) if changes.order_by else 0
    updated = int((stays | moved)[: puts.num_rows].sum())
    tally = Tally(
        rows=updated + int((~found[: puts.num_rows]).sum()),
        updated_rows=updated,
        removed_rows=removed,
        skipped_rows=changes.late + skipped,
        segments=len(files),
        removed_segments=len(edits),
    )
    return Change(operation=operation, files=tuple(files), tally=tally)


def _keys_of(base: Base, changes: KeyedChanges, puts: pa.Table) -> pa.Table:
    """The columns of the key and the order, of puts and then of deletes, in the table's types."""
    names = list(dict.fromkeys((*changes.key, *changes.order_by)))
    deletes = [fitted_column(changes.deletes.column(name), base.schema.field(name).with_nullable(True)) for name in names]
    schema = pa.schema([base.schema.field(name).with_nullable(True) for name in names])
    return pa.concat_tables([puts.select(names).cast(schema), pa.table(deletes, schema=schema)])


def _older(known: pa.Table, rows: pa.Table, order_by: Sequence[str], change: Numbers, places: Numbers) -> npt.NDArray[np.bool_]:
    """Which of these changes come after a newer row of the table."""
    if not order_by or not len(places):
        return np.zeros(len(places), dtype=bool)
    mine = known.select(order_by).take(pa.array(change))
    theirs = rows.select(order_by).take(pa.array(places))
    return is_older(mine.columns, theirs.columns)


def _placed(base: Base, rows: pa.Table, edits: dict[BaseFile, _Edit], *, grow: bool) -> Iterator[tuple[str, pa.Table]]:
    """Rows with Hudi's columns that come: some are added to small files, in `edits`; the others by partition, cut to files."""
    if not rows.num_rows:
        return
    partitions = rows.column(_PARTITION)
    small = _small_files(base, edits) if grow else {}
    for partition in pc.unique(partitions).to_pylist():
        left = rows if len(base.state.config.partition_by) == 0 else rows.filter(pc.equal(partitions, partition))
        row_bytes = base.writer.row_bytes(left)
        for file in small.get(partition, ()):
            room = int((base.writer.target_bytes - file.size) / row_bytes)
            if room < 1 or not left.num_rows:
                continue
            edits.setdefault(file, _Edit()).added.append(left.slice(0, room))
            left = left.slice(room)
            if not left.num_rows:
                break
        yield from ((partition, piece) for piece in base.writer.pieces(left) if piece.num_rows)


def _small_files(base: Base, edits: Mapping[BaseFile, _Edit]) -> dict[str, list[BaseFile]]:
    """By partition the files that may grow: those first that are written anew anyway, then the smallest."""
    limit = base.writer.target_bytes * SMALL_SHARE
    clustered = any(one.action in _CLUSTERING for one in base.state.pending)
    found: dict[str, list[BaseFile]] = {}
    for file in sorted(base.live, key=lambda one: (one not in edits, one.size)):
        if file.size < limit and not clustered:
            found.setdefault(file.partition, []).append(file)
    return found


def _written(
    base: Base, edits: Mapping[BaseFile, _Edit], puts: pa.Table, new: Sequence[tuple[str, pa.Table]]
) -> list[WrittenFile]:
    files = [_rewritten(base, file, edit, puts) for file, edit in edits.items()]
    return files + [base.writer.write(partition, rows, inserted=rows.num_rows) for partition, rows in new]


def _rewritten(base: Base, file: BaseFile, edit: _Edit, puts: pa.Table) -> WrittenFile:
    """A file with some rows gone, some replaced in their places, and some more behind."""
    before = read_file(base.writer.env, file, base.schema)
    rows = before
    if len(edit.put):
        fresh = base.writer.new_rows(puts.take(pa.array(edit.by)))
        if not base.state.config.record_key:
            keys = before.column(_RECORD_KEY).take(pa.array(edit.put))
            fresh = fresh.set_column(2, _RECORD_KEY, keys)
        both = pa.concat_tables([before, fresh.cast(before.schema)])
        order = np.arange(before.num_rows)
        order[edit.put] = before.num_rows + np.arange(len(edit.put))
        rows = both.take(pa.array(order))
    if len(edit.gone):
        rows = rows.take(pa.array(np.delete(np.arange(before.num_rows), edit.gone)))
    added = sum(one.num_rows for one in edit.added)
    rows = pa.concat_tables([rows, *(one.cast(before.schema) for one in edit.added)])
    return base.writer.rewrite(file, rows, inserted=added, updated=len(edit.put), deleted=len(edit.gone))


def _check_clustering(base: Base, touched: Iterable[BaseFile]) -> None:
    """Raise CommitConflict where files are written anew by a clustering of another writer at the same time."""
    pending = [one for one in base.state.pending if one.action in _CLUSTERING]
    if pending and any(True for _ in touched):
        raise CommitConflict(
            f"instant {pending[0].requested} of the Hudi table at {base.state.url} writes files anew and is not completed",
            why="A clustering is planned or under way, and one of the two would lose what the other wrote; nothing was committed",
            fix="Finalize again once it is completed; a clustering that died is ended by Hudi: `call run_clustering`, or a rollback",
            version=base.state.version,
            reason="clustering",
        )
