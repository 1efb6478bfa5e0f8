"""Changes of rows by key, by all values, or of all rows of an Iceberg table, copy on write: files with such rows are written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    IsNull,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from gapless.files.compare.keys import KeySet
from gapless.files.compare.ordering import is_older
from gapless.files.compare.row_diff import surplus_rows
from gapless.files.write.staged_files import StagedFiles
from gapless.model.operation import SequenceId, Tally
from gapless.runtime.committer import nothing
from gapless.tables.iceberg.columns import arrow_schema
from gapless.tables.iceberg.commits import Change, land_change
from gapless.tables.iceberg.file_writer import DataFiles
from gapless.tables.iceberg.fitting import Fitter
from gapless.tables.iceberg.place import Loaded
from gapless.tables.iceberg.reading import plan_tasks, read_task
from gapless.tables.iceberg.table import IcebergTable
from gapless.tables.shared.landing import ChangeOutcome
from gapless.tables.shared.row_changes import CountedChanges, KeyedChanges

Mask = npt.NDArray[np.bool_]
Batches = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One change of rows, whoever makes it: which operation it is, and by which sizes its files are written."""

    table: IcebergTable
    operation: SequenceId
    kind: str
    """The mode, as the table remembers it."""
    check: Callable[[], None] = nothing
    """May raise, at each version that it is tried at."""
    target_bytes: int | None = None

    def overwrite(self, rows: Batches) -> ChangeOutcome:
        """These rows take the place of all that are there. Raises SchemaMismatch, InvalidValue, and as `land_change`."""

        def propose(at: _Version) -> Change:
            gone = plan_tasks(at.loaded.metadata, self.table.io, at.loaded.metadata.current_snapshot())
            count = 0
            for batch in rows():
                count += batch.num_rows
                at.files.write(at.fitted(batch))
            tally = Tally(rows=count, removed_rows=sum(task.file.record_count for task in gone))
            return at.change([task.file for task in gone], tally)

        return self._land(propose)

    def keyed(self, changes: KeyedChanges) -> ChangeOutcome:
        """Rows come in the place of those with their key, and keys go, unless the table has a newer row of the key.

        The outcome's `skipped_rows` are those that were late. In columns that the rows lack, which the table has had since they were prepared, they take the values of the row
        that they replace. Raises SchemaMismatch, InvalidValue, and as `land_change`.
        """
        return self._land(lambda at: _ApplyKeyed.of(at, changes).change())

    def counted(self, changes: CountedChanges) -> ChangeOutcome:
        """Rows come, and for each that goes one with the same values goes.

        The outcome's `skipped_rows` are those that the table did not have. Raises as `keyed`.
        """

        def propose(at: _Version) -> Change:
            left = pa.Table.from_batches(at.fitted_table(changes.removed), at.schema)
            gone: list[DataFile] = []
            wanted = left.num_rows
            for task in at.tasks(left, at.schema.names) if wanted else ():
                rows = at.read(task)
                missing, stay = surplus_rows(left, rows)
                if stay.num_rows < rows.num_rows:
                    gone.append(task.file)
                    at.files.write(stay.to_batches())
                    left = missing
                if not left.num_rows:
                    break
            at.files.write(at.fitted_table(changes.added))
            tally = Tally(rows=changes.added.num_rows, removed_rows=wanted - left.num_rows, skipped_rows=left.num_rows)
            return at.change(gone, tally)

        return self._land(propose)

    def _land(self, propose: Callable[[_Version], Change]) -> ChangeOutcome:
        def proposed(loaded: Loaded) -> Change:
            attempt = StagedFiles(self.table.env)
            with attempt.discarded_on_error():
                self.table.require_writable()
                files = DataFiles.of(attempt, loaded.metadata, self.table.io.location, self.target_bytes)
                at = _Version(self.table, loaded, attempt, files, arrow_schema(loaded.metadata.schema()))
                return propose(at)

        return land_change(self.table, proposed, self.operation, self.kind, self.check)


