"""Compaction and z-order of Delta tables (OPTIMIZE): the same rows, in fewer files or along a curve."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from gapless.errors import CorruptTable, DataError, InvalidOption, one_of
from gapless.files.sort.curve_sort import CURVES, curve_sorted
from gapless.formats.delta.actions import AddFile, Commit, RemoveFile, TableState
from gapless.formats.delta.conflict import CommitPredicate
from gapless.formats.delta.features import check_writable
from gapless.formats.delta.properties import Settings
from gapless.formats.delta.replay import stats_column
from gapless.formats.delta.schema.arrow_types import to_arrow
from gapless.formats.delta.stats_codec import rows_of
from gapless.formats.delta.stats_columns import read_rows
from gapless.log.commit import Conflict
from gapless.log.format import Snapshot
from gapless.model.instant import NS_PER
from gapless.model.protocols import Store
from gapless.predicate.plan import expression_text
from gapless.runtime.committer import Proposal
from gapless.tables.delta.care.compact_plan import CurveOrder, DeltaBin, DeltaCompactionPlan, plan_compaction, plan_curve
from gapless.tables.delta.files.open_file import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.row_tracking import RowTracking
from gapless.tables.delta.files.write import StagedWrite, Target, write_rows
from gapless.tables.delta.handle import DeltaContext, DeltaHandle
from gapless.tables.delta.read.scan import RowCondition, select_files
from gapless.tables.delta.write.commits import new_commit
from gapless.tables.shared.compaction import (
    TARGET_BYTES,
    Compaction,
    CompactionProgress,
    CompactionReport,
    GivenUp,
    WrittenBin,
    check_stored_values,
    cluster_columns,
    parse_target_size,
)
from gapless.tables.shared.findings import count
from gapless.tables.shared.scan import Condition

WrittenFiles = WrittenBin[DeltaBin, AddFile]
"""A bin's files as they were written again; none of them changes a row."""

