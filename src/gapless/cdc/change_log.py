"""The log of change records, which is a Delta table; its producers, and how it is read from a place on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gapless.cdc.log_rows import MOST_ROWS, SCHEMA, place_of, records_of, rows_of, seq_of
from gapless.cdc.record import ChangeSource, Record
from gapless.errors import InvalidOption, TableExists, TableNotFound, UnsupportedTable
from gapless.model.operation import AppendReport, OperationArgument
from gapless.tables.delta.handle import context_of
from gapless.tables.delta.read.stream_log import DeltaStreamLog
from gapless.tables.delta.table import DeltaTable
from gapless.tables.shared.handle import Location
from gapless.tables.shared.versions import parse_instant_value

_PROPERTIES = {"changeLog.format": "1", "delta.appendOnly": "true"}


def log(
    path: Location,
    *,
    create: bool = True,
    properties: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ChangeLog:
    """Open a log of change records: an append-only Delta table, which is made where none is, unless `create` is False.

    `properties` of a new table are such as `{"delta.logRetentionDuration": "interval 365 days"}`: records are read in order as long as the
    table's log is kept. Raises TableNotFound, UnsupportedTable for a table that is no such log, InvalidOption, InvalidPath, StoreError.
    """
    try:
        table = DeltaTable.open(path, storage_options=storage_options)
    except TableNotFound:
        if not create:
            raise
        try:
            given = {**(properties or {}), **_PROPERTIES}
            table = DeltaTable.create(path, SCHEMA, properties=given, storage_options=storage_options)
        except TableExists:
            # Another process made it first.
            table = DeltaTable.open(path, storage_options=storage_options)
    found = table.properties.get("changeLog.format")
    if found != _PROPERTIES["changeLog.format"]:
        raise UnsupportedTable(
            f"the table at {table.url} is no log of change records that this release knows",
            why=f"Its property changeLog.format is {found!r}, and not '1'",
            fix="Give the log a path of its own",
            needs="changeLog.format=1",
        )
    return ChangeLog(table)


class ChangeLog:
    """Change records in the order in which they were committed. A record's `_seq` is its version and its row in that, in one number."""

    def __init__(self, table: DeltaTable) -> None:
        """Use `gl.cdc.log`."""
        self.table = table

    def __repr__(self) -> str:
        """Where it lies."""
        return f"{type(self).__name__}({self.table.url!r})"

    def producer(self, source: ChangeSource | Mapping[str, Any] | None = None) -> Producer:
        """What adds records; those it makes itself are of `source`, without one of the system "gapless". Raises InvalidRecord."""
        return Producer(self, ChangeSource(system="gapless") if source is None else ChangeSource.of(source))

    def append(self, records: Iterable[Record], operation_id: OperationArgument = None) -> AppendReport:
        """Add records as one commit; see `Producer.emit`."""
        found = list(records)
        if len(found) > MOST_ROWS:
            raise InvalidOption(
                f"{len(found):,} records are too many for one commit",
                why=f"A commit of the log holds up to {MOST_ROWS:,}",
                fix="Emit them in several calls",
                option="records",
                value=len(found),
            )
        return self.table.append(rows_of(found), operation_id=operation_id)

    def now_ns(self) -> int:
        """The time by the table's clock, in nanoseconds since 1970 UTC."""
        return context_of(self.table).env.clock.now_ns()

    def seq_at(self, time: object) -> int:
        """The place of the first record committed at a time or later: an aware datetime, or an ISO text with an offset.

        Raises InvalidTime, also for one in the future; VersionNotFound where the log was cleaned past it; StoreError.
        """
        return seq_of(LogReader(self).since(parse_instant_value(time, name="from_time")), 0)


