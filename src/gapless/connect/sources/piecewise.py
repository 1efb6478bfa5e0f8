"""The one loop of a poll: rows come in pieces, each of which says where the source stands after so many of its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from gapless.connect.sources.protocol import Polled, Source, check_limit, refuse_pickling
from gapless.errors import GaplessError
from gapless.runtime.metrics import SOURCE_ROWS

P = TypeVar("P")
"""How far a source has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece(Generic[P]):
    """Some rows in their order; perhaps none, where the source only moved on."""

    rows: pa.RecordBatch
    after: Callable[[int], P]
    """Where the source stands after the first so many of them."""
    given: int = 0
    """How many of the rows that `after` counts came before these."""

    def first(self, rows: int) -> Piece[P]:
        """The first so many rows."""
        return Piece(rows=self.rows.slice(0, rows), after=self.after, given=self.given)

    def rest(self, rows: int) -> Piece[P]:
        """Those after the first so many."""
        return Piece(rows=self.rows.slice(rows), after=self.after, given=self.given + rows)

    @property
    def end(self) -> P:
        """Where the source stands after all of them."""
        return self.after(self.given + self.rows.num_rows)


class PiecewiseSource(Source, Generic[P]):
    """A source that stands at a position. Who derives from it says what comes next."""

    def __init__(self) -> None:
        """Nothing is read before it is started."""
        self._position: P | None = None
        self._reading: Iterator[Piece[P]] | None = None
        self._left: Piece[P] | None = None
        """Rows that were read and not given."""
        self._schema_changed = False
        """Whether the rows behind those of this poll have other columns."""

    def __getstate__(self) -> dict[str, object]:
        """All that it was made with; raises NotSupported once it is started."""
        if self._position is not None:
            raise refuse_pickling()
        return self.__dict__

    # -- what a kind of source says --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _counted_as(self) -> tuple[str, str]:
        """The kind and place under which its rows are counted."""

    @abstractmethod
    def _read_on(self) -> Piece[P] | None:
        """The rows after those that were read; None where there are none now. It may move the position past what has no rows."""

    def _look(self) -> None:
        """Before a poll: see what there is."""

    def _look_ahead(self) -> None:
        """After the last rows of a poll: move on past what has no rows."""

    def _tell(self) -> None:
        """After each poll, and each that failed: tell the metrics where the source stands."""

    def _ends_before(self, piece: Piece[P]) -> bool:  # noqa: ARG002  # a kind needs it
        """Whether a poll ends before these rows, which then come with the next one."""
        return False

    # -- the loop --------------------------------------------------------------------------------------------------------

    def poll(self, limit: int | None = None) -> Polled:
        """See `Source.poll`. Rows before an error are given first: it comes with the next poll. After an error the source stands
        where it was. Raises as the kind of source says.
        """
        check_limit(limit)
        before, taken, room = self._started(), list[pa.RecordBatch](), limit
        self._look()
        try:
            while (room is None or room > 0) and (piece := self._next()) is not None:
                if self._ends_before(piece):
                    self._left = piece
                    break
                if room is not None and piece.rows.num_rows > room:
                    self._left, piece = piece.rest(room), piece.first(room)
                self._position = piece.end
                if piece.rows.num_rows:
                    taken.append(piece.rows)
                room = None if room is None else room - piece.rows.num_rows
            self._look_ahead()
        except BaseException as error:
            self._reading = self._left = None
            if not taken or not isinstance(error, GaplessError):
                self._position = before
                raise
        finally:
            self._tell()
        SOURCE_ROWS.add(sum(rows.num_rows for rows in taken), *self._counted_as)
        changed, self._schema_changed = self._schema_changed, False
        return Polled(taken, schema_changed=changed)

    def _started(self) -> P:
        if self._position is None:
            self.start(None)
        assert self._position is not None
        return self._position

    def _next(self) -> Piece[P] | None:
        """The next rows; None where there are none now."""
        if self._left is None:
            return self._read_on()
        piece, self._left = self._left, None
        return piece
