"""One bin of a compaction of a Delta table: its files read and written anew, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from gapless.errors import CorruptTable, DataError
from gapless.files.sort.curve_sort import curve_sorted
from gapless.formats.delta.actions import AddFile, TableState
from gapless.formats.delta.replay import stats_column
from gapless.formats.delta.stats_codec import rows_of
from gapless.formats.delta.stats_columns import read_rows
from gapless.tables.delta.care.compact_plan import Curved, DeltaBin
from gapless.tables.delta.files.opened import Projection
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.files.write import StagedWrite, Target, write_rows
from gapless.tables.shared.compaction import GivenUp, WrittenBin
from gapless.tables.shared.findings import count

_BATCH_ROWS = 1 << 16
_SMALL_BYTES = 8 << 20
"""Tables of fewer rows and bytes together go on as one batch: what follows does its work batch by batch."""


WrittenFiles = WrittenBin[DeltaBin, AddFile]
"""A bin's files as they were written again; none of them changes a row."""


@dataclass(slots=True, kw_only=True)
class BinWriter:
    """Writes bins of one version of a table."""

    reader: FileReader
    state: TableState
    target_size: int
    order: Curved | None
    counts: dict[str, int] = field(default_factory=dict)
    """Rows read of each file, by key."""
    reading: str = ""
    """The file that is being read, by path."""

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
        tagged = tuple(replace(file, tags=tags) for file in files)
        return WrittenBin(bin=one, attempt=attempt, files=tagged)

    def _target(self, one: DeltaBin) -> Target:
        """Small files become one; what is larger than they ever are together is cut."""
        whole = self.order is None and one.size <= 2 * self.target_size
        return Target.of(self.state, target_bytes=2 * one.size if whole else self.target_size)

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
        for file, table in self.reader.read(one.files, Projection(columns=columns)):
            self.reading = file.path
            if columns is None:
                self.counts[file.key] += table.num_rows
            yield table

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
