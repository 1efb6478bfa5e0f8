"""Sources out of time-series and Delta tables: all rows of a version first, then what each later commit did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import pyarrow as pa

from gapless.connect.sources.protocol import Cursor, Polled, Source, SourceCapabilities
from gapless.connect.sources.tables import SourceTable
from gapless.errors import GaplessError, InvalidOption, NotSupported, SchemaMismatch, VersionNotFound, nearest
from gapless.model.instant import datetime_from_ns
from gapless.tables.shared.changes import TYPE_FIELD
from gapless.tables.shared.versions import no_version

OnChange = Literal["error", "skip", "tell"]
ON_CHANGE: tuple[OnChange, ...] = ("error", "skip", "tell")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """How far: before `version` all is read, and of that the first `row` rows."""

    version: int
    row: int = 0
    whole: bool = False
    """Whether the version's rows are all that it has, rather than what its commit changed."""

    def past(self) -> _Place:
        return _Place(version=self.version + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Rows, and where the first of them is."""

    place: _Place
    time: datetime
    batch: pa.RecordBatch

    @property
    def end(self) -> _Place:
        """After the last of them."""
        return replace(self.place, row=self.place.row + self.batch.num_rows)

    def rest(self, rows: int) -> _Piece:
        """Those after the first `rows`."""
        return replace(self, place=replace(self.place, row=self.place.row + rows), batch=self.batch.slice(rows))


class TableSource(Source):
    """A source out of one table. Made by `gl.connect.source`.

    Rows come in the order of versions, and within one always in the same order, so that a cursor is a version and a row of it. A commit
    that only lays rows out anew (compaction) gives nothing.
    """

    def __init__(
        self, table: SourceTable, *, start: object = None, until: int | None = None, on_change: OnChange = "error"
    ) -> None:
        """`start`: None for all rows of the newest version and then what follows; "latest" for what follows alone; "earliest", or the number
        of a version, for what its commit did and what follows. `until`: the last version that is read. `on_change`: what to do with
        commits that changed or removed rows: "error", "skip" them whole, or "tell" the `_change_type` of each row.
        """
        if on_change not in ON_CHANGE:
            raise InvalidOption(
                f"on_change={on_change!r} is not known",
                fix=nearest(str(on_change), ON_CHANGE),
                option="on_change",
                value=on_change,
            )
        if until is not None and type(until) is not int:
            raise InvalidOption(
                f"until={until!r} is no version",
                why="It is the number of the last version that is read",
                fix="Pass a whole number, or leave it out to follow the table",
                option="until",
                value=until,
            )
        self._table, self._from, self._until, self._on_change = table, start, until, on_change
        self._place: _Place | None = None
        self._schema: pa.Schema | None = None
        self._timestamp: datetime | None = None
        self._rows: Iterator[_Piece] | None = None
        self._left: _Piece | None = None

    def __getstate__(self) -> dict[str, object]:
        """All that it was made with; raises NotSupported once it is started."""
        if self._place is not None:
            raise NotSupported(
                "a source that is started can be neither pickled nor copied",
                why="It is in the middle of reading",
                fix="Send its cursor, and make it in the other process: gl.connect.source(…), then start(cursor)",
                feature="pickling of a source at work",
            )
        return self.__dict__

    @property
    def capabilities(self) -> SourceCapabilities:
        """It replays as long as the versions are kept."""
        return SourceCapabilities(replays=True, retracts=self._on_change == "tell")

    @property
    def schema(self) -> pa.Schema:
        """The table's columns where it was started; with on_change="tell" the kind of change of each row behind."""
        self._started()
        assert self._schema is not None
        return self._schema.append(TYPE_FIELD) if self._on_change == "tell" else self._schema

    @property
    def cursor(self) -> Cursor:
        """See `Source.cursor`."""
        place = self._started()
        state = {"table_id": self._table.table_id, "version": place.version, "row": place.row, "whole": place.whole}
        return Cursor(source="table", state=state, table_version=place.version, timestamp=self._timestamp)

    def start(self, cursor: Cursor | None = None) -> None:
        """See `Source.start`. Raises VersionNotFound for a version that is not there, or a cursor of a table that was made anew,
        InvalidOption for a cursor of another kind of source.
        """
        newest = self._table.newest()
        place = self._first(newest) if cursor is None else self._resumed(cursor, newest)
        self._schema = self._table.schema_at(place.version)
        self._place, self._rows, self._left = place, None, None

    def poll(self, limit: int | None = None) -> Polled:
        """See `Source.poll`. Raises InvalidOption at a commit that changed rows where those are errors, SchemaMismatch where the table's columns
        changed, VersionNotFound where versions can be told no longer, CorruptTable, StoreError. Rows before the error are given first: it
        comes with the next poll. After an error the source stands where it was.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidOption(
                f"limit={limit!r} is no number of rows", fix="Pass 1 or more, or None for all", option="limit", value=limit
            )
        self._started()
        taken, room = list[pa.RecordBatch](), limit
        while room is None or room > 0:
            try:
                piece = self._next()
            except BaseException as error:
                self._rows = self._left = None
                if taken and isinstance(error, GaplessError):
                    break
                raise
            if piece is None:
                break
            if room is not None and piece.batch.num_rows > room:
                self._left = piece.rest(room)
                piece = replace(piece, batch=piece.batch.slice(0, room))
            self._place, self._timestamp = piece.end, piece.time
            taken.append(piece.batch)
            room = None if room is None else room - piece.batch.num_rows
        self._look_ahead()
        return Polled(taken)

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _started(self) -> _Place:
        if self._place is None:
            self.start(None)
        assert self._place is not None
        return self._place

    def _first(self, newest: int) -> _Place:
        start = self._from
        if start is None:
            return _Place(version=newest, whole=True)
        if start == "latest":
            return _Place(version=newest + 1)
        if start == "earliest":
            return _Place(version=self._table.first())
        if isinstance(start, int) and not isinstance(start, bool):
            first = self._table.first()
            if not first <= start <= newest + 1:
                raise no_version(start, newest, first=first)
            return _Place(version=start)
        raise InvalidOption(
            f"start={start!r} is no place in a table",
            why="A source begins with all rows of the newest version, or with what a version's commit did",
            fix='Leave it out, or pass "earliest", "latest" or the number of a version',
            option="start",
            value=start,
        )

    def _resumed(self, cursor: object, newest: int) -> _Place:
        state = cursor.state if isinstance(cursor, Cursor) else {}
        if not isinstance(cursor, Cursor) or cursor.source != "table" or {"table_id", "version", "row", "whole"} - state.keys():
            raise InvalidOption(
                f"a cursor of {getattr(cursor, 'source', cursor)!r} cannot start a table's source",
                why="It does not say which version of which table is next",
                fix="Pass one that this source gave",
                option="cursor",
                value=cursor,
            )
        place = _Place(version=state["version"], row=state["row"], whole=state["whole"])
        if type(place.version) is not int or type(place.row) is not int or place.version < 0 or place.row < 0:
            raise InvalidOption(
                f"version {place.version!r} and row {place.row!r} of a cursor are no place in a table",
                why="A version and the rows of it that were read are whole numbers from 0",
                fix="Pass a cursor that this source gave",
                option="cursor",
                value=cursor,
            )
        if state["table_id"] != self._table.table_id:
            raise VersionNotFound(
                f"the table at {self._table.url} is not the one that was read up to version {place.version}",
                why="That was removed, and another one made in its place",
                fix="Start without the cursor, into a sink of a higher generation",
                version=place.version,
            )
        if place.version > newest + 1:
            raise VersionNotFound(
                f"version {place.version - 1} of {self._table.url}, which was read, is not there",
                why=f"Its newest is {newest}; an older copy of the table was brought back",
                fix="Start without the cursor, into a sink that knows which rows it has",
                version=place.version - 1,
            )
        return place

    def _next(self) -> _Piece | None:
        """The next rows; None where there are none now."""
        if self._left is not None:
            piece, self._left = self._left, None
            return piece
        while True:
            if self._rows is None and (place := self._advance()) is not None:
                self._rows = self._read(place)
            if self._rows is None:
                return None
            if (found := next(self._rows, None)) is not None:
                return found
            self._rows, self._place = None, self._started().past()

    def _look_ahead(self) -> None:
        """Move on to the next version where all rows of this one were given: its files may be gone when the cursor is used."""
        if self._rows is None or self._left is not None:
            return
        try:
            self._left = next(self._rows, None)
        except GaplessError:  # comes again with the next poll
            self._rows = None
        else:
            if self._left is None:
                self._rows, self._place = None, self._started().past()

    def _advance(self) -> _Place | None:
        """The version to read now; None where there is none yet, or no more."""
        place = self._started()
        last = self._table.newest() if self._until is None else min(self._table.newest(), self._until)
        return place if place.version <= last else None

    def _read(self, place: _Place) -> Iterator[_Piece]:
        """The rows of a version from the place on."""
        read = (
            self._table.whole(place.version)
            if place.whole
            else self._table.commit(place.version, tell=self._on_change == "tell")
        )
        if not read.inserts and self._on_change != "tell":
            if self._on_change == "error":
                raise _changed(place.version)
            return
        self._check_columns(place.version, read.schema)
        time, row, shown = datetime_from_ns(read.time_ns), 0, self.schema.names
        for batch in read.rows:
            start, row = max(place.row - row, 0), row + batch.num_rows
            if start < batch.num_rows:
                rows = batch.slice(start).select(shown)
                yield _Piece(place=replace(place, row=row - rows.num_rows), time=time, batch=rows)

    def _check_columns(self, version: int, found: pa.Schema) -> None:
        assert self._schema is not None
        told, came = ([(field.name, field.type) for field in schema] for schema in (self._schema, found))
        if told != came:
            differences = [
                f"{name}: {type_}" for name, type_ in told + came if ((name, type_) in told) != ((name, type_) in came)
            ]
            raise SchemaMismatch(
                f"version {version} of {self._table.url} has other columns than the source was started with: {'; '.join(differences)}",
                why="The rows of one run have one schema; no row of that version was given",
                fix="Start the source again at its cursor, with a sink that takes the new columns",
                differences=tuple(differences),
            )


def _changed(version: int) -> InvalidOption:
    return InvalidOption(
        f"version {version} changed rows that may have been given already",
        why='A source of appended rows cannot take rows back, and on_change is "error"',
        fix='Pass on_change="skip", which leaves out all rows of such commits, or "tell", which gives the kind of change of each row',
        option="on_change",
        value="error",
    )
