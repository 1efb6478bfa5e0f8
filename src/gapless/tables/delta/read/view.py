"""The reading side of a Delta table: versions, history, the change data feed, scans and SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from gapless._names import above
from gapless.formats.delta.actions import TableState
from gapless.formats.delta.format import DELTA
from gapless.log.format import Snapshot
from gapless.log.snapshot import refresh
from gapless.runtime.environment import Environment
from gapless.store.open import table_name
from gapless.tables.delta.files.reading import FileReader
from gapless.tables.delta.handle import DeltaHandle
from gapless.tables.delta.lifecycle import open_table
from gapless.tables.delta.read.changes import change_rows
from gapless.tables.delta.read.rows import DeltaRows, FileScan, LiveFile, Scan, pin_version
from gapless.tables.delta.read.scan import Planner, RowCondition
from gapless.tables.delta.read.versions import VERSIONS, DeltaHistoryEntry, VersionFiles, history_entry
from gapless.tables.shared.changes import ChangesEnd, find_range, read_history
from gapless.tables.shared.export import Exporting
from gapless.tables.shared.handle import Location, open_environment
from gapless.tables.shared.scan import Condition, Rows, parse_columns
from gapless.tables.shared.sql import query_version
from gapless.tables.shared.versions import VersionQuery


class DeltaView(DeltaHandle, Exporting):
    """A Delta table at one version, to be read: what `table.at(…)` gives, and the reading side of every Delta table."""

    _planner: Planner | None = None
    """That of the last plan."""

    # -- versions ------------------------------------------------------------------------------------------------------

    def at(self, version: int | None = None, *, time: object = None) -> DeltaView:
        """The table as it was: rows, SQL, columns, properties and history of one version, whatever is committed now or later.

        Args:
            version: Its number; 0 is the first.
            time: The version that was the newest then, by the commit times in the log (and not by those of files): an aware datetime, an ISO
                text with an offset, or a pandas Timestamp with a zone. After the last commit that is the newest version.

        Exactly one of them; a handle that lags knows of newer versions too, since the log is asked. Raises VersionNotFound; InvalidTime for
        a time before the first commit or without a zone; InvalidOption, UnsupportedTable (a version that this release cannot read),
        CorruptTable, StoreError. Where a vacuum took files of the version, reading it raises VersionNotFound before the first row.
        """
        newest = self._env.drive(refresh(DELTA, self._snapshot))
        return _PastView(self._env, self._name, VERSIONS.resolve(self._env, newest, VERSIONS.parse(version, time)), newest)

    @staticmethod
    def open_at(
        path: Location,
        version: int | None = None,
        *,
        time: object = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaView:
        """Open a table as it was, to be read: `gl.delta.open(path).at(…)`, which also reads a version before a commit that is damaged.

        Raises as `at`, and TableNotFound, UnsupportedTable.
        """
        query = VERSIONS.parse(version, time)
        env, name = open_environment(path, storage_options), table_name(path)
        snapshot, newest = VERSIONS.open_at(env, query, lambda: open_table(env, str(path)))
        return DeltaView(env, name, snapshot) if newest is None else _PastView(env, name, snapshot, newest)

    @classmethod
    def _opened(cls, env: Environment, version: int) -> tuple[Snapshot[TableState], Snapshot[TableState] | None]:
        return VERSIONS.open_at(env, VersionQuery(version=version), lambda: open_table(env, env.store.url))

    @classmethod
    def _made(cls, env: Environment, snapshot: Snapshot[TableState], newest: Snapshot[TableState] | None) -> Self:  # noqa: ARG003
        return cls(env, table_name(env.store.url), snapshot)

    def history(self, limit: int | None = None) -> list[DeltaHistoryEntry]:
        """The newest `limit` commits up to this version (all where not given), oldest first; a log that was cleaned has the later ones only.

        Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost, StoreError.
        """
        return [history_entry(*one) for one in read_history(self._env, DELTA, self.version, limit, ordered=True)]

    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_time: object = None,
        to_time: object = None,
        columns: Sequence[str] | None = None,
        exclude: Collection[str] | None = None,
    ) -> Rows:
        """What each commit of a range of versions did to the rows, not read yet; for tables whose `delta.enableChangeDataFeed` is true.

        Args:
            from_version: The first version whose changes are told; one past the newest gives no rows, for a reader that has seen all.
            to_version: The last, inclusive; the one this handle sees where not given.
            from_time: Instead of `from_version`: the first version that was committed then or later, by the commit times in the log: an aware
                datetime, an ISO text with an offset, or a pandas Timestamp with a zone. After the last commit there are no rows.
            to_time: Instead of `to_version`: the last version that was committed by then.
            columns: Columns to give back, in this order; all where not given.
            exclude: Columns not to give back, instead of `columns`.

        Behind the table's columns stand `_change_type` ("insert", "delete", "update_preimage", "update_postimage"), `_commit_version` (int64)
        and `_commit_timestamp` (µs, UTC). Rows come version by version. Where a commit has change files, they are what is told; else its files
        that came and went with their rows, and the rows that deletion vectors took. Compaction changes nothing. Columns are those of
        `to_version`, older rows too.

        Whether all files are there is asked before the first row is given. Raises VersionNotFound for a range that is not there, was written
        without the change feed, or whose log or files are gone, with what can be told; SchemaMismatch where older rows do not fit the
        columns; InvalidTime, InvalidOption, UnknownColumn, CorruptTable, StoreError.
        """
        newest = self._env.drive(refresh(DELTA, self._snapshot))
        begin, end = ChangesEnd("from", from_version, from_time), ChangesEnd("to", to_version, to_time)
        first, last = find_range(VERSIONS, self._env, newest, begin, end, seen=self.version)
        return change_rows(self._env, newest, first, last, columns, exclude)

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(
        self,
        *,
        where: str | pc.Expression | None = None,
        columns: Sequence[str] | None = None,
        exclude: Collection[str] | None = None,
    ) -> DeltaRows:
        """Rows of the version this handle sees now, not read yet.

        Args:
            where: Standard SQL text, such as `day = '2026-01-01' and s.x < 0` (`"name"` quotes a column, a dot leads into a struct; NaN is the
                largest number), or a pyarrow expression. Files are skipped by partition values and statistics, as far as comparisons of
                columns with literals say; what else there is DuckDB answers, row by row.
            columns: Columns to give back, in this order; all where not given. No mapping, whose values would say nothing.
            exclude: Columns not to give back, instead of `columns`.

        Raises UnknownColumn, InvalidFilter, InvalidTime, InvalidQuery, InvalidOption; while it is read, CorruptTable (a file that is missing or damaged is
        named), StoreError, and VersionNotFound where a vacuum took files of an older version.
        """
        condition = RowCondition.parse(where, self.schema)
        return self._scan(condition, parse_columns(columns, self.schema, exclude)).rows()

    def query(
        self,
        filter: Mapping[str, Any],  # noqa: A002  # as pymongo calls it
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Rows of the version this handle sees now that match a filter as MongoDB has them, such as `{"age": {"$gte": 30}}`.

        Arguments and errors are those of `gl.documents.query`; raises NotSupported where `gapless[documents]` is not installed.
        """
        found: pa.Table = above("gapless.documents", "query")(self, filter, columns=columns, limit=limit)
        return found

    def files(self) -> list[LiveFile]:
        """The live files, in the log's order, by the log alone: none is opened. `scan(where=…).files()` gives those that a filter may touch."""
        return self.scan().files()

    def count(self) -> int:
        """How many rows the table has, those that deletion vectors delete left out.

        By the log alone, where it tells the rows of every file; of others the footers are read. Raises CorruptTable, StoreError.
        """
        return self._scan(RowCondition(pushed=Condition(schema=self.schema)), ()).rows().count()

    def sql(self, query: str, parameters: object = None) -> Rows:
        """Answer SQL with DuckDB over the version this handle sees now; the table is known by its name and as `this`.

        `parameters` are the values of `?` or `$1` (a list) or `$name` (a mapping). Filters skip files and row groups as in `scan`. Times with
        a zone come back in UTC, a variant as the struct of its bytes. Raises InvalidQuery, and while it is read as `scan`.
        """
        pin = partial(pin_version, self._plan(), self._reader(), self._stored_files())
        return query_version(self._name, self.schema, pin, query, parameters)

    def _scan(self, condition: RowCondition, columns: tuple[str, ...]) -> Scan:
        files = FileScan(reader=self._reader(), condition=condition, columns=columns)
        return Scan(planner=self._plan(), files=files, stored=self._stored_files())

    def _plan(self) -> Planner:
        if self._planner is None or self._planner.state is not self._state:
            self._planner = Planner.of(self._state)
        return self._planner

    def _reader(self) -> FileReader:
        return FileReader.of(self._env.store, self._state.metadata)

    def _stored_files(self) -> VersionFiles:
        return VersionFiles(env=self._env, snapshot=self._snapshot)


def scan_condition(view: DeltaView, condition: RowCondition, columns: tuple[str, ...]) -> Scan:
    """The reading of some columns of the version that a table or view sees now, where a condition is true."""
    return view._scan(condition, columns)  # noqa: SLF001  # for what is built on tables


class _PastView(DeltaView):
    """A version that need not be the newest: a vacuum may have taken files of it."""

    def __init__(self, env: Environment, name: str, snapshot: Snapshot[TableState], newest: Snapshot[TableState]) -> None:
        super().__init__(env, name, snapshot)
        self._newest = newest

    @classmethod
    def _made(cls, env: Environment, snapshot: Snapshot[TableState], newest: Snapshot[TableState] | None) -> Self:
        return cls(env, table_name(env.store.url), snapshot, newest or snapshot)

    @property
    def _newest_known(self) -> Snapshot[TableState]:
        return self._newest

    def _stored_files(self) -> VersionFiles:
        return VersionFiles(env=self._env, snapshot=self._snapshot, newest=self._newest)


open_at = DeltaView.open_at