class Producer:
    """Adds records to a log; each call is one commit. Any number of producers in any number of processes may write at once."""

    def __init__(self, changes: ChangeLog, source: ChangeSource) -> None:
        """Use `ChangeLog.producer`."""
        self._log, self._source = changes, source

    def create(
        self,
        id: object,  # noqa: A002  # as the record's field
        after: Mapping[str, Any],
        *,
        ts: int | None = None,
        txn: str | None = None,
        operation_id: OperationArgument = None,
    ) -> AppendReport:
        """A row was created, at `ts` nanoseconds since 1970 UTC, or now. Raises InvalidRecord, NullKey, and as `emit`."""
        return self.emit(self._record("c", id, (None, after), ts, txn), operation_id=operation_id)

    def update(
        self,
        id: object,  # noqa: A002  # as the record's field
        after: Mapping[str, Any],
        *,
        before: Mapping[str, Any] | None = None,
        ts: int | None = None,
        txn: str | None = None,
        operation_id: OperationArgument = None,
    ) -> AppendReport:
        """A row was changed. See `create`."""
        return self.emit(self._record("u", id, (before, after), ts, txn), operation_id=operation_id)

    def delete(
        self,
        id: object,  # noqa: A002  # as the record's field
        *,
        before: Mapping[str, Any] | None = None,
        ts: int | None = None,
        txn: str | None = None,
        operation_id: OperationArgument = None,
    ) -> AppendReport:
        """A row was deleted. See `create`."""
        return self.emit(self._record("d", id, (before, None), ts, txn), operation_id=operation_id)

    def snapshot(
        self, rows: Iterable[tuple[object, Mapping[str, Any]]], *, operation_id: OperationArgument = None
    ) -> AppendReport:
        """The rows that are there, each with its id, as one commit. Raises as `emit`."""
        ts = self._log.now_ns()
        return self.emit(
            (self._record("r", found, (None, after), ts, None) for found, after in rows), operation_id=operation_id
        )

    def emit(self, records: Record | Iterable[Record], *, operation_id: OperationArgument = None) -> AppendReport:
        """Add records, of any source, as one commit and in their order.

        In the log their `_seq` is their place there; the one they came with stays in the table's column `_source_seq`. With an operation id,
        such as ("orders", offset), sending them again adds nothing. Raises InvalidOption for what is no record, or too many of them;
        CommitConflict, CommitOutcomeUnknown, StoreError.
        """
        found = [records] if isinstance(records, Record) else list(records)
        for one in found:
            if not isinstance(one, Record):
                raise InvalidOption(
                    f"a {type(one).__name__} is no change record",
                    why="A log holds records alone",
                    fix="Pass gl.cdc.Record(…), or what from_debezium and from_mongodb give",
                    option="records",
                    value=one,
                )
        return self._log.append(found, operation_id)

    def _record(
        self,
        operation: str,
        found: object,
        images: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None],
        ts: int | None,
        txn: str | None,
    ) -> Record:
        before, after = (None if image is None else dict(image) for image in images)
        now = self._log.now_ns() if ts is None else ts
        return Record(_id=found, _seq=0, _op=operation, _before=before, _after=after, _ts=now, _source=self._source, _txn=txn)


class LogReader:
    """Reads a log from a place on, version by version: files of other versions are not opened."""

    def __init__(self, changes: ChangeLog) -> None:
        """Of the table as it is now; `records` looks again."""
        context = context_of(changes.table)
        self._versions = DeltaStreamLog(env=context.env, newest=context.refresh(), pass_missing=False)

    def begin(self, seq: int) -> int:
        """A place to read from. Raises VersionNotFound for one beyond the end, or before what the table's log still tells."""
        self._versions.refresh()
        version, _ = place_of(seq)
        self._versions.begin(version)
        return seq

    def since(self, time_ns: int) -> int:
        """The first version that was committed at a time or later."""
        self._versions.refresh()
        return self._versions.since(time_ns, ("from_time", "from_time"))

    def records(self, seq: int, stands: Callable[[int], None]) -> Iterator[Record]:
        """The records from a place on that are there now; `stands` is told each place that is reached behind them.

        Raises VersionNotFound where versions or files are gone, InvalidRecord and NullKey for rows that others wrote, CorruptTable, StoreError.
        """
        self._versions.refresh()
        version, skipped = place_of(seq)
        while version <= self._versions.newest.version:
            found, row = self._versions.at(version), 0
            for rows in self._versions.rows(found, found.after.state.metadata):
                if row + rows.num_rows > MOST_ROWS:
                    raise UnsupportedTable(
                        f"version {version} of {self._versions.env.store.url} has more than {MOST_ROWS:,} records",
                        why="Another writer put them there, and a place has no room for the number of the row",
                        fix="Write into the log by gl.cdc",
                        needs="smaller commits",
                    )
                begin = max(skipped - row, 0)
                for record in records_of(rows.slice(begin), seq_of(version, row + begin)):
                    yield record
                    stands(record.order[0] + 1)
                row += rows.num_rows
            version, skipped = version + 1, 0
            stands(seq_of(version, 0))
