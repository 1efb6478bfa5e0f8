"""The reading side of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.coverage.gap import Coverage
from gapless.coverage.span import plan_ranges
from gapless.dialects.timeseries.actions import Commit
from gapless.dialects.timeseries.dialect import TIME_SERIES
from gapless.errors import InvalidOption, InvalidTime
from gapless.log.snapshot import read_entries
from gapless.model.instant import NS_PER
from gapless.table.duck import duck_schema
from gapless.table.handle import Handle
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


class TableView(Handle):
    """A table at one version, to be read: what `table.at(…)` gives, and the reading side of every table."""

    def history(self) -> list[HistoryEntry]:
        """All commits up to this version, oldest first."""
        entries = self._rim.drive(read_entries(TIME_SERIES, 1, self.version + 1))
        return [_history_entry(version, commit, time_ns) for version, commit, time_ns in entries]

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


def _no_range(missing: str) -> InvalidTime:
    return InvalidTime(
        f"{missing} is not known: none of the asked identities covers anything",
        why="An open end is the first or last covered bucket, and there is none; to call that complete would hide a dead feed",
        fix="Pass start and end",
        value=None,
    )


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
