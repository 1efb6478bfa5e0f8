"""The time-series table that users hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.bucket import Grid, grid_of
from gapless.coverage.gap import Coverage
from gapless.coverage.span import plan_ranges
from gapless.dialects.timeseries.actions import Commit, TableState
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.errors import InvalidOption, InvalidTime
from gapless.log.dialect import Snapshot
from gapless.log.snapshot import read_entries, refresh
from gapless.maintain.finding import VerifyReport
from gapless.maintain.verify import verify_table
from gapless.model.index import EntityType, Identity, IndexSpec, format_bucket
from gapless.model.instant import NS_PER
from gapless.model.operation import parse_operation_id
from gapless.model.properties import OnOverlap, Properties, parse_on_overlap
from gapless.model.report import AppendReport
from gapless.model.schema import entity_types
from gapless.model.segment import Segment
from gapless.parquet.batches import Batches, Progress, watched
from gapless.parquet.files import expand_paths, open_files
from gapless.runtime.driver import Rim
from gapless.runtime.locks import ForkSafeLock
from gapless.runtime.turns import Turns
from gapless.store.open import table_name
from gapless.table.append import Appender, check_writable
from gapless.table.coverage import CoverageCache
from gapless.table.duck import duck_schema
from gapless.table.group import Member, append_group, gather_small
from gapless.table.inputs import as_batches
from gapless.table.lifecycle import Location, create_table, open_rim, open_table, parse_index
from gapless.table.rows import Rows
from gapless.table.scan import ScanRequest, pin_version
from gapless.table.selection import parse_identities, select_identities
from gapless.table.sql import Query
from gapless.table.values import parse_index_value, presenter


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One commit, as `history` shows it."""

    version: int
    time: datetime
    """Commit time from the log, UTC; never runs backward."""
    operation: str
    engine: str
    parameters: Mapping[str, object]
    rows: int
    """Rows of the segments it added."""
    segments: int
    """Segments it added."""
    commit_id: str