@dataclass(slots=True)
class _Version:
    """The version that a change is made to, and the files that are written for it."""

    table: IcebergTable
    loaded: Loaded
    attempt: StagedFiles
    files: DataFiles
    schema: pa.Schema
    """Its columns."""

    def fitted(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Rows as the table has them. Raises SchemaMismatch, InvalidValue."""
        return [Fitter.of(batch.schema, self.schema).fit(batch, 0)]

    def fitted_table(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """The same of a table of rows."""
        if not rows.num_rows:
            return []  # which may have the columns of a key alone
        return Fitter.of(rows.schema, self.schema).rows(rows)

    def read(self, task: FileScanTask, columns: Sequence[str] | None = None) -> pa.Table:
        """The live rows of a file, in some columns or all."""
        schema = self.loaded.metadata.schema()
        wanted = schema if columns is None else schema.select(*columns)
        found = read_task(self.loaded.metadata, self.table.io, task, wanted)
        table = pa.Table.from_batches(list(found), arrow_schema(wanted))
        return table if columns is None else table.select(list(columns))

    def tasks(self, told: pa.Table, key: Sequence[str]) -> list[FileScanTask]:
        """The files that may have a row with one of the keys of `told`."""
        conditions = [one for name in key if (one := _reach(name, told.column(name))) is not None]
        where: BooleanExpression | None = None
        for one in conditions:
            where = one if where is None else And(where, one)
        return plan_tasks(self.loaded.metadata, self.table.io, self.loaded.metadata.current_snapshot(), where)

    def change(self, removed: Sequence[DataFile], tally: Tally) -> Change:
        """What was written comes, and these files go."""
        self.files.close()
        return Change(added=self.files.described, removed=removed, tally=tally, discard=self.attempt.discard)


def _reach(name: str, values: pa.ChunkedArray) -> BooleanExpression | None:
    """What a row must be like that has one of these values, as files can be told by it; None where nothing is known."""
    type_ = values.type
    plain = pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_date32(type_)
    if not (plain or pa.types.is_timestamp(type_)) or not len(values):
        return None
    bounds = pc.min_max(values).as_py()
    low, high = (one if not hasattr(one, "isoformat") else one.isoformat() for one in (bounds["min"], bounds["max"]))
    is_null = IsNull(term=Reference(name))
    if low is None:
        return is_null
    found = And(GreaterThanOrEqual(term=Reference(name), value=low), LessThanOrEqual(term=Reference(name), value=high))
    return Or(found, is_null) if values.null_count else found


@dataclass(slots=True, kw_only=True)
class _ApplyKeyed:
    at: _Version
    changes: KeyedChanges
    puts: pa.Table
    told: pa.Table
    """The key's columns and those of the order, of puts and then of deletes."""
    keys: KeySet

    @classmethod
    def of(cls, at: _Version, changes: KeyedChanges) -> _ApplyKeyed:
        known = tuple(dict.fromkeys((*changes.key, *changes.order_by)))
        puts = pa.Table.from_batches(at.fitted_table(changes.puts), at.schema)
        declared = pa.schema([at.schema.field(name) for name in known])
        gone = Fitter.of(changes.deletes.schema, declared).rows(changes.deletes)
        told = pa.concat_tables([puts.select(known), pa.Table.from_batches(gone, declared)])
        return cls(at=at, changes=changes, puts=puts, told=told, keys=KeySet.of(told, changes.key))

    def change(self) -> Change:
        at, changes = self.at, self.changes
        tasks = at.tasks(self.told, self.changes.key) if self.told.num_rows else []
        live = ~self._late(tasks)
        # The place in `told` of each key; a key is there once.
        place = np.argsort(self.keys.ids)
        given = {name.lower() for name in changes.puts.column_names}
        lacking = [name for name in at.schema.names if name.lower() not in given]
        kept = _Kept(self.puts.num_rows, lacking, at.schema)
        gone: list[DataFile] = []
        removed = 0
        for task in tasks:
            rows = at.read(task)
            hits, mine = self._hits(rows, place)
            cut = live[mine]
            if not cut.any():
                continue
            kept.take(rows, hits[cut], mine[cut])
            left = np.ones(rows.num_rows, dtype=bool)
            left[hits[cut]] = False
            removed += int(cut.sum())
            gone.append(task.file)
            at.files.write(rows.filter(pa.array(left)).to_batches())
        puts = kept.fill(self.puts).filter(pa.array(live[: self.puts.num_rows]))
        at.files.write(puts.to_batches())
        late = changes.late + int(changes.arrived[~live].sum())
        updated = min(removed, puts.num_rows)
        return at.change(gone, Tally(rows=puts.num_rows, removed_rows=removed, updated_rows=updated, skipped_rows=late))

    def _hits(self, rows: pa.Table, place: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The positions of rows that have one of the keys, and that key's place in `told`."""
        found = self.keys.match(rows)
        hits = np.flatnonzero(found >= 0)
        return hits, place[found[hits]]

    def _late(self, tasks: Sequence[FileScanTask]) -> Mask:
        """Of which keys the table has a newer row."""
        late = np.zeros(self.told.num_rows, dtype=bool)
        order = self.changes.order_by
        if not order:
            return late
        place = np.argsort(self.keys.ids)
        for task in tasks:
            rows = self.at.read(task, self.told.column_names)
            hits, mine = self._hits(rows, place)
            ours, theirs = self.told.take(pa.array(mine)), rows.take(pa.array(hits))
            late[mine[is_older([ours.column(name) for name in order], [theirs.column(name) for name in order])]] = True
        return late


class _Kept:
    """The values of columns that rows lack, of the rows that they replace."""

    def __init__(self, rows: int, lacking: Sequence[str], schema: pa.Schema) -> None:
        self._lacking, self._count = list(lacking), 0
        self._places = np.full(rows, -1, dtype=np.int64)
        self._held = [schema.empty_table().select(self._lacking)]

    def take(self, rows: pa.Table, hits: npt.NDArray[np.int64], mine: npt.NDArray[np.int64]) -> None:
        """Of these rows, those at `hits` are replaced by the rows at the places `mine`, where these are rows."""
        if not self._lacking:
            return
        are_rows = mine < len(self._places)
        self._places[mine[are_rows]] = self._count + np.flatnonzero(are_rows)
        self._held.append(rows.select(self._lacking).take(pa.array(hits)))
        self._count += len(hits)

    def fill(self, puts: pa.Table) -> pa.Table:
        """The rows with these values."""
        if not self._lacking or not puts.num_rows:
            return puts
        known = self._places >= 0
        there = pa.concat_tables(self._held).take(pa.array(self._places, mask=~known))
        for name in self._lacking:
            at = puts.schema.get_field_index(name)
            filled = pc.if_else(pa.array(known), there.column(name), puts.column(name))
            puts = puts.set_column(at, puts.schema.field(name), filled)
        return puts