_BATCH_ROWS = 1 << 16
_SMALL_BYTES = 8 << 20
"""Tables of fewer rows and bytes together go on as one batch: what follows does its work batch by batch."""
_COMMIT_FILES = 8
"""A commit holds bins of together so many times the target size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCompactor(Compaction[Commit, TableState, DeltaBin, AddFile]):
    """Compacts one Delta table, or lays its rows along a curve, once."""

    target_size: int
    """Bytes of Parquet that a file shall have."""
    condition: Condition
    """Only files are written anew that may hold a row which it keeps."""
    where: str
    """The same in words, for the log."""
    order: CurveOrder | None = None
    """Rows shall lie along a curve; None packs small files."""
    only: frozenset[str] = frozenset()
    """The keys of files that are written anew, each by itself, whatever their size; none where the others say which."""

    noun = "file"

    @classmethod
    def of(
        cls,
        table: DeltaHandle,
        context: DeltaContext,
        order: CurveOrder | None,
        target_size: int | None,
        where: str | pc.Expression | None,
        **own: Any,
    ) -> Self:
        """One of the newest version, which `context` was brought to. Raises InvalidOption, InvalidFilter, UnknownColumn, InvalidQuery."""
        state = context.snapshot.state
        asked = target_size or Settings.of(state.configuration).target_file_size or TARGET_BYTES
        return cls(
            context=context,
            progress=CompactionProgress(before=state.files),
            target_size=parse_target_size(asked if target_size is None else target_size),
            condition=RowCondition.parse(where, table.schema).pushed,
            where="" if where is None else expression_text(where),
            order=order,
            **own,
        )

    @property
    def commit_bytes(self) -> int:
        """Eight times the target size."""
        return _COMMIT_FILES * self.target_size

    def next_bins(self, state: TableState) -> Sequence[DeltaBin]:
        """See `Compaction`."""
        found = (candidate.file for candidate in select_files(state, self.condition))
        tried = [file for file in found if file.path not in self.progress.hopeless]
        if self.only:
            return [DeltaBin(files=(file,), forced=True) for file in tried if file.key in self.only]
        if self.order is not None:
            return plan_curve([file for file in tried if file.key in self.progress.before], self.order)
        return self._plan(state, [file for file in tried if self.progress.is_own(file.key)]).bins

    def plan(self, state: TableState) -> DeltaCompactionPlan:
        """What packing begins with: the bins that it makes of this version, and the files that it leaves."""
        return self._plan(state, [candidate.file for candidate in select_files(state, self.condition)])

    def _plan(self, state: TableState, selected: Sequence[AddFile]) -> DeltaCompactionPlan:
        return plan_compaction(state.files.values(), selected, self.target_size)

    def write(self, state: TableState, bins: Sequence[DeltaBin]) -> Iterator[WrittenFiles | GivenUp]:
        """See `Compaction`."""
        env = self.context.env
        writer = BinWriter.of(self.context.store, state, self.target_size, self.order)
        return (writer.write(one, StagedWrite.begin(env, committed_here=False)) for one in bins)

    def propose(self, snapshot: Snapshot[TableState], written: Sequence[WrittenFiles]) -> Proposal[Commit]:
        """See `Compaction`."""
        check_writable(snapshot.state.protocol, self.context.env.store.url, snapshot.state.metadata)
        now_ms = self.context.env.clock.now_ns() // NS_PER["ms"]
        actions: list[RemoveFile | AddFile] = []
        for one in written:
            actions += [RemoveFile.of(file, now_ms, data_change=False) for file in one.bin.files]
            actions += one.files
        order = self.order
        parameters = {
            "predicate": json.dumps([self.where] if self.where else []),
            "zOrderBy": json.dumps([] if order is None else order.columns),
            "auto": False,
            **({} if order is None else {"curve": order.curve}),
        }
        commit = new_commit(self.context.env, snapshot, "OPTIMIZE", actions, parameters=parameters)
        metrics = {
            "numRemovedFiles": len(commit.removed),
            "numRemovedBytes": sum(file.size or 0 for file in commit.removed),
            "numAddedFiles": len(commit.added),
            "numAddedBytes": sum(file.size for file in commit.added),
            "numDeletionVectorsRemoved": sum(file.deletion_vector is not None for file in commit.removed),
        }
        conflicts = CommitPredicate(state=snapshot.state)
        return Proposal(commit=replace(commit, metrics=metrics), check_conflict=conflicts.check_conflict)

    def outlives(self, lost: Conflict) -> bool:
        """After a commit that removed files."""
        return lost.cause.reason == "same files"

    def live(self, state: TableState) -> Container[str]:
        """By path and deletion vector."""
        return state.files

    def key_of(self, file: AddFile) -> str:
        """Its path with its deletion vector."""
        return file.key

    def rows_of(self, file: AddFile) -> int:
        """By its statistics."""
        return rows_of(file.stats) or 0


class Compacting(DeltaHandle):
    """Compaction of a Delta table."""

    def plan_compaction(
        self, *, target_size: int | None = None, where: str | pc.Expression | None = None
    ) -> DeltaCompactionPlan:
        """What `compact` would begin with at the newest version, changing nothing; `.explain()` says it in words.

        Arguments and errors are those of `compact`. Where what is written together comes out smaller than it was, a compaction may go on with
        what it wrote.
        """
        newest = self._context.refresh()
        return DeltaCompactor.of(self, self._context, None, target_size, where).plan(newest.state)

    def compact(self, *, target_size: int | None = None, where: str | pc.Expression | None = None) -> CompactionReport:
        """Write small files of a partition together as larger ones, in their order, and files with deleted rows without these.

        Args:
            target_size: Bytes of Parquet that a file shall have; those of at least half of it stay as they are. Where not given, the table's
                `delta.targetFileSize`, else 128 MiB.
            where: Only files that may hold a row for which it is true, by partition values and statistics: SQL or a pyarrow expression, as
                in `scan`.

        The same rows, and no change for readers of the change feed. Runs beside appends, row changes and readers: a commit holds up to eight
        times the target size. The bin of files that other changes removed meanwhile is given up, and the report says so; what was
        appended meanwhile waits for the next run. Replaced files stay for older versions until vacuum. A second run finds nothing to do
        and makes no commit. Raises InvalidOption, InvalidFilter, InvalidQuery, UnknownColumn, UnsupportedTable, CommitOutcomeUnknown,
        StoreError.
        """
        return self._rewrite(None, target_size, where)

    def zorder(
        self,
        columns: str | Sequence[str],
        *,
        curve: str = "z",
        target_size: int | None = None,
        where: str | pc.Expression | None = None,
    ) -> CompactionReport:
        """Write the rows of each partition anew along a curve through one to four columns, so that filters on any of them read few files.

        Args:
            columns: Columns of numbers, texts, times or booleans that are no partition columns.
            curve: "z" for the z-order, "hilbert" for the Hilbert curve, which costs more to make and lets filters open fewer files.
            target_size: Bytes of Parquet that a file shall have, as in `compact`.
            where: Only files that may hold a row for which it is true; they are ordered among each other.

        A partition whose files all lie so already stays as it is. What does not fit into about 256 MiB of memory goes through temporary
        files. The rest is as in `compact`; raises also UnsupportedType for a column whose values have no order.
        """
        one_of("curve", curve, CURVES)
        self._committer.refresh(self._snapshot)
        names = cluster_columns(columns, self.schema, "columns", least=1)
        fixed = [name for name in names if name in self.partition_by]
        if fixed:
            raise InvalidOption(
                f"rows cannot be ordered by the partition column {fixed[0]!r}",
                why="All rows of a file have the same value of it",
                fix="Leave it out",
                option="columns",
                value=columns,
            )
        return self._rewrite(CurveOrder(columns=names, curve="z" if curve == "z" else "hilbert"), target_size, where)

    def _rewrite(
        self, order: CurveOrder | None, target_size: int | None, where: str | pc.Expression | None
    ) -> CompactionReport:
        newest = self._context.refresh()
        self._check_writable()
        return self._with_publications(DeltaCompactor.of(self, self._context, order, target_size, where).run(newest))


def rewrite_files(context: DeltaContext, newest: Snapshot[TableState], only: frozenset[str]) -> None:
    """Write some live files anew, each by itself, by their keys. Raises as `Compaction.run`."""
    DeltaCompactor(
        context=context,
        progress=CompactionProgress(before=newest.state.files),
        target_size=TARGET_BYTES,
        condition=RowCondition.parse(None, to_arrow(newest.state.metadata.schema)).pushed,
        where="",
        only=only,
    ).run(newest)


# -- one bin: its files read and written anew, in bounded memory -------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class BinWriter:
    """Writes bins of one version of a table."""

    reader: FileReader
    state: TableState
    target_size: int
    order: CurveOrder | None
    tracking: RowTracking | None
    """Which rows they are goes along with them, where the table promises to tell."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows read of each file, by key."""
    reading: str = ""
    """The file that is being read, by path."""

    @classmethod
    def of(cls, store: Store, state: TableState, target_size: int, order: CurveOrder | None) -> BinWriter:
        """Of one version of the table in this store."""
        tracking = RowTracking.of(state)
        reader = FileReader.of(store, state.metadata if tracking is None else tracking.metadata(state.metadata))
        return cls(reader=reader, state=state, target_size=target_size, order=order, tracking=tracking)

    def write(self, one: DeltaBin, attempt: StagedWrite) -> WrittenFiles | GivenUp:
        """A bin's rows as files of an attempt that holds nothing else; what is given up is discarded.

        Given up are files that are missing or damaged, or hold rows that the table cannot hold or not as many as the log says. A whole bin
        is, if it makes no fewer files than it has and that is all it was for. Raises StoreError, with nothing left behind.
        """
        self.counts = dict.fromkeys(one.keys, 0)
        with attempt.discarded_on_error():
            try:
                files = write_rows(attempt, self._target(one), self._rows(one), data_change=False)
                refused = self._miscounted(one) or self._idle(one, files)
            except (CorruptTable, DataError) as error:
                refused = self._unreadable(one, error)
        if refused is not None:
            attempt.discard()
            return refused
        tags = None if self.order is None else self.order.tags(attempt.env.ids.uuid())
        tagged = tuple(structs.replace(file, tags=tags) for file in files)
        return WrittenBin(bin=one, attempt=attempt, files=tagged)

    def _target(self, one: DeltaBin) -> Target:
        """Small files become one; what is larger than they ever are together is cut."""
        whole = self.order is None and one.size <= 2 * self.target_size
        hidden = () if self.tracking is None else self.tracking.fields
        return Target.of(self.state, target_bytes=2 * one.size if whole else self.target_size, hidden=hidden)

    def _rows(self, one: DeltaBin) -> Iterator[pa.RecordBatch]:
        if self.order is None:
            return self._read(one, None)
        return curve_sorted(lambda columns: self._read(one, columns), self.order.columns, self.order.curve)

    def _read(self, one: DeltaBin, columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
        held, rows, size = list[pa.Table](), 0, 0
        for table in self._counted(one, columns):
            held.append(table)
            rows, size = rows + table.num_rows, size + table.get_total_buffer_size()
            if rows >= _BATCH_ROWS or size >= _SMALL_BYTES:
                yield from _in_one(held)
                held, rows, size = [], 0, 0
        yield from _in_one(held)

    def _counted(self, one: DeltaBin, columns: tuple[str, ...] | None) -> Iterator[pa.Table]:
        self.reading = one.files[0].path
        tracking = self.tracking if columns is None else None
        for file, table in self.reader.read(one.files, Projection(columns=columns, position=tracking is not None)):
            self.reading = file.path
            if columns is None:
                check_stored_values(table, self.counts[file.key], file.path)
                self.counts[file.key] += table.num_rows
            yield table if tracking is None else tracking.told(table, file)

    def _unreadable(self, one: DeltaBin, error: CorruptTable | DataError) -> GivenUp:
        named = error.facts.get("path")
        blamed = next((file.path for file in one.files if file.path == named), self.reading)
        return GivenUp(paths=(blamed,), why=f"file {blamed} cannot be rewritten: {error.what}")

    def _miscounted(self, one: DeltaBin) -> GivenUp | None:
        told = read_rows(stats_column(one.files)) or [rows_of(file.stats) for file in one.files]
        for file, rows in zip(one.files, told, strict=True):
            deleted = file.deletion_vector
            said = None if rows is None else rows - (deleted.cardinality if deleted is not None else 0)
            if said is not None and said != (read := self.counts[file.key]):
                why = f"file {file.path} gave {count(read, 'row')}, and the log says {said:,}"
                return GivenUp(paths=(file.path,), why=why)
        return None

    def _idle(self, one: DeltaBin, files: list[AddFile]) -> GivenUp | None:
        if self.order is not None or one.purges or len(files) < len(one.files):
            return None
        why = f"{count(len(one.files), 'file')} would make {len(files)}"
        return GivenUp(paths=tuple(file.path for file in one.files), why=why)


def _in_one(tables: Sequence[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The rows of tables: as one batch where they are several, and so small."""
    together = pa.concat_tables(tables) if tables else pa.table({})
    yield from (together.combine_chunks() if len(tables) > 1 else together).to_batches()
