"""The reading side of a time-series table: versions, scans, SQL and coverage."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.calendar import Calendar
from gapless.coverage.expected import plan_ranges
from gapless.coverage.gap import Coverage
from gapless.errors import InvalidOption, InvalidTime
from gapless.formats.timeseries.actions import TableState
from gapless.formats.timeseries.format import TIME_SERIES
from gapless.log.format import Snapshot
from gapless.runtime.environment import Environment
from gapless.store.open import table_name
from gapless.tables.shared.changes import ChangesEnd, find_range, read_history
from gapless.tables.shared.export import Exporting
from gapless.tables.shared.handle import Location, open_environment
from gapless.tables.shared.scan import Rows
from gapless.tables.shared.sql import query_version
from gapless.tables.shared.versions import VersionQuery, parse_version
from gapless.tables.timeseries.handle import Handle
from gapless.tables.timeseries.lifecycle import open_table
from gapless.tables.timeseries.read.calendars import expected_ids
from gapless.tables.timeseries.read.changes import change_rows
from gapless.tables.timeseries.read.coverage import IdentityFilter
from gapless.tables.timeseries.read.history import HistoryEntry, VersionDiff, diff_versions, history_entries
from gapless.tables.timeseries.read.scan import ScanRequest, parse_identities, pin_version, select_identities
from gapless.tables.timeseries.read.values import parse_index_value, presenter
from gapless.tables.timeseries.read.versions import VERSIONS, find_version, newest_of, open_version, reading


class TableView(Handle, Exporting):
    """A table at one version, to be read: what `table.at(…)` gives, and the reading side of every table."""

    # -- versions ------------------------------------------------------------------------------------------------------

    def at(self, version: int | None = None, *, time: object = None, tag: str | None = None) -> TableView:
        """The table as it was: rows, coverage, SQL, columns, properties and history of one version, whatever is committed now or later.

        Args:
            version: Its number.
            time: The version that was the newest then, by the commit times in the log, which never run backward (and not by those of files): an
                aware datetime, an ISO text with an offset, or a pandas Timestamp with a zone. After the last commit that is the newest version.
            tag: Its name; see `TimeSeriesTable.tag`.

        Exactly one of them; a handle that lags knows of newer versions too, since the log is asked. An expired version is refused here, and
        not once its files are missing, with what remains. Raises VersionNotFound; InvalidTime for a time before the first commit or without
        a zone; InvalidOption, CorruptTable, StoreError.
        """
        return TableView(self._env, self._name, self._at(VERSIONS.parse(version, time, tag)), self._cache)

    def _at(self, query: VersionQuery) -> Snapshot[TableState]:
        newest = newest_of(self._env, self._snapshot)
        found = find_version(self._env, newest, query)
        return self._snapshot if found == self.version else open_version(self._env, newest, found)

    @staticmethod
    def open_at(
        path: Location,
        version: int | None = None,
        *,
        time: object = None,
        tag: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> TableView:
        """Open a table as it was, to be read: `gl.open(path).at(…)`, which also reads a version before a commit that is lost or damaged.

        A `version` then comes with a LogWarning, since a later commit could have expired it; `time` and `tag` need the whole log. Raises as
        `at`, and TableNotFound, UnsupportedTable.
        """
        query = VERSIONS.parse(version, time, tag)
        env = open_environment(path, storage_options)
        snapshot, _ = VERSIONS.open_at(env, query, lambda: open_table(env, str(path)))
        return TableView(env, table_name(path), snapshot)

    @classmethod
    def _opened(cls, env: Environment, version: int) -> tuple[Snapshot[TableState], Snapshot[TableState] | None]:
        return VERSIONS.open_at(env, VersionQuery(version=version), lambda: open_table(env, env.store.url))

    @classmethod
    def _made(cls, env: Environment, snapshot: Snapshot[TableState], newest: Snapshot[TableState] | None) -> Self:  # noqa: ARG003
        return cls(env, table_name(env.store.url), snapshot)

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """The newest `limit` commits up to this version (all where not given), oldest first; a log that was cleaned has the later ones only.

        Raises InvalidOption for a limit below 0, CorruptTable where a commit is lost.
        """
        return history_entries(read_history(self._env, TIME_SERIES, self.version, limit, ordered=False), self._snapshot.state)

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
        """What each commit of a range of versions did to the rows, not read yet.

        Args:
            from_version: The first version whose changes are told; one past the newest gives no rows, for a reader that has seen all.
            to_version: The last, inclusive; the one this handle sees where not given.
            from_time: Instead of `from_version`: the first version that was committed then or later, by the commit times in the log: an aware
                datetime, an ISO text with an offset, or a pandas Timestamp with a zone. After the last commit there are no rows.
            to_time: Instead of `to_version`: the last version that was committed by then.
            columns: Columns to give back, in this order; all where not given. Rows are told apart by all their columns all the same.
            exclude: Columns not to give back, instead of `columns`.

        Behind the table's columns stand `_change_type` ("insert", "delete", and for an update of one identity and index value
        "update_preimage" with "update_postimage" right behind it), `_commit_version` (int64) and `_commit_timestamp` (µs, UTC). Rows come
        version by version, each identity's in index order; of one identity and index value deletes first, then updates, then inserts.
        Taking deletes and preimages out of the rows of the version before, and putting inserts and postimages in, gives the next exactly.

        Rows are compared bit for bit, nested values too: a row written anew as it was is no change, whatever became of its segment; NaN
        is the same as NaN, and 0.0 is not -0.0. Compaction changes nothing. Columns are those of `to_version`: what older rows had under
        another name or a narrower type is shown so, and dropped columns are gone. Where a restore within the range took a column back to a
        narrower type, it is shown in the wider one; where no type holds both, the range is refused. A column that was dropped
        and that a restore brought back within the range is null in rows that a correction or compaction wrote anew in between.

        In bounded memory: about twice that of a scan in index order, or all rows of one index value. Raises VersionNotFound for a range
        that is not there, or was expired or cleaned, with what remains; InvalidTime, InvalidOption, UnknownColumn, CorruptTable, StoreError.
        """
        newest = newest_of(self._env, self._snapshot)
        begin, end = ChangesEnd("from", from_version, from_time), ChangesEnd("to", to_version, to_time)
        first, last = find_range(VERSIONS, self._env, newest, begin, end, seen=self.version)
        return change_rows(self._env, newest, first, last, columns, exclude)

    def diff(self, from_version: int, to_version: int | None = None) -> VersionDiff:
        """What differs between two versions, the second of which is the one this handle sees where not given: columns, properties,
        segments, and the rows.

        Either may be the older. Reads the log alone; `.rows()` reads rows. Raises as `at`.
        """
        first = VersionQuery(version=parse_version(from_version, "from_version"))
        last = VersionQuery(version=self.version if to_version is None else parse_version(to_version, "to_version"))
        return diff_versions(self._env.store, self._at(first), self._at(last))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(
        self,
        start: object = None,
        end: object = None,
        *,
        where: str | pc.Expression | None = None,
        entity: Mapping[str, object] | None = None,
        columns: Sequence[str] | None = None,
        exclude: Collection[str] | None = None,
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
            columns: Columns to give back, in this order; all where not given. No mapping, whose values would say nothing.
            exclude: Columns not to give back, instead of `columns`.
            order: "index" for rows in index order over all identities. Without it, each identity's rows come in index order.

        Raises UnknownColumn, InvalidFilter, InvalidTime, InvalidOption; while it is read, CorruptTable and StoreError, and
        VersionNotFound where the version expired meanwhile and a vacuum took its files.
        """
        request = ScanRequest(
            start=start, end=end, where=where, entity=entity or {}, columns=columns, exclude=exclude, order=order
        )
        return self._while_kept(request.rows(self._env.store, self._snapshot.state))

    def sql(self, query: str, parameters: object = None) -> Rows:
        """Answer SQL with DuckDB over the version this handle sees now; the table is known by its name and as `this`.

        `parameters` are the values of `?` or `$1` (a list) or `$name` (a mapping). Types come back as DuckDB has them: times with a
        zone in UTC, durations as intervals, half floats as floats. Raises InvalidQuery, also where a query reads a column that
        DuckDB cannot hold exactly (decimals of more than 38 digits, durations in ns).
        """
        pin = partial(pin_version, self._env.store, self._snapshot.state)
        # DuckDB reads for an aggregate before the first row is fetched.
        with reading(self._env, self._snapshot):
            return self._while_kept(query_version(self._name, self.schema or pa.schema([]), pin, query, parameters))

    def _while_kept(self, rows: Rows) -> Rows:
        """The same rows; reading them raises VersionNotFound where the version expired and a vacuum deleted its files."""
        snapshot = self._snapshot

        def read() -> Iterator[pa.RecordBatch]:
            with reading(self._env, snapshot):
                yield from rows.read()

        def tally() -> int:
            with reading(self._env, snapshot):
                return sum(batch.num_rows for batch in rows.read()) if rows.tally is None else rows.tally()

        return Rows(rows.schema, read, tally)

    def count(self) -> int:
        """How many rows the table has, by the log alone; `scan(…).count()` counts those of a range."""
        return sum(segment.rows for segment in self.segments())

    def bounds(self) -> tuple[Any, Any] | None:
        """The smallest and the largest index value, both inclusive, by the log alone; None where there are no rows.

        Integers, or datetimes in the table's zone, else the index's (naive where the index is); a `numpy.datetime64` in UTC where no datetime
        holds it.
        """
        segments = self.segments()
        if not segments:
            return None
        present = presenter(self.index, self.schema)
        return present(min(s.bounds.first for s in segments)), present(max(s.bounds.last for s in segments))

    # -- coverage ------------------------------------------------------------------------------------------------------

    def coverage(
        self,
        start: object = None,
        end: object = None,
        *,
        entity: Mapping[str, object] | None = None,
        identities: Iterable[object] | None = None,
        calendar: str | Calendar | None = None,
    ) -> Coverage[Any]:
        """Which buckets hold rows and which are missing.

        Args:
            start: First index value that is expected, as in `scan`; without it, each identity's first covered bucket.
            end: Index value just past what is expected; without it, each identity's last covered bucket. "now" is the end of the last bucket
                that has ended, so that a feed that died shows.
            entity: Only identities with these values, as in `scan`.
            identities: Exactly the expected identities (tuples of entity values, mappings, or bare values where there is one entity column); one
                that never arrived is one whole gap.
            calendar: When rows are expected: weekly hours such as "mon-fri 09:30-16:00 America/New_York" (see `WeeklyHours.parse`; without a
                zone, of the table's clock), an exchange such as "XNYS" (needs exchange-calendars), or a `Calendar`. Buckets that no session
                reaches into are then neither covered nor missing. At all times where not given.

        A bucket that `[start, end)` touches is expected. Returns a `Coverage`; raises InvalidTime, UnknownColumn, InvalidOption.
        """
        index = self.index
        expected = None if identities is None else parse_identities(identities, index, self.schema)
        chosen = select_identities(entity or {}, index, self.schema)
        wanted: IdentityFilter | None = chosen if entity else None
        if expected is not None:
            expected = [identity for identity in expected if chosen(identity)]
            wanted = frozenset(expected)
        elif not index.entity:
            expected = [()]
        with reading(self._env, self._snapshot):
            covered = self._covered(self.segments(), wanted)
        low = None if start is None else parse_index_value(start, index, self.schema, name="start")
        high = self._parse_end(end)
        if not covered and (low is None) != (high is None):
            raise _no_range("start" if low is None else "end")
        if not covered and identities is not None and low is None:
            raise _no_range("start")
        spans = plan_ranges(covered, self._grid, low, high, expected)
        ids = expected_ids(calendar, index, self.schema, self._grid, spans.values())
        return Coverage(covered, self._grid, spans, presenter(index, self.schema, start, end), ids)

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
            return self._grid.start(self._grid.id_of(self._env.clock.now_ns()))
        return parse_index_value(end, self.index, self.schema, name="end")


def _no_range(missing: str) -> InvalidTime:
    return InvalidTime(
        f"{missing} is not known: none of the identities covers anything",
        why="An open end is the first or last covered bucket, and there is none; to call that complete would hide a dead feed",
        fix="Pass start and end",
        value=None,
    )


open_at = TableView.open_at
