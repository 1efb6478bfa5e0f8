"""A live file of a Delta table held against what the log says of it: that it is there, its size, its rows; all of these where asked.

`verify` for Delta tables: the log's bytes, and what its newest version names. It writes nothing.

Looking for damage in a Delta table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gapless.errors import CorruptTable, InvalidPath, ObjectNotFound, UnsupportedTable
from gapless.files.pages.column_stats import stats_of
from gapless.files.read.source import open_object
from gapless.formats.delta.actions import AddFile, Metadata, TableState
from gapless.formats.delta.features import check_readable
from gapless.formats.delta.format import DELTA
from gapless.formats.delta.stats_codec import ColumnPath, FileStats, parse_stats
from gapless.model.stats import ColumnStats
from gapless.runtime.environment import Environment
from gapless.tables.delta.care.log_check import examine_delta_log
from gapless.tables.delta.files.places import Place, read_vector
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.shared.findings import Code, Finding, VerifyReport, contradiction, count


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCheck:
    """Looks at the files of one version."""

    metadata: Metadata
    reader: FileReader

    def look(self, file: AddFile, *, deep: bool) -> Iterator[Finding]:
        """What is not as the log says; nothing more is said of a file that is missing. Raises StoreError."""
        stats = parse_stats(file.stats, self.metadata.schema, deleted=file.deletion_vector is not None)
        try:
            place = self.reader.places.of(file.path)
            found = tuple(self._stored(file, place, stats))
            yield from found
            deleted = self._deleted(file)
            if deep and not found:
                yield from self._rows(file, stats, deleted)
        except (ObjectNotFound, InvalidPath):
            yield _finding("segment-missing", file, "is missing: nothing is stored under the path that the log names")
        except (CorruptTable, UnsupportedTable) as error:
            yield _finding("segment-unreadable", file, f"cannot be read: {error.what}")

    def _stored(self, file: AddFile, place: Place, stats: FileStats) -> Iterator[Finding]:
        size = place.store.head(place.path).size
        if size != file.size:
            yield _finding("segment-altered", file, f"has {size:,} bytes, and the log says {file.size:,}")
            return
        try:
            with pq.ParquetFile(open_object(place.store, place.path, size)) as opened:
                rows = opened.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            yield _finding("segment-unreadable", file, f"is no Parquet file: {error}")
            return
        if stats.rows is not None and rows != stats.rows:
            yield _finding("rows-differ", file, f"holds {count(rows, 'row')}, and the log says {stats.rows:,}")

    def _deleted(self, file: AddFile) -> int:
        """How many rows its deletion vector deletes; raises CorruptTable where that is missing or damaged, or deletes another number."""
        vector = file.deletion_vector
        return 0 if vector is None else len(read_vector(self.reader.places, vector))

    def _rows(self, file: AddFile, stats: FileStats, deleted: int) -> Iterator[Finding]:
        seen = _Seen()
        for batch in self.reader.batches(file):
            seen.add(pa.Table.from_batches([batch]), stats.columns)
        if stats.rows is not None and seen.rows != stats.rows - deleted:
            yield _finding(
                "rows-differ", file, f"has {count(seen.rows, 'live row')}, and the log says {stats.rows - deleted:,}"
            )
        for path, told in stats.columns.items():
            # Statistics count deleted rows, too; of a column of nulls only, that is still known.
            only_nulls = told.nulls is not None and told.nulls == stats.rows
            known = replace(told, nulls=seen.rows) if deleted and only_nulls else told
            said = contradiction(known, seen.columns[path]) if path in seen.columns else ""
            if said:
                yield _finding(
                    "stats-differ", file, f"holds other values of column {'.'.join(path)!r} than the log says: {said}"
                )


@dataclass(slots=True)
class _Seen:
    """What the rows of a file come to."""

    rows: int = 0
    columns: dict[ColumnPath, list[ColumnStats]] = field(default_factory=dict)

    def add(self, table: pa.Table, known: Mapping[ColumnPath, ColumnStats]) -> None:
        self.rows += table.num_rows
        for path in known:
            if path[0] in table.column_names:
                self.columns.setdefault(path, []).append(stats_of(_leaf(table, path)))


def _leaf(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    column = table.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def _finding(code: Code, file: AddFile, what: str) -> Finding:
    return Finding(code=code, path=file.path, what=f"file {file.path} {what}")


Progress = Callable[[int, int], None]
"""Told how many files are done, and of how many."""


def _nothing(_done: int, _total: int) -> None:
    """Nobody watches."""


def verify_delta(env: Environment, *, deep: bool = False, progress: Progress = _nothing) -> VerifyReport:
    """Look at a whole log, and at every live file: its size, its footer's number of rows, its deletion vector; `deep` reads every row.

    Delta's log has no checksums of data files, so `unchecked` counts them all. Raises StoreError.
    """
    view = examine_delta_log(env)
    findings: list[Finding] = list(view.findings)
    files = [] if view.state is None else list(view.state.files.values())
    if view.state is not None and not (unsupported := _unsupported(env, view.state)):
        metadata = view.state.metadata
        check = FileCheck(metadata=metadata, reader=FileReader.of(env.store, metadata))
        for done, file in enumerate(files, 1):
            findings += check.look(file, deep=deep)
            progress(done, len(files))
    elif view.state is not None:
        findings += unsupported
    return VerifyReport(
        url=env.store.url,
        version=view.newest,
        deep=deep,
        commits=view.commits,
        segments=len(files),
        bytes_read=0,
        unchecked=len(files),
        findings=tuple(findings),
    )


def _unsupported(env: Environment, state: TableState) -> list[Finding]:
    """What is to be said of a table that this release cannot read."""
    try:
        check_readable(state.protocol, env.store.url, state.metadata)
    except UnsupportedTable as error:
        return [Finding(code="commit-unsupported", path=DELTA.folder, what=error.what)]
    return []


class Verifying(DeltaHandle):
    """`verify`."""

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Look for damage in the table's log, and in all files that its newest version names, whichever version this handle sees.

        `deep` reads every row too. See `gl.verify`, which also takes a table that does not open. Raises StoreError.
        """
        return verify_delta(self._env, deep=deep)
