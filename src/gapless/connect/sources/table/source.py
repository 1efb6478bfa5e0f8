"""Sources out of tables: all rows of a version first, then what each later commit did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from gapless.connect.location import without_secrets
from gapless.connect.sources.piecewise import Piece, PiecewiseSource
from gapless.connect.sources.protocol import Cursor, Polled, SourceCapabilities
from gapless.connect.sources.table.columns import check_telling, decoded, differences, why_not_kept
from gapless.connect.sources.table.options import TableSourceOptions
from gapless.connect.sources.table.place import KIND, Place
from gapless.connect.sources.table.source_table import CommitRead, SourceColumns, SourceTable
from gapless.errors import GaplessError, InvalidOption, VersionNotFound
from gapless.model.instant import datetime_from_ns
from gapless.runtime.metrics import SOURCE_LAG
from gapless.tables.shared.changes import TYPE_FIELD


class TableSource(PiecewiseSource[Place]):
    """A source out of one table. Made by `gl.connect.source`.

    Rows come in the order of versions, and within one always in the same order, so that a cursor is a version and a row of it. A commit
    that only lays rows out anew (compaction) gives nothing.
    """

    def __init__(self, table: SourceTable, options: TableSourceOptions) -> None:
        """Nothing is read before it is started."""
        super().__init__()
        self._table, self._options = table, options
        self._columns: SourceColumns | None = None
        self._kept: Mapping[str, Any] | None = None
        self._newest = -1
        self._asked: tuple[float, int] | None = None
        self._end: int | None = None
        self._read: CommitRead | None = None

    def __repr__(self) -> str:
        """The table."""
        return f"<{type(self).__name__} {self._table.kind}:{without_secrets(self._table.url)}>"

    @property
    def capabilities(self) -> SourceCapabilities:
        """It replays as long as the versions are kept."""
        return SourceCapabilities(
            replays=True,
            retracts=self._options.on_change == "tell",
            bounded=self._options.mode != "continuous",
            evolves=self._options.on_schema_change == "evolve",
        )

    @property
    def schema(self) -> pa.Schema:
        """The table's columns where it was started, or of now with on_schema_change="evolve"; with on_change="tell" the kind of change of
        each row behind.
        """
        self._started()
        assert self._columns is not None
        schema = self._columns.schema
        return schema.append(TYPE_FIELD) if self._options.on_change == "tell" else schema

    @property
    def cursor(self) -> Cursor:
        """See `Source.cursor`. `files_processed` counts the data files of versions that were read to their end; `timestamp` is the commit
        time of the last rows, `table_version` the version that comes next or is being read.
        """
        place = self._started()
        return Cursor(
            source=KIND,
            state={**place.state(self._table.table_id, self._kept), **self._table.mark(place)},
            table_version=place.version,
            files_processed=place.files,
            timestamp=place.time,
        )

    @property
    def ended(self) -> bool:
        """See `Source.ended`."""
        place = self._position
        if place is None or self._reading is not None or self._left is not None:
            return False
        if self._options.is_one_version:
            return not place.whole
        return self._end is not None and place.version > self._end

    def start(self, cursor: Cursor | None = None) -> None:
        """See `Source.start`. Raises VersionNotFound for a version that is not there or can be told no longer, or a cursor of a table that was
        made anew; InvalidOption for a cursor of another kind of source; InvalidTime.
        """
        place = None if cursor is None else Place.of(cursor)
        self._newest, self._asked, self._end = self._table.newest(), None, None
        place = self._first() if place is None or cursor is None else self._resumed(place, cursor)
        keeps = self._options.on_schema_change == "keep"
        kept = cursor.state.get("columns") if cursor is not None and keeps else None
        self._columns = self._table.columns_at(place.version) if kept is None else decoded(self._table, kept)
        self._kept = self._table.encode(self._columns) if keeps else None
        if self._options.on_change == "tell":
            check_telling(self._columns)
        self._position, self._read, self._reading, self._left, self._schema_changed = place, None, None, None, False
        if self._options.mode == "incremental":
            self._end = self._last(self._newest)

    def poll(self, limit: int | None = None) -> Polled:
        """See `Source.poll`. Raises InvalidOption at a commit that changed rows where those are errors, SchemaMismatch where the table's columns
        changed and that is one, VersionNotFound where versions can be told no longer, CorruptTable, StoreError. Rows before the error are
        given first: it comes with the next poll. After an error the source stands where it was.
        """
        return super().poll(limit)

    @property
    def _counted_as(self) -> tuple[str, str]:
        return self._table.kind, self._table.url

    # -- where it stands -------------------------------------------------------------------------------------------------

    def _first(self) -> Place:
        options = self._options
        if options.mode == "snapshot":
            return Place(version=self._table.version_of(options.version, options.time), whole=True)
        version, whole = self._table.begin(options.begin)
        return Place(version=version, whole=whole)

    def _resumed(self, place: Place, cursor: Cursor) -> Place:
        if cursor.state["table_id"] != self._table.table_id:
            raise VersionNotFound(
                f"the table at {self._table.url} is not the one that was read up to version {place.version}",
                why="That was removed, and another one made in its place",
                fix="Start without the cursor, into a sink of a higher generation",
                version=place.version,
            )
        if place.version > self._newest + (not place.whole):
            raise VersionNotFound(
                f"version {place.version - (not place.whole)} of {self._table.url}, which was read, is not there",
                why=f"Its newest is {self._newest}; an older copy of the table was brought back",
                fix="Start without the cursor, into a sink that knows which rows it has",
                version=place.version - (not place.whole),
            )
        self._table.check_mark(place, cursor.state)
        return place

    def _look(self) -> None:
        """Ask for the newest version, once in the options' interval."""
        now = self._table.clock.monotonic()
        if self._reading is not None or self._left is not None or self._end is not None:
            return
        if self._asked is None or now - self._asked[0] >= self._options.poll_interval:
            at_ns = self._table.clock.now_ns()
            self._newest, self._asked = self._table.newest(), (now, at_ns)
        until = self._options.until_ns
        if self._options.until is not None or (until is not None and self._asked[1] > until):
            # What was committed by then is all in the log that was asked.
            last = self._last(self._newest)
            self._end = last if self._options.until in (None, last) else None

    def _last(self, newest: int) -> int:
        """The last version up to the newest that the options let be read."""
        if self._options.until is not None:
            return min(newest, self._options.until)
        return newest if self._options.until_ns is None else min(newest, self._table.last_by(self._options.until_ns))

    # -- rows ------------------------------------------------------------------------------------------------------------

    def _read_on(self) -> Piece[Place] | None:
        """The next rows; None where there are none now, or they have other columns."""
        while self._reading is not None or self._open():
            assert self._reading is not None
            try:
                found = next(self._reading, None)
            except VersionNotFound as gone:
                self._reading, self._position = None, self._past_missing(self._started(), gone)
                continue
            if found is not None:
                return found
            self._finish()
        return None

    def _finish(self) -> None:
        """All rows of the version were given."""
        assert self._read is not None
        self._position = self._started().past(self._read.files)
        self._reading = self._read = None

    def _look_ahead(self) -> None:
        """Move on to the next version where all rows of this one were given: its files may be gone when the cursor is used."""
        if self._reading is None or self._left is not None:
            return
        try:
            self._left = next(self._reading, None)
        except GaplessError:  # comes again with the next poll
            self._reading = None
        else:
            if self._left is None:
                self._finish()

    def _open(self) -> bool:
        """Go to the next version whose rows are given; whether there is one now, in the columns of now."""
        while (place := self._next_place()).version <= self._last_of(place):
            try:
                read = self._table.whole(place.version) if place.whole else self._table.commit(place.version)
            except VersionNotFound as gone:
                self._position = self._past_missing(place, gone)
                continue
            if not self._in_columns(read, place.version):
                return False
            if read.changes_rows and self._options.on_change != "tell":
                if self._options.on_change == "error":
                    raise _changed(place.version)
                self._position = place.past()
                continue
            self._read, self._reading = read, self._pieces(place, read)
            return True
        return False

    def _next_place(self) -> Place:
        """Where it stands, at the next version that there is."""
        place = self._started()
        if not place.whole and (there := self._table.at_or_after(place.version)) != place.version:
            place = self._position = place.at(there)
        return place

    def _last_of(self, place: Place) -> int:
        """The last version that may be read now."""
        if self._options.is_one_version:
            return place.version if place.whole else -1
        return self._last(self._newest) if self._end is None else self._end

    def _tell(self) -> None:
        """Count the versions that are not read to their end, of those that it knows of; nothing is asked of the table."""
        place, last = self._started(), self._newest if self._end is None else self._end
        if self._options.is_one_version:
            last = place.version if place.whole else -1
        SOURCE_LAG.set(self._table.count(place.version, last), self._table.kind, self._table.url)

    def _past_missing(self, place: Place, gone: VersionNotFound) -> Place:
        if self._options.is_one_version:
            raise gone
        return place.at(self._table.past_missing(place, gone))

    def _in_columns(self, read: CommitRead, version: int) -> bool:
        """Whether a version's rows are given in the columns of now; raises SchemaMismatch."""
        assert self._columns is not None
        if not (differing := differences(self._columns, read.columns)):
            return True
        match self._options.on_schema_change:
            case "evolve":
                if self._options.on_change == "tell":
                    check_telling(read.columns)
                self._columns, self._schema_changed = read.columns, True
                return False
            case "keep":
                if why := why_not_kept(self._columns, read.columns):
                    raise differing.not_kept(version, self._table.url, why)
                return True
        raise differing.error(version, self._table.url)

    def _pieces(self, place: Place, read: CommitRead) -> Iterator[Piece[Place]]:
        """The rows of a version from the place on."""
        assert self._columns is not None
        schema, width, row = self.schema, len(self._columns.schema), 0
        time, telling = datetime_from_ns(read.time_ns), self._options.on_change == "tell"
        for rows in read.rows(self._columns):
            for batch in rows.to_batches() if isinstance(rows, pa.Table) else (rows,):
                start, row = max(place.row - row, 0), row + batch.num_rows
                if start < batch.num_rows:
                    columns = [*batch.columns[:width], *(batch.columns[-1:] if telling else ())]
                    left = pa.RecordBatch.from_arrays(columns, schema=schema).slice(start)
                    yield Piece(rows=left, after=partial(place.after, row - left.num_rows, time))


def _changed(version: int) -> InvalidOption:
    return InvalidOption(
        f"version {version} changed rows that may have been given already",
        why='A source of appended rows cannot take rows back, and on_change is "error"',
        fix='Pass on_change="skip", which leaves out all rows of such commits, or "tell", which gives the kind of change of each row',
        option="on_change",
        value="error",
    )