class TimeSeriesTable:
    """A table of immutable Parquet segments under an append-only log, at one version.

    A handle stays at the version it has seen until `refresh` or an append of its own moves it on. Make one with `gl.create` or
    `gl.open`.
    """

    def __init__(self, rim: Rim, location: Location, snapshot: Snapshot[TableState], *, upgrade: bool = False) -> None:
        """Use `create` or `open`."""
        self._rim, self._snapshot, self._upgrade = rim, snapshot, upgrade
        self._name = table_name(location)
        self._cache = CoverageCache(rim.store, self._grid)
        self._moving = ForkSafeLock()
        self._turns: Turns[Member, AppendReport] = Turns(partial(append_group, lambda: self._snapshot))

    # -- making and opening ------------------------------------------------------------------------------------------

    @classmethod
    def create(  # noqa: PLR0913  # nine choices that are all made once, at a table's birth
        cls,
        path: Location,
        *,
        index: str,
        bucket: str | int,
        entity: Sequence[str] | str = (),
        index_type: str = "timestamp",
        timezone: str | None = None,
        schema: pa.Schema | None = None,
        properties: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> TimeSeriesTable:
        """Make a table.

        Args:
            path: Where: a local path (str or Path, `~` is the home directory, relative to the current directory), or a URL `file://`,
                `s3://`, `gs://`, `az://`, `memory://`.
            index: The column that orders rows: a timestamp, or an integer with `index_type`.
            bucket: What coverage counts in, the unit that arrives whole: "100us", "15m", "1h", "1d", "1mo"; a whole number for an
                integer index. Buckets are half-open and aligned to 1970-01-01T00:00Z; days and months are local with `timezone`.
            entity: Columns whose values together identify one series: strings, integers, dates or booleans.
            index_type: "timestamp", "int64" or "uint64".
            timezone: IANA zone of local days and months; a naive index then means its wall clock.
            schema: Columns; without it the first append's are adopted.
            properties: `on_overlap` ("reject", "skip", "allow"), `codec` ("zstd", "snappy", "lz4", "gzip", "none"),
                `checkpoint_interval` (commits from one log checkpoint to the next; 100), `operation_retention_days` (90).
            storage_options: Options of the object store, in obstore's names.

        Raises:
            TableExists, InvalidOption, InvalidPath, SchemaMismatch, UnsupportedType, StoreError.
        """
        spec = parse_index(index, index_type, bucket, entity, timezone)
        rim = open_rim(path, storage_options)
        return cls(rim, path, create_table(rim, str(path), spec, schema, properties or {}))

    @classmethod
    def open(
        cls, path: Location, *, storage_options: Mapping[str, str] | None = None, upgrade: bool = False
    ) -> TimeSeriesTable:
        """Open a table at its newest version.

        `upgrade` allows the first write to a table of timeseries-table-format, which shuts that package's writers out for good.
        Raises TableNotFound, UnsupportedTable, CorruptTable, StoreError.
        """
        rim = open_rim(path, storage_options)
        return cls(rim, path, open_table(rim, str(path)), upgrade=upgrade)

    def refresh(self) -> TimeSeriesTable:
        """Move to the newest version, reading only the commits since; returns the table itself."""
        self._move_to(self._rim.drive(refresh(TIME_SERIES, self._snapshot)))
        return self

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The last part of its path, by which SQL knows it."""
        return self._name

    @property
    def url(self) -> str:
        """Where it lies."""
        return self._rim.store.url

    @property
    def version(self) -> int:
        """The version this handle sees; 1 is the empty table."""
        return self._snapshot.version

    @property
    def schema(self) -> pa.Schema | None:
        """Declared column types; None before the first append of a table made without a schema."""
        return self._snapshot.state.meta.schema

    @property
    def index(self) -> IndexSpec:
        """The index column with its type, bucket, entity columns and time zone."""
        return self._snapshot.state.meta.index

    @property
    def entity(self) -> tuple[str, ...]:
        """The entity columns, in order."""
        return self.index.entity

    @property
    def properties(self) -> Properties:
        """The table's properties."""
        return self._snapshot.state.meta.properties

    def segments(self) -> tuple[Segment, ...]:
        """The live segments, in the order they were added."""
        return self._snapshot.state.segments

    def identities(self) -> list[Identity]:
        """The distinct identities that hold rows, each a tuple of entity values, in order; `[()]` for a table without entity columns."""
        return list(self._covered(self.segments()).identities())

    def history(self) -> list[HistoryEntry]:
        """All commits up to this version, oldest first."""
        entries = self._rim.drive(read_entries(TIME_SERIES, 1, self.version + 1))
        return [_history_entry(version, commit, time_ns) for version, commit, time_ns in entries]

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(
        self, data: object, *, on_overlap: OnOverlap | None = None, operation_id: tuple[str, int] | str | None = None
    ) -> AppendReport:
        """Append rows as one commit: all of them, or none.

        Args:
            data: Anything with `__arrow_c_stream__` (Arrow table or reader, Polars frame, DuckDB relation), a pandas DataFrame, a record batch, a
                mapping of columns, or an iterable of row mappings. Columns are matched by name.
            on_overlap: What to do with rows in (identity, bucket) pairs that the table already covers: "reject" (refuse the whole append),
                "skip" (leave those rows out and count them) or "allow"; the table's property where not given.
            operation_id: What this change is called, so that sending it again changes nothing. A stream takes ("app", sequence), with
                sequences that only grow: the highest is remembered for ever. Jobs that run in any order (a backfill by day) take one
                text each. Sent again, from anywhere, the first report comes back with `already_applied`, and `data` is not read.

        Rows may come in any order; they are sorted by entity and index. Memory stays within about six times 128 MiB beside the
        input's own batches. Raises CoverageOverlap, SchemaMismatch, NullKey and the other DataErrors, CommitConflict,
        CommitOutcomeUnknown, UpgradeNeeded, StoreError.
        """
        return self._append((as_batches(data),), on_overlap, operation_id)

    def append_file(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        format: object = None,  # noqa: A002  # what users of DuckDB and Polars call it
        on_overlap: OnOverlap | None = None,
        operation_id: tuple[str, int] | str | None = None,
        progress: Progress | None = None,
    ) -> AppendReport:
        """Append a file, all data files of a directory, all that a glob matches, or a list of these, as one commit.

        `format` is a `gl.Csv(…)`, `gl.Json(…)`, "parquet", "csv" or "json"; without it the suffix decides. `progress` is called after
        each batch with the rows read so far, and with all rows there are where that is known (else None). See `append` for the rest;
        raises InvalidPath for a path that names nothing, or a file named twice, and UnreadableInput where a file cannot be read.
        """
        parts = open_files(expand_paths(path), format, index=self.index, schema=self.schema)
        return self._append(parts if progress is None else watched(parts, progress), on_overlap, operation_id)

    def _append(self, parts: Iterable[Batches], on_overlap: OnOverlap | None, operation_id: object) -> AppendReport:
        policy = self.properties.on_overlap if on_overlap is None else parse_on_overlap(on_overlap)
        operation = None if operation_id is None else parse_operation_id(operation_id)
        parts = [part for part in parts if part.schema.names]
        # No rows and no columns, as from an empty list: nothing to check and nothing to write.
        if not parts and operation is None:
            return AppendReport(version=self.version, rows=0, segments=0, buckets=0)
        check_writable(self._snapshot.state, self.url, upgrade=self._upgrade)
        appender = Appender(
            rim=self._rim, cache=self._cache, grid=self._grid, publish=self._move_to, on_overlap=policy, operation=operation
        )
        if len(parts) == 1:
            part, small = gather_small(parts[0])
            parts = [part]
            if small:
                return self._turns.submit(Member(parts=(part,), appender=appender))
        return appender.append(self._snapshot, parts)

    def _move_to(self, snapshot: Snapshot[TableState]) -> None:
        # Threads that share the handle may publish in any order; it never moves back.
        with self._moving:
            if snapshot.version > self._snapshot.version:
                self._snapshot = snapshot

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(
        self,
        start: object = None,
        end: object = None,
        *,
        where: str | pc.Expression | None = None,
        entity: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        order: str | None = None,
    ) -> Rows:
        """Rows of the version this handle sees now, not read yet.

        Args:
            start: Smallest index value, inclusive: datetime, date (its midnight), ISO text, numpy or pandas timestamp, or an integer for an
                integer index. A naive time against an aware index (or the reverse) raises InvalidTime, unless the table has a time zone.
            end: Index value just past the range.
            where: Standard SQL text, such as `temp < 0 and origin in ('JFK', 'LGA')` (`"name"` quotes a column; NaN is the largest number), or
                a pyarrow expression.
            entity: Values of entity columns, `{"symbol": ["NVDA", "AMD"]}`.
            columns: Columns to give back, in this order; all where not given.
            order: "index" for rows in index order over all identities. Without it, each identity's rows come in index order.

        Raises UnknownColumn, InvalidFilter, InvalidTime, InvalidOption; while it is read, CorruptTable and StoreError.
        """
        request = ScanRequest(start=start, end=end, where=where, entity=entity or {}, columns=columns, order=order)
        return request.rows(self._rim.store, self._snapshot.state)

    def sql(self, query: str, parameters: object = None) -> Rows:
        """Answer SQL with DuckDB over the version this handle sees now; the table is known by its name and as `this`.

        `parameters` are the values of `?` or `$1` (a list) or `$name` (a mapping). Types come back as DuckDB has them: times with a
        zone in UTC, durations as intervals, half floats as floats. Raises InvalidQuery, also where a query reads a column that
        DuckDB cannot hold exactly (decimals of more than 38 digits, durations in ns).
        """
        state, schema = self._snapshot.state, self.schema or pa.schema([])
        source = pin_version(self._rim.store, state, duck_schema(schema))
        return Query(sql=query, names=(self._name, "this"), source=source, schema=schema, parameters=parameters).rows()

    # -- coverage ------------------------------------------------------------------------------------------------------

    def coverage(
        self,
        start: object = None,
        end: object = None,
        *,
        entity: Mapping[str, object] | None = None,
        identities: Iterable[object] | None = None,
    ) -> Coverage[Any]:
        """Which buckets hold rows and which are missing.

        Args:
            start: First index value that is expected, as in `scan`; without it, each identity's first covered bucket.
            end: Index value just past what is expected; without it, each identity's last covered bucket. "now" is the end of the last bucket
                that has ended, so that a feed that died shows.
            entity: Only identities with these values, as in `scan`.
            identities: Exactly the expected identities (tuples of entity values, mappings, or bare values where there is one entity column); one
                that never arrived is one whole gap.

        A bucket that `[start, end)` touches is expected. Returns a `Coverage`; raises InvalidTime, UnknownColumn, InvalidOption.
        """
        index = self.index
        expected = None if identities is None else parse_identities(identities, index, self.schema)
        chosen = select_identities(entity or {}, index, self.schema)
        covered = self._covered(self.segments()).restrict(chosen)
        if expected is not None:
            expected = [identity for identity in expected if chosen(identity)]
            covered = covered.restrict(expected)
        elif not index.entity:
            expected = [()]
        low = None if start is None else parse_index_value(start, index, self.schema, name="start")
        high = self._parse_end(end)
        if not covered and (low is None) != (high is None):
            raise _no_range("start" if low is None else "end")
        if not covered and identities is not None and low is None:
            raise _no_range("start")
        spans = plan_ranges(covered, self._grid, low, high, expected)
        return Coverage(covered, self._grid, spans, presenter(index, self.schema))

    def _parse_end(self, end: object) -> int | None:
        if end is None:
            return None
        if isinstance(end, str) and end == "now":
            if self.index.type != "timestamp":
                raise InvalidOption(
                    'end="now" with an integer index',
                    why="Only a timestamp index knows the time",
                    fix="Pass a number",
                    option="end",
                    value=end,
                )
            return self._grid.start(self._grid.id_of(self._rim.clock.now_ns()))
        return parse_index_value(end, self.index, self.schema, name="end")

    # -- care ----------------------------------------------------------------------------------------------------------

    def verify(self, *, deep: bool = False) -> VerifyReport:
        """Look for damage in the table's log, and in all that its newest version names, whichever version this handle sees.

        `deep` reads every row too. See `gl.verify`, which also takes a table that does not open. Raises StoreError.
        """
        return verify_table(self._rim.store, deep=deep)

    def _covered(self, segments: Iterable[Segment]) -> Any:
        return self._cache.union(segments, self._entity_types)

    @property
    def _entity_types(self) -> tuple[EntityType, ...]:
        return () if self.schema is None else entity_types(self.schema, self.index)

    @property
    def _grid(self) -> Grid:
        return grid_of(self.index.bucket, signed=self.index.type != "uint64")

    def __repr__(self) -> str:
        """Place, version, index and size."""
        rows = sum(segment.rows for segment in self.segments())
        entity = f", entity={list(self.entity)}" if self.entity else ""
        bucket = format_bucket(self.index.bucket)
        return f"TimeSeriesTable({self.url!r}, version={self.version}, index={self.index.column!r}, bucket={bucket!r}{entity}, rows={rows})"


def _no_range(missing: str) -> InvalidTime:
    return InvalidTime(
        f"{missing} is not known: none of the asked identities covers anything",
        why="An open end is the first or last covered bucket, and there is none; to call that complete would hide a dead feed",
        fix="Pass start and end",
        value=None,
    )


create = TimeSeriesTable.create
open = TimeSeriesTable.open  # noqa: A001  # gl.open, as gzip.open


def _history_entry(version: int, commit: Commit, time_ns: int) -> HistoryEntry:
    return HistoryEntry(
        version=version,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_ns // NS_PER["us"]),
        operation=commit.operation,
        engine=commit.engine,
        parameters=commit.parameters,
        rows=sum(segment.rows for segment in commit.added),
        segments=len(commit.added),
        commit_id=commit.id,
    )
