"""Sources other than tables: what reads on from a position, piece by piece, made into a source."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

import pyarrow as pa

from gapless.connect.sources.fitted_rows import as_declared, evolved, fitted
from gapless.connect.sources.piecewise import Piece, PiecewiseSource
from gapless.connect.sources.protocol import Cursor, SourceCapabilities
from gapless.errors import CorruptTable, InvalidOption, SchemaMismatch, one_of, shorten
from gapless.files.ingest.batches import Batches
from gapless.formats.timeseries.codec.schema import decode_schema, encode_schema
from gapless.tables.shared.versions import parse_instant_value

_SCHEMA, _PLACE = "schema", "place"
ON_SCHEMA_CHANGE = ("error", "evolve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a source has come."""

    state: Mapping[str, Any]
    """What it needs to go on."""
    files_processed: int = 0
    timestamp: datetime | None = None
    """In UTC; see `Cursor.timestamp`."""


class PositionedSource(PiecewiseSource[Position]):
    """A source that reads on from a position. Who derives from it says where it begins, and reads.

    Rows have the declared schema; where none was declared, the columns of the first rows, which the cursor then holds. One that `evolves`
    takes those of later rows besides, and says so with a poll that ends before them.
    """

    kind: ClassVar[str]
    """What its cursors are called."""

    def __init__(self, place: str, schema: pa.Schema | None) -> None:
        """`place` tells what is read from other places of the kind, with no secrets in it; `schema` is declared, or None."""
        super().__init__()
        self.place = place
        self._declared = None if schema is None else as_declared(schema, place)
        self._schema = self._declared
        self._evolves = False
        self._given: pa.Schema | None = None
        """The columns of the rows that were given last, or that were told."""

    def __repr__(self) -> str:
        """Its kind and place."""
        return f"<{type(self).__name__} {self.place}>"

    def on_schema_change(self, given: object) -> None:
        """What it does where rows come with other columns, before it is started: "error", or "evolve" with them. Raises InvalidOption for
        "evolve" where the schema is declared, and for what is neither.
        """
        self._evolves = one_of("on_schema_change", given, ON_SCHEMA_CHANGE) == "evolve"
        if self._evolves and self._declared is not None:
            raise InvalidOption(
                "on_schema_change='evolve' of a source whose schema is declared",
                why="Its columns are the declared ones, whatever rows come with",
                fix="Leave one of the two out",
                option="on_schema_change",
                value=given,
            )

    # -- what a kind of source says --------------------------------------------------------------------------------------

    @abstractmethod
    def _first(self) -> Position:
        """Where the options say that it begins."""

    @abstractmethod
    def _resumed(self, state: Mapping[str, Any]) -> Position:
        """The position of a cursor; raises KeyError, TypeError or ValueError for a state that is none."""

    @abstractmethod
    def _read(self, position: Position) -> Iterator[Piece[Position]]:
        """The rows from a position on that are there now."""

    def _stored(self, position: Position) -> Mapping[str, Any]:
        """A position's state as JSON."""
        return position.state

    # -- the contract ----------------------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> SourceCapabilities:
        """It replays, and takes no rows back."""
        return SourceCapabilities(replays=True, retracts=False, evolves=self._evolves)

    @property
    def schema(self) -> pa.Schema:
        """The declared columns, or those of the first rows. Raises InvalidOption where there are neither yet, and as `poll`."""
        self._started()
        while self._schema is None:
            piece = self._peek()
            if piece is None:
                raise InvalidOption(
                    f"the columns of {self.place} are not known yet",
                    why="No schema was declared, and there are no rows that would show it",
                    fix="Pass schema= as a pyarrow.Schema, or begin once there are rows",
                    option="schema",
                    value=None,
                )
            if piece.rows.num_rows:
                self._left = piece
            else:
                self._position = piece.end
        self._given = self._given or self._schema
        return self._schema

    @property
    def cursor(self) -> Cursor:
        """See `Source.cursor`."""
        position = self._started()
        state = {_PLACE: self.place, **self._stored(position)}
        if self._declared is None and self._schema is not None:
            state[_SCHEMA] = encode_schema(self._schema)
        return Cursor(source=self.kind, state=state, files_processed=position.files_processed, timestamp=position.timestamp)

    def start(self, cursor: Cursor | None = None) -> None:
        """See `Source.start`. Raises InvalidOption for a cursor of another source, and as the first poll."""
        if cursor is None:
            schema, position = self._declared, self._first()
        else:
            schema, position = self._known(cursor)
        self._schema, self._position, self._reading, self._left = schema, position, None, None
        self._given, self._schema_changed = schema, False

    # -- for kinds of sources --------------------------------------------------------------------------------------------

    def _fitted(self, part: Batches) -> Iterator[pa.RecordBatch]:
        """Rows as this source's columns, which they settle where none are known yet. Raises DataError."""
        if self._schema is None:
            if not part.schema.names:
                if any(batch.num_rows for batch in part):
                    raise SchemaMismatch(
                        f"{part.source}: the first rows have no columns, and none are declared",
                        why="The columns of a source are known before its rows",
                        fix="Pass schema= as a pyarrow.Schema",
                        differences=(),
                    )
                return iter(())
            self._schema = as_declared(part.schema, part.source)
        elif self._evolves:
            self._schema = evolved(self._schema, as_declared(part.schema, part.source))
        return fitted(part, self._schema)

    @property
    def _expected(self) -> pa.Schema | None:
        """The columns by which texts are read; None where they are to show theirs."""
        return None if self._evolves else self._schema

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _ends_before(self, piece: Piece[Position]) -> bool:
        if not piece.rows.num_rows:
            return False
        self._schema_changed = self._given is not None and piece.rows.schema != self._given
        self._given = piece.rows.schema
        return self._schema_changed

    @property
    def _counted_as(self) -> tuple[str, str]:
        return self.kind, self.place

    def _read_on(self) -> Piece[Position] | None:
        if self._reading is None:
            self._reading = self._read(self._started())
        found = next(self._reading, None)
        if found is None:
            self._reading = None
        return found

    def _peek(self) -> Piece[Position] | None:
        """As `_next`, outside of a poll: after an error the source stands where it was."""
        try:
            return self._next()
        except BaseException:
            self._reading = self._left = None
            raise

    def _known(self, cursor: object) -> tuple[pa.Schema | None, Position]:
        """The schema and position of a cursor."""
        if not isinstance(cursor, Cursor):
            raise _no_cursor(self, cursor, f"It is {shorten(cursor)}, and no Cursor")
        if cursor.source != self.kind:
            raise _no_cursor(self, cursor, f"It is one of {cursor.source!r}, and this source is one of {self.kind!r}")
        state = dict(cursor.state)
        if state.get(_PLACE) != self.place:
            raise _no_cursor(self, cursor, f"It is one of {state.get(_PLACE)}")
        told = state.pop(_SCHEMA, None)
        try:
            schema = decode_schema(told) if told is not None and self._declared is None else self._declared
            position = self._resumed(state)
        except (KeyError, TypeError, ValueError, AttributeError, CorruptTable) as error:
            raise _no_cursor(self, cursor, f"{type(error).__name__}: {error}") from error
        return schema, Position(state=position.state, files_processed=cursor.files_processed, timestamp=cursor.timestamp)


def start_time(start: object) -> int | None:
    """A place to begin at that is a time, an aware datetime or an ISO text with an offset, as nanoseconds since 1970 UTC; None for what is none.

    Raises InvalidTime for one without a zone, or that cannot be read.
    """
    is_time = isinstance(start, date) or (isinstance(start, str) and start[:1].isdigit())
    return parse_instant_value(start, name="start") if is_time else None


def _no_cursor(source: PositionedSource, cursor: object, why: str) -> InvalidOption:
    return InvalidOption(
        f"this cursor cannot start the source of {source.place}",
        why=why,
        fix="Pass Cursor.from_json(text)" if isinstance(cursor, str) else "Pass one that this source gave",
        option="cursor",
        value=cursor,
    )
