"""A log of change records as a source: rows with a table's columns, and what happened to each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.cdc.change_log import ChangeLog, LogReader, log
from gapless.cdc.keyed_records import check_key, rows_of_records
from gapless.cdc.log_rows import seq_of
from gapless.cdc.record import OPERATIONS, Record
from gapless.cdc.row_values import check_told
from gapless.connect.sources.fitted_rows import as_declared
from gapless.connect.sources.piecewise import Piece
from gapless.connect.sources.positioned import Position, PositionedSource, start_time
from gapless.connect.sources.protocol import SourceCapabilities
from gapless.errors import InvalidOption, one_of
from gapless.files.compare.row_diff import CHANGE_TYPE

_TOGETHER = 10_000
"""So many records become rows at once."""


class LogSource(PositionedSource):
    """Records of a log as rows for a sink of mode="cdc", in commit order. Made by `gl.connect.source`.

    The cursor is the `_seq` that is read next: records that are left out move it, too.
    """

    kind = "cdc"

    def __init__(self, changes: ChangeLog, schema: pa.Schema, key: tuple[str, ...], *, start: int | str) -> None:
        """`schema` are the table's columns."""
        super().__init__(changes.table.url, schema.append(pa.field(CHANGE_TYPE, pa.string())))
        self._log, self._table, self._key, self._start = changes, schema, key, start
        self._reader: LogReader | None = None
        self._operations = frozenset(OPERATIONS)
        self._collection: str | None = None

    def only(self, operations: Iterable[str], collection: str | None) -> None:
        """Leave out records of other operations and collections, before it is started. Raises InvalidOption."""
        self._operations = frozenset(one_of("operations", one, OPERATIONS) for one in operations)
        self._collection = collection

    @property
    def capabilities(self) -> SourceCapabilities:
        """It replays as long as the table's versions are kept, and tells what became of rows."""
        return SourceCapabilities(replays=True, retracts=True)

    def _first(self) -> Position:
        start: object = self._start
        if start == "latest":
            start = seq_of(self._log.table.refresh().version + 1, 0)
        self._reader = LogReader(self._log)
        return Position(state={"seq": self._reader.begin(0 if start == "earliest" else int(str(start)))})

    def _resumed(self, state: Mapping[str, Any]) -> Position:
        if type(state["seq"]) is not int or state["seq"] < 0:
            raise ValueError(f"{state['seq']!r} is no place in a log")
        self._reader = LogReader(self._log)
        return Position(state={"seq": self._reader.begin(state["seq"])})

    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        assert self._reader is not None
        begin = int(position.state["seq"])
        at, held = [begin], list[Record]()

        def stands(seq: int) -> None:
            at[0] = seq

        for record in self._reader.records(at[0], stands):
            if record._op in self._operations and self._collection in (None, record._source.collection):
                held.append(record)
            if len(held) == _TOGETHER:
                yield self._piece(held, begin, record.order[0] + 1)
                begin, held = record.order[0] + 1, []
        yield self._piece(held, begin, at[0])

    def _piece(self, records: Sequence[Record], begin: int, end: int) -> Piece[Position]:
        """These as rows; the source stands at `begin` before all of them, and at `end` behind."""
        rows = rows_of_records(records, self._table, self._key).combine_chunks()
        batch = pa.RecordBatch.from_arrays([_one(column) for column in rows.columns], schema=self._declared)
        places = [one.order[0] + 1 for one in records[:-1]]
        return Piece(rows=batch, after=partial(_after, [begin, *places, end] if records else [end]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def _after(places: Sequence[int], rows: int) -> Position:
    """Behind the first so many rows."""
    return Position(state={"seq": places[rows]})


def open_log_source(
    location: str,
    *,
    schema: pa.Schema,
    key: str | Sequence[str],
    start: object = None,
    operations: Iterable[str] = OPERATIONS,
    collection: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LogSource:
    """A source of the records of a log, as rows of a table, with the kind of change behind as change feeds call it, `_change_type`.

    Args:
        location: The path or URL of the log, which is there.
        schema: The table's columns; see `gl.cdc.rows_of_records` for how images fill them.
        key: The columns that `_id` is.
        start: None or "earliest", "latest", a `_seq`, or a time with its zone: the first record committed then or later.
        operations: Of which kinds records are given.
        collection: Only those of this `_source.collection`.
        storage_options: Options of the object store, in obstore's names.

    Raises InvalidOption, UnknownColumn, UnsupportedType, InvalidTime, TableNotFound, UnsupportedTable, StoreError; as it is started,
    VersionNotFound; as it is read, InvalidRecord and InvalidValue for records that do not fit the columns.
    """
    schema = as_declared(schema, f"cdc:{location}")
    names = check_key(key, schema)
    check_told(schema)
    changes = log(location, create=False, storage_options=storage_options)
    source = LogSource(changes, schema, names, start=_parse_start(changes, start))
    source.only(operations, collection)
    return source


def _parse_start(changes: ChangeLog, start: object) -> int | str:
    if start is None or start in ("earliest", "latest"):
        return str(start or "earliest")
    if type(start) is int and start >= 0:
        return start
    if start_time(start) is not None:
        return changes.seq_at(start)
    raise InvalidOption(
        f"start={start!r} is no place in a log of change records",
        why="A source begins at its first record, behind its last, at a _seq, or at a time",
        fix='Pass "earliest", "latest", the _seq of a record, or a time such as "2026-01-05T00:00:00Z"',
        option="start",
        value=start,
    )
